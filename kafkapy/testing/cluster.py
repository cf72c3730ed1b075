"""Several brokers of one cluster in this process, for blocking tests: ``with Cluster(brokers=3) as cluster``."""

from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kafkapy.records.record import Headers, Record
from kafkapy.testing.broker import LIMIT_S, WAIT_S, Broker
from kafkapy.testing.contents.records import RecordSelection, TopicRecord
from kafkapy.testing.contents.topics import TopicShape
from kafkapy.testing.errors import BrokerNotRunningError
from kafkapy.testing.hosting.cluster_surface import ClusterMember, ClusterSurface
from kafkapy.testing.hosting.settings import texts
from kafkapy.testing.loop.calls import check_process
from kafkapy.testing.loop.thread import LoopThread
from kafkapy.types import NO_TIMESTAMP

T = TypeVar("T")

THREAD_NAME: Final = "kafkapy-cluster"
NOT_STARTED: Final = "the cluster was not started: use it as `with Cluster() as cluster:`"


class ClusterBroker(ClusterMember, Broker):
    """One broker of a ``Cluster``, which starts and closes it; ``stop``, ``kill`` and ``start`` are for tests.

    When ``start``, ``stop`` or ``kill`` returns, the other brokers know of it, unless brokers are paused or separated.
    Its records and groups are those of this broker: the partitions that it holds a replica of, and the groups that it
    coordinates.
    """

    def start(self) -> Self:
        """Start the broker again; does nothing while it runs."""
        if self._thread is None:
            raise BrokerNotRunningError(NOT_STARTED)
        self._call(self._host.start())
        return self

    def close(self) -> None:
        """Stop the broker; its port and its records are kept until the cluster is closed."""
        self.stop()


class Cluster(ClusterSurface[ClusterBroker]):
    """Brokers of one cluster on free loopback ports, in one thread of this process, closed at the end of the ``with``.

    ``settings`` are Kafka's keys of ``server.properties``, for all brokers; ``topics`` are names, or names with numbers
    of partitions, to create at the start. Unless ``settings`` say otherwise, topics are replicated on three brokers, or
    on all if there are fewer. Records and metadata are in the directory ``data``, which is kept, or else in temporary
    ones and in memory. ``security`` and ``users`` are those of ``Broker``, for clients and between the brokers, which
    log in as the user admin. ``act_as`` is that of ``Broker``, but old versions are kept, since brokers send them.
    ``port`` is the first broker's; the others have the ones after it. All brokers have the same clock.

    The ``with`` and ``start`` raise ``BrokerStartError``. All methods may be called from any thread; a forked child can
    do as much with a cluster as with a ``Broker``.
    """

    kind = ClusterBroker

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # lifecycle

    def start(self) -> Self:
        """Start all brokers; does nothing if the cluster was started."""
        if self._thread is not None:
            check_process(self._thread.process)
        with self._lifecycle:
            if self._thread is None:
                try:
                    self._thread = LoopThread(THREAD_NAME)
                    self._thread.start()
                    self._give_brokers(self._thread)
                    self._call(self._hosted.start())
                except BaseException:
                    self.close()
                    raise
        return self

    def close(self) -> None:
        """Stop all brokers, and release ports, thread and directories; the end of the ``with`` calls it."""
        if self._is_inherited:
            return
        with self._lifecycle:
            thread = self._thread
            if thread is not None:
                self._give_brokers(None)
                try:
                    if thread.is_running:
                        thread.call(self._hosted.close(), LIMIT_S)
                finally:
                    thread.close()
                    self._thread = None

    # roles

    @property
    def controller(self) -> ClusterBroker:
        """The broker that elects leaders, once there is one."""
        return self._broker(self._call(self._hosted.controller()))

    def leader(self, topic: str, partition: int = 0, *, timeout_s: float = WAIT_S) -> ClusterBroker:
        """The broker that leads a partition, once one that runs does.

        Raises ``UnknownNameError`` and ``NotInTimeError``.
        """
        return self._broker(self._call(self._hosted.leader(topic, partition, timeout_s), timeout_s + LIMIT_S))

    def coordinator(self, group: str, *, timeout_s: float = WAIT_S) -> ClusterBroker:
        """The broker that coordinates a consumer group, once one that runs does.

        Raises ``NotInTimeError``, and ``UnknownNameError`` before a consumer has made ``__consumer_offsets``.
        """
        return self._broker(self._call(self._hosted.coordinator(group, timeout_s), timeout_s + LIMIT_S))

    def wait_until_in_sync(self, topic: str | None = None, *, timeout_s: float = WAIT_S) -> None:
        """Wait until every replica of a topic, or of all topics, is in sync.

        Raises ``UnknownNameError``, and ``NotInTimeError``, which names the partitions with replicas that are not.
        """
        self._call(self._hosted.in_sync(topic, timeout_s), timeout_s + LIMIT_S)

    # topics and records

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic with Kafka's settings, and wait until its leaders and all brokers know it.

        Without ``replication_factor`` it is ``default.replication.factor``. Raises ``RequestRefusedError``.
        """
        shape = TopicShape(partitions, replication_factor, texts(configs or {}))
        self._call(self._hosted.create_topic(name, shape))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises ``RequestRefusedError``."""
        self._call(self._hosted.delete_topic(name))

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int = NO_TIMESTAMP,
    ) -> TopicRecord:
        """``Broker.produce``, to the leader of the partition."""
        return self._call(self._hosted.produce(topic, partition, Record(key, value, timestamp, headers)))

    def records(self, topic: str, *, partition: int | None = None, read_committed: bool = False) -> list[TopicRecord]:
        """``Broker.records``, from the leaders of the topic's partitions; a new leader's followers are waited for.

        Raises ``UnknownNameError`` and ``NotInTimeError``.
        """
        return self._call(self._hosted.records(RecordSelection(topic, partition, read_committed), WAIT_S))

    def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        read_committed: bool = False,
        timeout_s: float = WAIT_S,
    ) -> list[TopicRecord]:
        """``Broker.wait_for_records``, from the leaders of the topic's partitions."""
        selection = RecordSelection(topic, partition, read_committed)
        return self._call(self._hosted.wait_for_records(selection, count, timeout_s), timeout_s + LIMIT_S)

    # the network

    def separate(self, *groups: Iterable[int]) -> None:
        """Break the connections between brokers of different groups, and refuse new ones, until ``heal``.

        ``separate([0])`` cuts broker 0 off from all others, ``separate([0, 1], [2])`` these two groups from each other;
        brokers that are in no group form one together. Clients still reach every broker, and every broker the
        metadata store. Raises ``UnknownNameError``.
        """
        self._call(self._hosted.separate([tuple(group) for group in groups]))

    def heal(self) -> None:
        """Let all brokers connect to each other again."""
        if not self._is_inherited:
            self._call(self._hosted.heal())

    @contextmanager
    def separated(self, *groups: Iterable[int]) -> Iterator[None]:
        """``separate`` for the length of a block."""
        self.separate(*groups)
        try:
            yield
        finally:
            self.heal()

    def _call(self, coroutine: Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
        thread = self._thread  # another thread may close it meanwhile
        if thread is None:
            coroutine.close()
            raise BrokerNotRunningError(NOT_STARTED)
        return thread.call(coroutine, limit_s)
