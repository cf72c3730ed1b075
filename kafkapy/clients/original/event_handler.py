"""Sends batches of messages: encode, choose partitions, one request for each leader, and again what has failed.

It is the default of the producer's ``event_handler`` (``kafka.producer.async.DefaultEventHandler``).
"""

import logging
import random
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import ClientError, check
from kafkapy.clients.original.discovery import Address, BrokerDiscovery, Leaders
from kafkapy.clients.original.keyed_messages import Encoder, KeyedMessage, Partitioner
from kafkapy.clients.original.settings import OriginalProducerSettings
from kafkapy.clock import Clock
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkapy.records.record import Record, encode_batch

CODECS: Final = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}

logger = logging.getLogger(__name__)


class FailedToSendError(ClientError):
    """Messages that were not sent after ``message.send.max.retries``; ``messages`` are these, in order."""

    def __init__(self, messages: Sequence[KeyedMessage], reason: str) -> None:
        super().__init__(f"{len(messages)} messages were not sent: {reason}")
        self.messages = messages


class EventHandler(Protocol):
    """What a producer hands its batches to."""

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
        """See ``EventHandler.handle``: raises FailedToSendError, and what encoders and partitioner raise."""
        left = [self._encoded(message) for message in messages]
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

    def _encoded(self, message: KeyedMessage) -> _Encoded:
        key = None if message.key is None else self._encode_key(message.key)
        value = None if message.message is None else self._encode_value(message.message)
        return _Encoded(message, Record(key, value, timestamp=self._clock.now_ms()))

    def _attempt(self, messages: list[_Encoded]) -> tuple[list[_Encoded], str]:
        """Send what can be sent; return the other messages, in order, and why."""
        by_leader: dict[Address, _Batches] = {}
        failed: set[_Encoded] = set()
        reason = ""
        try:
            known = {topic: self._discovery.leaders(topic) for topic in {each.topic for each in messages}}
        except ClientError as error:
            return messages, str(error)
        for each in messages:
            partition = self._partition_of(each, known[each.topic])
            leader = None if partition is None else known[each.topic].get(partition)
            if partition is None or leader is None:
                failed.add(each)
                reason = f"topic {each.topic} has no partition with a leader for it"
            else:
                by_leader.setdefault(leader, {}).setdefault((each.topic, partition), []).append(each)
        for leader, batches in by_leader.items():
            for place, problem in self._produce(leader, batches).items():
                failed.update(batches[place])
                reason = problem
        return [each for each in messages if each in failed], reason

    def _partition_of(self, each: _Encoded, leaders: Leaders) -> int | None:
        """A partition with a leader at random without a key, else the one that the partitioner chooses."""
        key = each.message.chooses_by
        if key is None:
            alive = [partition for partition, leader in leaders.items() if leader is not None]
            return self._rng.choice(alive) if alive else None
        if not leaders:
            return None
        partition = self._partitioner(key, len(leaders))
        if not 0 <= partition < len(leaders):
            raise ClientError(f"the partitioner chose {partition} for {key!r}: it must be from 0 to {len(leaders) - 1}")
        return partition

    def _produce(self, leader: Address, batches: _Batches) -> dict[tuple[str, int], str]:
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
            return dict.fromkeys(batches, str(error))

    def _answered(self, leader: Address, request: ProduceRequest) -> dict[tuple[str, int], str]:
        connection = self._connections.get(leader)
        if connection is None:
            connection = self._connections[leader] = Connection(*leader, self._settings.request_timeout_ms / 1000 + 1)
        if self._settings.request_required_acks == 0:
            connection.send(request)
            return {}
        failed = {}
        for topic in connection.call(request, ProduceResponse).responses:
            for each in topic.partition_responses:
                try:
                    check(each.error_code, each.error_message, what=f"partition {topic.name}-{each.index}")
                except ClientError as error:
                    failed[topic.name, each.index] = str(error)
        return failed
