"""ChangeNotes: sequential nodes that announce changes of the tree to all brokers, each kept for 15 minutes.

Every broker reads each new note, and applies the change that it announces. At its start a broker reads everything that
notes are about, and then the notes that exist; applying a change twice must do no harm.

``change_with_note`` makes a change and its note together: one without a note would not be applied.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.errors import InvalidConfigError
from kafkapy.errors import BrokerError
from kafkapy.metadata.store import (
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionEndedError,
    StoreError,
    StoreRefusedError,
    WatchEvent,
)
from kafkapy.turns import pieces

NOTE_LIFETIME_MS: Final = 15 * 60 * 1000
RETRY_MS: Final = 5_000
"""The pause before changes are read again after a failure."""
NOTES_AT_ONCE: Final = 100
"""Notes that are read together when old ones are deleted."""

MOST_TRIES: Final = 11
"""How often a change is tried whose node other brokers change meanwhile, as in Apache Kafka."""
PAUSE_MS: Final = 100
"""The pause before the next try."""

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
Decide = Callable[[Node | None], Awaitable[tuple[Operation | None, Result]]]
"""Returns the operation that changes a node as it is now, None if there is nothing to change, and what it results in.

The operation has to name the node's version.
"""


async def change_with_note(
    clock: Clock, store: MetadataStore, path: str, note: Create, decide: Decide[Result], too_often: BrokerError
) -> Result:
    """Change a node together with its note; return the result of the decision that was carried out.

    ``decide`` is called again if another broker has changed the node meanwhile. Raises ``too_often`` if that happens
    ``MOST_TRIES`` times, and other errors of the store.
    """
    for _ in range(MOST_TRIES):
        (node,) = await store.get_many([path])
        operation, result = await decide(node)
        if operation is None:
            return result
        try:
            await store.multi([operation, note])
        except (BadVersionError, NodeExistsError, NoNodeError):
            await clock.sleep(PAUSE_MS)
        else:
            return result
    raise too_often


class ChangeNotes:
    """Watches the notes ``<path>/<child>NNNNNNNNNN`` and calls ``apply`` with the data of each new one.

    ``apply`` may raise ValueError or InvalidConfigError for a change that can't be applied, which is logged.
    """

    def __init__(
        self,
        clock: Clock,
        store: MetadataStore,
        place: tuple[str, str],
        apply: Callable[[bytes | None], Awaitable[None]],
        subject: str,
    ) -> None:
        self._clock = clock
        self._store = store
        self._path, self._child = place
        self._apply = apply
        self._subject = subject
        """The changes as a log line names them, such as ``Configuration changes``."""
        self._last_note = -1
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._retry: TimerHandle | None = None
        self._last_problem = ""

    async def start(self) -> None:
        """Apply the changes that notes announce from now on, beginning with the existing notes."""
        await self._process()

    async def stop(self) -> None:
        """Apply no more changes."""
        if self._retry is not None:
            self._retry.cancel()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def read(self) -> None:
        """Apply the changes since the last one that was seen, and watch for more."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name=f"notes {self._path}")
            self._task.add_done_callback(self._ended)
        else:
            self._again = True

    def _noticed(self, _event: WatchEvent) -> None:
        self.read()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Look again later after a failure, such as a read that the store refuses: the watch was removed."""
        if task.cancelled() or self._task is not task or (error := task.exception()) is None:
            return
        if str(error) != self._last_problem:  # one that stays has one line in the log
            logger.error("%s could not be read, trying again", self._subject, exc_info=error)
        self._last_problem = str(error)
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._clock.call_later(RETRY_MS, self.read)

    async def _work(self) -> None:
        try:
            await self._process()
            while self._again:
                self._again = False
                await self._process()
        except SessionEndedError:
            logger.debug("%s are not watched: the session has ended", self._subject)

    async def _process(self) -> None:
        children = await self._store.children(self._path, self._noticed)
        names = sorted(name for name in children if name.removeprefix(self._child).isdecimal())
        fresh = names[bisect_right(names, self._last_note, key=self._number) :]
        refused: StoreRefusedError | None = None
        for name, node in zip(fresh, await self._read(fresh), strict=True):
            if node is None:
                continue
            is_done = True
            try:
                await self._apply(node.data)
            except (ValueError, InvalidConfigError):
                logger.exception("The change that %s/%s announces can't be applied", self._path, name)
            except StoreError as error:
                is_done = False
                if not isinstance(error, StoreRefusedError):
                    raise
                refused = refused or error
            finally:
                if is_done and refused is None:
                    self._last_note = self._number(name)
        if refused is not None:
            raise refused
        await self._delete_old(names)

    async def _delete_old(self, names: Sequence[str]) -> None:
        """Delete the notes of ``names`` that are old enough, oldest first; few notes are read to find them."""
        too_old_ms = self._clock.now_ms() - NOTE_LIFETIME_MS
        for some in pieces(names, NOTES_AT_ONCE):
            nodes = await self._read(some)
            old = [name for name, node in zip(some, nodes, strict=True) if node and node.stat.created_ms < too_old_ms]
            await self._store.transactions([[Delete(f"{self._path}/{name}")] for name in old])
            if len(old) < len(some):
                return

    async def _read(self, names: Sequence[str]) -> list[Node | None]:
        return await self._store.get_many([f"{self._path}/{name}" for name in names])

    def _number(self, name: str) -> int:
        return int(name.removeprefix(self._child))
