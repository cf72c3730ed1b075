"""kcat, as Debian packages it (librdkafka under a command line)."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import CODECS, START_MS
from compat_tests.clients.confluent_client import ConfluentClient
from harness.process import Broker

pytestmark = pytest.mark.scenario("records", client="kcat")


class Kcat:
    """The command, pointed at one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def attempt(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Runs it, whatever its exit code."""
        command = ["kcat", "-b", self.bootstrap, "-m", "20", "-X", "fetch.wait.max.ms=50", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)

    def run(self, *arguments: str, text: str = "") -> str:
        """Runs it; returns its output."""
        run = self.attempt(*arguments, text=text)
        assert run.returncode == 0, f"kcat {' '.join(arguments)} ended with {run.returncode}:\n{run.stdout}{run.stderr}"
        return run.stdout

    def consume(self, topic: str, *arguments: str) -> list[dict[str, Any]]:
        """Every record that it prints up to the end of the topic, or of `arguments`."""
        lines = self.run("-C", "-t", topic, "-J", "-e", "-q", *arguments).splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture
def kcat(broker: Broker) -> Kcat:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed (Debian's package of that name)")
    return Kcat(broker.bootstrap)


@pytest.fixture
def topic(broker: Broker, topic_name: str) -> str:
    """A fresh topic with two partitions."""
    create_topic(broker.bootstrap, topic_name, 2)
    return topic_name


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_read_with_keys_and_headers(kcat: Kcat, topic: str, codec: str) -> None:
    text = "".join(f"k{i}:value {i} {'v' * 100}\n" for i in range(50))
    kcat.run("-P", "-t", topic, "-p", "1", "-K", ":", "-H", "origin=kcat", "-z", codec, text=text)
    found = kcat.consume(topic, "-p", "1", "-o", "beginning")
    assert [f"{each['key']}:{each['payload']}\n" for each in found] == text.splitlines(keepends=True)
    assert [each["offset"] for each in found] == list(range(50))
    assert all(each["headers"] == ["origin", "kcat"] for each in found)
    assert kcat.consume(topic, "-p", "0", "-o", "beginning") == []


def test_an_idempotent_producer_is_served(kcat: Kcat, topic: str) -> None:
    settings = ["-X", "enable.idempotence=true", "-X", "acks=all", "-X", "batch.num.messages=10"]
    kcat.run("-P", "-t", topic, "-p", "0", *settings, text="".join(f"{i}\n" for i in range(500)))
    assert [int(each["payload"]) for each in kcat.consume(topic, "-p", "0")] == list(range(500))


def test_a_topic_is_created_when_it_is_used(kcat: Kcat, topic_name: str) -> None:
    kcat.run("-P", "-t", topic_name, text="first\n")
    assert [each["payload"] for each in kcat.consume(topic_name)] == ["first"]


def test_nulls_and_empty_values_stay_different(kcat: Kcat, topic: str) -> None:
    kcat.run("-P", "-t", topic, "-p", "0", "-K", ":", "-Z", text="deleted:\n")
    (found,) = kcat.consume(topic, "-p", "0")
    assert (found["key"], found["payload"]) == ("deleted", None)


@pytest.mark.scenario("offset resets", client="kcat")
def test_reading_starts_and_stops_at_the_given_offsets(kcat: Kcat, topic: str) -> None:
    kcat.run("-P", "-t", topic, "-p", "0", text="".join(f"{i}\n" for i in range(20)))
    assert [each["offset"] for each in kcat.consume(topic, "-p", "0", "-o", "7", "-c", "3")] == [7, 8, 9]
    assert [each["offset"] for each in kcat.consume(topic, "-p", "0", "-o", "-2")] == [18, 19]
    times = [each["ts"] for each in kcat.consume(topic, "-p", "0")]
    assert len(kcat.consume(topic, "-p", "0", "-o", f"s@{times[0]}")) == 20
    assert kcat.consume(topic, "-p", "0", "-o", f"s@{times[-1] + 60_000}") == []


def test_offsets_are_asked_by_time(kcat: Kcat, topic: str) -> None:
    kcat.run("-P", "-t", topic, "-p", "0", text="".join(f"{i}\n" for i in range(20)))
    wanted = {"-2": 0, "-1": 20, f"{START_MS}": 0}
    for timestamp, offset in wanted.items():
        assert f"{topic} [0] offset {offset}" in kcat.run("-Q", "-t", f"{topic}:0:{timestamp}")


@pytest.mark.scenario("admin", client="kcat")
def test_metadata_names_the_brokers_and_the_partitions(kcat: Kcat, topic: str) -> None:
    listed = json.loads(kcat.run("-L", "-J", "-t", topic))
    assert sorted(broker["name"] for broker in listed["brokers"]) == sorted(kcat.bootstrap.split(","))
    ids = {broker["id"] for broker in listed["brokers"]}
    assert listed["controllerid"] in ids
    (found,) = listed["topics"]
    assert found["topic"] == topic
    assert sorted(each["partition"] for each in found["partitions"]) == [0, 1]
    for each in found["partitions"]:
        for kind in ("replicas", "isrs"):
            assert {replica["id"] for replica in each[kind]} == ids
        assert each["leader"] == each["replicas"][0]["id"]
    assert topic in {each["topic"] for each in json.loads(kcat.run("-L", "-J"))["topics"]}


@pytest.mark.scenario("errors", client="kcat")
def test_an_unknown_topic_is_reported(kcat: Kcat, topic_name: str) -> None:
    said = kcat.attempt("-C", "-t", topic_name, "-e", "-X", "allow.auto.create.topics=false")
    assert said.returncode != 0
    assert "Unknown topic or partition" in said.stderr


@pytest.mark.scenario("groups", client="kcat")
def test_a_group_shares_partitions_and_continues(kcat: Kcat, topic: str, broker: Broker) -> None:
    group = f"group-of-{topic}"
    kcat.run("-P", "-t", topic, "-p", "0", text="a\nb\n")
    kcat.run("-P", "-t", topic, "-p", "1", text="c\n")
    settings = ["-X", "auto.offset.reset=earliest", "-e", "-q"]
    first = kcat.run("-G", group, topic, *settings).splitlines()
    assert sorted(first) == ["a", "b", "c"]
    kcat.run("-P", "-t", topic, "-p", "1", text="d\n")
    assert kcat.run("-G", group, topic, *settings).splitlines() == ["d"]
    client = ConfluentClient(broker.bootstrap)
    assert [client.committed(group, topic, partition) for partition in (0, 1)] == [2, 2]


@pytest.mark.scenario("errors", client="kcat")
def test_a_message_too_large_is_reported(kcat: Kcat, broker: Broker, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, configs={"max.message.bytes": "1000"})
    said = kcat.attempt("-P", "-t", topic_name, text="v" * 5000)
    assert "Message size too large" in said.stderr
    assert ConfluentClient(broker.bootstrap).watermarks(topic_name) == (0, 0)
