"""The metadata tree of a broker in this process, as the original clients use ZooKeeper's."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from kafkapy.clients.original.registry import RegistryError, Watch
from kafkapy.metadata.store import (
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionEvent,
    StoreError,
    ensure_path,
    set_or_create,
)
from kafkapy.testing.errors import TestingError

T = TypeVar("T")


class _Call(Protocol):
    """Runs a coroutine on the broker's loop; returns its result or raises its exception."""

    def __call__(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


class EmbeddedRegistry:
    """See ``kafkapy.clients.original.registry.Registry``; its session lasts as long as the broker runs."""

    def __init__(self, session: MetadataStore, call: _Call) -> None:
        self._session = session
        self._call_on_loop = call
        self._is_closed = False

    def get(self, path: str, watch: Watch | None = None) -> bytes | None:
        """See ``Registry.get``."""

        async def get() -> bytes | None:
            if watch is not None and await self._session.exists(path, watch) is None:
                return None
            return (await self._session.get(path)).data or b""

        with suppress(NoNodeError):
            return self._call(get())
        return None

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See ``Registry.children``."""
        with suppress(NoNodeError):
            return self._call(self._session.children(path, watch))
        return []

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        """See ``Registry.create_ephemeral``."""

        async def create() -> bool:
            await ensure_path(self._session, path.rpartition("/")[0])
            try:
                await self._session.create(path, data, ephemeral=True)
            except NodeExistsError:
                stat = await self._session.exists(path)
                return stat is not None and stat.owner == self._session.session_id
            return True

        return self._call(create())

    def set(self, path: str, data: bytes) -> None:
        """See ``Registry.set``."""

        async def write() -> None:
            await set_or_create(self._session, path, data)

        self._call(write())

    def ensure(self, path: str) -> None:
        """See ``Registry.ensure``."""
        self._call(ensure_path(self._session, path))

    def delete(self, path: str) -> None:
        """See ``Registry.delete``."""
        with suppress(NoNodeError):
            self._call(self._session.delete(path))

    def on_new_session(self, listener: Callable[[], None]) -> None:
        """See ``Registry.on_new_session``."""
        self._session.add_session_listener(lambda event: listener() if event is SessionEvent.RENEWED else None)

    def close(self) -> None:
        """See ``Registry.close``."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(RegistryError):  # the broker has stopped, and its sessions with it
                self._call(self._session.close())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return self._call_on_loop(coroutine)
        except NoNodeError:
            raise
        except (StoreError, TestingError) as error:
            raise RegistryError(f"the broker's metadata tree: {error!r}") from error
