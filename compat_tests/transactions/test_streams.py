"""Kafka Streams' word count with both of its exactly-once guarantees: every count is shown once, in order."""

import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from compat_tests.clients.client import LOAD_PARTITIONS, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.restarts import RECORDS_BETWEEN, Held, stall
from compat_tests.java_programs import MissingToolchainError, java_command
from compat_tests.own_broker import own_broker
from compat_tests.process import Broker, ChildProcess
from tools.jars import STREAMS

CLIENT = "kafka-streams-2.7.2"

SOURCE = Path(__file__).with_name("java") / "WordCount.java"
WORDS = ("kafka", "streams", "counts", "these", "words")
LINES = 600
TIMEOUT_S = 60
GUARANTEES = ("exactly_once", "exactly_once_beta")
QUIET = {"log_level": 0}


@pytest.fixture(scope="session")
def command() -> list[str]:
    """The word count, compiled."""
    try:
        return java_command("WordCount", [SOURCE], STREAMS)
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
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_words_are_counted_exactly_once(broker: Broker, topic_name: str, command: list[str], guarantee: str) -> None:
    source, target = f"{topic_name}-in", f"{topic_name}-out"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    for created in admin.create_topics([NewTopic(name, 2, 1) for name in (source, target)]).values():
        created.result(30)
    expected = _fill(broker.bootstrap, source)
    with running(command, broker.bootstrap, guarantee, topic_name, source, target):
        shown = _shown(broker.bootstrap, target, sum(expected.values()))
    assert shown == {word: list(range(1, count + 1)) for word, count in expected.items()}


def _restart(broker: ChildProcess) -> None:
    broker.stop()
    broker.start()


@pytest.mark.long
@pytest.mark.java
@pytest.mark.timeout(300)
@pytest.mark.scenario("restart", client=CLIENT)
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_no_word_is_counted_twice_while_the_broker_restarts(broker: Broker, command: list[str], guarantee: str) -> None:
    """The words are the numbers of a load: each is counted, once, whatever Streams has to do again."""
    with own_broker(broker, {}) as mortal:
        client = ConfluentClient(mortal.bootstrap)
        for name in ("in", "out"):
            client.create_topic(name, LOAD_PARTITIONS)
        wait_until(lambda: {"in", "out"} <= client.topics().keys(), "the topics")
        counted = Held(mortal.bootstrap, "out")
        with running(command, mortal.bootstrap, guarantee, "counter", "in", "out"):
            load = client.start_load("in")
            for disturb in (_restart, stall, ChildProcess.why_gone):
                wanted = counted.count() + RECORDS_BETWEEN
                wait_until(lambda: counted.count() >= wanted, "more words to be counted", TIMEOUT_S)  # noqa: B023
                disturb(mortal)
            places = load.finish()
            shown = _shown(mortal.bootstrap, "out", len(places))
    assert shown == {str(number): [1] for number in places}
