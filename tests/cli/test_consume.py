"""``kafkapy consume`` on a running broker."""

import json
import signal
import subprocess
import sys

import pytest

from kafkapy.cli import consume
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.records import produce
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.record import Record, encode_batch
from tests.cli.conftest import Run


@pytest.fixture
def numbers(run: Run) -> str:
    run("topics", "create", "numbers", "-p", "2", "--if-not-exists")
    if not run("consume", "numbers", "-B", "-e").out:
        run("produce", "numbers", stdin=b"".join(b"%d\n" % number for number in range(10)))
    return "numbers"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--from-beginning", "--exit"], range(10)),
        (["-B", "-n", "3"], range(3)),
        (["-o", "7", "-e"], range(7, 10)),
        (["-o", "-2", "-e"], range(8, 10)),
        (["-o", "-200", "-p", "0", "-e"], range(10)),
        (["-B", "-p", "1", "-e"], []),
        (["-o", "10", "-e"], []),
        (["--exit"], []),
    ],
)
def test_options_determine_the_first_and_the_last_record(
    run: Run, numbers: str, words: list[str], expected: list[int]
) -> None:
    consumed = run("consume", numbers, *words)
    assert (consumed.code, consumed.err) == (0, "")
    assert [int(line) for line in consumed.out.splitlines()] == list(expected)


@pytest.mark.parametrize("offset", ["11", "99999999999999999999999999"])
def test_an_offset_after_the_end_is_reported(run: Run, numbers: str, offset: str) -> None:
    consumed = run("consume", numbers, "--offset", offset, "--exit")
    assert (consumed.code, consumed.out) == (0, "")
    ends = "partition 0 at 10, partition 1 at 0"
    assert consumed.err == f"kafkapy: offset {offset} is after the end of topic numbers: {ends}\n"
    one = run("consume", numbers, "-o", offset, "-p", "0", "-e")
    assert one.err == f"kafkapy: offset {offset} is after the end of topic numbers: partition 0 at 10\n"


def test_options_may_have_the_names_of_apache_kafkas_tools(run: Run, numbers: str, bootstrap: str) -> None:
    ran = run("consume", numbers, "--from-beginning", "--max-messages", "1", "--bootstrap-server", bootstrap)
    assert (ran.code, len(ran.out.splitlines())) == (0, 1)
    assert "--max-messages" not in run("consume", "--help").out


def test_json_shows_keys_values_headers_and_timestamps(run: Run, bootstrap: str) -> None:
    run("topics", "create", "full")
    records = [
        Record(b"k", b"v", timestamp=100, headers=(("h", b"x"), ("n", None))),
        Record(b"\xff", None, timestamp=200),
    ]
    with ClusterClient(bootstrap) as client:
        produce(client, "full", 0, bytes(encode_batch(records)), acks=1, leader=0)
    lines = [json.loads(line) for line in run("consume", "full", "-B", "-e", "--json").out.splitlines()]
    place = {"topic": "full", "partition": 0}
    headers = [{"name": "h", "value": "x"}, {"name": "n", "value": None}]
    assert lines == [
        {**place, "offset": 0, "timestamp": 100, "key": "k", "value": "v", "headers": headers},
        {**place, "offset": 1, "timestamp": 200, "key_base64": "/w==", "value": None},
    ]
    assert run("consume", "full", "-B", "-e", "--keys").out == "k\tv\n\\xff\t\n"


@pytest.mark.usefixtures("heeded_signals")
def test_consume_waits_for_new_records_until_ctrl_c(run: Run, bootstrap: str) -> None:
    run("topics", "create", "coming")
    command = [sys.executable, "-m", "kafkapy", "consume", "coming", "--from-beginning", "-b", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        run("produce", "coming", stdin=b"first\n")
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert process.stderr.read() == ""


def test_progress_is_shown_on_a_terminal(run: Run, numbers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consume, "shows_progress", lambda: True)
    assert len(run("consume", numbers, "-B", "-e").out.splitlines()) == 10


def test_refusals_are_one_line(run: Run, numbers: str) -> None:
    assert run("consume", numbers, "-p", "7").err == "kafkapy: topic numbers has no partition 7\n"
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("consume", "none-such").err


def test_control_batches_are_skipped() -> None:
    marker = encode_marker(ControlType.COMMIT, Marker(1, 0, 0), 100)
    data = bytes(encode_batch([Record(None, b"v", timestamp=1)])) + bytes(encode_marker_at(marker))
    consumer = consume.Consumer.__new__(consume.Consumer)
    consumer.topic, consumer.positions = "t", {0: 0}
    found = list(consumer.records(0, data))
    assert [consumed.record.value for consumed in found] == [b"v"]
    assert consumer.positions == {0: 2}


def encode_marker_at(marker: bytes | bytearray) -> bytearray:
    """The marker as the second batch of a log."""
    moved = bytearray(marker)
    moved[0:8] = (1).to_bytes(8, "big")
    return moved


def test_on_a_terminal_control_characters_are_escaped(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("topics", "create", "hostile")
    run("produce", "hostile", stdin="größe\t\x1b[2J\x9b\rx\n".encode())
    words = ("consume", "hostile", "-B", "-e")
    raw = run(*words)
    assert raw.out == "größe\t\x1b[2J\x9b\rx\n"
    (entry,) = run(*words, "--json").out.splitlines()
    assert entry.isprintable()
    assert json.loads(entry)["value"] == "größe\t\x1b[2J\x9b\rx"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(consume, "shows_progress", lambda: False)
    assert run(*words).out == "größe\t\\x1b[2J\\x9b\\rx\n"
