"""The broker behind ``Broker`` and ``AsyncBroker``; all methods run on its event loop."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.embedded import EmbeddedStore
from kafkapy.metadata.store import MetadataStore
from kafkapy.network.session import Session
from kafkapy.server.dispatch.context import Services
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.local_requests import LocalRequests
from kafkapy.server.handlers import ALL_APIS
from kafkapy.server.lifecycle import ephemeral
from kafkapy.server.lifecycle.broker import START_FAILURES, BrokerServer
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.clock.stamped_files import StampedFiles
from kafkapy.testing.contents.topics import TopicShape, create_topic, delete_topic
from kafkapy.testing.errors import BrokerNotRunningError, BrokerStartError, TestingError
from kafkapy.testing.faults import Faults
from kafkapy.testing.hosting.port import HOST, ReservedPort
from kafkapy.testing.hosting.settings import TEST_DEFAULTS, config_for_test

if TYPE_CHECKING:
    from kafkapy.testing.hosting.hosted_cluster import HostedCluster
    from kafkapy.testing.hosting.security import BrokerSecurity


class HostedBroker:
    """One broker that is started and stopped any number of times on one port and one data directory, until ``close``.

    Without ``data`` the directory is a temporary one and the metadata are kept in memory; both are kept after a stop or
    a kill, until ``close``. With ``data`` the directory has the same files as with ``kafkapy start --data``.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Iterable[str] | Mapping[str, int] = (),
        data: str | os.PathLike[str] | None = None,
        port: int = 0,
        security: "BrokerSecurity | None" = None,
    ) -> None:
        self._settings = dict(settings or {})
        self.security = security
        """TLS and SASL of the broker; None without."""
        self._topics: dict[str, int] = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
        self._kept = None if data is None else os.path.abspath(data)
        self._wanted_port = port
        self._port: ReservedPort | None = None
        self._store: EmbeddedStore | None = None
        self._directory = ""
        self._server: BrokerServer | None = None
        self._turn = asyncio.Lock()
        self._cluster: HostedCluster | None = None
        self.broker_id: int | None = None
        """The id within a cluster."""
        self.requests = LocalRequests(ALL_APIS)
        self.clock = MovingClock()
        if security is not None:
            security.follow(self.clock)
        self.faults = Faults(security)

    def join(self, cluster: "HostedCluster", broker_id: int) -> None:
        """Take part in ``cluster`` from the first start on: with its metadata, its clock and its connections."""
        self._cluster = cluster
        self.broker_id = broker_id
        self.clock = cluster.clock
        if self.security is not None:
            self.security.follow(self.clock)
        self._kept = cluster.data_of(broker_id)

    # addresses and state

    @property
    def port(self) -> int:
        """The loopback port, the same after every restart; raises ``BrokerNotRunningError`` before the first start."""
        if self._port is None:
            raise BrokerNotRunningError("the broker was not started: use it as `with Broker() as broker:`, or start()")
        return self._port.number

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> str:
        """The data directory; empty before the first start."""
        return self._directory

    @property
    def is_prepared(self) -> bool:
        """Whether the broker was started and not closed, so that it has a port and a directory."""
        return self._port is not None

    @property
    def is_running(self) -> bool:
        """Whether the broker serves clients."""
        return self._server is not None

    @property
    def services(self) -> Services:
        """The parts of the running broker; raises ``BrokerNotRunningError``."""
        if self._server is None:
            raise BrokerNotRunningError("the broker is stopped: start() or restart() it first")
        return self._server.services

    async def new_store_session(self) -> MetadataStore:
        """A session of the broker's metadata store; raises ``BrokerNotRunningError``, and ``TestingError``."""
        if self._server is None:
            raise BrokerNotRunningError("the broker is stopped: start() or restart() it first")
        session = self._server.new_store_session()
        if session is None:
            raise TestingError("the broker's metadata are in a ZooKeeper: connect to zookeeper.connect instead")
        return session

    # topics

    async def create_topic(self, name: str, shape: TopicShape) -> None:
        """Create a topic, of one replica unless the broker is in a cluster. Raises ``RequestRefusedError``."""
        if self._cluster is not None:
            await self._cluster.create_topic(name, shape)
        else:
            factor = 1 if shape.replication_factor is None else shape.replication_factor
            await create_topic(self.requests, name, shape._replace(replication_factor=factor))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises ``RequestRefusedError``."""
        if self._cluster is not None:
            await self._cluster.delete_topic(name)
        else:
            await delete_topic(self.requests, name)

    # lifecycle; one of these runs at a time

    async def start(self) -> None:
        """Start, and create the topics the first time. Raises ``BrokerStartError`` after releasing everything."""
        async with self._turn:
            if self._server is not None:
                return
            is_first = self._port is None
            try:
                if is_first:
                    await self._prepare()
                await self._serve()
                for topic, partitions in self._topics.items() if is_first else ():
                    await create_topic(self.requests, topic, TopicShape(partitions, 1), exist_ok=True)
            except BaseException:
                if is_first:
                    await self._close()
                raise
            await self._settled()

    async def stop(self, *, moves_leaderships: bool = True) -> None:
        """Stop cleanly: waiting requests are answered, logs are closed; does nothing if the broker is stopped.

        ``moves_leaderships``: see ``BrokerServer.stop``.
        """
        async with self._turn:
            if self._server is not None:
                await self._stop(moves_leaderships=moves_leaderships)
                await self._settled()

    async def kill(self) -> None:
        """Stop as if the broker's process had been killed: connections break, logs stay unclosed."""
        async with self._turn:
            server = self._leave()
            if server is not None:
                await server.kill()
                await self._settled()

    async def close(self) -> None:
        """Stop, and release port and temporary directory; may be called repeatedly."""
        async with self._turn:
            await self._close()
        self._turn = asyncio.Lock()  # for the next event loop

    async def _stop(self, *, moves_leaderships: bool = True) -> None:
        server = self._leave()
        if server is not None:
            await server.stop(moves_leaderships=moves_leaderships)

    def _leave(self) -> BrokerServer | None:
        """Count as stopped; return the server that has to end."""
        if self._cluster is not None:
            self._cluster.remember_metadata()
        server, self._server = self._server, None
        return server

    async def _settled(self) -> None:
        """Wait until the other brokers of the cluster know that this one has started or stopped."""
        if self._cluster is not None:
            await self._cluster.settled()

    async def _close(self) -> None:
        try:
            await self._stop()
            if self._store is not None:
                await self._store.close()
        finally:
            self._store = None
            if self._port is not None:
                self._port.release()
                self._port = None
            if self._directory and self._kept is None:
                ephemeral.remove_directory(self._directory)
            self._directory = ""

    async def _prepare(self) -> None:
        self._port = ReservedPort(self._wanted_port)
        if self._kept is None:
            self._directory = ephemeral.make_directory()
            if self._cluster is None:
                self._store = EmbeddedStore(None, self.clock)
                await self._store.open()
        else:
            self._directory = self._kept

    async def _serve(self) -> None:
        assert self._port is not None
        config = self._config(self._port.number)
        files = StampedFiles(self.clock)
        hooks = Hooks(self.faults, connection_clock=SystemClock(), files=files)
        store, cluster = self._store, self._cluster
        if cluster is not None:
            from kafkapy.testing.hosting.links import LinkedChannel  # a broker that is alone needs none

            assert self.broker_id is not None, "join sets both"
            store = cluster.store
            hooks = replace(hooks, peers=partial(LinkedChannel, cluster.links, self.broker_id))
        server = BrokerServer(config, self.clock, store=store, serves_brokers=cluster is not None, hooks=hooks)
        try:
            await server.start()
        except START_FAILURES as error:
            raise BrokerStartError(str(error)) from error
        if self.security is not None:
            await self.security.store_users(server.services)
            self.faults.connections.serve(server.listeners)
        self._server = server
        self.requests.serve(server.services, Session.local(server.listeners[0].name))

    def _config(self, port: int) -> BrokerConfig:
        if self._cluster is None:
            security = self.security
            if security is None:
                return config_for_test(self._settings, data=self._directory, port=port)
            defaults = {**TEST_DEFAULTS, **security.broker_settings()}
            protocol = security.kind.protocol
            return config_for_test(
                self._settings, data=self._directory, port=port, defaults=defaults, protocol=protocol
            )
        if "broker.id" in self._settings:
            raise BrokerStartError("broker.id is no setting of a cluster: its brokers are numbered from 0")
        defaults = {**self._cluster.defaults, "broker.id": str(self.broker_id)}
        if self.security is None:
            return config_for_test(self._settings, data=self._directory, port=port, defaults=defaults)
        defaults |= self.security.cluster_settings()
        protocol = self.security.kind.protocol
        return config_for_test(self._settings, data=self._directory, port=port, defaults=defaults, protocol=protocol)
