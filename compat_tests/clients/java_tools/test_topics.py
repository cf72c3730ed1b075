"""kafka-topics, kafka-log-dirs, kafka-get-offsets, kafka-delete-records and kafka-broker-api-versions."""

import json
import re
from pathlib import Path

import pytest

from compat_tests.clients.client import wait_until
from compat_tests.clients.java_tools.conftest import BrokerTools

pytestmark = pytest.mark.scenario("admin", client="kafka-tools-{tools_version}")

PARTITION = re.compile(r"Partition: (\d+)\tLeader: (\d+)\tReplicas: (\S+)\tIsr: (\S+)")
NEWEST_IN_2_7 = {
    "Produce": 8, "Fetch": 12, "ListOffsets": 5, "Metadata": 9, "OffsetCommit": 8, "OffsetFetch": 7,
    "FindCoordinator": 3, "JoinGroup": 7, "Heartbeat": 4, "LeaveGroup": 4, "SyncGroup": 5, "DescribeGroups": 5,
    "ListGroups": 4, "ApiVersions": 3, "CreateTopics": 6, "DeleteTopics": 5, "DeleteRecords": 2, "InitProducerId": 4,
    "OffsetForLeaderEpoch": 3, "DescribeConfigs": 3, "AlterConfigs": 1, "DescribeLogDirs": 2, "CreatePartitions": 3,
    "DeleteGroups": 2, "IncrementalAlterConfigs": 1, "OffsetDelete": 0,
}  # fmt: skip
"""By API: the newest version of Apache Kafka 2.7.2; the oldest one is 0."""


def _describe(tools: BrokerTools, topic: str) -> str:
    return tools.run("TopicCommand", "--describe", "--topic", topic)


def _offsets(tools: BrokerTools, topic: str, *arguments: str) -> dict[int, int]:
    """Each partition's offset; one without an offset for the time is missing or -1, depending on the release."""
    lines = tools.by_older_name("GetOffsetShell", "--topic", topic, *arguments).splitlines()
    places = [line.rsplit(":", 2) for line in lines if line.startswith(topic)]
    return {int(partition): int(offset) for _, partition, offset in places if offset not in ("", "-1")}


def test_a_topics_life(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name, 3, "--config", "retention.ms=1000000")
    assert topic_name in tools.run("TopicCommand", "--list").splitlines()
    text = _describe(tools, topic_name)
    assert re.search(
        rf"PartitionCount: 3\s+ReplicationFactor: {tools.brokers}\s+Configs: (\S+,)?retention.ms=1000000", text
    )
    assert [int(number) for number, *_ in PARTITION.findall(text)] == [0, 1, 2]
    for _, leader, replicas, isr in PARTITION.findall(text):
        assert leader == replicas.split(",")[0]
        assert sorted(isr.split(",")) == sorted(replicas.split(","))
    tools.run("TopicCommand", "--alter", "--topic", topic_name, "--partitions", "5")
    wait_until(lambda: len(PARTITION.findall(_describe(tools, topic_name))) == 5, "five partitions")
    tools.run("TopicCommand", "--delete", "--topic", topic_name)
    wait_until(lambda: topic_name not in tools.run("TopicCommand", "--list").splitlines(), "the topic's end")


def test_replicas_are_placed_by_hand(tools: BrokerTools, topic_name: str) -> None:
    broker = tools.broker_id()
    tools.run("TopicCommand", "--create", "--topic", topic_name, "--replica-assignment", f"{broker},{broker}")
    assert PARTITION.findall(_describe(tools, topic_name)) == [("0", *[broker] * 3), ("1", *[broker] * 3)]


@pytest.mark.parametrize("kind", ["under-replicated", "unavailable", "under-min-isr", "at-min-isr"])
def test_healthy_partitions_are_not_reported(tools: BrokerTools, topic_name: str, kind: str) -> None:
    tools.create(topic_name)
    reported = tools.run("TopicCommand", "--describe", "--topic", topic_name, f"--{kind}-partitions")
    is_told = kind == "at-min-isr" and tools.brokers == tools.in_sync_needed
    assert len(PARTITION.findall(reported)) == (1 if is_told else 0)


def test_topics_are_refused_by_name(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name, 3)
    known, unknown = ["--topic", topic_name], ["--topic", f"{topic_name}-other"]
    refusals = {
        "TopicExistsException": ["--create", *known],
        "InvalidPartitionsException": ["--alter", *known, "--partitions", "2"],
        "does not exist as expected": ["--describe", *unknown],
        "InvalidReplicationFactorException": ["--create", *unknown, "--replication-factor", f"{tools.brokers + 1}"],
        "no.such.key": ["--create", *unknown, "--config", "no.such.key=1"],
    }
    for message, arguments in refusals.items():
        said = tools.attempt("TopicCommand", *arguments)
        assert said.code == 1
        assert message in said.all
    assert tools.attempt("TopicCommand", "--create", "--if-not-exists", *known).code == 0
    assert tools.attempt("TopicCommand", "--describe", "--if-exists", *unknown).code == 0


def test_offsets_are_shown_by_time(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name, 2)
    tools.fill(topic_name, [f"{i}" for i in range(30)])
    latest = _offsets(tools, topic_name, "--time", "-1")
    assert set(latest) == {0, 1}
    assert sum(latest.values()) == 30
    assert _offsets(tools, topic_name, "--time", "-2") == {0: 0, 1: 0}
    in_the_past = _offsets(tools, topic_name, "--time", "1000")
    assert in_the_past == {partition: 0 for partition, end in latest.items() if end}
    assert _offsets(tools, topic_name, "--time", "99999999999999") == {}


def test_records_are_deleted_and_the_size_of_the_log_is_shown(
    tools: BrokerTools, topic_name: str, tmp_path: Path
) -> None:
    tools.create(topic_name)
    tools.fill(topic_name, [f"{i}" for i in range(10)])
    wish = tmp_path / "delete.json"
    place = {"topic": topic_name, "partition": 0, "offset": 4}
    wish.write_text(json.dumps({"version": 1, "partitions": [place]}))
    out = tools.run("DeleteRecordsCommand", "--offset-json-file", str(wish))
    assert re.search(rf"partition: {topic_name}-0\s+low_watermark: 4", out)
    assert _offsets(tools, topic_name, "--time", "-2") == {0: 4}
    assert tools.consume(topic_name, 6, "--from-beginning") == ["4", "5", "6", "7", "8", "9"]
    wish.write_text(json.dumps({"version": 1, "partitions": [{**place, "offset": 11}]}))
    out = tools.attempt("DeleteRecordsCommand", "--offset-json-file", str(wish)).all
    assert "OffsetOutOfRangeException" in out
    report = tools.run("LogDirsCommand", "--describe", "--topic-list", topic_name)
    brokers = json.loads(report[report.index("{") :])["brokers"]
    assert len(brokers) == tools.brokers
    for broker in brokers:
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        (log,) = directory["partitions"]
        assert (log["partition"], log["offsetLag"], log["isFuture"]) == (f"{topic_name}-0", 0, False)
        assert log["size"] > 61


@pytest.mark.differs("kafka-4.4.0", reason="has dropped the versions of clients before 2.1 (KIP-896)")
def test_all_versions_of_2_7_are_listed(tools: BrokerTools) -> None:
    told = re.findall(
        r"^\t(\w+)\(\d+\): (\d+)(?: to (\d+))? \[usable: ", tools.run("BrokerApiVersionsCommand"), re.MULTILINE
    )
    served = {name: range(int(lowest), int(highest or lowest) + 1) for name, lowest, highest in told}
    assert {name for name, newest in NEWEST_IN_2_7.items() if not {0, newest} <= set(served.get(name, ()))} == set()
