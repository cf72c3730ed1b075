"""ConfigAdmin: dynamic configuration in the tree; a note under ``/config/changes`` announces each change to brokers.

Notes about groups are under ``/config/group_changes``: other brokers of the cluster may be Apache Kafka on ZooKeeper.
Every broker reads the configuration that a new note names, and applies it (``change_notes.py``).
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.change_notes import ChangeNotes
from kafkapy.metadata.store import (
    CLIENT_WAIT_MS,
    Create,
    MetadataStore,
    NoNodeError,
    Operation,
    SetData,
    ensure_path,
    in_time,
)
from kafkapy.metadata.stored_passwords import StoredPasswords
from kafkapy.metadata.znodes import (
    DEFAULT_ENTITY,
    ConfigChangesZNode,
    ConfigEntity,
    ConfigZNode,
    ForeignDataError,
    GroupConfigChangesZNode,
    decoded,
)

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


ClientListener = Callable[[ConfigEntity, Mapping[str, str]], None]
"""Called with the configuration of a user, a client id or both: credentials and quotas."""


class ConfigAdmin:
    """Reads and writes the overrides of topics and brokers, and applies changes that other brokers have written.

    The reads and writes for clients raise RequestTimedOutError when the store does not answer for ``CLIENT_WAIT_MS``.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, store: MetadataStore) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._passwords = StoredPasswords(config)
        self._topics: dict[str, dict[str, str]] = {}
        self._clients: dict[ConfigEntity, dict[str, str]] = {}
        self._groups: dict[str, dict[str, str]] = {}
        """The overrides of groups by their names in the tree, without empty ones."""
        self._listeners: list[ConfigListener] = []
        self._client_listener: ClientListener | None = None
        place = ConfigChangesZNode.PATH, ConfigChangesZNode.CHILD
        self._notes = ChangeNotes(clock, store, place, self._apply_note, "Configuration changes")
        place = GroupConfigChangesZNode.PATH, GroupConfigChangesZNode.CHILD
        self._group_notes = ChangeNotes(clock, store, place, self._apply_note, "Configuration changes of groups")

    def add_listener(self, listener: ConfigListener) -> None:
        """Call ``listener`` after each change from now on; it must not raise."""
        self._listeners.append(listener)

    def set_client_listener(self, listener: ClientListener) -> None:
        """Call ``listener`` with each configuration of clients, and after each change; it must not raise."""
        self._client_listener = listener
        for entity, overrides in self._clients.items():
            listener(entity, overrides)

    async def topic_overrides(self, topic: str) -> dict[str, str]:
        """The overrides of ``topic``, from the store."""
        return await self._in_time(self._read(ConfigEntity.topic(topic)))

    async def broker_overrides(self, broker_id: int | None) -> dict[str, str]:
        """The overrides of one broker, or (None) of all, from the store."""
        return await self._passwords.decrypted(await self._in_time(self._read(ConfigEntity.broker(broker_id))))

    async def group_overrides(self, group_id: str) -> dict[str, str]:
        """The overrides of a group, from the store."""
        return await self._in_time(self._read(ConfigEntity.group(group_id)))

    def cached_group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The overrides of a group that this broker last read."""
        return self._groups.get(ConfigEntity.group(group_id).name, _NO_OVERRIDES) if self._groups else _NO_OVERRIDES

    def groups(self) -> list[str]:
        """The ids of the groups that have overrides, as this broker last read them."""
        return [unquote(name) for name in self._groups]

    async def user_overrides(self, name: str) -> dict[str, str]:
        """The credentials and quotas of a user, from the store."""
        return await self._in_time(self._read(ConfigEntity.user(name)))

    def cached_user_overrides(self, name: str) -> Mapping[str, str]:
        """The credentials and quotas of a user that this broker last read."""
        return self._clients.get(ConfigEntity.user(name), _NO_OVERRIDES)

    async def users(self) -> list[str]:
        """The names of all users with credentials or quotas, from the store."""
        names = await self._in_time(self._children(ConfigZNode.kind_path("users")))
        return [unquote(name) for name in names if name != DEFAULT_ENTITY]

    async def client_overrides(self, entity: ConfigEntity) -> dict[str, str]:
        """The configuration of a user, a client id or both, from the store."""
        return await self._in_time(self._read(entity))

    async def clients(self) -> list[ConfigEntity]:
        """All users and client ids with a configuration, and all users' client ids, from the store."""
        return await self._in_time(self._client_nodes())

    async def _client_nodes(self) -> list[ConfigEntity]:
        found = [ConfigEntity("clients", name) for name in await self._children(ConfigZNode.kind_path("clients"))]
        for user in await self._children(ConfigZNode.kind_path("users")):
            entity = ConfigEntity("users", user)
            found.append(entity)
            client_ids = await self._children(f"{ConfigZNode.path(entity)}/clients")
            found += [ConfigEntity.client(user, client_id) for client_id in client_ids]
        return found

    async def _children(self, path: str) -> list[str]:
        try:
            return sorted(await self._store.children(path))
        except NoNodeError:
            return []

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
            entity = ConfigEntity.broker(broker_id)
            if await self._passwords.needs_new_secret(await self._read(entity)):
                await self.set_broker_overrides(broker_id, await self.broker_overrides(broker_id))
            await self._apply(entity)
        for entity in await self._client_nodes():
            try:
                await self._apply(entity)
            except ForeignDataError as error:
                logger.error("The credentials and quotas of %s %s can't be read: %s", *entity, error)
        for name in await self._children(ConfigZNode.kind_path("groups")):
            try:
                await self._apply(ConfigEntity("groups", name))
            except ForeignDataError as error:
                logger.error("The configuration of group %s can't be read: %s", unquote(name), error)
        await self.load_topics(topics)
        for topic in self.unread_topics(topics):
            await self._read(ConfigEntity.topic(topic))
        return {topic: self._topics[topic] for topic in topics}

    async def start(self) -> None:
        """Apply the changes that notes announce from now on, beginning with the existing notes."""
        await self._notes.start()
        await ensure_path(self._store, GroupConfigChangesZNode.PATH)
        await self._group_notes.start()

    async def stop(self) -> None:
        """Apply no more changes."""
        await self._notes.stop()
        await self._group_notes.stop()

    async def set_topic_overrides(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of ``topic`` and write a note for every broker. The caller has validated them."""
        await self._in_time(self._write(ConfigEntity.topic(topic), overrides))

    async def set_broker_overrides(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of one broker, or (None) of all, and write a note for every broker."""
        stored = await self._passwords.encrypted(overrides)
        await self._in_time(self._write(ConfigEntity.broker(broker_id), stored))

    async def set_group_overrides(self, group_id: str, overrides: Mapping[str, str]) -> None:
        """Replace the overrides of a group and write a note for every broker. The caller has validated them."""
        await self._in_time(self._write(ConfigEntity.group(group_id), overrides))

    async def set_user_overrides(self, name: str, overrides: Mapping[str, str]) -> None:
        """Replace the credentials and quotas of a user, and write a note for every broker."""
        await self.set_client_overrides(ConfigEntity.user(name), overrides)

    async def set_client_overrides(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Replace the configuration of a user, a client id or both, and write a note for every broker."""
        await self._in_time(self._write(entity, overrides))

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
        notes = GroupConfigChangesZNode if entity.kind == "groups" else ConfigChangesZNode
        note = Create(notes.child_path(), notes.encode(entity), sequential=True)
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
        self._notes.read()
        self._group_notes.read()

    async def _apply_note(self, data: bytes | None) -> None:
        await self._apply(ConfigChangesZNode.decode(data))

    async def _apply(self, entity: ConfigEntity) -> None:
        overrides = await self._read(entity)
        if entity.kind == "topics":
            self._topics[entity.name] = overrides
            for listener in self._listeners:
                listener.topic_config_changed(entity.name, overrides)
        elif entity.kind in ("users", "clients"):
            self._clients[entity] = overrides
            if self._client_listener is not None:
                self._client_listener(entity, overrides)
        elif entity.kind == "groups":
            self._groups.pop(entity.name, None)
            if overrides:
                self._groups[entity.name] = overrides
        elif entity == ConfigEntity.broker(None):
            plain = await self._passwords.decrypted(overrides)
            self._config.update_dynamic(cluster_default=plain)
            self._tell_broker(None, plain)
        elif entity == ConfigEntity.broker(self._config.broker_id):
            plain = await self._passwords.decrypted(overrides)
            self._config.update_dynamic(per_broker=plain)
            self._tell_broker(self._config.broker_id, plain)

    def _tell_broker(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        for listener in self._listeners:
            listener.broker_config_changed(broker_id, overrides)
