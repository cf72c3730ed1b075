"""All clients read the records of clients from before 0.11, in topics of every message format."""

import itertools
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from compat_tests.brokers.topics import create_topic
from compat_tests.clients.agent import Agent, packed_record, unpacked_record
from compat_tests.clients.client import KafkaCodeError, Received, Sent
from compat_tests.data_path.frames import NOW_MS
from compat_tests.old_clients.clients import CODECS, OldClient
from harness.process import Broker
from kafkapy.clients.simple_consumer import SimpleConsumer, SimpleFetch

pytestmark = [
    pytest.mark.together,
    pytest.mark.scenario("records", client="java-{old_agent}"),
    pytest.mark.differs("kafka-4.4.0", reason="clients before 0.11 are not served any more (KIP-896)"),
]

NewTopic = Callable[..., str]
FORMATS = {"0.9.0": 0, "0.10.0": 1, "2.7": 2}
RECORDS = 4
UNSUPPORTED_VERSION = 35


@pytest.fixture
def new_topic(broker: Broker, topic_name: str) -> NewTopic:
    """Creates the test's topic, with configurations like `segment__bytes`."""

    def create(**configs: str) -> str:
        create_topic(broker.bootstrap, topic_name, configs={key.replace("__", "."): configs[key] for key in configs})
        return topic_name

    return create


def records(client: str, codec: str, first: int) -> list[Sent]:
    """A few records; their timestamps count on with their offsets."""
    return [
        Sent(f"{client} {codec} {at} ".encode() * (at % 50), f"key {at}".encode() if at % 2 else None, (), NOW_MS + at)
        for at in range(first, first + RECORDS)
    ]


@pytest.mark.scenario("records", client="clients before 0.11")
@pytest.mark.differs("kafka-3.9.1", cases=["0.9.0"], reason="message.format.version is passed over (KIP-724)")
@pytest.mark.parametrize("name", FORMATS)
def test_every_client_reads_the_records_of_every_client(
    new_topic: NewTopic, old_clients: list[OldClient], name: str
) -> None:
    topic = new_topic(message__format__version=name)
    expected: list[tuple[bytes | None, bytes | None, int | None]] = []
    own_times: set[int] = set()
    for client in old_clients:
        for codec in CODECS if client.produce is not None else ():
            sent = records(client.name, codec, len(expected))
            assert client.produce is not None
            client.produce(topic, sent, codec)
            timed = client.writes > 0 and FORMATS[name] > 0
            expected += [(each.key, each.value, each.timestamp if timed else -1) for each in sent]
            if timed and not client.sends_timestamps:
                own_times.update(range(len(expected) - RECORDS, len(expected)))
    for client in old_clients:
        if client.consume is not None:
            received = client.consume(topic, len(expected))
            assert [each.offset for each in received] == list(range(len(expected))), client.name
            for at, (each, wanted) in enumerate(zip(received, expected, strict=True)):
                assert (each.key, each.value) == wanted[:2], (client.name, at)
                if client.reads > 0 and at not in own_times:
                    assert (-1 if each.timestamp is None else each.timestamp) == wanted[2], (client.name, at)


def fetched(agent: Agent, how: str, topic: str, count: int, **fields: int) -> list[Received]:
    asked = {"topic": topic, "partition": 0, "offset": 0, "count": count, **fields}
    return [unpacked_record(each) for each in agent.ask(how, **asked)]


def test_fetches_of_any_size_return_every_record(new_topic: NewTopic, old_agent: Agent) -> None:
    """Old consumers take no more than they asked for: a batch may come cut, converted data be longer than it was.

    Each is a single fetch, which does not wait for the replicas: the records have to be on them before.
    """
    topic = new_topic()
    sent = [Sent(b"v" * at, b"k", (), NOW_MS + at) for at in range(200)]
    for first in range(0, 200, 50):
        wanted = {"topic": topic, "records": list(map(packed_record, sent[first : first + 50])), "limit": 1 << 20}
        old_agent.ask("produce", codec="gzip" if first else "none", acks=-1, **wanted)
    for size in (12_000, 20_000, 1 << 20):
        received = fetched(old_agent, "consume_simple", topic, 200, size=size)
        assert [each.value for each in received] == [each.value for each in sent]


@pytest.mark.scenario("errors", client="java-{old_agent}")
def test_fetches_are_refused_without_down_conversion(new_topic: NewTopic, old_agent: Agent) -> None:
    topic = new_topic(message__downconversion__enable="false")
    sent = {"topic": topic, "records": [packed_record(Sent(b"v"))], "codec": "none", "acks": -1, "limit": 1 << 20}
    old_agent.ask("produce", **sent)
    with pytest.raises(KafkaCodeError):
        fetched(old_agent, "consume_simple", topic, 1)


@pytest.mark.scenario("groups", client="java-{group_agent}")
def test_a_group_continues_at_its_committed_offset(new_topic: NewTopic, group_agent: Agent) -> None:
    topic = new_topic()
    sent = {"topic": topic, "records": [packed_record(Sent(b"%d" % at)) for at in range(10)], "codec": "none"}
    group_agent.ask("produce", acks=-1, limit=1 << 20, **sent)
    first = group_agent.ask("group", topic=topic, group=f"g-{topic}", count=10)
    assert len(first) == 10
    group_agent.ask("produce", acks=-1, limit=1 << 20, **sent)
    again = group_agent.ask("group", topic=topic, group=f"g-{topic}", count=10)
    assert [each["offset"] for each in again] == list(range(10, 20))


def test_offsets_before_a_time(new_topic: NewTopic, old_agent: Agent) -> None:
    """ListOffsets v0: where segments begin, by the time at which their files were changed, and the log's end."""
    topic = new_topic(segment__bytes="1000", message__format__version="0.9.0")
    for at in range(4):
        sent = {"topic": topic, "records": [packed_record(Sent(b"%d" % at * 600))], "codec": "none"}
        old_agent.ask("produce", acks=-1, limit=1 << 20, **sent)

    def offsets(timestamp: int, most: int = 10) -> list[int]:
        found: list[int] = old_agent.ask("offsets_before", topic=topic, timestamp=timestamp, most=most)
        return found

    assert offsets(-1) == [4, 3, 2, 1, 0]
    assert offsets(-1, 2) == [4, 3]
    assert offsets(-2) == [0]
    assert offsets(NOW_MS - 3_600_000) == []
    assert offsets(NOW_MS + 3_600_000) == [4, 3, 2, 1, 0]


def test_kafkapys_simple_consumer_finds_what_the_original_finds(
    broker: Broker, new_topic: NewTopic, old_agent: Agent
) -> None:
    """``fetch`` and ``offsets_before`` beside those of ``kafka.javaapi.consumer.SimpleConsumer``."""
    topic = new_topic(segment__bytes="1000", message__format__version="0.9.0")
    for at in range(4):
        sent = {"topic": topic, "records": [packed_record(Sent(b"%d" % at * 600, b"key %d" % at))], "codec": "gzip"}
        old_agent.ask("produce", acks=-1, limit=1 << 20, **sent)
    original = fetched(old_agent, "consume_simple", topic, 3, offset=1)
    cluster = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(topic, timeout=10)
    address = cluster.brokers[cluster.topics[topic].partitions[0].leader]
    with SimpleConsumer(str(address.host), address.port) as consumer:
        found = consumer.fetch(SimpleFetch(topic, 0, offset=1), max_wait_ms=1000)
        assert [(each.offset, each.key, each.value) for each in found.records] == [
            (each.offset, each.key, each.value) for each in original
        ]
        for timestamp, most in itertools.product((-1, -2, 0, NOW_MS - 3_600_000, NOW_MS + 3_600_000), (1, 2, 10)):
            expected = old_agent.ask("offsets_before", topic=topic, timestamp=timestamp, most=most)
            assert consumer.offsets_before(topic, 0, timestamp, most) == expected
