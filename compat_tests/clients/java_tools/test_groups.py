"""kafka-consumer-groups: list, describe, reset, delete."""

import re

import pytest

from compat_tests.clients.client import wait_until
from compat_tests.clients.java_tools.conftest import BrokerTools
from compat_tests.clients.kafka_python_client import KafkaPythonClient

pytestmark = pytest.mark.scenario("groups", client="kafka-tools-{tools_version}")

RECORDS = 20
RESETS = [
    (["--to-earliest"], 0),
    (["--to-latest"], RECORDS),
    (["--shift-by", "-5"], RECORDS - 5),
    (["--to-current"], RECORDS - 5),
    (["--to-offset", "7"], 7),
    (["--by-duration", "PT0S"], RECORDS),
    (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
]


@pytest.fixture
def group(tools: BrokerTools, topic_name: str) -> str:
    """A group that read a topic of its own name to the end and left."""
    tools.create(topic_name)
    tools.fill(topic_name, [f"{i}" for i in range(RECORDS)])
    name = f"group-of-{topic_name}"
    assert len(tools.consume(topic_name, RECORDS, "--group", name, "--from-beginning")) == RECORDS
    wait_until(lambda: "Empty" in _command(tools, name, "--describe", "--state"), "an empty group")
    return name


def _topic(group: str) -> str:
    return group.removeprefix("group-of-")


def _command(tools: BrokerTools, group: str, *arguments: str) -> str:
    return tools.run("ConsumerGroupCommand", "--group", group, *arguments)


def _committed(tools: BrokerTools, group: str) -> list[tuple[int, int]]:
    """The group's offset and lag, for each partition that the group has an offset of."""
    text = tools.attempt("ConsumerGroupCommand", "--group", group, "--describe", "--offsets").all
    rows = re.findall(rf"^{group}\s+{_topic(group)}\s+\d+\s+(\d+)\s+\d+\s+(\d+)", text, re.M)
    return [(int(offset), int(lag)) for offset, lag in rows]


def test_a_group_that_left_is_listed_and_described(tools: BrokerTools, group: str) -> None:
    assert group in tools.run("ConsumerGroupCommand", "--list").splitlines()
    assert re.search(rf"{group}\s+Empty", tools.run("ConsumerGroupCommand", "--list", "--state"))
    assert group not in tools.run("ConsumerGroupCommand", "--list", "--state", "Stable")
    assert _committed(tools, group) == [(RECORDS, 0)]
    assert "has no active members" in tools.attempt("ConsumerGroupCommand", "--group", group, "--describe").all
    assert re.search(rf"{group}\s+\S+\s+\(\d+\)\s+(-\s+)?Empty\s+0", _command(tools, group, "--describe", "--state"))


def test_a_groups_members_are_described(tools: BrokerTools, topic_name: str) -> None:
    tools.create(topic_name, 2)
    group = f"group-of-{topic_name}"
    member = KafkaPythonClient(tools.bootstrap).join(group, topic_name)
    try:
        wait_until(lambda: member.assignment == {0, 1}, "both partitions")
        state = _command(tools, group, "--describe", "--state")
        assert re.search(rf"{group}\s+\S+\s+\(\d+\)\s+\w+\s+Stable\s+1", state)
        members = _command(tools, group, "--describe", "--members", "--verbose")
        assert re.search(rf"{group}\s+\S+\s+/127.0.0.1\s+.* 2 .*[(:]0,\s?1", members)
        said = tools.attempt("ConsumerGroupCommand", "--group", group, "--delete").all
        assert "GroupNotEmptyException" in said
        wish = ["--reset-offsets", "--to-earliest", "--topic", topic_name, "--execute"]
        assert "inactive" in tools.attempt("ConsumerGroupCommand", "--group", group, *wish).all
        wish = ["--delete-offsets", "--topic", topic_name]
        said = tools.attempt("ConsumerGroupCommand", "--group", group, *wish).all
        assert "actively subscribed" in said
    finally:
        member.close()


def test_offsets_are_reset(tools: BrokerTools, group: str) -> None:
    topic = _topic(group)
    wish = ["--reset-offsets", "--to-earliest", "--topic", topic, "--dry-run"]
    assert re.search(rf"{group}\s+{topic}\s+0\s+0\b", _command(tools, group, *wish))
    assert _committed(tools, group) == [(RECORDS, 0)]
    for scenario, offset in RESETS:
        _command(tools, group, "--reset-offsets", *scenario, "--topic", topic, "--execute")
        assert _committed(tools, group) == [(offset, RECORDS - offset)]


def test_a_reset_group_reads_again(tools: BrokerTools, group: str) -> None:
    topic = _topic(group)
    _command(tools, group, "--reset-offsets", "--to-offset", "15", "--topic", f"{topic}:0", "--execute")
    assert tools.consume(topic, 5, "--group", group) == ["15", "16", "17", "18", "19"]


def test_a_groups_offsets_are_deleted(tools: BrokerTools, group: str) -> None:
    said = _command(tools, group, "--delete-offsets", "--topic", _topic(group))
    assert re.search(rf"{_topic(group)}\s+0\s+Successful", said)
    assert _committed(tools, group) == []


def test_a_group_is_deleted(tools: BrokerTools, group: str) -> None:
    assert "was successful" in _command(tools, group, "--delete")
    assert group not in tools.run("ConsumerGroupCommand", "--list").splitlines()
    assert "GroupIdNotFoundException" in tools.attempt("ConsumerGroupCommand", "--group", group, "--delete").all
    said = tools.attempt("ConsumerGroupCommand", "--group", group, "--describe").all
    assert re.search("does not exist|GroupIdNotFoundException", said)  # newer brokers tell newer tools so (KIP-1043)


@pytest.mark.differs("kafka-4.4.0", cases=["2.7.2"], reason="2.7's formatter does not know the records of its offsets")
def test_the_offsets_topic_is_read_with_kafkas_formatter(tools: BrokerTools, group: str) -> None:
    older = tools.version.startswith("2.")
    package = "kafka.coordinator.group.GroupMetadataManager$" if older else "org.apache.kafka.tools.consumer."
    wanted = ["--formatter", f"{package}OffsetsMessageFormatter", "--from-beginning", "--timeout-ms", "1500"]
    settings = ["--consumer-property", "exclude.internal.topics=false"]
    said = tools.attempt("ConsoleConsumer", "--topic", "__consumer_offsets", *wanted, *settings).out
    if older:
        assert f"[{group},{_topic(group)},0]::OffsetAndMetadata(offset={RECORDS}, " in said
    else:
        assert re.search(rf'"group":"{group}","topic":"{_topic(group)}","partition":0.*?"offset":{RECORDS},', said)
