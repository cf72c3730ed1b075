"""confluent-kafka (librdkafka)."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat_tests.clients.client import (
    BROKERS_DEFAULT,
    DEFAULTS,
    EARLIEST,
    TIMEOUT_S,
    GroupState,
    KafkaCodeError,
    Member,
    MemberThread,
    ProduceOptions,
    Received,
    Sent,
    Transaction,
)
from compat_tests.clients.load import LoadThread, Taken

LOG_APPEND_TIME = 2
ANY_PARTITION = -1
NOWHERE_TO_BEGIN = (KafkaError._AUTO_OFFSET_RESET, KafkaError._NO_OFFSET)
PRODUCER_FENCED = 90
admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers


def _received(message: Any) -> Received:
    kind, timestamp = message.timestamp()
    return Received(
        message.value(),
        message.key(),
        tuple(message.headers() or ()),
        timestamp,
        message.partition(),
        message.offset(),
        kind == LOG_APPEND_TIME,
    )


def _raise(error: KafkaError) -> None:
    raise KafkaCodeError(error.code(), error.str())


class ConfluentClient:
    """Fits confluent-kafka to the scenarios."""

    name = "confluent-kafka"
    sends_null_headers = True
    hashes_like_java = True  # when it is asked to: its own choice is CRC-32
    is_idempotent = True

    def __init__(self, bootstrap: str, group_protocol: str = "classic") -> None:
        self.bootstrap = bootstrap
        self._group_protocol = group_protocol
        self._admin: Any = admin.AdminClient(
            {"bootstrap.servers": bootstrap, "log_level": 0}
        )  # its futures die with it

    def _consumer(self, group: str = "none", **settings: Any) -> Consumer:
        base = {"bootstrap.servers": self.bootstrap, "group.id": group, "enable.auto.commit": False}
        timing: dict[str, Any] = {"session.timeout.ms": 10000, "heartbeat.interval.ms": 500}
        if self._group_protocol != "classic":  # the broker says both
            timing = {"group.protocol": self._group_protocol}
        return Consumer({**base, "auto.offset.reset": "earliest", **timing, **settings})

    def produce(self, topic: str, records: Sequence[Sent], options: ProduceOptions = DEFAULTS) -> list[tuple[int, int]]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": options.codec,
            "enable.idempotence": options.idempotent,
            "acks": options.acks,
            "message.max.bytes": options.request_limit,
            "linger.ms": 5,
            "partitioner": "murmur2_random",
            "message.timeout.ms": int(TIMEOUT_S * 1000),
        }
        producer = Producer(settings)
        places: dict[int, tuple[int, int]] = {}
        errors: list[KafkaError] = []

        def delivered(number: int, error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                places[number] = (message.partition() or 0, message.offset() or 0)

        for number, record in enumerate(records):
            extra: dict[str, Any] = {} if record.timestamp is None else {"timestamp": record.timestamp}
            producer.produce(
                topic,
                record.value,
                record.key,
                ANY_PARTITION if record.partition is None else record.partition,
                headers=list(record.headers),
                on_delivery=partial(delivered, number),
                **extra,
            )
            producer.poll(0)
        producer.flush(TIMEOUT_S)
        if errors:
            _raise(errors[0])
        return [places[number] for number in range(len(records))]

    def transact(self, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id})
        try:
            producer.init_transactions(TIMEOUT_S)
            for each in transactions:
                producer.begin_transaction()
                for value in each.values:
                    producer.produce(topic, value, partition=0)
                if each.group is not None:
                    consumer = self._consumer(each.group)
                    offsets = [TopicPartition(topic, 0, each.offset)]
                    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
                    consumer.close()
                producer.flush(TIMEOUT_S)
                (producer.commit_transaction if each.commit else producer.abort_transaction)(TIMEOUT_S)
        except KafkaException as failed:
            _raise(failed.args[0])

    def fence(self, topic: str, transactional_id: str) -> int:
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id, "log_level": 0}
        first, second = Producer(settings), Producer(settings)
        for producer, value in ((first, b"old"), (second, b"new")):
            producer.init_transactions(TIMEOUT_S)
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            producer.flush(TIMEOUT_S)
        second.commit_transaction(TIMEOUT_S)
        try:
            first.commit_transaction(TIMEOUT_S)
        except KafkaException as refused:
            code: int = refused.args[0].code()
            return PRODUCER_FENCED if code == KafkaError._FENCED else code
        raise AssertionError("the first producer was not fenced")

    def start_load(self, topic: str) -> LoadThread:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        producer = Producer(settings)

        def send(value: bytes, partition: int, taken: Taken) -> None:
            def delivered(error: KafkaError | None, message: Any) -> None:
                offset = -1 if message.offset() is None else message.offset()  # see AT_ONCE in restarts.py
                taken(None if error is not None else (message.partition(), offset), error)

            producer.produce(topic, value, partition=partition, on_delivery=delivered)
            producer.poll(0)

        return LoadThread(send, partial(producer.flush, TIMEOUT_S))

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = EARLIEST, committed: bool = False
    ) -> list[Received]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = self._consumer(**{"isolation.level": isolation, "auto.offset.reset": "error"})
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found: list[Received] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                for message in consumer.consume(min(count - len(found), 1000), 0.5):
                    error = message.error()
                    if error is not None:
                        _raise(error)
                    found.append(_received(message))
            return found
        finally:
            consumer.close()

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
            return first, end
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], timeout=TIMEOUT_S)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = self._consumer(group)
        try:
            places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
            consumer.commit(offsets=places, asynchronous=False)
        finally:
            consumer.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        consumer = self._consumer(group)
        try:
            (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=TIMEOUT_S)
            return found.offset if found.offset >= 0 else None
        finally:
            consumer.close()

    def join(self, group: str, topic: str, reset: str = "earliest") -> Member:
        resets = {"none": "error"}
        consumer = self._consumer(group, **{"auto.offset.reset": resets.get(reset, reset), "log_level": 0})
        consumer.subscribe([topic])

        def poll(member: MemberThread) -> None:
            message = consumer.poll(0.1)
            error = message.error() if message is not None else None
            if error is not None and error.code() in NOWHERE_TO_BEGIN:
                _raise(error)
            if message is not None and error is None:
                member.received.append(_received(message))
            member.assignment = {place.partition for place in consumer.assignment()}
            if member.commits_wanted > member.commits_done:
                consumer.commit(asynchronous=False)
                member.commits_done += 1

        return MemberThread(poll, consumer.close)

    def _call(self, futures: Mapping[Any, Any]) -> Any:
        (future,) = futures.values()
        try:
            return future.result(TIMEOUT_S)
        except KafkaException as failure:
            _raise(failure.args[0])

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._call(
            self._admin.create_topics([admin.NewTopic(topic, partitions, BROKERS_DEFAULT, config=dict(configs or {}))])
        )

    def delete_topic(self, topic: str) -> None:
        self._call(self._admin.delete_topics([topic]))

    def topics(self) -> dict[str, int]:
        found = self._admin.list_topics(timeout=TIMEOUT_S).topics
        return {name: len(metadata.partitions) for name, metadata in found.items()}

    def add_partitions(self, topic: str, total: int) -> None:
        self._call(self._admin.create_partitions([admin.NewPartitions(topic, total)]))

    def configs(self, topic: str) -> dict[str, str]:
        found = self._call(self._admin.describe_configs([admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic)]))
        return {name: entry.value for name, entry in found.items()}

    def set_config(self, topic: str, key: str, value: str) -> None:
        entry = admin.ConfigEntry(key, value, incremental_operation=admin.AlterConfigOpType.SET)
        resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._call(self._admin.incremental_alter_configs([resource]))

    def delete_records(self, topic: str, before: int) -> int:
        result = self._call(self._admin.delete_records([TopicPartition(topic, 0, before)]))
        low: int = result.low_watermark
        return low

    def describe_group(self, group: str) -> GroupState:
        found = self._call(self._admin.describe_consumer_groups([group]))
        return GroupState(found.state.name.title().replace("_", ""), "consumer", len(found.members))

    def groups(self) -> set[str]:
        result = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result()
        return {group.group_id for group in result.valid}

    def delete_group(self, group: str) -> None:
        self._call(self._admin.delete_consumer_groups([group]))
