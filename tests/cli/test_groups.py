"""``kafkapy groups`` on a running broker."""

import json

import pytest

from kafkapy.clients.cluster import ClusterClient
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tests.cli.conftest import Run


def _offsets(run: Run, group: str) -> list[tuple[int | None, int | None, int | None]]:
    described = json.loads(run("groups", "describe", group, "--json").out)
    return [(row["committed"], row["end_offset"], row["lag"]) for row in described["offsets"]]


def test_reset_describe_list_delete(run: Run) -> None:
    run("topics", "create", "g-topic", "-p", "2")
    run("produce", "g-topic", stdin=b"a\nb\nc\n")
    moved = run("groups", "reset-offsets", "g-one", "-t", "g-topic", "--to", "earliest", "--json")
    assert json.loads(moved.out) == [
        {"topic": "g-topic", "partition": 0, "before": None, "after": 0},
        {"topic": "g-topic", "partition": 1, "before": None, "after": 0},
    ]
    assert _offsets(run, "g-one") == [(0, 3, 3), (0, 0, 0)]
    table = run("groups", "describe", "g-one").out
    assert "group g-one (Empty)" in table
    assert "members: none" in table
    assert {"group": "g-one", "state": "Empty", "protocol": "-"} in json.loads(run("groups", "list", "--json").out)
    assert run("groups", "delete", "g-one", stdin=b"n\n").code == 1
    assert run("groups", "delete", "g-one", "--yes").out == "deleted: g-one\n"
    assert run("groups", "describe", "g-one").err == "kafkapy: group g-one does not exist\n"


@pytest.mark.parametrize(
    ("to", "offset"),
    [("latest", 2), ("1", 1), ("99", 2), ("9" * 30, 2), ("1970-01-01T00:00:00", 0), ("2199-01-01T00:00:00Z", 2)],
)
def test_offsets_are_reset_to_ends_offsets_and_times(run: Run, to: str, offset: int) -> None:
    run("topics", "create", "g-moves", "--if-not-exists")
    if json.loads(run("topics", "describe", "g-moves", "--json").out)["partitions"][0]["end_offset"] == 0:
        run("produce", "g-moves", stdin=b"a\nb\n")
    run("groups", "reset-offsets", "g-two", "-t", "g-moves:0", "--to", to)
    assert _offsets(run, "g-two") == [(offset, 2, 2 - offset)]


def test_each_group_is_reported_when_some_are_deleted(run: Run) -> None:
    run("topics", "create", "g-some", "--if-not-exists")
    run("groups", "reset-offsets", "g-there", "-t", "g-some", "--to", "latest")
    deleted = run("groups", "delete", "g-missing", "g-there", "--yes")
    assert (deleted.code, deleted.out) == (1, "deleted: g-there\n")
    assert deleted.err == "kafkapy: group g-missing does not exist (GROUP_ID_NOT_FOUND)\n"


def test_a_dry_run_commits_nothing(run: Run) -> None:
    run("topics", "create", "g-dry")
    shown = run("groups", "reset-offsets", "g-three", "-t", "g-dry", "--to", "latest", "--dry-run")
    assert "not committed: dry run" in shown.out
    assert run("groups", "describe", "g-three").code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "g-topic:x", "--to", "latest"], "'g-topic:x' is no topic and partition"),
        (["-t", "g-exists:9", "--to", "latest"], "topic g-exists has no partition 9"),
        (["-t", "g-exists", "--to", "soon"], "'soon' is neither earliest, latest, an offset nor a time"),
        (["-t", "g-exists", "--to", "-1"], "--to -1: an offset is 0 or more; write earliest or latest"),
        (["-t", "g-exists", "--to", "--1"], "'--1' is neither earliest, latest, an offset nor a time"),
        (["-t", "g-exists", "--to", "9" * 5000], "is neither earliest, latest, an offset nor a time"),
        (["-t", "g-none", "--to", "latest"], "topic g-none does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
    ],
)
def test_refusals_are_one_line(run: Run, words: list[str], message: str) -> None:
    run("topics", "create", "g-exists", "--if-not-exists")
    refused = run("groups", "reset-offsets", "g-four", *words)
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert message in refused.err


def test_members_show_and_keep_their_group(run: Run, bootstrap: str) -> None:
    run("topics", "create", "g-busy")
    member_id, error = "", 79
    with ClusterClient(bootstrap) as client:
        while error:
            protocols = [JoinGroupRequestProtocol("range", b"")]
            request = JoinGroupRequest("g-five", 6000, 6000, member_id, protocol_type="consumer", protocols=protocols)
            answer = client.coordinator("g-five").call(request, JoinGroupResponse)
            member_id, error = answer.member_id, answer.error_code
    described = json.loads(run("groups", "describe", "g-five", "--json").out)
    assert [member["member"] for member in described["members"]] == [member_id]
    refused = run("groups", "reset-offsets", "g-five", "-t", "g-busy", "--to", "latest")
    assert "its members must stop first" in refused.err


def test_a_groups_name_is_escaped(run: Run) -> None:
    run("topics", "create", "g-hostile")
    group = "g\x1b[2J\x9b\n\u202e"
    run("groups", "reset-offsets", group, "-t", "g-hostile", "--to", "latest")
    for words in (["list"], ["list", "--json"], ["describe", group], ["describe", group, "--json"]):
        shown = run("groups", *words).out
        assert "\x1b" not in shown
        assert shown.replace("\n", "").isprintable()
    assert group in [each["group"] for each in json.loads(run("groups", "list", "--json").out)]
    assert r"deleted: g\x1b[2J\x9b\n\u202e" in run("groups", "delete", group, "--yes").out
