"""The high-level consumer of Kafka's original design: streams of the partitions that ZooKeeper shares out to a group.

Each consumer of a group registers in ``/consumers/<group>/ids``, watches the other registrations and the topics, and
at every change computes by itself which partitions are its own (``assignment.py``). The order of a rebalance:

1. Read who is registered and which partitions there are. If the consumer owns its share already, all is done.
2. Stop the fetchers; take the records away from the streams, after which the users' positions no longer move.
3. Commit these positions (with ``auto.commit.enable``), then delete the own nodes below ``/consumers/<group>/owners``.
4. Create an ephemeral node for each partition of the new share. If another consumer still has one, delete the new nodes
   and begin at 1 after ``rebalance.backoff.ms``.
5. Read the committed offsets. (The original reads them before 4, and may miss the last commit of the previous owner.)
6. Start the fetchers.

A crash before 3 leaves nodes until the session expires, and uncommitted positions: the next owner delivers those
records again. No record is skipped, since an owner's last commit comes before its node is deleted. A session that has
expired gives up everything at once, without a commit: another consumer may own the partitions already. The next
``commit_offsets`` says so.

>>> properties = {"zookeeper.connect": "127.0.0.1:2181", "group.id": "readers"}
>>> with ConsumerConnector(properties) as connector:
...     (stream,) = connector.create_message_streams({"flights": 1})["flights"]
...     for record in stream:
...         print(record.partition, record.offset, record.message)
"""

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from kafkapy.clients.errors import ClientError
from kafkapy.clients.original.assignment import assign_to, thread_id
from kafkapy.clients.original.fetching import PartitionFetcher, Room
from kafkapy.clients.original.offset_stores import DualOffsets, KafkaOffsets, OffsetStore, Place, ZooKeeperOffsets
from kafkapy.clients.original.registry import (
    BROKERS,
    TOPICS,
    KazooRegistry,
    Registry,
    RegistryError,
    bootstrap_of,
    partitions_of,
)
from kafkapy.clients.original.settings import ConsumerConnectorSettings
from kafkapy.clients.original.streams import (
    Decoder,
    KafkaStream,
    OwnedPartition,
    position_of,
)
from kafkapy.clients.original.subscription import Subscription, SubscriptionError, TopicFilter
from kafkapy.clock import Clock, SystemClock

LEAST_PAUSE_S: Final = 0.1
"""The shortest pause before another rebalance after ``rebalance.max.retries``."""
JOIN_S: Final = 5.0
"""How long ``shutdown`` waits for a thread; all are daemons."""
_SYSTEM_CLOCK: Final = SystemClock()

logger = logging.getLogger(__name__)


class ConsumerRebalanceFailedError(ClientError):
    """The consumer could not claim its partitions within ``rebalance.max.retries`` attempts."""


class OffsetsLostError(ClientError):
    """Partitions were given up before their positions were committed: other consumers may read the records again."""


def _bytes(data: bytes) -> bytes:
    return data


class ConsumerConnector:
    """One consumer of a group; ``properties`` are settings of Kafka 0.8.2's consumer by name (``settings.py``).

    ``registry`` is used, and closed at the end, in place of a connection to ``zookeeper.connect``. The connector is
    closed by ``shutdown`` or as a context manager. Raises SettingsError, and RegistryError without a ZooKeeper.
    """

    def __init__(
        self, properties: Mapping[str, str], *, registry: Registry | None = None, clock: Clock = _SYSTEM_CLOCK
    ) -> None:
        self._settings = settings = ConsumerConnectorSettings.from_properties(properties)
        self._clock = clock
        self._registry: Registry = KazooRegistry(settings.zookeeper) if registry is None else registry
        unique = f"{socket.gethostname()}-{clock.now_ms()}-{uuid.uuid4().hex[:8]}"
        self.consumer_id: Final = f"{settings.group_id}_{settings.consumer_id or unique}"
        """The name of the registration."""
        self._group = f"/consumers/{settings.group_id}"
        self._offsets = self._offset_store()
        self._room = Room()
        self._fetcher: PartitionFetcher | None = None
        self._subscription: Subscription | None = None
        self._streams: dict[str, list[KafkaStream]] = {}
        self._by_filter: list[KafkaStream] = []
        self._owned: dict[Place, OwnedPartition] = {}
        self._claimed: set[Place] = set()  # partitions whose nodes of owners may exist
        self._turn = threading.RLock()  # held by a rebalance, a commit and the shutdown
        self._changed = threading.Event()
        self._session_is_new = False
        self._lost: set[Place] = set()  # given up with records that were not committed, and not reported yet
        self._stopped = threading.Event()
        self._is_shut_down = False
        self._threads: list[threading.Thread] = []

    def _offset_store(self) -> OffsetStore:
        settings = self._settings
        zookeeper = ZooKeeperOffsets(self._registry, settings.group_id)
        if settings.offsets_storage == "zookeeper":
            return zookeeper
        kafka = KafkaOffsets(self._registry, settings.group_id, settings.socket_timeout_ms / 1000)
        return DualOffsets(kafka, zookeeper) if settings.dual_commit_enabled else kafka

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

    @property
    def owned(self) -> list[Place]:
        """The partitions that this consumer owns at the moment, sorted."""
        return sorted(self._owned)

    def create_message_streams(
        self, streams: Mapping[str, int], key_decoder: Decoder = _bytes, value_decoder: Decoder = _bytes
    ) -> dict[str, list[KafkaStream]]:
        """Topic → as many streams as the number asks for; each stream gets whole partitions.

        Returns after the first rebalance. May be called once, or ``create_message_streams_by_filter`` in its place.
        Raises ConsumerRebalanceFailedError, SubscriptionError and RegistryError.
        """
        subscription = Subscription.of_topics(streams)
        self._subscribe_once()
        self._streams = {
            topic: [self._stream(key_decoder, value_decoder) for _ in range(count)] for topic, count in streams.items()
        }
        self._join(subscription)
        return {topic: list(found) for topic, found in self._streams.items()}

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        streams: int = 1,
        key_decoder: Decoder = _bytes,
        value_decoder: Decoder = _bytes,
    ) -> list[KafkaStream]:
        """Streams of all topics that a white or black list allows, also of those that are created later.

        See ``create_message_streams``.
        """
        subscription = Subscription.of_filter(topic_filter, streams)
        self._subscribe_once()
        self._by_filter = [self._stream(key_decoder, value_decoder) for _ in range(streams)]
        self._join(subscription)
        return list(self._by_filter)

    def _subscribe_once(self) -> None:
        if self._streams or self._by_filter:
            raise SubscriptionError("streams can be created once for each connector: make another connector")

    def _stream(self, key_decoder: Decoder, value_decoder: Decoder) -> KafkaStream:
        settings = self._settings
        decoders = (key_decoder, value_decoder)
        timeout_ms = settings.consumer_timeout_ms
        return KafkaStream(settings.queued_max_message_chunks, timeout_ms, decoders, self._room.appeared)

    def _all_streams(self) -> list[KafkaStream]:
        return [*self._by_filter, *(stream for streams in self._streams.values() for stream in streams)]

    def _join(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._registry.on_new_session(self._session_replaced)
        with self._turn:
            self._register()
            self._sync_rebalance()
        self._start(self._watch, "rebalancer")
        if self._settings.auto_commit_enable:
            self._start(self._commit_regularly, "committer")

    def _start(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=f"kafkapy-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _register(self) -> None:
        """Create the registration; waits for one of an earlier session with the same ``consumer.id`` to expire."""
        assert self._subscription is not None, "there are streams"
        path = f"{self._group}/ids/{self.consumer_id}"
        for parent in (f"{self._group}/owners", BROKERS, TOPICS):  # a node that does not exist can't be watched
            self._registry.ensure(parent)
        for _ in range(self._settings.rebalance_max_retries):
            if self._registry.create_ephemeral(path, self._subscription.to_json(self._clock.now_ms())):
                return
            self._stopped.wait(self._settings.zookeeper.session_timeout_ms / 1000)
        raise RegistryError(f"{path} belongs to another session: give each consumer another consumer.id, or none")

    # changes of the group

    def _noticed(self, _event: object) -> None:
        self._changed.set()

    def _session_replaced(self) -> None:
        self._session_is_new = True
        self._changed.set()

    def _watch(self) -> None:
        """Rebalance after each change, until the shutdown; after a failure without a change too.

        An attempt that failed may have left no watch, for example while ZooKeeper was away.
        """
        pause_s = max(self._settings.rebalance_backoff_ms / 1000, LEAST_PAUSE_S)
        succeeded = True
        while not self._stopped.is_set():
            self._changed.wait(None if succeeded else pause_s)
            with self._turn:
                if not self._stopped.is_set():
                    succeeded = self._react()

    def _react(self) -> bool:
        """Rebalance; tell the streams, and return, whether it has succeeded."""
        try:
            self._sync_rebalance()
        except ClientError as error:
            logger.error("%s owns no partitions: %s", self.consumer_id, error)
            for stream in self._all_streams():
                stream.fail(error)
            return False
        for stream in self._all_streams():
            stream.fail(None)
        return True

    def _sync_rebalance(self) -> None:
        """Rebalance, with retries; raises ConsumerRebalanceFailedError."""
        reason = ""
        for _ in range(self._settings.rebalance_max_retries):
            self._changed.clear()
            try:
                self._renew()
                reason = self._rebalance()
            except ClientError as error:
                reason = str(error)
            if not reason:
                return
            logger.info("%s tries to rebalance again: %s", self.consumer_id, reason)
            self._give_up()
            if self._stopped.wait(self._settings.rebalance_backoff_ms / 1000):
                return
        raise ConsumerRebalanceFailedError(
            f"{self.consumer_id} can't rebalance after {self._settings.rebalance_max_retries} attempts ({reason}):"
            " increase rebalance.max.retries or rebalance.backoff.ms"
        )

    def _renew(self) -> None:
        """In a new session, register again: the nodes of the old one are gone."""
        if self._session_is_new:
            logger.warning("The registration of %s has gone with its session: it registers again", self.consumer_id)
            self._session_is_new = False  # before the registration: this session may expire too
            try:
                self._give_up()
                self._register()
            except ClientError:
                self._session_is_new = True
                raise

    def _rebalance(self) -> str:
        """One attempt; returns why it has to be repeated, or an empty text. Raises ClientError."""
        share = self._share()
        if share is None:
            return ""  # without brokers there is nothing to do until one registers
        if self._owned and self._is_owned(share):
            return ""
        self._stop_fetching()
        if self._settings.auto_commit_enable:
            self._commit()
        self._release_owners()
        for place, number in share.items():
            if not self._claim(place, number):
                return f"{place[0]}-{place[1]} still has another owner"
            self._owned[place] = OwnedPartition(*place, self._stream_of(place, number))
        for place, offset in self._offsets.fetch(share).items():
            self._owned[place].begin(offset)
        self._fetcher = PartitionFetcher(self._settings, lambda: bootstrap_of(self._registry), self._room)
        self._fetcher.start(self._owned.values())
        logger.info("%s owns %s", self.consumer_id, sorted(self._owned))
        return ""

    def _is_owned(self, share: Mapping[Place, int]) -> bool:
        """Whether each partition of the share, and no other, is owned by the stream that it names."""
        streams = {place: self._stream_of(place, number) for place, number in share.items()}
        return streams == {place: owned.stream for place, owned in self._owned.items()}

    def _share(self) -> dict[Place, int] | None:
        """Partition → number of the own stream, by what the registry says now; None without brokers. Sets watches."""
        assert self._subscription is not None, "there are streams"
        if not self._registry.children(BROKERS, self._noticed):
            return None
        members = {}
        for consumer_id in self._registry.children(f"{self._group}/ids", self._noticed):
            content = self._registry.get(f"{self._group}/ids/{consumer_id}")
            if content is not None:
                members[consumer_id] = Subscription.from_json(content)
        if self.consumer_id not in members:
            self._session_is_new = True  # the next attempt registers again
            raise RegistryError(f"the registration of {self.consumer_id} is gone")
        excludes = self._settings.exclude_internal_topics
        existing = self._registry.children(TOPICS, self._noticed) if self._by_filter else ()
        wanted = self._subscription.topics_of(existing, exclude_internal=excludes)
        partitions = {topic: partitions_of(self._registry, topic, self._noticed) for topic in wanted}
        return assign_to(self.consumer_id, members, partitions, exclude_internal=excludes)

    def _stream_of(self, place: Place, number: int) -> KafkaStream:
        return (self._by_filter or self._streams[place[0]])[number]

    def _owner_path(self, place: Place) -> str:
        return f"{self._group}/owners/{place[0]}/{place[1]}"

    def _claim(self, place: Place, number: int) -> bool:
        self._claimed.add(place)
        return self._registry.create_ephemeral(self._owner_path(place), thread_id(self.consumer_id, number).encode())

    def _stop_fetching(self) -> None:
        if self._fetcher is not None:
            self._fetcher.stop()
        for stream in self._all_streams():
            stream.release()

    def _release_owners(self) -> None:
        """Delete the own nodes of owners, and none of another consumer's; those that are left after an error too."""
        self._owned.clear()
        for place in sorted(self._claimed):
            content = self._registry.get(self._owner_path(place))
            if content is not None and content.decode(errors="replace").rpartition("-")[0] == self.consumer_id:
                self._registry.delete(self._owner_path(place))
            self._claimed.discard(place)

    def _give_up(self) -> None:
        """Own nothing, without a commit: after a claim that failed, or a session that has expired."""
        self._stop_fetching()
        self._lost.update(place for place, each in self._owned.items() if each.consumed_offset != each.begun_offset)
        try:
            self._release_owners()
        except RegistryError as error:  # the next rebalance deletes them, or they disappear with the session
            logger.warning("%s can't release its partitions: %s", self.consumer_id, error)

    # offsets

    def commit_offsets(self) -> None:
        """Commit the offset after the last record that was returned, of each owned partition.

        A record counts as consumed when ``next`` has returned it. Raises ClientError after
        ``offsets.commit.max.retries`` further attempts. Raises OffsetsLostError, once and without a commit, if
        partitions were given up before a commit, as after the end of the session: what ``next`` has returned of them
        since the last commit will be delivered again.
        """
        with self._turn:
            if self._session_is_new:
                self._give_up()
            self._check_lost()
            self._commit_with_retries()

    def _commit_with_retries(self) -> None:
        for left in range(self._settings.offsets_commit_max_retries, -1, -1):
            try:
                self._commit()
            except ClientError:
                if left == 0:
                    raise
            else:
                return

    def _check_lost(self) -> None:
        if self._lost:
            places = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(self._lost))
            self._lost.clear()
            raise OffsetsLostError(
                f"{self.consumer_id} has given up {places} before a commit, since its session expired or it could not"
                " rebalance: records since the last commit will be delivered again"
            )

    def _commit(self) -> None:
        positions = {place: position_of(owned) for place, owned in self._owned.items()}
        known = {place: offset for place, offset in positions.items() if offset is not None}
        self._offsets.commit(known)
        for place, offset in known.items():
            self._owned[place].begun_offset = offset

    def _commit_regularly(self) -> None:
        """Commit every ``auto.commit.interval.ms``; what fails is committed the next time."""
        while not self._stopped.wait(self._settings.auto_commit_interval_ms / 1000):
            with self._turn:
                try:
                    if not self._stopped.is_set() and not self._session_is_new:
                        self._commit()
                except ClientError as error:
                    logger.warning("Offsets of %s are not committed: %s", self.consumer_id, error)

    def shutdown(self) -> None:
        """End the streams, commit (with ``auto.commit.enable``), and leave the group; may be called repeatedly.

        Raises ClientError if the commit fails; the group has been left then as well.
        """
        self._stopped.set()  # ends the pauses of a rebalance
        self._changed.set()
        with self._turn:
            if self._is_shut_down:
                return
            self._is_shut_down = True
            self._stop_fetching()
            for stream in self._all_streams():
                stream.close()
        for thread in self._threads:
            thread.join(JOIN_S)
        if self._fetcher is not None:
            self._fetcher.join(JOIN_S)
        try:
            if self._settings.auto_commit_enable and not self._session_is_new:
                self._commit_with_retries()
        finally:
            self._give_up()
            self._offsets.close()
            self._registry.close()
