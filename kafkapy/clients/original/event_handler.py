"""Sends batches of messages: encode, choose partitions, one request for each leader, and again what has failed.

It is the default of the producer's ``event_handler`` (``kafka.producer.async.DefaultEventHandler``).
"""

import logging
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import ClientError, RequestFailedError, check
from kafkapy.clients.original.discovery import Address, BrokerDiscovery, Leaders
from kafkapy.clients.original.keyed_messages import Encoder, KeyedMessage, Partitioner
from kafkapy.clients.original.settings import OriginalProducerSettings
from kafkapy.clock import Clock
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkapy.records.record import Record, encode_batch

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
BAD_MESSAGE: Final = (ClientError, ValueError, TypeError)
"""The errors that encoders and partitioners raise for a message that they can't take."""
_NO_PARTITION: Final = -1
T = TypeVar("T")

logger = logging.getLogger(__name__)


class FailedToSendError(ClientError):
    """Messages that were not sent after ``message.send.max.retries``; ``messages`` are these, in order."""

    def __init__(self, messages: Sequence[KeyedMessage], reason: str) -> None:
        super().__init__(f"{len(messages)} messages were not sent: {reason}")
        self.messages = messages


class EventHandler(Protocol):
    """The next stage, to which a producer passes its batches."""

    def handle(self, messages: Sequence[KeyedMessage]) -> None:
        """Send the messages; raises ClientError for those that can't be sent."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class _Encoded:
    """A message with its bytes; the partition is chosen anew for each attempt."""

    __slots__ = ("message", "record", "topic")

    def __init__(self, message: KeyedMessage, record: Record) -> None:
        self.message = message
        self.topic = message.topic
        self.record = record


_Batches = dict[tuple[str, int], list[_Encoded]]
_Failures = dict[tuple[str, int], ClientError]


class DefaultEventHandler:
    """See ``EventHandler``; ``handle`` is called by one thread at a time."""

    def __init__(
        self,
        settings: OriginalProducerSettings,
        discovery: BrokerDiscovery,
        encoders: tuple[Encoder, Encoder],
        partitioner: Partitioner,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._settings = settings
        self._discovery = discovery
        self._encode_key, self._encode_value = encoders
        self._partitioner = partitioner
        self._clock = clock
        self._rng = rng
        self._connections: dict[Address, Connection] = {}
        self._pause = threading.Event()

    def handle(self, messages: Sequence[KeyedMessage]) -> None:
        """See ``EventHandler.handle``: raises FailedToSendError.

        A message that an encoder or the partitioner does not take is logged and left out by an asynchronous producer;
        a synchronous one raises what they raise, and then no message of the call is sent.
        """
        encoded = [self._unless_bad(partial(self._encoded, message), message) for message in messages]
        left = [each for each in encoded if each is not None]
        reason = ""
        for attempt in range(self._settings.message_send_max_retries + 1):
            if attempt:
                self._pause.wait(self._settings.retry_backoff_ms / 1000)
                self._discovery.forget()
            left, reason = self._attempt(left)
            if not left:
                return
            logger.warning("%d of %d messages were not sent: %s", len(left), len(messages), reason)
        raise FailedToSendError([each.message for each in left], reason)

    def close(self) -> None:
        """See ``EventHandler.close``."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._discovery.close()

    def _unless_bad(self, make: Callable[[], T], message: KeyedMessage) -> T | None:
        """The result of ``make`` for a message; with an asynchronous producer None if it raises ``BAD_MESSAGE``."""
        try:
            return make()
        except BAD_MESSAGE as error:
            if not self._settings.is_async:
                raise
            logger.error("A message for topic %s is dropped: %s", message.topic, error)
            return None

    def _encoded(self, message: KeyedMessage) -> _Encoded:
        key = None if message.key is None else self._encode_key(message.key)
        value = None if message.message is None else self._encode_value(message.message)
        return _Encoded(message, Record(key, value, timestamp=self._clock.now_ms()))

    def _attempt(self, messages: list[_Encoded]) -> tuple[list[_Encoded], str]:
        """Send what can be sent; return the other messages, in order, and why."""
        by_leader: dict[Address, _Batches] = {}
        failed: dict[_Encoded, str] = {}
        try:
            known = {topic: self._discovery.leaders(topic) for topic in {each.topic for each in messages}}
        except ClientError as error:
            return messages, str(error)
        for each in messages:
            partition = self._unless_bad(partial(self._partition_of, each, known[each.topic]), each.message)
            if partition is None:
                continue
            leader = known[each.topic].get(partition)
            if leader is None:
                failed[each] = f"topic {each.topic} has no partition with a leader for it"
            else:
                by_leader.setdefault(leader, {}).setdefault((each.topic, partition), []).append(each)
        for leader, batches in by_leader.items():
            failed.update(self._send(leader, batches))
        reason = list(failed.values())[-1] if failed else ""
        return [each for each in messages if each in failed], reason

    def _partition_of(self, each: _Encoded, leaders: Leaders) -> int:
        """A partition with a leader at random without a key, else the one that the partitioner chooses.

        ``_NO_PARTITION`` if there is none; raises what the partitioner raises.
        """
        key = each.message.chooses_by
        if key is None:
            alive = [partition for partition, leader in leaders.items() if leader is not None]
            return self._rng.choice(alive) if alive else _NO_PARTITION
        if not leaders:
            return _NO_PARTITION
        partition = self._partitioner(key, len(leaders))
        if not 0 <= partition < len(leaders):
            raise ClientError(f"the partitioner chose {partition} for {key!r}: it must be from 0 to {len(leaders) - 1}")
        return partition

    def _send(self, leader: Address, batches: _Batches) -> dict[_Encoded, str]:
        """Send one request, and what is too large for ``max.message.bytes`` in halves; return what failed, and why.

        In Kafka 0.8 that limit is for each message of a batch; in the record format of 0.11 it is for the whole batch.
        """
        failed: dict[_Encoded, str] = {}
        for place, error in self._produce(leader, batches).items():
            batch = batches[place]
            is_too_large = isinstance(error, RequestFailedError) and error.code == ErrorCode.MESSAGE_TOO_LARGE
            if is_too_large and len(batch) > 1:
                middle = len(batch) // 2
                for half in (batch[:middle], batch[middle:]):
                    failed.update(self._send(leader, {place: half}))
            else:
                failed.update(dict.fromkeys(batch, str(error)))
        return failed

    def _produce(self, leader: Address, batches: _Batches) -> _Failures:
        """Send one request; return the partitions that have failed, with the reason."""
        settings = self._settings
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, partition), messages in batches.items():
            compresses = not settings.compressed_topics or topic in settings.compressed_topics
            codec = CODECS[settings.compression_codec] if compresses else 0
            batch = encode_batch([each.record for each in messages], compression=codec)
            topics.setdefault(topic, []).append(PartitionProduceData(partition, memoryview(batch)))
        data = [TopicProduceData(name=topic, partition_data=partitions) for topic, partitions in topics.items()]
        request = ProduceRequest(None, settings.request_required_acks, settings.request_timeout_ms, data)
        try:
            return self._answered(leader, request)
        except ClientError as error:
            broken = self._connections.pop(leader, None)
            if broken is not None:
                broken.close()
            return dict.fromkeys(batches, error)

    def _answered(self, leader: Address, request: ProduceRequest) -> _Failures:
        connection = self._connections.get(leader)
        if connection is None:
            connection = self._connections[leader] = Connection(*leader, self._settings.request_timeout_ms / 1000 + 1)
        if self._settings.request_required_acks == 0:
            connection.send(request)
            return {}
        failed: _Failures = {}
        for topic in connection.call(request, ProduceResponse).responses:
            for each in topic.partition_responses:
                try:
                    check(each.error_code, each.error_message, what=f"partition {topic.name}-{each.index}")
                except ClientError as error:
                    failed[topic.name, each.index] = error
        return failed
