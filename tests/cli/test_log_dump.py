"""``kafkapy log dump`` on a real broker's files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.inspection import log_scan
from tests.cli.conftest import Run
from tests.storage.support import GOLDEN, START_MS, batch


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


def test_records_of_people(run: Run, tmp_path: Path) -> None:
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


def test_headers_and_values_do_not_steer_the_terminal(run: Run, tmp_path: Path) -> None:
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


def test_damage_is_shown_up_to_its_place_and_said(run: Run, tmp_path: Path) -> None:
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
        (["{}/odd", "--decoder", "x"], "there is no decoder 'x'"),
        ([f"{{}}/{0:020d}.snapshot"], "no producer snapshot"),
    ],
)
def test_mistakes_are_one_line(run: Run, tmp_path: Path, words: list[str], said: str) -> None:
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
def test_a_reader_that_has_seen_enough_is_no_failure_to_speak_of(words: list[str]) -> None:
    command = [sys.executable, "-m", "kafkapy", "log", *(word.format(GOLDEN) for word in words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("option", ["--limit=0", "--limit=-1", "--from-offset=-1"])
def test_numbers_out_of_range_are_refused(run: Run, option: str) -> None:
    assert run("log", "dump", f"{GOLDEN}/seg-0", option).code == 2
