"""Kafka's own command-line tools, of three releases, unchanged."""

import json
import random
import re

import pytest

from compat_tests.clients.client import KafkaCodeError, ProduceOptions, Sent, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.java_tools import JavaTools
from compat_tests.process import Broker

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def tools(tools_version: str) -> JavaTools:
    return JavaTools(tools_version)


@pytest.fixture
def client(broker: Broker) -> ConfluentClient:
    return ConfluentClient(broker.bootstrap)


@pytest.fixture
def topic(client: ConfluentClient, topic_name: str) -> str:
    client.create_topic(topic_name, 2)
    wait_until(lambda: topic_name in client.topics(), f"topic {topic_name}")
    return topic_name


def test_topic_command(broker: Broker, tools: JavaTools, client: ConfluentClient, topic_name: str) -> None:
    server = ("--bootstrap-server", broker.bootstrap)
    create = ("--create", "--topic", topic_name, "--partitions", "3", "--config", "retention.ms=5000")
    assert f"Created topic {topic_name}" in tools.run("TopicCommand", *server, *create)
    assert topic_name in tools.run("TopicCommand", *server, "--list").splitlines()
    described = tools.run("TopicCommand", *server, "--describe", "--topic", topic_name)
    assert re.search(r"PartitionCount: ?3\s+ReplicationFactor: ?1", described), described
    assert "retention.ms=5000" in described
    assert len(re.findall(r"Partition: \d\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 3
    tools.run("TopicCommand", *server, "--alter", "--topic", topic_name, "--partitions", "5")
    wait_until(lambda: client.topics()[topic_name] == 5, "five partitions")
    assert "already exists" in tools.fails("TopicCommand", *server, *create)
    tools.run("TopicCommand", *server, "--delete", "--topic", topic_name)
    wait_until(lambda: topic_name not in client.topics(), "the topic's end")


def test_config_command(broker: Broker, tools: JavaTools, topic: str) -> None:
    entity = ("--bootstrap-server", broker.bootstrap, "--entity-type", "topics", "--entity-name", topic)
    tools.run(
        "ConfigCommand", *entity, "--alter", "--add-config", "max.message.bytes=4321,cleanup.policy=[compact,delete]"
    )
    described = tools.run("ConfigCommand", *entity, "--describe")
    assert "max.message.bytes=4321" in described
    assert "cleanup.policy=compact,delete" in described
    tools.run("ConfigCommand", *entity, "--alter", "--delete-config", "max.message.bytes")
    assert "max.message.bytes" not in tools.run("ConfigCommand", *entity, "--describe")


def test_producer_and_consumer_performance(broker: Broker, tools: JavaTools, topic: str) -> None:
    count = ("--num-records", "20000", "--record-size", "100", "--throughput", "-1")
    properties = ("--producer-props", f"bootstrap.servers={broker.bootstrap}", "acks=all", "compression.type=lz4")
    produced = tools.run("ProducerPerformance", "--topic", topic, *count, *properties)
    assert "20000 records sent" in produced
    address = "--broker-list" if tools.version.startswith("2.") else "--bootstrap-server"
    arguments = (address, broker.bootstrap, "--topic", topic, "--messages", "20000", "--timeout", "20000")
    consumed = tools.run("ConsumerPerformance", *arguments)
    columns = consumed.strip().splitlines()[-1].split(",")
    assert float(columns[4]) == 20000, consumed


def _events(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_verifiable_producer_and_consumer(broker: Broker, tools: JavaTools, topic: str) -> None:
    server = "--broker-list" if tools.version.startswith("2.") else "--bootstrap-server"
    arguments = (server, broker.bootstrap, "--topic", topic, "--max-messages", "500")
    produced = _events(tools.run("VerifiableProducer", *arguments, "--acks", "-1"))
    assert sum(1 for event in produced if event["name"] == "producer_send_success") == 500
    group = ("--group-id", f"verifiable-{topic}", "--reset-policy", "earliest")
    consumed = _events(tools.run("VerifiableConsumer", *arguments, *group))
    assert sum(int(str(event["count"])) for event in consumed if event["name"] == "records_consumed") == 500
    assert all(event["success"] for event in consumed if event["name"] == "offsets_committed")


def test_console_producer_and_consumer(broker: Broker, tools: JavaTools, topic: str) -> None:
    server = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    tools.run("ConsoleProducer", *server, text="first\nsecond\nthird\n")
    consumed = tools.run("ConsoleConsumer", *server, "--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    assert sorted(consumed.split()) == ["first", "second", "third"]


def test_get_offset_shell(broker: Broker, tools: JavaTools, client: ConfluentClient, topic: str) -> None:
    client.produce(topic, [Sent(b"x", partition=1)] * 7)
    server = "--broker-list" if tools.version.startswith("2.") else "--bootstrap-server"
    latest = tools.run("GetOffsetShell", server, broker.bootstrap, "--topic", topic, "--time", "-1")
    assert sorted(latest.split()) == [f"{topic}:0:0", f"{topic}:1:7"]
    earliest = tools.run("GetOffsetShell", server, broker.bootstrap, "--topic", topic, "--time", "-2")
    assert sorted(earliest.split()) == [f"{topic}:0:0", f"{topic}:1:0"]


def test_consumer_group_command(broker: Broker, tools: JavaTools, client: ConfluentClient, topic: str) -> None:
    group = f"group-of-{topic}"
    client.produce(topic, [Sent(b"x", partition=number % 2) for number in range(10)])
    client.commit(group, topic, {0: 2, 1: 5})
    server = ("--bootstrap-server", broker.bootstrap)
    assert group in tools.run("ConsumerGroupCommand", *server, "--list").split()
    described = tools.run("ConsumerGroupCommand", *server, "--describe", "--group", group)
    lags = {columns[2]: columns[3:6] for line in described.splitlines() if (columns := line.split())[:1] == [group]}
    assert lags == {"0": ["2", "5", "3"], "1": ["5", "5", "0"]}
    reset = ("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    tools.run("ConsumerGroupCommand", *server, *reset)
    assert [client.committed(group, topic, partition) for partition in (0, 1)] == [0, 0]
    tools.run("ConsumerGroupCommand", *server, "--delete-offsets", "--group", group, "--topic", topic)
    assert client.committed(group, topic) is None
    client.commit(group, topic, {0: 1})
    tools.run("ConsumerGroupCommand", *server, "--delete", "--group", group)
    assert group not in client.groups()


def test_delete_records_and_log_dirs_commands(
    broker: Broker, tools: JavaTools, client: ConfluentClient, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    client.produce(topic, [Sent(b"x")] * 10)
    wanted = tmp_path_factory.mktemp("delete") / "offsets.json"
    wanted.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]}))
    server = ("--bootstrap-server", broker.bootstrap)
    tools.run("DeleteRecordsCommand", *server, "--offset-json-file", str(wanted))
    assert client.watermarks(topic) == (6, 10)
    listing = tools.run("LogDirsCommand", *server, "--describe", "--topic-list", topic)
    directories = json.loads(listing[listing.index("{") :])
    (directory,) = directories["brokers"][0]["logDirs"]
    sizes = {entry["partition"]: entry["size"] for entry in directory["partitions"]}
    assert sizes[f"{topic}-0"] > 0
    assert sizes[f"{topic}-1"] == 0


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_dump_log_reads_the_data_directory(
    broker: Broker, tools: JavaTools, client: ConfluentClient, topic_name: str, codec: str
) -> None:
    if broker.data is None:
        pytest.skip("a remote broker's files are out of reach")
    client.create_topic(topic_name, configs={"segment.bytes": "20000"})
    values = [f"value {i} ".encode() + random.Random(i).randbytes(800) for i in range(50)]
    for first in range(0, 50, 5):  # batches of about 4096 bytes, the distance of an index's entries
        sent = [Sent(value, b"key") for value in values[first : first + 5]]
        client.produce(topic_name, sent, ProduceOptions(codec))
    segments = sorted((broker.data / f"{topic_name}-0").glob("*.log"))
    assert len(segments) > 1
    files = ",".join(map(str, segments))
    dumped = tools.run("DumpLogSegments", "--files", files, "--deep-iteration", "--print-data-log")
    assert "Found invalid messages" not in dumped
    assert "isvalid: false" not in dumped
    assert re.findall(r"payload: value (\d+) ", dumped) == [str(number) for number in range(50)]
    for index in ("index", "timeindex"):  # of a segment that is closed: Apache Kafka keeps zeros ahead in open ones
        file = str(segments[0].with_suffix(f".{index}"))
        verified = tools.run("DumpLogSegments", "--files", file, "--index-sanity-check")
        assert "passed sanity check" in verified


def test_a_refusal_reaches_the_tool(broker: Broker, tools: JavaTools, client: ConfluentClient) -> None:
    said = tools.fails("TopicCommand", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "not valid")
    assert "InvalidTopicException" in said
    with pytest.raises(KafkaCodeError):
        client.create_topic("not valid")
