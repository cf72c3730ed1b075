"""Kafka Streams' word count with each of its exactly-once guarantees: every count is shown once, in order."""

import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.brokers.own_broker import disturbances_of, mortal_of
from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import LOAD_PARTITIONS, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.restarts import RECORDS_BETWEEN, Held
from harness.jars import STREAMS, STREAMS_VERSIONS
from harness.java_programs import MissingToolchainError, java_command
from harness.process import Broker

SOURCE = Path(__file__).with_name("java") / "WordCount.java"
WORDS = ("kafka", "streams", "counts", "these", "words")
LINES = 600
TIMEOUT_S = 60
OLDEST, NEWEST = STREAMS_VERSIONS
GUARANTEES = [(OLDEST, "exactly_once"), (OLDEST, "exactly_once_beta"), (NEWEST, "exactly_once_v2")]
"""Of each release the guarantees that it knows: the last two are one, whose name changed in 3.0 (KIP-732)."""
CLIENT = "kafka-streams-{release}"
QUIET = {"log_level": 0}


@pytest.fixture
def command(release: str) -> list[str]:
    """The word count, compiled."""
    try:
        return java_command("WordCount", [SOURCE], STREAMS.format(release))
    except MissingToolchainError as missing:
        pytest.skip(str(missing))


@contextmanager
def running(command: list[str], *arguments: str) -> Iterator[None]:
    with subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            yield
            process.stdin.close()
            process.wait(TIMEOUT_S)
        finally:
            process.kill()


def _fill(bootstrap: str, topic: str) -> Counter[str]:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **QUIET})
    source = random.Random(1)
    expected: Counter[str] = Counter()
    for number in range(LINES):
        words = source.choices(WORDS, k=4)
        expected.update(words)
        producer.produce(topic, " ".join(words), partition=number % 2)
    assert producer.flush(30) == 0
    return expected


def _shown(bootstrap: str, topic: str, count: int) -> dict[str, list[int]]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed", **QUIET}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
    shown: dict[str, list[int]] = defaultdict(list)
    deadline = time.monotonic() + TIMEOUT_S
    while sum(map(len, shown.values())) < count and time.monotonic() < deadline:
        for message in consumer.consume(500, 0.2):
            assert message.error() is None
            shown[(message.key() or b"").decode()].append(int(message.value() or b""))
    consumer.close()
    return shown


@pytest.mark.java
@pytest.mark.scenario("transactions", client=CLIENT)
@pytest.mark.parametrize(("release", "guarantee"), GUARANTEES)
def test_words_are_counted_exactly_once(broker: Broker, topic_name: str, command: list[str], guarantee: str) -> None:
    source, target = f"{topic_name}-in", f"{topic_name}-out"
    for name in (source, target):
        create_topic(broker.bootstrap, name, 2)
    expected = _fill(broker.bootstrap, source)
    with running(command, broker.bootstrap, guarantee, topic_name, source, target):
        shown = _shown(broker.bootstrap, target, sum(expected.values()))
    assert shown == {word: list(range(1, count + 1)) for word, count in expected.items()}


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.scenario("restart", client=CLIENT)
@pytest.mark.parametrize(("release", "guarantee"), GUARANTEES)
def test_no_word_is_counted_twice_while_the_broker_restarts(
    broker: Broker, topic_name: str, command: list[str], guarantee: str
) -> None:
    """The words are the numbers of a load: each is counted, once, whatever Streams has to do again.

    Of a cluster, a leader, the coordinator and the controller are killed.
    """
    source, target = f"{topic_name}-in", f"{topic_name}-out"
    with mortal_of(broker) as mortal:
        for name in (source, target):
            create_topic(mortal.bootstrap, name, LOAD_PARTITIONS)
        counted = Held(mortal.bootstrap, target)
        with running(command, mortal.bootstrap, guarantee, topic_name, source, target):
            load = ConfluentClient(mortal.bootstrap).start_load(source)
            for disturb in (*disturbances_of(mortal, [source, target], [topic_name]), mortal.why_gone):
                wanted = counted.count() + RECORDS_BETWEEN
                wait_until(lambda: counted.count() >= wanted, "more words to be counted", TIMEOUT_S)  # noqa: B023
                disturb()
            places = load.finish()
            shown = _shown(mortal.bootstrap, target, len(places))
    assert shown == {str(number): [1] for number in places}
