"""The MetadataStore of a cluster: a tree in ZooKeeper, reached through one session (``zookeeper_session.py``).

The laws of the store hold because of the session: it sends requests, and gets answers and events, in one order.
"""

import asyncio
from collections.abc import Iterable, Sequence
from random import Random, SystemRandom
from typing import Final

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.store import (
    ANY_VERSION,
    Create,
    Delete,
    Node,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    Operation,
    Outcome,
    Result,
    SessionListener,
    SetData,
    StoreError,
    Watch,
)
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_heartbeat import Heartbeat
from kafkapy.metadata.zookeeper_operations import TreeRoot
from kafkapy.metadata.zookeeper_security import security_of
from kafkapy.metadata.zookeeper_session import Read, ZooKeeperSession, ZooKeeperSettings
from kafkapy.turns import OneByOne

MOMENT_ATTEMPTS: Final = 3
"""How often many nodes are read again because some changed meanwhile."""


class ZooKeeperStore:
    """See ``MetadataStore``. ``open`` comes first."""

    def __init__(self, address: ZooKeeperAddress, clock: Clock, random: Random, settings: ZooKeeperSettings) -> None:
        self._chroot = TreeRoot(address.chroot, settings.security.protects_nodes)
        self._session = ZooKeeperSession(address, clock, random, settings)

    @property
    def session_id(self) -> int:
        """See ``MetadataStore.session_id``; 0 before ``open``."""
        return self._session.number

    @property
    def is_available(self) -> bool:
        """See ``MetadataStore.is_available``."""
        return self._session.is_usable

    @property
    def has_space(self) -> bool:
        """See ``MetadataStore.has_space``; a ZooKeeper without space is one that does not answer."""
        return True

    @property
    def heartbeat(self) -> Heartbeat:
        """Keeps the session alive beside the event loop, once it is started."""
        return self._session.heartbeat

    @property
    def session_password(self) -> bytes:
        """With the id, what another connection needs to take over the session."""
        return self._session.password

    @property
    def session_timeout_ms(self) -> int:
        """How long ZooKeeper keeps the session without hearing of it, as negotiated."""
        return self._session.timeout_ms

    def add_session_listener(self, listener: SessionListener) -> None:
        """See ``MetadataStore.add_session_listener``."""
        self._session.add_listener(listener)

    async def open(self) -> None:
        """Open the session, and create the nodes of the chroot; raises StoreUnreachableError, StoreRefusedError."""
        await self._session.open()
        names = self._chroot.chroot.split("/")[1:]
        whole_tree = self._chroot._replace(chroot="")
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            if (await self._session.exists(path, None, whole_tree)).value is not None:
                continue  # who may not write its parent would be refused, although it is there
            outcome = await self._session.write([Create(path)], whole_tree)
            if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                raise outcome

    async def get(self, path: str, watch: Watch | None = None) -> Node:
        """See ``MetadataStore.get``."""
        node: Node | None = (await self._session.get(path, watch)).value
        if node is None:
            raise NoNodeError(path)
        return node

    async def get_many(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        """See ``MetadataStore.get_many``; of several moments if the nodes change all the time."""
        for _ in range(MOMENT_ATTEMPTS):
            asked = [self._session.get(path, watch) async for path in OneByOne(paths)]
            reads: list[Read | BaseException] = await asyncio.gather(*asked, return_exceptions=True)
            found: list[Read] = []
            for read in reads:
                if isinstance(read, BaseException):
                    raise read
                found.append(read)
            if _are_of_one_moment(found):
                break
        return [read.value for read in found]

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """See ``MetadataStore.exists``."""
        stat: NodeStat | None = (await self._session.exists(path, watch)).value
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """See ``MetadataStore.children``."""
        names: list[str] | None = (await self._session.children(path, watch)).value
        if names is None:
            raise NoNodeError(path)
        return names

    async def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """See ``MetadataStore.create``."""
        (created,) = await self.multi([Create(path, data, ephemeral, sequential)])
        assert isinstance(created, str), "the result of a Create is a path"
        return created

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> NodeStat:
        """See ``MetadataStore.set``."""
        (stat,) = await self.multi([SetData(path, data, version)])
        assert isinstance(stat, NodeStat), "the result of a SetData is a NodeStat"
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See ``MetadataStore.delete``."""
        await self.multi([Delete(path, version)])

    async def multi(self, operations: Iterable[Operation]) -> list[Result]:
        """See ``MetadataStore.multi``."""
        outcome = await self._session.write(list(operations))
        if isinstance(outcome, StoreError):
            try:
                raise outcome
            finally:
                del outcome  # its traceback refers to this frame
        return outcome

    async def transactions(self, multis: Iterable[Sequence[Operation]]) -> list[Outcome]:
        """See ``MetadataStore.transactions``."""
        asked = [self._session.write(list(operations)) async for operations in OneByOne(multis)]
        await asyncio.gather(*asked, return_exceptions=True)  # a caller that is cancelled cancels them
        for write in asked:
            ended = write.exception()
            if ended is not None:
                raise ended
        return [write.result() for write in asked]

    async def close(self) -> None:
        """See ``MetadataStore.close``."""
        await self._session.close()


async def open_zookeeper(config: BrokerConfig, clock: Clock) -> ZooKeeperStore:
    """Open a session as ``config`` says; raises InvalidConfigError, StoreUnreachableError, StoreRefusedError."""
    session_timeout_ms = config.integer("zookeeper.session.timeout.ms")
    named_ms = config["zookeeper.connection.timeout.ms"]
    settings = ZooKeeperSettings(
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=session_timeout_ms if named_ms is None else int(str(named_ms)),
        max_in_flight=config.integer("zookeeper.max.in.flight.requests"),
        security=security_of(config, clock.now_ms()),
    )
    address = ZooKeeperAddress.parse(config.text("zookeeper.connect"))
    store = ZooKeeperStore(address, clock, SystemRandom(), settings)
    await store.open()
    store.heartbeat.start()
    return store


def _are_of_one_moment(reads: Sequence[Read]) -> bool:
    """Tell whether nodes that were read one after the other were all like this when the first one was read."""
    first = min((read.zxid for read in reads), default=0)
    return all(read.zxid == first or (read.value is not None and read.value.stat.mzxid <= first) for read in reads)
