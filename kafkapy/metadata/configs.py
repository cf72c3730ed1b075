"""ConfigAdmin: dynamic configuration in the tree; a note under ``/config/changes`` announces each change to brokers.

Every broker reads each new note, reads the configuration that the note names, and applies it. At its start a broker
reads all configurations once; applying a configuration twice must do no harm.
"""

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.metadata.store import (
    CLIENT_WAIT_MS,
    Create,
    Delete,
    MetadataStore,
    Node,
    NoNodeError,
    Operation,
    SessionEndedError,
    SetData,
    StoreError,
    StoreRefusedError,
    WatchEvent,
    ensure_path,
    in_time,
)
from kafkapy.metadata.znodes import (
    DEFAULT_ENTITY,
    ConfigChangesZNode,
    ConfigEntity,
    ConfigZNode,
    ForeignDataError,
    decoded,
)
from kafkapy.turns import pieces

NOTE_LIFETIME_MS: Final = 15 * 60 * 1000
RETRY_MS: Final = 5_000
"""The pause before changes are read again after a failure."""
NOTES_AT_ONCE: Final = 100
"""Notes that are read together when old ones are deleted."""
_NO_OVERRIDES: Final[Mapping[str, str]] = {}

T = TypeVar("T")

logger = logging.getLogger(__name__)


class ConfigListener(Protocol):
    """Called after a configuration has changed, with all overrides that are set now."""

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """The overrides of ``topic`` have changed."""
        ...

    def broker_config_changed(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        """The overrides of one broker, or (None) of all, have changed; this broker's BrokerConfig has them already."""
        ...


class ConfigAdmin:
    """Reads and writes the overrides of topics and brokers, and applies changes that other brokers have written.

    The reads and writes for clients raise RequestTimedOutError when the store does not answer for ``CLIENT_WAIT_MS``.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, store: MetadataStore) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._topics: dict[str, dict[str, str]] = {}
        self._users: dict[ConfigEntity, dict[str, str]] = {}
        self._listeners: list[ConfigListener] = []
        self._last_note = -1
        self._task: asyncio.Task[None] | None = None
        self._again = False
        self._retry: TimerHandle | None = None
        self._last_problem = ""

    def add_listener(self, listener: ConfigListener) -> None:
        """Call ``listener`` after each change from now on; it must not raise."""
        self._listeners.append(listener)

    async def topic_overrides(self, topic: str) -> dict[str, str]:
        """The overrides of ``topic``, from the store."""
        return await self._in_time(self._read(ConfigEntity.topic(topic)))

    async def broker_overrides(self, broker_id: int | None) -> dict[str, str]:
        """The overrides of one broker, or (None) of all, from the store."""
        return await self._in_time(self._read(ConfigEntity.broker(broker_id)))

    async def user_overrides(self, name: str) -> dict[str, str]:
        """The credentials and quotas of a user, from the store."""
        return await self._in_time(self._read(ConfigEntity.user(name)))

    def cached_user_overrides(self, name: str) -> Mapping[str, str]:
        """The credentials and quotas of a user that this broker last read."""
        return self._users.get(ConfigEntity.user(name), _NO_OVERRIDES)

    async def users(self) -> list[str]:
        """The names of all users with credentials or quotas, from the store."""
        return [unquote(name) for name in await self._in_time(self._user_nodes())]

    async def _user_nodes(self) -> list[str]:
        try:
            children = await self._store.children(ConfigZNode.kind_path("users"))
        except NoNodeError:
            return []
        return sorted(name for name in children if name != DEFAULT_ENTITY)

    def cached_topic_overrides(self, topic: str) -> Mapping[str, str]:
        """The overrides of ``topic`` that this broker last read; empty for one of ``unread_topics``."""
        return self._topics.get(topic, _NO_OVERRIDES)

    async def load_topics(self, topics: Iterable[str]) -> None:
        """Read the overrides of topics, for ``cached_topic_overrides``.

        A topic whose node can't be read stays one of ``unread_topics``, with an error in the log.
        """
        asked = list(topics)
        paths = [ConfigZNode.path(ConfigEntity.topic(topic)) for topic in asked]
        for topic, path, node in zip(asked, paths, await self._store.get_many(paths), strict=True):
            try:
                self._topics[topic] = {} if node is None else decoded(path, node.data, ConfigZNode.decode)
            except ForeignDataError as error:
                logger.error("Topic %s can't be served: %s", topic, error)

    def unread_topics(self, topics: Iterable[str]) -> list[str]:
        """Return those of ``topics``, each once, whose overrides have not been read."""
        return list(dict.fromkeys(topic for topic in topics if topic not in self._topics))

    def forget_topic(self, topic: str) -> None:
        """Forget the overrides of a deleted topic."""
        self._topics.pop(topic, None)

    async def load(self, topics: Sequence[str]) -> dict[str, Mapping[str, str]]:
        """Before logs are opened: apply the brokers' configuration and read that of all topics.

        Raises ForeignDataError: a log that is opened with other settings than its own could lose records to them.
        """
        for broker_id in (None, self._config.broker_id):
            await self._apply(ConfigEntity.broker(broker_id))
        for name in await self._user_nodes():
            await self._apply(ConfigEntity("users", name))
        await self.load_topics(topics)
        for topic in self.unread_topics(topics):
            await self._read(ConfigEntity.topic(topic))
        return {topic: self._topics[topic] for topic in topics}

    async def start(self) -> None:
        """Apply the changes that notes announce from now on, beginning with the existing notes."""
        await self._process_notes()

    async def stop(self) -> None:
        """Apply no more changes."""
        if self._retry is not None:
            self._retry.cancel()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def set_topic_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of ``topic`` and write a note for every broker. The caller has validated them."""
        await self._in_time(self._write(ConfigEntity.topic(topic), overrides))

    async def set_broker_overrides(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of one broker, or (None) of all, and write a note for every broker."""
        await self._in_time(self._write(ConfigEntity.broker(broker_id), overrides))

    async def set_user_overrides(self, name: str, overrides: Mapping[str, str]) -> None:
        """Replace the credentials and quotas of a user, and write a note for every broker."""
        await self._in_time(self._write(ConfigEntity.user(name), overrides))

    async def _read(self, entity: ConfigEntity) -> dict[str, str]:
        path = ConfigZNode.path(entity)
        try:
            node = await self._store.get(path)
        except NoNodeError:
            return {}
        return decoded(path, node.data, ConfigZNode.decode)

    async def _write(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Write the overrides and their note together: a change without a note would not be applied."""
        path, data = ConfigZNode.path(entity), ConfigZNode.encode(overrides)
        note = Create(ConfigChangesZNode.child_path(), ConfigChangesZNode.encode(entity), sequential=True)
        operations: list[Operation] = [SetData(path, data), note]
        try:
            await self._store.multi(operations)
        except NoNodeError:
            await ensure_path(self._store, path, data)
            await self._store.multi(operations)

    async def _in_time(self, work: Coroutine[Any, Any, T]) -> T:
        return await in_time(self._store, self._clock, CLIENT_WAIT_MS, work)

    def session_renewed(self) -> None:
        """Apply the changes since the last one that was seen, and watch for more."""
        self._read_notes()

    def _noticed(self, _event: WatchEvent) -> None:
        self._read_notes()

    def _read_notes(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name="config-changes")
            self._task.add_done_callback(self._ended)
        else:
            self._again = True

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Look again later after a failure, such as a read that the store refuses: the watch was removed."""
        if task.cancelled() or self._task is not task or (error := task.exception()) is None:
            return
        if str(error) != self._last_problem:  # one that stays has one line in the log
            logger.error("Configuration changes could not be read, trying again", exc_info=error)
        self._last_problem = str(error)
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._clock.call_later(RETRY_MS, self._read_notes)

    async def _work(self) -> None:
        try:
            await self._process_notes()
            while self._again:
                self._again = False
                await self._process_notes()
        except SessionEndedError:
            logger.debug("Configuration changes are not watched: the session has ended")

    async def _process_notes(self) -> None:
        children = await self._store.children(ConfigChangesZNode.PATH, self._noticed)
        names = sorted(name for name in children if name.removeprefix(ConfigChangesZNode.CHILD).isdecimal())
        fresh = names[bisect_right(names, self._last_note, key=_number) :]
        refused: StoreRefusedError | None = None
        for name, node in zip(fresh, await self._notes(fresh), strict=True):
            if node is None:
                continue
            is_done = True
            try:
                await self._apply(ConfigChangesZNode.decode(node.data))
            except (ValueError, InvalidConfigError):
                logger.exception("The configuration change %s can't be applied", name)
            except StoreError as error:
                is_done = False
                if not isinstance(error, StoreRefusedError):
                    raise
                refused = refused or error
            finally:
                if is_done and refused is None:
                    self._last_note = _number(name)
        if refused is not None:
            raise refused
        await self._delete_old_notes(names)

    async def _delete_old_notes(self, names: Sequence[str]) -> None:
        """Delete the notes of ``names`` that are old enough, oldest first; few notes are read to find them."""
        too_old_ms = self._clock.now_ms() - NOTE_LIFETIME_MS
        for some in pieces(names, NOTES_AT_ONCE):
            nodes = await self._notes(some)
            old = [name for name, node in zip(some, nodes, strict=True) if node and node.stat.created_ms < too_old_ms]
            await self._store.transactions([[Delete(f"{ConfigChangesZNode.PATH}/{name}")] for name in old])
            if len(old) < len(some):
                return

    async def _notes(self, names: Sequence[str]) -> list[Node | None]:
        return await self._store.get_many([f"{ConfigChangesZNode.PATH}/{name}" for name in names])

    async def _apply(self, entity: ConfigEntity) -> None:
        overrides = await self._read(entity)
        if entity.kind == "topics":
            self._topics[entity.name] = overrides
            for listener in self._listeners:
                listener.topic_config_changed(entity.name, overrides)
        elif entity.kind == "users":
            self._users[entity] = overrides
        elif entity == ConfigEntity.broker(None):
            self._config.update_dynamic(cluster_default=overrides)
            self._tell_broker(None, overrides)
        elif entity == ConfigEntity.broker(self._config.broker_id):
            self._config.update_dynamic(per_broker=overrides)
            self._tell_broker(self._config.broker_id, overrides)

    def _tell_broker(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        for listener in self._listeners:
            listener.broker_config_changed(broker_id, overrides)


def _number(name: str) -> int:
    return int(name.removeprefix(ConfigChangesZNode.CHILD))
