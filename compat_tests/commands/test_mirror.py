"""``kafkapy mirror`` from Apache Kafka 2.7.2 to kafkapy and the other way; kafka-python compares both sides."""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess, wait_for
from harness.real_kafka import RealKafka

pytestmark = [pytest.mark.java, pytest.mark.together]

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
}
STARTS_MS = itertools.count(1_700_000_000_000, 1_000_000)
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
    "transactions": {},
    "compacted": {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "4096",
        "compression.type": "lz4",
    },
}
OLD: dict[str, dict[str, str]] = {
    "format0": {"message.format.version": "0.9.0", "compression.type": "gzip"},
    "format1": {"message.format.version": "0.10.2"},
    "format1-snappy": {"message.format.version": "0.10.2", "compression.type": "snappy"},
}
PARTITIONS = 2
OF_THE_TOPIC = 1
"""The source of a value that was set for the topic itself."""
RECORDS = 300


class Seen(NamedTuple):
    """A record as kafka-python reads it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes], ...]


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, ChildProcess]]:
    theirs, ours = RealKafka("2.7.2", config=SETTINGS), KafkapyProcess(config=SETTINGS)
    try:
        yield {"kafka": theirs.start(), "kafkapy": ours.start()}
    finally:
        theirs.close()
        ours.close()


def _command(source: ChildProcess, target: ChildProcess, *words: str) -> list[str]:
    return [
        sys.executable, "-m", "kafkapy", "mirror", "--from", source.bootstrap, "--to", target.bootstrap, *words,
    ]  # fmt: skip


def _mirror(source: ChildProcess, target: ChildProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = _command(source, target, "--once", *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def _fill(broker: ChildProcess, topics: dict[str, dict[str, str]], prefix: str) -> None:
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    wanted = [kafka_admin.NewTopic(prefix + name, PARTITIONS, 1, config=own) for name, own in topics.items()]
    for made in admin.create_topics(wanted).values():
        made.result(20)
    _fill_more(broker, topics, prefix)


def _fill_more(broker: ChildProcess, names: Iterable[str], prefix: str) -> None:
    """As many records of each topic, with timestamps that no other record has."""
    start_ms = next(STARTS_MS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "batch.num.messages": 7})
    for name in names:
        if name != "transactions":
            _produce(producer, prefix + name, start_ms, has_headers=not name.startswith("format"))
    assert producer.flush(30) == 0
    if "transactions" in names:
        _produce_in_transactions(broker, f"{prefix}transactions", start_ms)


def _produce(producer: Producer, topic: str, start_ms: int, *, has_headers: bool) -> None:
    for at in range(RECORDS):
        value = None if at % 50 == 49 else b"%d" % at * 20
        headers = [("number", b"%d" % at), ("empty", b"")] if has_headers and at % 3 else None
        extra: dict[str, Any] = {} if headers is None else {"headers": headers}
        producer.produce(topic, value, b"key-%d" % (at % 40), at % PARTITIONS, timestamp=start_ms + at, **extra)


def _produce_in_transactions(broker: ChildProcess, topic: str, start_ms: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(20)
    for at in range(9):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % at, b"key", partition, timestamp=start_ms + at)
        producer.flush(20)
        producer.abort_transaction(20) if at % 3 == 1 else producer.commit_transaction(20)


def _read(broker: ChildProcess, topic: str) -> list[Seen]:
    """Every committed record of a topic, in the order of its partitions, without the offsets, which differ."""
    return [each._replace(offset=0) for each in _read_with_offsets(broker, topic)]


def _read_with_offsets(broker: ChildProcess, topic: str) -> list[Seen]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, isolation_level="read_committed", enable_auto_commit=False
    )
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    ends = consumer.end_offsets(places)
    found: list[Seen] = []
    deadline = time.monotonic() + 30
    while any(consumer.position(place) < ends[place] for place in places):
        assert time.monotonic() < deadline, f"{topic} is not read to its end"
        for place, records in consumer.poll(200).items():
            found += [Seen(place.partition, r.offset, r.key, r.value, r.timestamp, tuple(r.headers)) for r in records]
    consumer.close()
    return sorted(found, key=lambda each: each.partition)


def _latest(records: list[Seen]) -> list[Seen]:
    """The last record of each key."""
    return sorted({(each.partition, each.key): each for each in records}.values(), key=repr)


def _wait_for_gaps(broker: ChildProcess, topic: str) -> None:
    deadline = time.monotonic() + 40
    while len(_read(broker, topic)) > RECORDS // 2:
        assert time.monotonic() < deadline, f"{topic} is not compacted"
        time.sleep(0.2)


@pytest.mark.parametrize(("source", "target"), [("kafka", "kafkapy"), ("kafkapy", "kafka")])
@pytest.mark.parametrize("words", [[], ["--exactly-once"]], ids=["at-least-once", "exactly-once"])
def test_both_sides_have_the_same_records(
    brokers: dict[str, ChildProcess], source: str, target: str, words: list[str]
) -> None:
    prefix = f"{source}{''.join(words)}."
    topics = TOPICS if words else {**TOPICS, **OLD}
    _fill(brokers[source], topics, prefix)
    _wait_for_gaps(brokers[source], f"{prefix}compacted")
    options = ["--topics", f"{prefix}.*", "--group", f"mirror{prefix}", *words]
    copied = _mirror(brokers[source], brokers[target], *options)
    assert copied.returncode == 0, copied.stderr
    for name in topics:
        wanted, found = (_read(brokers[each], prefix + name) for each in (source, target))
        assert wanted
        if name == "compacted":  # each side goes on removing older records
            wanted, found = _latest(wanted), _latest(found)
        assert found == wanted, name
    assert _mirror(brokers[source], brokers[target], *options).stdout.startswith("copied 0 records")
    back = _mirror(brokers[target], brokers[source], *options)
    assert back.stdout == "copied 0 records of 0 partitions\n", back.stderr
    assert back.stderr.count("is not copied") == len(topics)


def test_old_formats_are_not_copied_in_transactions(brokers: dict[str, ChildProcess]) -> None:
    _fill(brokers["kafka"], {"format1": OLD["format1"]}, "refused.")
    refused = _mirror(brokers["kafka"], brokers["kafkapy"], "--topics", "refused.*", "--exactly-once")
    assert refused.returncode == 1
    assert "message format 1, which can't be in a transaction" in refused.stderr


Place = tuple[str, int]


def _consumer(broker: ChildProcess, group: str) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False)


def _set_offsets(broker: ChildProcess, group: str, offsets: Mapping[Place, int]) -> None:
    consumer = _consumer(broker, group)
    consumer.assign([TopicPartition(*place) for place in offsets])
    consumer.commit({TopicPartition(*place): OffsetAndMetadata(at, "", -1) for place, at in offsets.items()})
    consumer.close()


def _offsets(broker: ChildProcess, group: str, places: Iterable[Place]) -> dict[Place, int | None]:
    consumer = _consumer(broker, group)
    found = {place: consumer.committed(TopicPartition(*place)) for place in places}
    consumer.close()
    return found


def _ends(broker: ChildProcess, places: Iterable[Place]) -> dict[Place, int]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    found = consumer.end_offsets([TopicPartition(*place) for place in places])
    consumer.close()
    return {(place.topic, place.partition): end for place, end in found.items()}


def _kill_in_the_middle(command: list[str], target: ChildProcess, place: Place, least: int) -> None:
    """Start a mirror and kill it when the target has so many records of a partition."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as mirror:
        try:
            assert wait_for(lambda: mirror.poll() is not None or _ends(target, [place])[place] >= least, 40)
            assert mirror.poll() is None, mirror.stderr
        finally:
            mirror.kill()


def _missed_and_again(originals: list[Seen], read: list[Seen], offset: int) -> tuple[int, int]:
    """How many records a consumer that was at ``offset`` has not read on the target, and how many it has read again."""
    found = {each._replace(offset=0) for each in read}
    left = {each._replace(offset=0) for each in originals if each.offset >= offset}
    done = {each._replace(offset=0) for each in originals if each.offset < offset}
    return len(left - found), len(done & found)


DIRECTIONS = [
    pytest.param("kafkapy", "kafka", ["--exactly-once"], id="exactly-once"),
    pytest.param("kafka", "kafkapy", [], id="to-kafkapy", marks=pytest.mark.long),
    pytest.param("kafkapy", "kafka", [], id="to-kafka", marks=pytest.mark.long),
]
GROUPS = 11
"""Groups of the test, at offsets from the beginning to the end."""


@pytest.mark.parametrize(("source", "target", "words"), DIRECTIONS)
def test_groups_skip_nothing_and_read_little_again(
    brokers: dict[str, ChildProcess], source: str, target: str, words: list[str]
) -> None:
    """Groups at many offsets, in batches and in gaps of all kinds, while the mirror is killed again and again."""
    prefix = f"groups.{source}{''.join(words)}."
    names = ["plain", "transactions", "compacted"]
    _fill(brokers[source], {name: TOPICS[name] for name in names}, prefix)
    _wait_for_gaps(brokers[source], f"{prefix}compacted")
    _fill(brokers[target], {"plain": {}, "compacted": {}}, prefix)  # other records, so that offsets differ
    options = ["--topics", f"{prefix}.*", "--group", f"mirror{prefix}", "--groups", f"{prefix}.*", *words]
    command = _command(brokers[source], brokers[target], *options)
    plain = f"{prefix}plain", 0
    for _ in range(3):
        _fill_more(brokers[source], ["plain", "transactions"], prefix)
        _kill_in_the_middle(command, brokers[target], plain, _ends(brokers[target], [plain])[plain] + 50)
    places = [(prefix + name, partition) for name in names for partition in range(PARTITIONS)]
    ends = _ends(brokers[source], places)
    for at in range(GROUPS):
        _set_offsets(brokers[source], f"{prefix}{at}", {place: ends[place] * at // (GROUPS - 1) for place in places})
    copied = _mirror(brokers[source], brokers[target], *options)
    assert copied.returncode == 0, copied.stderr
    wanted, there = (
        {name: _read_with_offsets(brokers[side], prefix + name) for name in names} for side in (source, target)
    )
    for at in range(GROUPS):
        for (topic, partition), translated in _offsets(brokers[target], f"{prefix}{at}", places).items():
            end, offset = ends[topic, partition], ends[topic, partition] * at // (GROUPS - 1)
            assert translated is not None, (topic, at)
            name = topic.removeprefix(prefix)
            copies = [each for each in there[name] if each.partition == partition and each.offset >= translated]
            originals = [each for each in wanted[name] if each.partition == partition]
            missed, again = _missed_and_again(originals, copies, offset)
            assert missed == 0, (topic, partition, offset, translated)
            assert again <= (end - offset) // 3, (topic, partition, offset, translated, again)


def test_a_group_changes_the_cluster(brokers: dict[str, ChildProcess]) -> None:
    """A consumer reads some records on the source, and goes on on the target; there the mirror leaves it alone."""
    theirs, ours = brokers["kafkapy"], brokers["kafka"]
    _fill(theirs, {"plain": {}}, "moves.")
    options = ["--topics", "moves.plain", "--group", "mirror.moves", "--groups", "moves"]
    first = _read_in_group(theirs, "moves.plain", RECORDS // 3)
    copied = _mirror(theirs, ours, *options)
    assert copied.returncode == 0, copied.stderr
    rest = _read_in_group(ours, "moves.plain", RECORDS - len(first))
    assert sorted(first + rest) == sorted((each.partition, each.timestamp) for each in _read(theirs, "moves.plain"))
    places = [("moves.plain", partition) for partition in range(PARTITIONS)]
    _set_offsets(ours, "moves", dict.fromkeys(places, 1))
    member = Consumer({"bootstrap.servers": ours.bootstrap, "group.id": "moves", "enable.auto.commit": False})
    member.subscribe(["moves.plain"])
    assert wait_for(lambda: member.poll(0.1) is not None, 30)
    copied = _mirror(theirs, ours, *options)
    member.close()
    assert "group moves on the target has members: its offsets there stay as they are" in copied.stderr
    assert _offsets(ours, "moves", places) == dict.fromkeys(places, 1)
    assert _mirror(theirs, ours, *options).returncode == 0
    read = _offsets(theirs, "moves", places)
    assert _offsets(ours, "moves", places) == {place: max(read[place] or 0, 1) for place in places}


def _read_in_group(broker: ChildProcess, topic: str, count: int) -> list[tuple[int, int]]:
    """Partition and timestamp of so many records, which a member of the group ``moves`` reads and commits."""
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "moves", "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    })  # fmt: skip
    consumer.subscribe([topic])
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records are read"
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append((message.partition() or 0, message.timestamp()[1]))
            consumer.commit(message=message, asynchronous=False)
    consumer.close()
    return found


def _configuration(broker: ChildProcess, topic: str) -> dict[str, str]:
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    (found,) = admin.describe_configs([kafka_admin.ConfigResource("topic", topic)]).values()
    return {name: each.value for name, each in found.result(20).items() if each.source == OF_THE_TOPIC}


def _configure(broker: ChildProcess, topic: str, values: Mapping[str, str | None]) -> None:
    """Set the keys of a topic, and delete those that are None."""
    admin = kafka_admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    operation = kafka_admin.AlterConfigOpType
    entries = [
        kafka_admin.ConfigEntry(
            name, value or "", incremental_operation=operation.DELETE if value is None else operation.SET
        )
        for name, value in values.items()
    ]
    resource = kafka_admin.ConfigResource("topic", topic, incremental_configs=entries)
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(20)


@pytest.mark.parametrize(("source", "target"), [("kafka", "kafkapy"), ("kafkapy", "kafka")])
def test_configuration_is_kept_in_step(brokers: dict[str, ChildProcess], source: str, target: str) -> None:
    topic = f"configured.{source}"
    admin = kafka_admin.AdminClient({"bootstrap.servers": brokers[source].bootstrap})
    given = {"retention.ms": "86400000", "segment.bytes": "5000000"}
    (made,) = admin.create_topics([kafka_admin.NewTopic(topic, 1, 1, config=given)]).values()
    made.result(20)
    options = ["--topics", topic, "--group", f"mirror.{topic}"]
    assert _mirror(brokers[source], brokers[target], *options).returncode == 0
    assert _configuration(brokers[target], topic) == given
    _configure(brokers[target], topic, {"max.message.bytes": "50000"})
    own = {"kafkapy.flush": "ack"} if source == "kafkapy" else {}
    _configure(brokers[source], topic, {"retention.ms": "7200000", "segment.bytes": None, **own})
    copied = _mirror(brokers[source], brokers[target], *options)
    assert copied.returncode == 0, copied.stderr
    assert _configuration(brokers[target], topic) == {"retention.ms": "7200000", "max.message.bytes": "50000"}
    assert copied.stderr.count("as on the source") == 2, copied.stderr
