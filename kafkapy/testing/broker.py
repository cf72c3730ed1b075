"""A broker in this process, for blocking tests: ``with Broker() as broker``."""

from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kafkapy.records.record import Headers, Record
from kafkapy.testing.contents.groups import GroupMember
from kafkapy.testing.contents.records import RecordSelection, TopicRecord
from kafkapy.testing.errors import BrokerNotRunningError
from kafkapy.testing.hosting.surface import HostedSurface
from kafkapy.testing.loop.calls import check_process
from kafkapy.testing.loop.thread import LoopThread
from kafkapy.types import NO_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    from kafkapy.testing.contents.registry import EmbeddedRegistry

T = TypeVar("T")

THREAD_NAME: Final = "kafkapy-broker"
WAIT_S: Final = 10.0
"""The default time-out of the ``wait_…`` methods."""
LIMIT_S: Final = 60.0
"""The time-out of all other calls."""


class Broker(HostedSurface):
    """A Kafka broker on a free loopback port, in a thread of this process, closed at the end of the ``with``.

    ``settings`` are Kafka's keys of ``server.properties``; ``topics`` are names, or names with numbers of partitions,
    to create at the start. With ``security`` ("ssl", "mtls", "sasl_ssl", "sasl_plaintext", "scram", "scram_plaintext",
    "oauth", "oauth_unsecured") clients connect with TLS and SASL, as one of ``users`` (passwords by name; there are
    three without it), and ``client_settings`` has what they need. With ``act_as`` ("2.7", "3.9" or "4.4") the broker
    serves the APIs and versions of that release of Apache Kafka and no others. Records are in the directory ``data``,
    which is kept, or else in a temporary one. ``stop``, ``start``, ``restart`` and ``kill`` keep the port and the
    records, also without ``data``.

    The ``with`` and ``start`` raise ``BrokerStartError`` with one line that says what to do; every other method raises
    ``BrokerNotRunningError`` when the broker is stopped, and ``NotInTimeError`` after its time-out. All methods may be
    called from any thread.

    A forked child has the addresses, for its clients. There ``close``, ``stop`` and all that ends a fault do nothing,
    so that a child may leave a ``with``; all else that needs the broker raises ``BrokerNotRunningError``.
    """

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # lifecycle

    def start(self) -> Self:
        """Start the broker; does nothing while it runs."""
        if self._thread is not None:
            check_process(self._thread.process)
        with self._lifecycle:
            is_first = self._thread is None
            try:
                if self._thread is None:
                    self._thread = LoopThread(THREAD_NAME)
                    self._thread.start()
                self._call(self._host.start())
            except BaseException:
                if is_first:
                    self.close()
                raise
        return self

    def stop(self) -> None:
        """Stop the broker cleanly; records and port are kept for ``start``. Does nothing while it is stopped."""
        if not self._is_inherited:
            self._call(self._host.stop())

    def kill(self) -> None:
        """Stop as if the broker's process were killed: connections break, waiting requests get no answer.

        Acknowledged records are there after the next ``start``, which recovers the logs.
        """
        self._call(self._host.kill())

    def restart(self) -> None:
        """``stop`` and ``start``."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker, and release port, thread and temporary directory; the end of the ``with`` calls it."""
        if self._is_inherited:
            return
        with self._lifecycle:
            thread = self._thread
            if thread is not None:
                try:
                    if thread.is_running:
                        thread.call(self._host.close(), LIMIT_S)
                finally:
                    thread.close()
                    self._thread = None

    def registry(self) -> "EmbeddedRegistry":
        """A session of the broker's own metadata tree, in place of one with a ZooKeeper.

        A ``ConsumerConnector`` or an original producer (``docs/original_clients.md``) takes one as its ``registry``,
        and closes it. It ends with the broker, also at a restart.
        """
        from kafkapy.testing.contents.registry import EmbeddedRegistry  # few tests need it

        session = self._call(self._host.new_store_session())
        return EmbeddedRegistry(session, self._call)

    # topics, records, groups

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        *,
        replication_factor: int | None = None,
    ) -> None:
        """Create a topic with Kafka's settings, and wait for its leaders. Raises ``RequestRefusedError``.

        Without ``replication_factor`` a broker of a ``Cluster`` takes ``default.replication.factor``.
        """
        self._call(self._helpers.create_topic(name, partitions, configs or {}, replication_factor))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises ``UnknownNameError`` and ``RequestRefusedError``."""
        self._call(self._helpers.delete_topic(name))

    def topics(self) -> dict[str, int]:
        """The topics and how many partitions each has, without Kafka's internal topics."""
        return self._call(self._helpers.topics())

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
        """Append one record to an existing topic with acks=all; return the record with its offset.

        Without ``partition`` it is appended to the partition that Java's producer chooses for the key, or to 0 without
        a key; without ``timestamp`` (ms) it has the broker's time. Raises ``UnknownNameError`` and
        ``RequestRefusedError``.
        """
        return self._call(self._helpers.produce(topic, partition, Record(key, value, timestamp, headers)))

    def records(self, topic: str, *, partition: int | None = None, read_committed: bool = False) -> list[TopicRecord]:
        """All records of a topic, or of one of its partitions, by partition and offset.

        With ``read_committed`` those of open and aborted transactions are left out. Raises ``UnknownNameError``.
        """
        return self._call(self._helpers.records(RecordSelection(topic, partition, read_committed)))

    def wait_for_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        read_committed: bool = False,
        timeout_s: float = WAIT_S,
    ) -> list[TopicRecord]:
        """As ``records``, once there are at least ``count``; raises ``NotInTimeError`` too."""
        return self._call(
            self._helpers.wait_for_records(RecordSelection(topic, partition, read_committed), count, timeout_s),
            timeout_s + LIMIT_S,
        )

    def groups(self) -> list[str]:
        """The names of the consumer groups."""
        return self._call(self._helpers.groups())

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The offsets that a group has committed. Raises ``UnknownNameError``."""
        return self._call(self._helpers.committed(group))

    def lag(self, group: str) -> dict[TopicPartition, int]:
        """How many records each partition has after the group's committed offset.

        The partitions are those of every topic that a member subscribes to or the group has committed an offset for;
        without a committed offset all records count. Keys equal plain ``(topic, partition)``. Raises
        ``UnknownNameError``.
        """
        return self._call(self._helpers.lag(group))

    def wait_until_stable(
        self, group: str, *, members: int | None = None, timeout_s: float = WAIT_S
    ) -> list[GroupMember]:
        """Wait until a group is stable; return its members and their partitions.

        Stable means that every member has its assignment, and every partition of the subscribed topics is assigned.
        Pass the number of ``members`` if there will be more than one: a group with only the first one is stable too.
        The group need not exist yet. Raises ``NotInTimeError``, which describes the group's state.
        """
        return self._call(self._helpers.wait_until_stable(group, members, timeout_s), timeout_s + LIMIT_S)

    def wait_until_caught_up(self, group: str, *, timeout_s: float = WAIT_S) -> None:
        """Wait until a group has committed the end offsets of its partitions. Raises ``NotInTimeError``."""
        self._call(self._helpers.wait_until_caught_up(group, timeout_s), timeout_s + LIMIT_S)

    def _call(self, coroutine: Coroutine[Any, Any, T], limit_s: float = LIMIT_S) -> T:
        thread = self._thread  # another thread may close it meanwhile
        if thread is None:
            coroutine.close()
            raise BrokerNotRunningError("the broker was not started: use it as `with Broker() as broker:`, or start()")
        return thread.call(coroutine, limit_s)
