"""kafka-python, confluent-kafka and aiokafka with a broker in their own process."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer

from kafkapy.testing import AsyncBroker, Broker, TopicRecord

COUNT = 20
HEADERS = (("trace", b"1"), ("none", None))


@pytest.fixture
def own() -> Iterator[Broker]:
    """A broker of the test's own process."""
    with Broker(topics={"t": 2}) as running:
        yield running


def sent(at: int) -> tuple[bytes, bytes]:
    return b"k%d" % at, b"v%d" % at


def with_kafka_python(broker: Broker, codec: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=None if codec == "none" else codec)
    headers = [(name, value) for name, value in HEADERS if value is not None]
    for at in range(COUNT):
        key, value = sent(at)
        producer.send("t", value, key, headers=headers, timestamp_ms=1_700_000_000_000 + at)
    producer.flush(20)
    producer.close()


def with_confluent(broker: Broker, codec: str) -> None:
    producer = ConfluentProducer({"bootstrap.servers": broker.bootstrap, "compression.type": codec})
    for at in range(COUNT):
        key, value = sent(at)
        producer.produce("t", value, key, headers=list(HEADERS), timestamp=1_700_000_000_000 + at)
    assert producer.flush(20) == 0


def with_aiokafka(broker: Broker, codec: str) -> None:
    async def produce() -> None:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=compression)
        await producer.start()
        for at in range(COUNT):
            key, value = sent(at)
            headers = [(name, value) for name, value in HEADERS if value is not None]
            await producer.send("t", value, key, headers=headers, timestamp_ms=1_700_000_000_000 + at)
        await producer.stop()

    asyncio.run(produce())


Produce = Callable[[Broker, str], None]
PRODUCERS = [with_kafka_python, with_confluent, with_aiokafka]


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("produce", PRODUCERS, ids=lambda produce: produce.__name__)
def test_a_test_sees_what_a_producer_has_sent(own: Broker, produce: Produce, codec: str) -> None:
    produce(own, codec)
    records = own.wait_for_records("t", COUNT)
    assert {(record.key, record.value) for record in records} == {sent(at) for at in range(COUNT)}
    assert {record.partition for record in records} == {0, 1}
    for partition in (0, 1):
        offsets = [record.offset for record in records if record.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert {record.timestamp for record in records} == {1_700_000_000_000 + at for at in range(COUNT)}
    assert all(dict(record.headers)["trace"] == b"1" for record in records)


@contextmanager
def kafka_python_group(broker: Broker) -> Iterator[None]:
    """A consumer of kafka-python in the group ``g``, which polls and commits in a thread."""
    stop = threading.Event()

    def consume() -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
        )
        consumer.subscribe(["t"])
        consumer.partitions_for_topic("t")  # one that joins before it knows the topic can stay without partitions
        while not stop.is_set():
            if consumer.poll(50):
                consumer.commit()
        consumer.close()

    with running(consume, stop):
        yield


@contextmanager
def confluent_group(broker: Broker) -> Iterator[None]:
    """The same with confluent-kafka and a cooperative assignor."""
    stop = threading.Event()

    def consume() -> None:
        consumer = ConfluentConsumer({
            "bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest",
            "partition.assignment.strategy": "cooperative-sticky", "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
        })  # fmt: skip
        consumer.subscribe(["t"])
        while not stop.is_set():
            if (message := consumer.poll(0.05)) is not None and message.error() is None:
                consumer.commit(message=message, asynchronous=False)
        consumer.close()

    with running(consume, stop):
        yield


@contextmanager
def running(consume: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)


Group = Callable[[Broker], AbstractContextManager[None]]


@pytest.mark.parametrize("group", [kafka_python_group, confluent_group], ids=lambda group: group.__name__)
def test_a_group_settles_and_reads_everything(own: Broker, group: Group) -> None:
    for at in range(COUNT):
        key, value = sent(at)
        own.produce("t", value, key=key)
    with group(own):
        (member,) = own.wait_until_stable("g")
        assert sorted(member.partitions) == [("t", 0), ("t", 1)]
        own.wait_until_caught_up("g")
        own.produce("t", b"late")
        own.wait_until_caught_up("g")
        assert own.lag("g") == {("t", 0): 0, ("t", 1): 0}
        assert sum(own.committed("g").values()) == COUNT + 1


def test_a_group_of_two_settles_in_two_rounds(own: Broker) -> None:
    with confluent_group(own):
        own.wait_until_stable("g")
        with confluent_group(own):
            both = own.wait_until_stable("g", members=2, timeout_s=20)
            assert sorted(partition for member in both for partition in member.partitions) == [("t", 0), ("t", 1)]
            assert {len(member.partitions) for member in both} == {1}


def test_a_coroutine_waits_beside_its_own_clients() -> None:
    async def scenario() -> None:
        async with AsyncBroker(topics=["t"]) as broker:
            consumer = AIOKafkaConsumer(
                "t", bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest"
            )
            await consumer.start()
            (member,) = await broker.wait_until_stable("g")
            assert member.partitions == (("t", 0),)
            await broker.produce("t", b"v", key=b"k")
            record = await asyncio.wait_for(consumer.getone(), 20)
            assert (record.key, record.value) == (b"k", b"v")
            await consumer.commit()
            assert await broker.lag("g") == {("t", 0): 0}
            await consumer.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_a_producer_continues_after_a_restart_of_the_broker(own: Broker, end: str) -> None:
    producer = ConfluentProducer(
        {"bootstrap.servers": own.bootstrap, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "log_level": 0}
    )
    producer.produce("t", b"before", partition=0)
    assert producer.flush(20) == 0
    getattr(own, end)()
    producer.produce("t", b"meanwhile", partition=0)
    own.start()
    assert producer.flush(20) == 0
    assert [record.value for record in own.records("t")] == [b"before", b"meanwhile"]


def test_transactions_are_seen_as_a_consumer_would_see_them(own: Broker) -> None:
    producer = ConfluentProducer({"bootstrap.servers": own.bootstrap, "transactional.id": "tx", "log_level": 0})
    producer.init_transactions(20)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce("t", value, partition=0)
        producer.flush(20)
        end(20)

    def values(records: list[TopicRecord]) -> list[bytes | None]:
        return [record.value for record in records]

    assert values(own.records("t")) == [b"aborted", b"committed"]
    assert values(own.records("t", read_committed=True)) == [b"committed"]
