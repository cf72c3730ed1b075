"""A whole broker: composes the parts, starts them in order, stops them in the reverse order.

Start (facts of Apache Kafka's own order): lock the data directories, open the metadata store, learn the cluster's id,
load the logs, bind the sockets, join the cluster, then serve. Stop: answer waiting requests, close the connections,
leave the cluster, close the logs. Every record is in the page cache before its acknowledgement is sent, so a stop
loses no acknowledged record.
"""

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from random import SystemRandom
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kafkapy.clock import Clock, SystemClock
from kafkapy.config.broker_config import BrokerConfig, check_built
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.keys import is_at_least
from kafkapy.config.listeners import PLAINTEXT, EndPoint
from kafkapy.config.log_config import LogConfig
from kafkapy.config.own_keys import API_RELEASE, FETCH_SESSION_PARTITIONS, PRODUCER_IDS_MAX
from kafkapy.coordinator.group.coordinator import GroupCoordinator
from kafkapy.coordinator.runtime import Background
from kafkapy.coordinator.transaction.coordinator import TransactionCoordinator
from kafkapy.coordinator.transaction.marker_channel import MarkerChannel
from kafkapy.coordinator.transaction.marker_sender import MarkerPaths
from kafkapy.coordinator.transaction.marker_writer import MarkerWriter
from kafkapy.coordinator.transaction.verifier import TransactionVerifier
from kafkapy.metadata.embedded import FILE_NAME, EmbeddedStore
from kafkapy.metadata.registration import BrokerIdTakenError, generated_broker_id
from kafkapy.metadata.store import (
    MetadataStore,
    SessionExpiredError,
    StoreFileError,
    StoreRefusedError,
    StoreUnreachableError,
)
from kafkapy.metadata.znodes import ForeignDataError
from kafkapy.metrics import Metrics
from kafkapy.network import dispatcher
from kafkapy.network.budget import DEFAULT_LIMIT, FrameBudget
from kafkapy.network.limits import ConnectionRates, Limits, ListenerResources
from kafkapy.network.listener import Listener, ListenError, bind
from kafkapy.network.peer import BrokerChannel, LocalChannel
from kafkapy.network.session import Session
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.platform.flusher import ThreadFlusher
from kafkapy.records.record import MAX_DECOMPRESSED_SIZE
from kafkapy.replication.fetch_sessions import FetchSessionCache
from kafkapy.replication.replica_manager import IsrWriter, ReplicaManager
from kafkapy.replication.throttle import ReplicationThrottle, ReplicationThrottles
from kafkapy.server.dispatch.api_table import ApiTable
from kafkapy.server.dispatch.compute_thread import ComputeThread
from kafkapy.server.dispatch.context import WILDCARD_HOSTS, Services
from kafkapy.server.dispatch.dispatcher import LARGE_AT_ONCE, Dispatcher
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.server.dispatch.local_requests import LocalRequests
from kafkapy.server.handlers import ALL_APIS, CLIENT_APIS
from kafkapy.server.lifecycle import logs
from kafkapy.server.lifecycle.directory_failures import REFUSED_RETRY_MS, DirectoryFailures
from kafkapy.server.lifecycle.listeners import BrokerListeners
from kafkapy.server.lifecycle.log_configs import LogConfigs
from kafkapy.server.lifecycle.node import MetadataNode
from kafkapy.server.lifecycle.quotas import apply_quotas
from kafkapy.server.lifecycle.recovery_progress import RecoveryProgress
from kafkapy.server.lifecycle.upkeep import Upkeep, keep_logs, keep_replicas, keep_tokens, report_limits
from kafkapy.storage.compaction.cleaner import LogCleaner
from kafkapy.storage.data_directory import MetaProperties
from kafkapy.storage.log.log import Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.parallel_recovery import default_processes, load_in_parallel
from kafkapy.turns import at_once_or_in_turns
from kafkapy.types import NO_BROKER_ID

if TYPE_CHECKING:
    from kafkapy.metadata.delegation_tokens import TokenStore
    from kafkapy.network.peer_connection import AddressOf
    from kafkapy.replication.fetchers import ReplicaFetchers
    from kafkapy.replication.log_dir_moves import LogDirMoves
    from kafkapy.security.delegation_tokens import TokenCache
    from kafkapy.security.settings import ClientSecurity
    from kafkapy.server.access.control import AclAccessControl
    from kafkapy.server.lifecycle.listener_security import ListenerSecurity

logger: Final = logging.getLogger(__name__)

START_FAILURES: Final = (
    InvalidConfigError,
    LogDirectoryError,
    KafkaStorageError,
    ListenError,
    BrokerIdTakenError,
    StoreFileError,
    StoreRefusedError,
    StoreUnreachableError,
    SessionExpiredError,
    ForeignDataError,
)
"""Errors that prevent a start, each with a sentence for the user."""
ITERATIONS_OF_AN_ANSWER: Final = 5
"""Iterations of the loop in which a waiting request is answered, also one whose answer a hook passes on."""
NO_HOOKS: Final = Hooks()


class BrokerServer:
    """One broker in this process and on the running event loop.

    ``store`` may be shared by several brokers and outlives them; without one the broker uses the ZooKeeper of
    ``zookeeper.connect``, else its own store in its first log directory, or in memory with ``in_memory_metadata``. With
    ``serves_brokers``, and with a ZooKeeper, the inter-broker listener also serves the APIs that only brokers use; a
    broker that is alone has no use for them. ``hooks`` stand between its
    requests and their handlers.
    Use it as ``async with``, or ``start`` and ``stop``.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock | None = None,
        *,
        store: EmbeddedStore | None = None,
        in_memory_metadata: bool = False,
        serves_brokers: bool = False,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        logs.protect()
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self._listeners: BrokerListeners | None = None
        self._shared_store = store
        self._own_store: EmbeddedStore | None = None
        self._in_memory_metadata = in_memory_metadata
        self._serves_brokers = serves_brokers
        self._hooks = hooks
        self._compute = ComputeThread()
        self.broken = asyncio.Event()
        """Set when every data directory has failed, so that the broker can't serve any more."""
        self._services: Services | None = None
        self._security: ListenerSecurity | None = None
        self._tokens: TokenCache | None = None
        self._cleanup = AsyncExitStack()
        self._is_killed = False
        self._moves_leaderships = True

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def services(self) -> Services:
        """The parts of the running broker."""
        assert self._services is not None, "the broker has not been started"
        return self._services

    @property
    def listeners(self) -> list[Listener]:
        """The open listeners; none before the start."""
        return self._listeners.open if self._listeners is not None else []

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listeners[0].endpoint.port

    @property
    def bootstrap(self) -> str:
        """``host:port`` for a client on this machine."""
        host = self.listeners[0].endpoint.host
        return f"{'127.0.0.1' if host in WILDCARD_HOSTS else host}:{self.port}"

    async def start(self) -> None:
        """Start; when this returns, clients are served.

        Raises one of ``START_FAILURES``: ``InvalidConfigError`` (unsupported settings), ``LogDirectoryError`` (locked,
        another cluster's, unreadable) and so on. Then all files and sockets are closed.
        """
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(self._cleanup.aclose)
            await self._start()
            on_failure.pop_all()

    async def stop(self, *, moves_leaderships: bool = True) -> None:
        """Stop cleanly: the data directory is marked so, and the next start trusts it.

        In a cluster the controller first moves leaderships to other brokers. Without ``moves_leaderships`` the
        controller is not asked to move them, because all brokers of the cluster stop.
        """
        self._moves_leaderships = moves_leaderships
        await self._cleanup.aclose()

    async def kill(self) -> None:
        """Stop as if the process had been killed: no waiting request is answered, no log is closed or marked clean.

        Acknowledged records are in the files; the next start recovers these, as after any unclean stop.
        """
        self._is_killed = True
        if self._hooks.interceptor is not None:
            self._hooks.interceptor.stop()
        for listener in self.listeners:
            await listener.stop()
        await self._cleanup.aclose()

    async def _start(self) -> None:
        self._check_config()
        metrics = Metrics()
        logs, identity = self._open_directories(metrics)
        store = await self._open_store(logs, identity)
        requests = LocalRequests(ALL_APIS)
        node = self._metadata_node(store, requests)
        await node.prepare(None if self.config.embedded_store or identity is None else identity.cluster_id)
        await self._check_exported(logs, store)
        logs.directories.check_identity(self.config.broker_id, node.cluster_id)
        configs = LogConfigs(self.config, logs, node.config_admin.cached_topic_overrides)
        await self._load(logs, configs)
        self._cleanup.callback(lambda: logs.abandon() if self._is_killed else logs.shutdown())
        node.config_admin.add_listener(configs)
        replicas = self._replica_manager(node, logs, configs)
        self._replicate(node, replicas, logs, store, requests)
        failures = DirectoryFailures(logs, replicas, store, self.clock, self.broken.set)
        logs.set_directory_listener(failures.directory_failed)
        background = Background(at_once_or_in_turns, asyncio.get_running_loop().call_soon, metrics.coordinators)
        groups = self._group_coordinator(node, replicas, background)
        peers = self._channel(requests, node.address_of)
        writer, transactions, verifier = self._transactions(node, replicas, groups, peers, background)
        services = self._services = Services(
            config=self.config,
            clock=self.clock,
            metadata=node.cache,
            fence=node.fence,
            store=store,
            features=node.features,
            controller=node.controller,
            topic_admin=node.topic_admin,
            config_admin=node.config_admin,
            producer_ids=node.producer_ids,
            replica_manager=replicas,
            log_manager=logs,
            group_coordinator=groups,
            transaction_coordinator=transactions,
            marker_writer=writer,
            transaction_verifier=verifier,
            fetch_sessions=self._fetch_sessions(),
            metrics=metrics,
            apis={},
            compute=self._compute,
            memory=self._frame_budget(),
            large_requests=asyncio.Semaphore(LARGE_AT_ONCE),
            access=await self._access_control(node, store, metrics),
            tokens=await self._token_store(node, store),
        )
        listeners = self._bind(metrics, services.memory)
        requests.serve(services, Session.local(self.listeners[0].name))
        for coordinator in (groups, transactions):
            coordinator.startup()
            self._cleanup.callback(coordinator.shutdown)
        await self._join(node, listeners)
        self._write_identity(logs, node.cluster_id)
        self._serve(services, failures)
        listeners.follow(self._start_listener, lambda: node.advertise(listeners.advertised()))
        if not self.config.embedded_store:
            await node.wait_for_metadata()
        self._cleanup.push_async_callback(self._leave, node, requests)

    def _metadata_node(self, store: MetadataStore, requests: LocalRequests) -> MetadataNode:
        """Return the parts of the metadata; the controller's requests go to the brokers' listeners for them."""
        orders = self._channel(
            requests,
            lambda broker: node.controller.address_of(broker),  # noqa: PLW0108  # set below
            self.config.controller_listener,
        )
        node = MetadataNode(self.config, self.clock, store, orders)
        self._cleanup.push_async_callback(node.stop)
        return node

    @property
    def _is_in_cluster(self) -> bool:
        return self._serves_brokers or not self.config.embedded_store

    async def _leave(self, node: MetadataNode, requests: LocalRequests) -> None:
        """Have leaderships moved to other brokers before this one stops."""
        if self._is_killed or not self._moves_leaderships or not self._is_in_cluster:
            return
        from kafkapy.server.lifecycle.controlled_shutdown import ControlledShutdown

        channel = self._channel(requests, node.address_of)
        await ControlledShutdown(
            self.config, self.clock, channel, lambda: node.cache.image, lambda: node.fence.broker_epoch
        ).run()

    async def _access_control(
        self, node: MetadataNode, store: MetadataStore, metrics: Metrics
    ) -> "AclAccessControl | None":
        """Return the authorizer's rules, with all ACLs; None if no authorizer is set."""
        if not self.config["authorizer.class.name"]:
            return None
        from kafkapy.metadata.acls import AclStore
        from kafkapy.security.authorizer import authorizer_of
        from kafkapy.server.access.control import AclAccessControl

        acls = AclStore(self.clock, store, authorizer_of(self.config))
        self._cleanup.push_async_callback(acls.stop)
        await acls.start()
        node.add_renewal_listener(acls.session_renewed)
        return AclAccessControl(acls, self.clock, metrics.audit_lines)

    async def _token_store(self, node: MetadataNode, store: MetadataStore) -> "TokenStore | None":
        """Return the delegation tokens; None if no master key is set."""
        if self._tokens is None:
            return None
        from kafkapy.metadata.delegation_tokens import TokenLifetimes, TokenStore

        lifetimes = TokenLifetimes(
            self.config.integer("delegation.token.max.lifetime.ms"),
            self.config.integer("delegation.token.expiry.time.ms"),
        )
        tokens = TokenStore(self.clock, store, self._tokens, lifetimes)
        self._cleanup.push_async_callback(tokens.stop)
        await tokens.start()
        node.add_renewal_listener(tokens.session_renewed)
        return tokens

    def _token_cache(self) -> "TokenCache | None":
        """Return the tokens by which clients may log in; None if no master key is set."""
        master_key = self.config.text("delegation.token.master.key")
        if not master_key:
            return None
        from kafkapy.security.delegation_tokens import TokenCache

        return TokenCache(master_key, self.clock.now_ms)

    def _replica_manager(self, node: MetadataNode, logs: LogManager, configs: LogConfigs) -> ReplicaManager:
        replicas = ReplicaManager(
            broker_id=self.config.broker_id,
            clock=self.clock,
            logs=logs,
            cluster=node.cache,
            log_config_of=configs.of,
            lag_max_ms=self.config.integer("replica.lag.time.max.ms"),
        )
        if self.config["replica.selector.class"]:
            replicas.send_readers_to_their_racks(node.cache.racks)
        logs.storage.verifies_transactions = True
        return replicas

    def _replicate(
        self,
        node: MetadataNode,
        replicas: ReplicaManager,
        logs: LogManager,
        store: MetadataStore,
        requests: LocalRequests,
    ) -> None:
        """Set the throttle, and the makers of fetchers, moves and ISR writer, which are called when first needed."""
        throttles = ReplicationThrottles(self.config, self.clock)
        node.config_admin.add_listener(throttles)
        replicas.throttle_by(throttles.leader)
        replicas.follow_by(lambda: self._fetchers(node, replicas, throttles.follower))
        replicas.move_by(lambda: self._moves(replicas, logs))
        replicas.change_isr_by(
            lambda: self._isr_writer(node, replicas, store, self._channel(requests, node.address_of))
        )

    def _group_coordinator(
        self, node: MetadataNode, replicas: ReplicaManager, background: Background
    ) -> GroupCoordinator:
        overrides_of = node.config_admin.cached_group_overrides
        return GroupCoordinator(self.config, self.clock, replicas, node.cache, background, overrides_of=overrides_of)

    def _transactions(
        self,
        node: MetadataNode,
        replicas: ReplicaManager,
        groups: GroupCoordinator,
        peers: BrokerChannel,
        background: Background,
    ) -> tuple[MarkerWriter, TransactionCoordinator, TransactionVerifier]:
        """Return the parts for transactions, which reach other brokers through ``peers``."""
        writer = MarkerWriter(replicas, groups, self.clock, self.config.integer("request.timeout.ms"))
        paths = MarkerPaths(self.config.broker_id, writer, MarkerChannel(peers))
        coordinator = TransactionCoordinator(self.config, self.clock, replicas, node.cache, paths, background)
        return writer, coordinator, TransactionVerifier(coordinator, self.config.broker_id, peers, node.cache)

    def _fetchers(
        self, node: MetadataNode, replicas: ReplicaManager, throttle: ReplicationThrottle
    ) -> "ReplicaFetchers":
        """Return the fetchers of partitions that other brokers lead."""
        from kafkapy.replication.fetcher import FetcherContext, FetcherSettings
        from kafkapy.replication.fetchers import ReplicaFetchers

        config, key = self.config, "num.replica.fetchers"
        fetchers = ReplicaFetchers(
            config.broker_id,
            FetcherContext(self.clock, FetcherSettings.of(config), replicas, throttle),
            lambda client_id: self._remote_brokers(node.address_of, client_id, "replica.socket.timeout.ms"),
            per_leader=max(config.integer(key), 1),
        )
        config.add_listener(lambda names: fetchers.resize(config.integer(key)) if key in names else None)
        self._cleanup.callback(fetchers.close)
        return fetchers

    def _moves(self, replicas: ReplicaManager, logs: LogManager) -> "LogDirMoves":
        """Return the moves of replicas between data directories, with the limit of ``config``, which may change."""
        from kafkapy.replication.log_dir_moves import LogDirMoves, MoveSettings
        from kafkapy.replication.quota import ReplicationQuota

        config, limit_key = self.config, "replica.alter.log.dirs.io.max.bytes.per.second"
        quota = ReplicationQuota(
            self.clock,
            window_count=config.integer("alter.log.dirs.replication.quota.window.num"),
            window_s=config.integer("alter.log.dirs.replication.quota.window.size.seconds"),
        )

        def set_limit(_names: frozenset[str]) -> None:
            quota.limit = config.integer(limit_key)

        set_limit(frozenset())
        config.add_listener(set_limit)
        threads = config["num.replica.alter.log.dirs.threads"]
        lanes = threads if isinstance(threads, int) else len(config.log_dirs)
        settings = MoveSettings(max(lanes, 1), config.integer("replica.fetch.backoff.ms"))
        moves = LogDirMoves(logs, self.clock, settings, quota, replicas.log_moved)
        self._cleanup.callback(moves.close)
        return moves

    def _isr_writer(
        self, node: MetadataNode, replicas: ReplicaManager, store: MetadataStore, channel: BrokerChannel
    ) -> IsrWriter:
        """Return the writer of changed in-sync replicas for the inter-broker protocol."""
        from kafkapy.replication.isr_writers import ControllerIsrWriter, StoreIsrWriter

        writer: ControllerIsrWriter | StoreIsrWriter
        if is_at_least(self.config.text("inter.broker.protocol.version"), "2.7-IV2"):
            writer = ControllerIsrWriter(
                replicas,
                channel,
                self.clock,
                lambda: node.cache.image.controller_id,
                lambda: node.fence.broker_epoch,
            )
        else:
            writer = StoreIsrWriter(replicas, store, self.clock)
        self._cleanup.callback(writer.close)
        return writer

    def _apis_of(self, listener: str) -> ApiTable:
        """Return the APIs of a listener: only one for other brokers serves what only brokers send.

        A cluster on ZooKeeper may have brokers of Apache Kafka 2.7, and clients need the same from all its brokers.
        """
        for_brokers = self._is_in_cluster and listener in self._broker_listeners
        apis = ALL_APIS if for_brokers else CLIENT_APIS
        release = self.config.text(API_RELEASE) or ("" if self.config.embedded_store else "2.7")
        if not release:
            return apis
        from kafkapy.server.dispatch.releases import cut  # only if there is a release

        return cut(apis, release, for_brokers=for_brokers)

    @property
    def _broker_listeners(self) -> frozenset[str]:
        """The names of the listeners for other brokers and for the controller."""
        return frozenset({self.config.inter_broker_listener, self.config.controller_listener})

    def _channel(self, requests: LocalRequests, address_of: "AddressOf", listener: str = "") -> LocalChannel:
        """Return a channel to all brokers for one part of this broker, with its own connections to the others.

        Their addresses are those of the listener of that name, or else of the one for other brokers.
        """

        def connect() -> BrokerChannel:
            return self._remote_brokers(address_of, str(self.config.broker_id), "request.timeout.ms", listener)

        return LocalChannel({self.config.broker_id: requests.handle}, connect)

    def _remote_brokers(
        self, address_of: "AddressOf", client_id: str, timeout_key: str, listener: str = ""
    ) -> BrokerChannel:
        """Return connections to other brokers; a response may take as long as the key ``timeout_key`` says."""
        from kafkapy.network.peer_connection import PeerSettings, PeerTimes, RemoteBrokers

        times = PeerTimes(
            request_ms=self.config.integer(timeout_key),
            connect_ms=self.config.integer("socket.connection.setup.timeout.ms"),
        )
        # No batch is larger than a request, and a follower's fetch returns at least one batch.
        size = self.config.integer("socket.request.max.bytes") + self.config.integer("replica.fetch.response.max.bytes")
        settings = PeerSettings(client_id, times, max_response_size=size, compute=self._compute.run)
        security = self._peer_security(listener or self.config.inter_broker_listener)
        if security is not None:
            settings = settings._replace(tls=security.tls, authenticate=security.authenticate)
        remote = RemoteBrokers(address_of, self.clock, settings, SystemRandom())
        self._cleanup.callback(remote.close)
        return remote if self._hooks.peers is None else self._hooks.peers(remote)

    def _peer_security(self, listener: str) -> "ClientSecurity | None":
        """Return TLS and SASL of connections to that listener of other brokers; None if it is PLAINTEXT."""
        protocol = self.config.listener_protocols.get(listener, PLAINTEXT)
        if protocol == PLAINTEXT:
            return None
        from kafkapy.server.lifecycle.listener_security import peer_security

        return peer_security(self.config, listener, protocol, self.clock)

    def _fetch_sessions(self) -> FetchSessionCache:
        return FetchSessionCache(
            self.clock,
            self.config.integer("max.incremental.fetch.session.cache.slots"),
            max_partitions=self.config.integer(FETCH_SESSION_PARTITIONS),
        )

    def _open_directories(self, metrics: Metrics) -> tuple[LogManager, MetaProperties | None]:
        config = self.config
        flusher = ThreadFlusher(asyncio.get_running_loop())
        self._cleanup.callback(flusher.close)  # its threads exist even if the logs can't be opened
        storage = Storage(
            self.clock,
            self._hooks.files or Files(),
            flusher=flusher,
            producer_expiration_ms=config.integer("transactional.id.expiration.ms"),
            max_producers=config.integer(PRODUCER_IDS_MAX),
            # A request may be smaller than its batch, which is decompressed if the topic requires it.
            largest_batch=max(config.integer("socket.request.max.bytes"), MAX_DECOMPRESSED_SIZE),
            producer_evicted=metrics.producer_evicted,
            keeps_topic_ids=config.has_topic_ids,
        )
        logs = LogManager(config.log_dirs, LogConfig.resolve(config), self.clock, storage=storage)
        self._cleanup.callback(logs.directories.unlock)
        identity = logs.lock()
        found = identity.broker_id if identity else None
        if config.broker_id == NO_BROKER_ID and (found is not None or config.embedded_store):
            # The rule of Apache Kafka: the id in the directory, or the first id above the reserved ones.
            broker_id = config.integer("reserved.broker.max.id") + 1 if found is None else found
            config.assign_broker_id(broker_id)
        return logs, identity

    async def _open_store(self, logs: LogManager, identity: MetaProperties | None) -> MetadataStore:
        store = self._shared_store
        if store is None and not self.config.embedded_store:
            return await self._open_zookeeper()
        if store is None:
            path = None if self._in_memory_metadata else self._store_path(logs)
            store = self._own_store = EmbeddedStore(path, self.clock)
            self._cleanup.push_async_callback(store.close)
            await store.open(identity.cluster_id if identity is not None else None)
        return store.session()

    def new_store_session(self) -> MetadataStore | None:
        """Another session of the embedded store, for clients in this process; None with a ZooKeeper."""
        store = self._shared_store or self._own_store
        return None if store is None else store.session()

    async def _open_zookeeper(self) -> MetadataStore:
        from kafkapy.metadata.zookeeper import open_zookeeper

        store = await open_zookeeper(self.config, self.clock)
        self._cleanup.push_async_callback(store.close)
        if self.config.broker_id == NO_BROKER_ID:
            last_reserved = self.config.integer("reserved.broker.max.id")
            self.config.assign_broker_id(await generated_broker_id(store, last_reserved))
        return store

    async def _check_exported(self, logs: LogManager, store: MetadataStore) -> None:
        """With a ZooKeeper: raise NotExportedError if the directory has newer metadata of a broker that was alone."""
        if self.config.embedded_store:
            return
        from kafkapy.metadata.exchange.exported import check_exported

        await check_exported(self._first_path(logs), store)

    def _write_identity(self, logs: LogManager, cluster_id: str) -> None:
        """Write ``meta.properties``; with a ZooKeeper rename the files of an embedded store, now out of date."""
        logs.directories.write_identity(self.config.broker_id, cluster_id, self.clock.now_ms())
        if self.config.embedded_store:
            return
        from kafkapy.metadata.exchange.exported import set_aside

        set_aside(self._first_path(logs))

    async def _join(self, node: MetadataNode, listeners: BrokerListeners) -> None:
        """Register and elect leaders, even if the disk has no space for the changes of the metadata."""
        if self._is_in_cluster:
            for listener in self.listeners:
                listener.listen()  # the controller connects as soon as the broker is registered
        store = self._own_store
        if store is not None:
            store.run_ahead(allowed=True)
        await node.start(listeners.advertised())
        if store is not None:
            store.run_ahead(allowed=False)

    async def _load(self, logs: LogManager, configs: LogConfigs) -> None:
        key = "num.recovery.threads.per.data.dir"
        processes = default_processes()
        if key in self.config.originals:
            processes = self.config.integer(key) * len(logs.directories.online)
        progress = RecoveryProgress(self.clock)
        try:
            await load_in_parallel(logs, configs.of, processes=processes, report=progress.report)
        finally:
            progress.close()

    def _store_path(self, logs: LogManager) -> str:
        first = next(iter(logs.directories))
        if first.failure is not None:
            raise LogDirectoryError(
                f"{first.path}, the first of log.dirs, holds this broker's metadata and can't be used: {first.failure}"
            )
        return self._first_path(logs)

    @staticmethod
    def _first_path(logs: LogManager) -> str:
        """Return the path of the embedded store in the first of ``log.dirs``."""
        return os.path.join(next(iter(logs.directories)).path, FILE_NAME)

    def _frame_budget(self) -> FrameBudget:
        limit = self.config.integer("queued.max.request.bytes")
        return FrameBudget(self._hooks.connection_clock or self.clock, limit if limit > 0 else DEFAULT_LIMIT)

    def _bind(self, metrics: Metrics, response_budget: FrameBudget) -> BrokerListeners:
        apply_quotas(self.services)
        config = self.config
        clock = self._hooks.connection_clock or self.clock
        rates = ConnectionRates(config, config.inter_broker_listener if len(config.listeners) > 1 else None)
        shared = ListenerResources(Limits.of(config), self._frame_budget(), response_budget, rates, metrics)
        self._cleanup.callback(self._compute.close)  # after the listeners, whose last requests may need it

        def new_listener(endpoint: EndPoint) -> Listener:
            is_plain = endpoint.security_protocol == PLAINTEXT
            security = None if is_plain else self._listener_security().of(endpoint)
            listener = Listener(endpoint, bind(endpoint), clock, shared)
            self.services.apis[listener.name] = self._apis_of(listener.name)
            if security is not None:
                listener.secure(*security)
            return listener

        def forget(name: str) -> None:
            if self._security is not None:
                self._security.forget(name)

        listeners = self._listeners = BrokerListeners(config, new_listener, forget)
        self._cleanup.push_async_callback(listeners.stop)
        listeners.bind()
        return listeners

    def _check_config(self) -> None:
        """Check what is not built, and read certificates and passwords of listeners; raises InvalidConfigError."""
        check_built(self.config)
        self._tokens = self._token_cache()
        for endpoint in self.config.listeners:
            if endpoint.security_protocol != PLAINTEXT:
                self._listener_security().check(endpoint)
        for listener in self._broker_listeners if self._is_in_cluster else ():
            self._peer_security(listener)  # fails now, not later

    def _listener_security(self) -> "ListenerSecurity":
        """Return TLS and SASL of the listeners, made when the first one needs them."""
        if self._security is None:
            from kafkapy.server.lifecycle.listener_security import ListenerSecurity

            self._security = ListenerSecurity(
                self.config,
                self.clock,
                lambda user: self.services.config_admin.cached_user_overrides(user),  # noqa: PLW0108  # not yet
                None if self._tokens is None else self._tokens.login,
            )
            self._cleanup.callback(self._security.close)
        return self._security

    def _serve(self, services: Services, failures: DirectoryFailures) -> None:
        self._cleanup.push_async_callback(failures.stop)
        for budget in (self.listeners[0].budget, services.memory):
            budget.relieve = services.topic_admin.end_waits
        if self._hooks.interceptor is not None:
            self._hooks.interceptor.start(services)
        for listener in self.listeners:
            self._start_listener(listener)
        upkeep = Upkeep(self.clock)
        keep_logs(upkeep, services.log_manager, self.config)
        keep_replicas(upkeep, services.replica_manager, self.config)
        upkeep.every(REFUSED_RETRY_MS, "refused replicas", failures.ask_for_refused)
        keep_tokens(upkeep, services)
        report_limits(upkeep, services)
        self._cleanup.callback(upkeep.stop)
        if self.config.flag("log.cleaner.enable") and self.config.integer("log.cleaner.threads"):
            cleaner = LogCleaner(services.log_manager, self.config, asyncio.get_running_loop().call_soon_threadsafe)
            cleaner.start()
            self._cleanup.callback(cleaner.stop)
        self._cleanup.push_async_callback(self._answer_waiting, services)

    def _start_listener(self, listener: Listener) -> None:
        services = self.services
        listener.start(self._dispatcher(services, services.apis[listener.name]))
        logger.info("Listening on %s", listener.endpoint)

    def _dispatcher(self, services: Services, apis: ApiTable) -> dispatcher.Dispatcher:
        interceptor, trace = self._hooks.interceptor, self._hooks.trace
        if trace is None:
            return Dispatcher(services, apis, interceptor)
        return trace.dispatcher(services, apis, interceptor)

    async def _answer_waiting(self, services: Services) -> None:
        """Answer the waiting requests while their connections are open."""
        if self._hooks.interceptor is not None:
            self._hooks.interceptor.stop()
        services.replica_manager.purgatory.expire_all()
        services.topic_admin.stop_waits()
        for _ in range(ITERATIONS_OF_AN_ANSWER):
            await self.clock.sleep(0)
