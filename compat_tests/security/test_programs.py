"""Programs that move records, on a listener with TLS and SCRAM: Kafka's tools and Connect, MirrorMaker, the mirror."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from compat_tests.clients.client import Sent, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.connect.workers import MirrorMaker, Worker, append_lines, file_connectors, lines_of, wait_long
from compat_tests.clients.java_tools.tools import Said, ToolsOf
from compat_tests.security.secured import SecuredBroker
from harness.jars import VERSIONS
from harness.java_programs import MissingToolchainError
from harness.kafkapy_process import KafkapyProcess, kafkapy_command
from harness.process import Broker
from harness.real_kafka import write_properties

KIND = "scram"
VALUES = [b"%d" % number for number in range(50)]
WAIT_S = 30
pytestmark = [pytest.mark.together, pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture
def properties(secured_broker: SecuredBroker) -> dict[str, str]:
    """Those of a Java client."""
    return {name: str(value) for name, value in secured_broker.client_settings(KIND, "java").items()}


@pytest.fixture(scope="module")
def plain_broker() -> Iterator[Broker]:
    """A broker of kafkapy without security, to which records are copied."""
    with KafkapyProcess() as broker:
        yield broker


def fill(broker: SecuredBroker, topic: str) -> None:
    ConfluentClient(broker.process.bootstrap).create_topic(topic)
    producer = Producer(broker.client_settings(KIND, "confluent-kafka"))
    for value in VALUES:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_S) == 0


def check_copy(broker: Broker, topic: str) -> None:
    client = ConfluentClient(broker.bootstrap)
    wait_long(lambda: topic in client.topics(), "the copy")
    assert [each.value for each in client.consume(topic, len(VALUES))] == VALUES


@pytest.mark.scenario("security", client="java-{tools_version}")
def test_tools(
    secured_broker: SecuredBroker,
    properties: Mapping[str, str],
    topic_name: str,
    tools_version: str,
    tools_of: ToolsOf,
    tmp_path: Path,
) -> None:
    """The tools that are not among the tests of clients, of groups, configurations, offsets and records."""
    fill(secured_broker, topic_name)
    config = str(write_properties(tmp_path / "client.properties", properties))
    tools = tools_of(tools_version)
    here = ["--bootstrap-server", properties["bootstrap.servers"], "--command-config", config]
    group = f"group-of-{topic_name}"
    reset = ["--reset-offsets", "--to-earliest", "--execute", "--topic", topic_name]
    assert topic_name in tools.run("ConsumerGroupCommand", *here, "--group", group, *reset)
    entity = ["--entity-type", "topics", "--entity-name", topic_name]
    tools.run("ConfigCommand", *here, *entity, "--alter", "--add-config", "retention.ms=12345000")
    assert "retention.ms=12345000" in tools.run("ConfigCommand", *here, *entity, "--describe")
    assert "Fetch(1): " in tools.run("BrokerApiVersionsCommand", *here)
    wrong = {**properties, "sasl.jaas.config": properties["sasl.jaas.config"].replace("alice-secret", "a-guess")}
    refused = refusal_of(tools.attempt("TopicCommand", *here[:2], "--list", "--command-config",
                                       str(write_properties(tmp_path / "wrong.properties", wrong))))  # fmt: skip
    assert "SaslAuthenticationException" in refused
    assert "a-guess" not in refused


def refusal_of(said: Said) -> str:
    assert said.code != 0
    return said.all


@pytest.mark.scenario("security", client=f"connect-standalone-{VERSIONS[0]}")
def test_connect(secured_broker: SecuredBroker, properties: Mapping[str, str], topic_name: str, tmp_path: Path) -> None:
    append_lines(tmp_path / "copy.in", range(len(VALUES)))
    connectors = file_connectors("copy", topic_name, tmp_path)
    address = properties["bootstrap.servers"]
    try:
        worker = Worker(VERSIONS[0], address, tmp_path, connectors=connectors, security=properties)
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with worker:
        wait_long(lambda: len(lines_of(tmp_path / "copy.out")) == len(VALUES), "the lines")
    client = ConfluentClient(secured_broker.process.bootstrap)
    wait_until(lambda: client.committed("connect-copy-sink", topic_name) == len(VALUES), "the sink's offset")


@pytest.mark.scenario("security", client=f"mirror-maker-{VERSIONS[0]}")
def test_mirror_maker(
    secured_broker: SecuredBroker, properties: Mapping[str, str], topic_name: str, plain_broker: Broker
) -> None:
    fill(secured_broker, topic_name)
    security = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
    try:
        mirror = MirrorMaker(
            VERSIONS[0],
            properties["bootstrap.servers"],
            plain_broker.bootstrap,
            topics=topic_name,
            groups="",
            source_security=security,
        )
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with mirror:
        check_copy(plain_broker, f"source.{topic_name}")


def test_mirror(
    secured_broker: SecuredBroker,
    properties: Mapping[str, str],
    topic_name: str,
    plain_broker: Broker,
    tmp_path: Path,
) -> None:
    """``kafkapy mirror`` from the secured broker to the other one, and of another topic the other way."""
    back = f"{topic_name}-back"
    fill(secured_broker, topic_name)
    there, here = ConfluentClient(plain_broker.bootstrap), ConfluentClient(secured_broker.process.bootstrap)
    there.create_topic(back)
    there.produce(back, list(map(Sent, VALUES)))
    config = str(write_properties(tmp_path / "client.properties", properties))
    secured, plain = properties["bootstrap.servers"], plain_broker.bootstrap
    for topic, words in (
        (topic_name, ["--from", secured, "--from-config", config, "--to", plain]),
        (back, ["--from", plain, "--to", secured, "--to-config", config]),
    ):
        command = [*kafkapy_command(), "mirror", "--once", "--topics", topic, *words]
        run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert run.returncode == 0, run.stderr
    check_copy(plain_broker, topic_name)
    assert [each.value for each in here.consume(back, len(VALUES))] == VALUES
