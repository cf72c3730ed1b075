"""``kafkapy produce`` on a running broker."""

import json
from pathlib import Path

import pytest

from kafkapy.cli import produce
from tests.cli.conftest import Run


def _values(run: Run, topic: str) -> list[tuple[str | None, str | None]]:
    lines = run("consume", topic, "--from-beginning", "--exit", "--json").out.splitlines()
    return [(entry["key"], entry["value"]) for entry in map(json.loads, lines)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_record_for_each_line(run: Run, codec: str, acks: str) -> None:
    topic = f"p-{codec}-{acks}"
    produced = run("produce", topic, "-z", codec, "-a", acks, stdin=b"one\n\ntwo\r\nlast")
    assert (produced.code, produced.out) == (0, f"produced 4 records to {topic}\n")
    assert _values(run, topic) == [(None, "one"), (None, ""), (None, "two"), (None, "last")]


def test_one_record_is_named_in_the_singular(run: Run) -> None:
    assert run("produce", "p-single", stdin=b"a\n").out == "produced 1 record to p-single\n"


def test_keys_choose_the_partition_and_an_empty_value_stays_empty(run: Run) -> None:
    run("topics", "create", "p-keys", "-p", "3")
    produced = run("produce", "p-keys", "-k", ":", "--json", stdin=b"a:1\nb:2:3\na:\n")
    facts = json.loads(produced.out)
    assert (facts["records"], sum(facts["partitions"].values())) == (3, 3)
    assert sorted(_values(run, "p-keys"), key=str) == [("a", ""), ("a", "1"), ("b", "2:3")]


@pytest.mark.parametrize("options", [[], ["-k", ":"]])
def test_records_as_consume_prints_them_are_refused_with_json(run: Run, options: list[str]) -> None:
    run("topics", "create", "p-printed", "--if-not-exists")
    run("produce", "p-printed-from", stdin=b"value\n")
    printed = run("consume", "p-printed-from", "-B", "-e", "--json").out.encode()
    refused = run("produce", "p-printed", "--json", *options, stdin=b"a:1\n" + printed)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("kafkapy: line 2 is a record as `kafkapy consume --json` prints it: ")
    assert _values(run, "p-printed") == []


def test_other_json_is_a_value(run: Run) -> None:
    lines = ['{"offset": 1}', "{", "{}", "[1]", "{\0", '{"a":' * 100_000]
    assert run("produce", "p-other-json", "--json", stdin="\n".join(lines).encode()).code == 0
    assert _values(run, "p-other-json") == [(None, line) for line in lines]


def test_a_line_without_the_separator_is_refused(run: Run) -> None:
    refused = run("produce", "p-refused", "-k", ":", stdin=b"a:1\nb\n")
    assert refused.code == 1
    assert refused.err == "kafkapy: line 2 has no ':' between key and value\n"


def test_the_reason_for_a_refused_record_is_shown(run: Run) -> None:
    run("topics", "create", "p-compacted", "--config", "cleanup.policy=compact")
    refused = run("produce", "p-compacted", stdin=b"no key\n")
    assert refused.code == 1
    assert "Some records are refused: " in refused.err
    assert "key" in refused.err.partition("refused: ")[2]


def test_records_are_read_from_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"from\na file\n")
    assert run("produce", "p-file", "--file", str(file)).code == 0
    assert _values(run, "p-file") == [(None, "from"), (None, "a file")]
    assert run("produce", "p-file", "--file", str(tmp_path / "none")).code == 2


def test_large_input_is_sent_in_batches_to_all_partitions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCH_RECORDS", 10)
    run("topics", "create", "p-many", "-p", "2")
    lines = [str(number) for number in range(45)]
    produced = run("produce", "p-many", "--json", stdin="\n".join(lines).encode())
    assert json.loads(produced.out)["partitions"] == {"0": 25, "1": 20}
    assert sorted(int(value or "") for _, value in _values(run, "p-many")) == list(range(45))


def test_progress_is_shown_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "BATCH_RECORDS", 1)
    monkeypatch.setattr(produce, "shows_progress", lambda: True)
    assert run("produce", "p-progress", stdin=b"a\nb\n").out == "produced 2 records to p-progress\n"


def test_an_invalid_topic_is_refused(run: Run) -> None:
    refused = run("produce", "bad name", stdin=b"a\n")
    assert refused.code == 1
    assert "INVALID_TOPIC_EXCEPTION" in refused.err
