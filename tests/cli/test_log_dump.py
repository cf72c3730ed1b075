"""``kafkapy log dump`` on a real broker's files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.storage.batches import GOLDEN, START_MS, batch
from kafkapy.cli.log_dump import fitting, heading, line, terminal_width
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.inspection import log_scan
from tests.cli.conftest import Run


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _log(tmp_path: Path, *batches: bytes | bytearray) -> str:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(batches))
    return str(path)


def test_batches_of_a_partition(run: Run) -> None:
    shown = run("log", "dump", f"{GOLDEN}/seg-0")
    assert shown.code == 0
    assert "00000000000000000075.log" in shown.out
    assert "00000000000000000183.log" in shown.out
    rows = _lines(run("log", "dump", f"{GOLDEN}/rf3-0/", "--json").out)
    assert sum(row["count"] for row in rows) == 62
    assert rows[0]["file"] == f"{GOLDEN}/rf3-0/00000000000000000000.log"


def test_records_with_decoded_keys_and_values(run: Run) -> None:
    shown = run("log", "dump", f"{GOLDEN}/__consumer_offsets-0", "--records")
    assert '{"group": "g-static", "partition": "cmp-0"}: {"offset": 60' in shown.out
    plain = _lines(run("log", "dump", f"{GOLDEN}/__consumer_offsets-0", "-r", "--decoder", "none", "--json").out)
    assert "group" not in plain[1]["key"]
    assert plain[0]["batch"]["base_offset"] == 0


def test_text_and_binary_records_of_ordinary_topics(run: Run, tmp_path: Path) -> None:
    records = [
        Record(b"key", b"value", START_MS, [("h", b"1"), ("none", None)]),
        Record(None, None, START_MS),
        Record(b"\xff\x00", b"tab\there", START_MS),
        Record(b"", b"x" * 150, START_MS),
    ]
    path = _log(tmp_path, encode_batch(records), batch(2, base_offset=4))
    out = run("log", "dump", path, "-r").out
    for expected in (f"  | 0  {START_MS}  key: value  [h=1 none=null]\n", "  | 1  1700000000000  null: null\n",
                     "0xff00: 0x746162", "x… (150 bytes)"):  # fmt: skip
        assert expected in out
    rows = _lines(run("log", "dump", path, "-r", "--json", "--from-offset", "2").out)
    assert [row["offset"] for row in rows if "offset" in row] == [2, 3, 4, 5]
    assert (rows[1]["key"], rows[2]["value"]) == ({"base64": "/wA="}, "x" * 150)
    assert run("log", "dump", path, "-r", "--limit", "2").out.count("  | ") == 1
    assert len(_lines(run("log", "dump", path, path, "--json", "--limit", "1").out)) == 1


def test_headers_and_values_are_escaped(run: Run, tmp_path: Path) -> None:
    hostile = "\x1b[2J\x9b\n\u202e"
    record = Record(hostile.encode(), hostile.encode(), START_MS, [(hostile, hostile.encode())])
    path = _log(tmp_path, encode_batch([record]))
    for options in ([], ["--json"]):
        shown = run("log", "dump", path, "--records", *options).out
        assert shown.replace("\n", "").isprintable()
    (dumped,) = [row for row in _lines(shown) if "key" in row]
    assert (dumped["key"], dumped["headers"]) == (hostile, [[hostile, hostile]])


def test_every_other_file(run: Run) -> None:
    names = ("rf3-0/00000000000000000000.txnindex", "seg-0/00000000000000000183.index",
             "rf3-0/00000000000000000062.snapshot", "rf3-0/leader-epoch-checkpoint", "meta.properties",
             "replication-offset-checkpoint")  # fmt: skip
    shown = run("log", "dump", *(f"{GOLDEN}/{name}" for name in names))
    assert shown.code == 0
    for expected in ("last stable offset", "position", "open transaction from", "start offset", "broker.id", "topic"):
        assert expected in shown.out


def test_a_damaged_file_is_shown_up_to_the_damage_which_is_reported(run: Run, tmp_path: Path) -> None:
    damaged = batch(1, base_offset=1)
    damaged[-1] ^= 1
    path = _log(tmp_path, batch(1), damaged, b"torn")
    shown = run("log", "dump", path, "--json")
    assert shown.code == 1
    assert [row["crc"] for row in _lines(shown.out)] == ["ok", "WRONG"]
    assert shown.err.splitlines()[0].endswith("the batch's CRC is wrong")
    assert shown.err.splitlines()[1].endswith("4 bytes are left, which are no whole batch")


def test_records_that_can_not_be_read(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = batch(2)
    odd[60] = 9
    shown = run("log", "dump", _log(tmp_path, odd), "-r")
    assert "at position 0: The record ends inside a number" in shown.err
    monkeypatch.setattr(log_scan, "MAX_IN_MEMORY", 64)
    monkeypatch.setattr(log_scan, "CHUNK_BYTES", 64)
    assert "too large to be shown" in run("log", "dump", _log(tmp_path, batch(1, value=b"v" * 500)), "-r").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{}/odd"], "is no file of a data directory that can be shown"),
        (["{}/missing"], "missing: No such file or directory"),
        ([f"{{}}/{9:020d}.log"], "No such file"),
        (["{}"], "holds no segments: give a partition's folder"),
        (["{}/odd", "--decoder", "x"], "decoder 'x' does not exist: choose one of"),
        ([f"{{}}/{0:020d}.snapshot"], "no producer snapshot"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(run: Run, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "odd").write_bytes(b"")
    (tmp_path / f"{0:020d}.snapshot").write_bytes(b"x")
    refused = run("log", "dump", *(word.format(tmp_path) for word in words))
    assert refused.code == 1
    assert said in refused.err
    assert refused.err.count("\n") == 1
    assert refused.out in ("", f"{tmp_path}/{0:020d}.snapshot\n")


def test_segments_below_the_wanted_offset_are_not_read(run: Run) -> None:
    rows = _lines(run("log", "dump", f"{GOLDEN}/seg-0", "--json", "--from-offset", "183").out)
    assert {row["file"] for row in rows} == {f"{GOLDEN}/seg-0/00000000000000000183.log"}
    rows = _lines(run("log", "dump", f"{GOLDEN}/seg-0", "--json", "--from-offset", "182").out)
    assert (rows[0]["last_offset"], rows[-1]["last_offset"]) == (182, 203)


@pytest.mark.parametrize("words", [["dump", "{}/seg-0", "--json"], ["verify", "{}"]])
def test_a_closed_output_pipe_of_log_dump_causes_no_traceback(words: list[str]) -> None:
    command = [sys.executable, "-m", "kafkapy", "log", *(word.format(GOLDEN) for word in words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("option", ["--limit=0", "--limit=-1", "--from-offset=-1"])
def test_numbers_out_of_range_are_refused(run: Run, option: str) -> None:
    assert run("log", "dump", f"{GOLDEN}/seg-0", option).code == 2


BATCH = (
    "base_offset", "last_offset", "count", "position", "size", "magic", "compression", "timestamp_type",
    "max_timestamp", "crc", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "kind",
)  # fmt: skip


def test_all_columns_are_shown_if_they_fit_or_there_is_no_terminal() -> None:
    assert fitting(BATCH, None) == BATCH
    assert fitting(BATCH, 500) == BATCH


@pytest.mark.parametrize("width", [20, 60, 80, 120, 160])
def test_a_heading_never_is_longer_than_the_terminal(width: int) -> None:
    kept = fitting(BATCH, width)
    assert 0 < len(heading(kept)) <= width
    assert [name for name in BATCH if name in kept] == list(kept)


def test_the_columns_that_identify_a_batch_are_left_out_last() -> None:
    assert fitting(BATCH, 80) == ("base_offset", "last_offset", "count", "position", "size", "kind")
    assert "crc" in fitting(BATCH, 120)
    assert "timestamp_type" not in fitting(BATCH, 160)


def test_rows_of_other_files_keep_all_columns() -> None:
    names = ("topic", "partition", "offset")
    assert fitting(names, 10) == names


def test_rows_stand_below_their_heading() -> None:
    assert heading(("size", "crc")) == "     size     crc"
    assert line(("size", "crc"), {"size": 12, "crc": "ok", "more": 1}) == "       12      ok"


def test_only_a_terminal_has_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert terminal_width() is None
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "81")
    assert terminal_width() == 81


def test_columns_that_are_left_out_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkapy.cli.log_dump.terminal_width", lambda: 80)
    lines = run("log", "dump", f"{GOLDEN}/rf3-0", "--limit", "2").out.splitlines()
    assert max(map(len, (lines[1], *lines[3:]))) <= 80
    assert lines[2].startswith("(no room for magic, compression, ")
