"""``kafkapy topics`` on a running broker."""

import json
from typing import Any

import pytest

from kafkapy.clients import topics as client_topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NoBrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.metadata import MetadataResponse
from tests.cli.conftest import Run


def test_create_and_list(run: Run) -> None:
    created = run("topics", "create", "t-one", "t-two", "--partitions", "2", "-c", "retention.ms=5")
    assert (created.code, created.out) == (0, "created: t-one, t-two\n")
    listed = json.loads(run("topics", "list", "--json").out)
    assert {"topic": "t-two", "partitions": 2, "replicas": 1} in listed
    table = run("topics", "list").out
    assert "partitions" in table
    assert any(line.split() == ["t-one", "2", "1"] for line in table.splitlines())


def test_an_existing_topic_is_an_error_without_if_not_exists(run: Run) -> None:
    run("topics", "create", "t-there")
    refused = run("topics", "create", "t-there")
    assert refused.code == 1
    assert refused.err == "kafkapy: topic t-there: Topic 't-there' already exists. (TOPIC_ALREADY_EXISTS)\n"
    again = run("topics", "create", "t-there", "t-not-yet", "--if-not-exists", "--json")
    assert json.loads(again.out) == {"created": ["t-not-yet"]}
    assert run("topics", "create", "bad name", "--if-not-exists").code == 1


def test_internal_topics_show_on_request(run: Run) -> None:
    run("topics", "create", "t-plain")
    run("groups", "reset-offsets", "t-group", "--topic", "t-plain", "--to", "latest")
    assert "__consumer_offsets" not in run("topics", "list").out
    assert "__consumer_offsets" in run("topics", "list", "--internal").out


def test_a_partition_without_a_leader_is_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk has failed, for example."""
    run("topics", "create", "t-down", "-p", "2")
    run("groups", "reset-offsets", "t-down-group", "--topic", "t-down", "--to", "earliest")
    metadata = ClusterClient.metadata

    def leaderless(self: ClusterClient, *words: Any, **options: Any) -> MetadataResponse:
        answer = metadata(self, *words, **options)
        for partition in (each for topic in answer.topics for each in topic.partitions if each.partition_index):
            partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE
        return answer

    monkeypatch.setattr(ClusterClient, "metadata", leaderless)
    rows = json.loads(run("topics", "describe", "t-down", "--json").out)["partitions"]
    assert [(row["leader"] is None, row["first_offset"], row["end_offset"]) for row in rows] == [
        (False, 0, 0),
        (True, None, None),
    ]
    lags = json.loads(run("groups", "describe", "t-down-group", "--json").out)["offsets"]
    assert [(row["committed"], row["lag"]) for row in lags] == [(0, 0), (0, None)]


def test_describe(run: Run) -> None:
    run("topics", "create", "t-shown", "-p", "2", "-c", "segment.ms=7")
    run("produce", "t-shown", stdin=b"a\nb\n")
    described = json.loads(run("topics", "describe", "t-shown", "--json").out)
    assert described["configs"] == {"segment.ms": "7"}
    assert [partition["end_offset"] for partition in described["partitions"]] == [2, 0]
    assert described["partitions"][0]["in_sync"] == [0]
    table = run("topics", "describe", "t-shown").out
    assert any(line.split() == ["0", "0", "0", "0", "no", "0", "2"] for line in table.splitlines())
    assert any(line.split() == ["segment.ms", "7"] for line in table.splitlines())


def test_describe_without_settings_of_its_own(run: Run) -> None:
    run("topics", "create", "t-bare")
    assert "its own settings" not in run("topics", "describe", "t-bare").out


def test_alter(run: Run) -> None:
    run("topics", "create", "t-changed", "-c", "segment.ms=7")
    altered = run(
        "topics", "alter", "t-changed", "-p", "3", "-c", "cleanup.policy=compact", "--delete-config", "segment.ms"
    )
    assert (altered.code, altered.out) == (0, "altered: t-changed\n")
    described = json.loads(run("topics", "describe", "t-changed", "--json").out)
    assert (len(described["partitions"]), described["configs"]) == (3, {"cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alter", "t"], "nothing to alter: give --partitions, --config or --delete-config"),
        (["alter", "t", "-c", "retention.ms"], "'retention.ms' is no setting: write key=value"),
        (["alter", "t-none", "-c", "retention.ms=1"], "topic t-none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (["create", "t-x", "-c", "nope=1"], "topic t-x: Unknown topic config name: nope (INVALID_CONFIG)"),
        (["describe", "t-none"], "topic t-none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (["delete", "t-none", "--yes"], "topic t-none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
    ],
)
def test_refusals_are_one_line(run: Run, words: list[str], message: str) -> None:
    refused = run("topics", *words)
    assert refused.code == 1
    assert refused.err.startswith("kafkapy: ")
    assert refused.err.count("\n") == 1
    assert message in refused.err


def test_each_topic_is_reported(run: Run) -> None:
    created = run("topics", "create", "t-good", "bad name", "t-good", "t-last", "--json")
    assert (created.code, json.loads(created.out)) == (1, {"created": ["t-good", "t-last"]})
    (line,) = created.err.splitlines()
    assert line.startswith("kafkapy: topic bad name: ")
    deleted = run("topics", "delete", "t-good", "t-missing", "t-last", "-y")
    assert (deleted.code, deleted.out) == (1, "deleted: t-good, t-last\n")
    assert deleted.err == "kafkapy: topic t-missing does not exist (UNKNOWN_TOPIC_OR_PARTITION)\n"


def test_topics_after_a_broken_connection_are_not_tried(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    create_topic = client_topics.create_topic

    def break_at_the_second(client: ClusterClient, name: str, **options: Any) -> None:
        if name == "t-second":
            raise NoBrokerError("the connection broke")
        create_topic(client, name, **options)

    monkeypatch.setattr(client_topics, "create_topic", break_at_the_second)
    created = run("topics", "create", "t-first", "t-second", "t-third", "t-fourth")
    assert (created.code, created.out) == (1, "created: t-first\n")
    assert created.err == "kafkapy: the connection broke\nkafkapy: not tried: t-third, t-fourth\n"
    assert run("topics", "create", "t-second").err == "kafkapy: the connection broke\n"


def test_delete_asks_first(run: Run) -> None:
    run("topics", "create", "t-goes")
    assert run("topics", "delete", "t-goes", stdin=b"n\n").code == 1
    assert "t-goes" in run("topics", "list").out
    assert run("topics", "delete", "t-goes", stdin=b"y\n").out.strip() == "deleted: t-goes"
    assert "t-goes" not in run("topics", "list").out
