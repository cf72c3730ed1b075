"""The metadata parts of a broker: the server starts some of them before, and some after, its logs and sockets."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random, SystemRandom
from typing import Final

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.listeners import EndPoint
from kafkapy.controller.controller import Controller
from kafkapy.controller.topics import TopicAdmin
from kafkapy.metadata.configs import ConfigAdmin
from kafkapy.metadata.expected import ExpectedMetadata
from kafkapy.metadata.features import NEWEST_LEVELS, Features
from kafkapy.metadata.image import MetadataCache
from kafkapy.metadata.producer_ids import ProducerIds
from kafkapy.metadata.registration import (
    BrokerIdTakenError,
    change_endpoints,
    check_cluster_id,
    cluster_id,
    ensure_persistent_paths,
    register,
)
from kafkapy.metadata.store import (
    MetadataStore,
    SessionEndedError,
    SessionEvent,
    SessionExpiredError,
    StoreError,
    ensure_path,
)
from kafkapy.metadata.znodes import BrokerEndpoint, FeatureZNode, TopicsZNode
from kafkapy.network.peer import BrokerChannel
from kafkapy.replication.fencing import ControllerFence
from kafkapy.types import TopicPartition

FIRST_METADATA_MS: Final = 30_000
REGISTRATION_RETRY_MS: Final = 1_000
"""How long to wait before another try to register under an id that another broker holds."""
ID_IN_USE_MS: Final = 30_000
"""How long a start waits, at least, for the end of the session of a broker that was killed and has its id."""
STORE_PATIENCE_MS: Final = 3_000
"""How long ``stop`` waits for a store that does not answer."""

logger: Final = logging.getLogger(__name__)


class MetadataNode:
    """The server calls ``prepare``, opens logs and sockets, calls ``start``, and at the end ``stop``.

    When the session with the store has expired and another one has begun, the broker registers again, which gives it
    another epoch, and then takes part in the election of the controller. Meanwhile clients are served with the last
    metadata.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MetadataStore,
        channel: BrokerChannel,
        random: Random | None = None,
    ) -> None:
        broker_id = config.broker_id
        self._config = config
        self._inter_broker_listener = config.inter_broker_listener
        self._clock = clock
        self._store = store
        self._random = random or SystemRandom()
        self._endpoints: tuple[BrokerEndpoint, ...] = ()
        self._rejoining: asyncio.Task[None] | None = None
        self._renewal_listeners: list[Callable[[], None]] = []
        self.cluster_id = ""
        self.topic_overrides: Mapping[str, Mapping[str, str]] = {}
        self.cache: Final = MetadataCache()
        self._expected: Final = ExpectedMetadata(clock, store, self.cache)
        self.fence: Final = ControllerFence()
        self.config_admin: Final = ConfigAdmin(config, clock, store)
        self.producer_ids: Final = ProducerIds(broker_id, store)
        self.features: Final = Features(store)
        self.controller: Final = Controller(broker_id, config, clock, store, channel)
        self.topic_admin: Final = TopicAdmin(
            config,
            clock,
            store,
            self.cache,
            self._random,
            self.controller,
        )

    async def prepare(self, known_cluster_id: str | None = None) -> None:
        """Make sure of the tree, get the cluster's id, apply dynamic configuration, read that of the topics.

        ``known_cluster_id``: the store must have this cluster; raises ClusterIdMismatchError before it writes anything.
        """
        if known_cluster_id is not None:
            await check_cluster_id(self._store, known_cluster_id)
        await ensure_persistent_paths(self._store)
        self.cluster_id = await cluster_id(self._store, self._random.randbytes)
        self.cache.set_cluster_id(self.cluster_id)
        if self._config.embedded_store:
            await ensure_path(self._store, FeatureZNode.PATH, FeatureZNode.encode(NEWEST_LEVELS))
        await self.features.load()
        self.add_renewal_listener(self.features.session_renewed)
        self.topic_overrides = await self.config_admin.load(await self._store.children(TopicsZNode.PATH))
        self.cache.add_listener(self._metadata_changed)

    async def start(self, endpoints: Sequence[EndPoint]) -> None:
        """Register with these advertised end points and join the cluster; raises BrokerIdTakenError.

        If this broker becomes the controller, the first metadata is there when this returns.
        """
        self._endpoints = tuple(BrokerEndpoint(*endpoint) for endpoint in endpoints)
        self._store.add_session_listener(self._session_changed)
        with suppress(SessionExpiredError):  # the next session begins with the same
            await self._join_when_free()
        await self.producer_ids.start()
        await self.config_admin.start()
        if self.controller.is_active:
            await self.wait_for_metadata()

    async def wait_for_metadata(self) -> None:
        """Return when the controller has sent this broker the metadata of the whole cluster, or after
        ``FIRST_METADATA_MS``.

        Another broker's controller can do that when requests are served.
        """
        if not await self.cache.wait_until_whole(FIRST_METADATA_MS, self._clock):
            logger.warning("No controller has sent the metadata of the cluster yet")

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Host and port of a broker's listener for other brokers, as the metadata have it; None if it is not alive."""
        broker = self.cache.image.brokers.get(broker_id)
        if broker is None:
            return None
        # Asked for each request to a broker, to see a change of the metadata: only look-ups are here.
        endpoints = broker.endpoints
        endpoint = endpoints.get(self._inter_broker_listener) or next(iter(endpoints.values()))
        return endpoint.host, endpoint.port

    async def advertise(self, endpoints: Sequence[EndPoint]) -> None:
        """Register other end points; while the store does not answer, the next registration has them."""
        self._endpoints = tuple(BrokerEndpoint(*endpoint) for endpoint in endpoints)
        broker_id, rack = self._config.broker_id, self._config.text("broker.rack") or None
        try:
            await change_endpoints(self._store, self._clock, broker_id, self._endpoints, rack)
        except StoreError as error:
            logger.warning("The addresses of the listeners are not registered yet: %s", error)

    def add_renewal_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when another session with the store has begun: what it has watched may have changed."""
        self._renewal_listeners.append(listener)

    async def stop(self) -> None:
        """Leave the cluster."""
        self._stop_rejoining()
        self._expected.stop()
        await self.config_admin.stop()
        await self.features.stop()
        closing: list[asyncio.Task[None]] = []
        late = self._clock.call_later(
            STORE_PATIENCE_MS, lambda: closing.append(asyncio.create_task(self._store.close(), name="close-store"))
        )
        await self.controller.stop()
        late.cancel()
        await asyncio.gather(self._store.close(), *closing)

    async def _join_when_free(self) -> None:
        """Join; while another session holds the broker's id, wait until that of a broker that was killed has ended."""
        wait_ms = 0.0
        if not self._config.embedded_store:
            # ZooKeeper ends a session late: it looks for dead ones now and then, and begins anew after a failover.
            wait_ms = max(self._config.integer("zookeeper.session.timeout.ms") * 2, ID_IN_USE_MS)
        last_s = self._clock.monotonic_s() + wait_ms / 1000
        is_told = False
        while True:
            try:
                await self._join()
            except BrokerIdTakenError as error:
                if self._clock.monotonic_s() >= last_s:
                    raise
                if not is_told:
                    logger.warning("%s. Waiting up to %.0f s for that", error, wait_ms / 1000)
                    is_told = True
            else:
                return
            await self._clock.sleep(REGISTRATION_RETRY_MS)

    async def _join(self) -> None:
        """Register, and elect a controller if there is none."""
        await self._expected.expect()
        broker_id, rack = self._config.broker_id, self._config.text("broker.rack") or None
        self.fence.broker_epoch = await register(self._store, self._clock, broker_id, self._endpoints, rack)
        await self.controller.start()

    def _session_changed(self, event: SessionEvent) -> None:
        self._stop_rejoining()
        if event is SessionEvent.EXPIRED:
            logger.warning("The session with the metadata store has expired; the broker registers again")
            self.controller.session_expired()
        else:
            self.config_admin.session_renewed()
            for listener in self._renewal_listeners:
                listener()
            self._rejoining = asyncio.create_task(self._rejoin(), name="rejoin-cluster")

    async def _rejoin(self) -> None:
        try:
            while not await self._has_joined():
                await self._clock.sleep(REGISTRATION_RETRY_MS)
        except SessionEndedError as error:
            logger.info("The broker is not registered: %s", error)

    async def _has_joined(self) -> bool:
        try:
            await self._join()
        except SessionEndedError:
            raise
        except (BrokerIdTakenError, StoreError) as error:
            logger.error("The broker is not registered, trying again: %s", error)
            return False
        logger.info("The broker is registered again, with epoch %d", self.fence.broker_epoch)
        return True

    def _stop_rejoining(self) -> None:
        if self._rejoining is not None:
            self._rejoining.cancel()
            self._rejoining = None

    def _metadata_changed(self, _image: object, deleted: Sequence[TopicPartition]) -> None:
        for topic in {partition.topic for partition in deleted}:
            self.config_admin.forget_topic(topic)
