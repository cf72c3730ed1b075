"""Kafka Connect's file source and sink: lines of a file go through a topic into another file."""

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from compat_tests.brokers.own_broker import Mortal
from compat_tests.clients.aiokafka_client import AiokafkaClient
from compat_tests.clients.client import GroupState
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.connect.workers import Worker, append_lines, file_connectors, lines_of, wait_long
from harness.java_programs import MissingToolchainError
from harness.process import Broker

pytestmark = [pytest.mark.timeout(240), pytest.mark.together, pytest.mark.long_on_clusters]

LINES = 300
RUNNING, PAUSED = ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]


def _expected(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


@pytest.mark.scenario("records", client="connect-standalone-{connect_version}")
def test_a_standalone_worker_copies_a_file(
    broker: Broker, connect_version: str, topic_name: str, tmp_path: Path
) -> None:
    connectors = file_connectors("copy", topic_name, tmp_path)
    append_lines(tmp_path / "copy.in", range(LINES))
    try:
        worker = Worker(connect_version, broker.bootstrap, tmp_path, connectors=connectors)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with worker:
        wait_long(lambda: lines_of(tmp_path / "copy.out") == _expected(LINES), f"{LINES} lines")
        append_lines(tmp_path / "copy.in", range(LINES, 2 * LINES))
        wait_long(lambda: lines_of(tmp_path / "copy.out") == _expected(2 * LINES), f"{2 * LINES} lines")
    client = ConfluentClient(broker.bootstrap)
    assert client.watermarks(topic_name) == (0, 2 * LINES)
    assert client.committed("connect-copy-sink", topic_name) == 2 * LINES


@pytest.mark.long
@pytest.mark.scenario("restart", client="connect-standalone-{connect_version}")
def test_a_standalone_worker_continues_after_a_restart(
    broker: Broker, connect_version: str, topic_name: str, tmp_path: Path
) -> None:
    connectors = file_connectors("again", topic_name, tmp_path)
    for turn in (1, 2, 3):
        append_lines(tmp_path / "again.in", range((turn - 1) * LINES, turn * LINES))
        try:
            worker = Worker(connect_version, broker.bootstrap, tmp_path, connectors=connectors)
        except MissingToolchainError as missing:
            pytest.skip(str(missing))
        with worker:
            wait_long(lambda: lines_of(tmp_path / "again.out")[-1:] == _expected(turn * LINES)[-1:], f"turn {turn}")  # noqa: B023
    assert lines_of(tmp_path / "again.out") == _expected(3 * LINES)


class Distributed:
    """A distributed worker on a broker of its own, with one source and one sink."""

    def __init__(self, version: str, broker: Mortal, directory: Path) -> None:
        self.version = version
        self.broker = broker
        self.directory = directory
        self.topic = f"lines-{version}"
        self.group = f"connect-{version}"
        self.name = f"pass-{version}"
        self.connectors = file_connectors(self.name, self.topic, directory)
        self.worker = self.another("one")
        self.client = ConfluentClient(broker.bootstrap)
        self.count = 0

    def another(self, name: str) -> Worker:
        """A worker of this group, not started yet."""
        return Worker(self.version, self.broker.bootstrap, self.directory / name, group=self.group)

    def configure(self) -> None:
        """Hands the worker its connectors and waits until they run."""
        for connector in self.connectors.values():
            body = {"name": connector["name"], "config": connector}
            wait_long(lambda: self.worker.is_accepted("POST", "/connectors", body), "the connector")  # noqa: B023
        for connector in self.connectors.values():
            self.wait_for(connector["name"], RUNNING)

    def wait_for(self, name: str, states: list[str]) -> None:
        wait_long(lambda: self.worker.states(name) == states, f"{name} to be {states}")

    def write(self) -> None:
        """Write more lines to the source's file."""
        append_lines(self.directory / f"{self.name}.in", range(self.count, self.count + LINES))
        self.count += LINES

    @property
    def out(self) -> list[str]:
        return lines_of(self.directory / f"{self.name}.out")

    def wait_for_all(self) -> None:
        wait_long(lambda: set(self.out) == set(_expected(self.count)), f"{self.count} lines")


@pytest.fixture(scope="module")
def distributed(
    mortal: Mortal, connect_version: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Distributed]:
    directory = tmp_path_factory.mktemp("connect")
    try:
        found = Distributed(connect_version, mortal, directory)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with found.worker:
        append_lines(directory / f"{found.name}.in", range(0))
        found.configure()
        yield found


@pytest.mark.scenario("records", client="connect-distributed-{connect_version}")
def test_lines_pass_in_order(distributed: Distributed) -> None:
    distributed.write()
    distributed.wait_for_all()
    assert distributed.out == _expected(distributed.count)


@pytest.mark.scenario("groups", client="connect-distributed-{connect_version}")
def test_workers_and_sinks_are_groups(distributed: Distributed) -> None:
    distributed.write()
    distributed.wait_for_all()
    client = AiokafkaClient(distributed.broker.bootstrap)  # tells of groups that aren't consumers' too
    workers, sinks = distributed.group, f"connect-{distributed.name}-sink"
    wait_long(lambda: client.describe_group(sinks).state == "Stable", "the sink's group")
    assert {workers, sinks} <= client.groups()
    assert client.describe_group(sinks) == GroupState("Stable", "consumer", 1)
    assert client.describe_group(workers) == GroupState("Stable", "connect", 1)
    wait_long(lambda: client.committed(sinks, distributed.topic) == distributed.count, "the sink's offset")


@pytest.mark.scenario("admin", client="connect-distributed-{connect_version}")
def test_connects_internal_topics_are_compacted(distributed: Distributed) -> None:
    client = distributed.client
    kept = {f"{distributed.group}-{kind}": count for kind, count in (("config", 1), ("offset", 2), ("status", 2))}
    assert {name: client.topics()[name] for name in kept} == kept
    assert {client.configs(name)["cleanup.policy"] for name in kept} == {"compact"}


@pytest.mark.scenario("admin", client="connect-distributed-{connect_version}")
def test_a_paused_source_waits(distributed: Distributed) -> None:
    source = f"{distributed.name}-source"
    distributed.worker.ask("PUT", f"/connectors/{source}/pause")
    distributed.wait_for(source, PAUSED)
    end = distributed.client.watermarks(distributed.topic)
    distributed.write()
    assert distributed.client.watermarks(distributed.topic) == end
    distributed.worker.ask("PUT", f"/connectors/{source}/resume")
    distributed.wait_for_all()


@pytest.mark.scenario("errors", client="connect-distributed-{connect_version}")
def test_an_unknown_connector_is_refused(distributed: Distributed) -> None:
    with pytest.raises(HTTPError, match=r"500|400"):
        distributed.worker.ask("POST", "/connectors", {"name": "bad", "config": {"connector.class": "NoSuchSource"}})
    assert distributed.worker.states("bad") == []


@pytest.mark.differs(
    "kafka-3.9.1",
    reason="when a broker that is its own controller came back, a sink goes on after minutes",
    cases=["2.7.2"],
)
@pytest.mark.scenario("restart", client="connect-distributed-{connect_version}")
def test_lines_continue_after_a_restart_of_the_broker(distributed: Distributed) -> None:
    distributed.write()
    distributed.broker.stop()
    distributed.write()
    distributed.broker.start()
    distributed.wait_for_all()
    distributed.wait_for(f"{distributed.name}-sink", RUNNING)


@pytest.mark.long
@pytest.mark.scenario("groups", client="connect-distributed-{connect_version}")
def test_a_second_worker_takes_over(distributed: Distributed) -> None:
    source, sink = f"{distributed.name}-source", f"{distributed.name}-sink"
    with distributed.another("two") as second:
        client = AiokafkaClient(distributed.broker.bootstrap)
        wait_long(lambda: client.describe_group(distributed.group).members == 2, "two workers")
        distributed.worker.stop()
        wait_long(lambda: client.describe_group(distributed.group).members == 1, "one worker")
        wait_long(lambda: second.states(source) == RUNNING == second.states(sink), "both connectors")
        distributed.write()
        distributed.wait_for_all()
        wait_long(lambda: second.is_accepted("DELETE", f"/connectors/{sink}"), "the sink's end")
        wait_long(lambda: second.states(sink) == [], "no sink")
