"""kafka-python."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import BrokerResponseError, KafkaError
from kafka.structs import OffsetAndMetadata

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
    received_of,
)
from compat_tests.clients.load import LoadThread, Taken


@contextmanager
def _codes() -> Iterator[None]:
    """Turns the library's exceptions, one class per error code, into the code."""
    try:
        yield
    except BrokerResponseError as error:
        raise KafkaCodeError(error.errno, str(error)) from error
    except KafkaError as error:
        raise KafkaCodeError(getattr(error, "errno", -1), f"{type(error).__name__} {error}") from error


class KafkaPythonClient:
    """Fits kafka-python to the scenarios."""

    name = "kafka-python"
    sends_null_headers = False
    hashes_like_java = True
    is_idempotent = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def _consumer(self, group: str | None = None, **settings: Any) -> Any:
        base = {"bootstrap_servers": self.bootstrap, "group_id": group, "enable_auto_commit": False}
        return KafkaConsumer(**{**base, "auto_offset_reset": "earliest", "session_timeout_ms": 10000, **settings})

    def _admin(self) -> Any:
        return closing(KafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=20000))

    def produce(self, topic: str, records: Sequence[Sent], options: ProduceOptions = DEFAULTS) -> list[tuple[int, int]]:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if options.codec == "none" else options.codec,
            enable_idempotence=options.idempotent,
            acks=options.acks,
            max_request_size=options.request_limit,
            linger_ms=5,
            max_block_ms=int(TIMEOUT_S * 1000),
            request_timeout_ms=10000,
            delivery_timeout_ms=20000,
        )
        with closing(producer), _codes():
            futures = [
                producer.send(topic, record.value, record.key, list(record.headers), record.partition, record.timestamp)
                for record in records
            ]
            producer.flush(TIMEOUT_S)
            places = [future.get(TIMEOUT_S) for future in futures]
        return [(place.partition, place.offset) for place in places]

    def transact(self, topic: str, transactional_id: str, transactions: Sequence[Transaction]) -> None:
        # It waits for a coordinator that has ended as long as for an answer, before it looks for another one.
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=transactional_id, request_timeout_ms=5000
        )
        with closing(producer), _codes():
            producer.init_transactions()
            for each in transactions:
                producer.begin_transaction()
                for value in each.values:
                    producer.send(topic, value, partition=0)
                if each.group is not None:
                    offsets = {TopicPartition(topic, 0): OffsetAndMetadata(each.offset, "", -1)}
                    producer.send_offsets_to_transaction(offsets, each.group)
                producer.flush(TIMEOUT_S)
                (producer.commit_transaction if each.commit else producer.abort_transaction)()

    def fence(self, topic: str, transactional_id: str) -> int:
        first, second = (
            KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id) for _ in range(2)
        )
        with closing(first), closing(second):
            for producer, value in ((first, b"old"), (second, b"new")):
                producer.init_transactions()
                producer.begin_transaction()
                producer.send(topic, value, partition=0).get(TIMEOUT_S)
            second.commit_transaction()
            try:
                first.commit_transaction()
            except BrokerResponseError as refused:
                code: int = refused.errno
                return code
        raise AssertionError("the first producer was not fenced")

    def start_load(self, topic: str) -> LoadThread:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap, enable_idempotence=True, acks="all", request_timeout_ms=5000
        )

        def send(value: bytes, partition: int, taken: Taken) -> None:
            future = producer.send(topic, value, partition=partition)
            future.add_callback(lambda place: taken((place.partition, place.offset)))
            future.add_errback(lambda error: taken(None, error))

        return LoadThread(send, lambda: producer.close(TIMEOUT_S))

    def consume(
        self, topic: str, count: int, *, partition: int = 0, offset: int = EARLIEST, committed: bool = False
    ) -> list[Received]:
        isolation = "read_committed" if committed else "read_uncommitted"
        place = TopicPartition(topic, partition)
        with closing(self._consumer(isolation_level=isolation, auto_offset_reset="none")) as consumer, _codes():
            consumer.assign([place])
            if offset == EARLIEST:
                consumer.seek_to_beginning(place)
            elif offset < 0:
                consumer.seek_to_end(place)
            else:
                consumer.seek(place, offset)
            found: list[Received] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < count and time.monotonic() < deadline:
                for batch in consumer.poll(500, max_records=count - len(found)).values():
                    found += map(received_of, batch)
            return found

    def watermarks(self, topic: str, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer, _codes():
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def offset_for_time(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer, _codes():
            found = consumer.offsets_for_times({place: timestamp})[place]
            return found.offset if found is not None else None

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        with closing(self._consumer(group)) as consumer, _codes():
            consumer.assign([TopicPartition(topic, partition) for partition in offsets])
            consumer.commit({TopicPartition(topic, p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()})

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        with closing(self._consumer(group)) as consumer, _codes():
            found: int | None = consumer.committed(TopicPartition(topic, partition))
            return found

    def join(self, group: str, topic: str, reset: str = "earliest") -> Member:
        consumer = self._consumer(group, heartbeat_interval_ms=500, auto_offset_reset=reset)
        consumer.subscribe([topic])
        consumer.partitions_for_topic(
            topic
        )  # a member that joins before it knows the topic can stay without partitions

        def poll(member: MemberThread) -> None:
            for batch in consumer.poll(100).values():
                member.received += map(received_of, batch)
            member.assignment = {place.partition for place in consumer.assignment()}
            if member.commits_wanted > member.commits_done:
                consumer.commit()
                member.commits_done += 1

        return MemberThread(poll, consumer.close)

    def create_topic(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        settings = {"num_partitions": partitions, "replication_factor": BROKERS_DEFAULT, "configs": dict(configs or {})}
        with self._admin() as admin, _codes():
            admin.create_topics({topic: settings})

    def delete_topic(self, topic: str) -> None:
        with self._admin() as admin, _codes():
            admin.delete_topics([topic])

    def topics(self) -> dict[str, int]:
        with self._admin() as admin, _codes():
            return {topic["name"]: len(topic["partitions"]) for topic in admin.describe_topics()}

    def add_partitions(self, topic: str, total: int) -> None:
        with self._admin() as admin, _codes():
            admin.create_partitions({topic: total})

    def configs(self, topic: str) -> dict[str, str]:
        with self._admin() as admin, _codes():
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, None)
            found = admin.describe_configs([resource], config_filter="all")
            return {name: entry["value"] for name, entry in found["topic"][topic].items()}

    def set_config(self, topic: str, key: str, value: str) -> None:
        with self._admin() as admin, _codes():
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})])

    def delete_records(self, topic: str, before: int) -> int:
        place = TopicPartition(topic, 0)
        with self._admin() as admin, _codes():
            low: int = admin.delete_records({place: before})[place]["low_watermark"]
            return low

    def describe_group(self, group: str) -> GroupState:
        with self._admin() as admin, _codes():
            found = admin.describe_groups([group])[group]
        return GroupState(found["group_state"], found["protocol_type"], len(found["members"]))

    def groups(self) -> set[str]:
        with self._admin() as admin, _codes():
            return {group["group_id"] for group in admin.list_groups()}

    def delete_group(self, group: str) -> None:
        with self._admin() as admin, _codes():
            said = admin.delete_groups([group])[group]
            if said != "OK":
                raise getattr(errors, said)
