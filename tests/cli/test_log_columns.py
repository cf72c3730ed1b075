import sys

import pytest

from kafkapy.cli.log_dump import fitting, heading, line, terminal_width
from tests.cli.conftest import Run
from tests.storage.support import GOLDEN

BATCH = (
    "base_offset", "last_offset", "count", "position", "size", "magic", "compression", "timestamp_type",
    "max_timestamp", "crc", "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "kind",
)  # fmt: skip


def test_where_there_is_room_or_no_terminal_all_are_shown() -> None:
    assert fitting(BATCH, None) == BATCH
    assert fitting(BATCH, 500) == BATCH


@pytest.mark.parametrize("width", [20, 60, 80, 120, 160])
def test_a_heading_never_is_longer_than_the_terminal(width: int) -> None:
    kept = fitting(BATCH, width)
    assert 0 < len(heading(kept)) <= width
    assert [name for name in BATCH if name in kept] == list(kept)


def test_what_identifies_a_batch_stays_longest() -> None:
    assert fitting(BATCH, 80) == ("base_offset", "last_offset", "count", "position", "size", "kind")
    assert "crc" in fitting(BATCH, 120)
    assert "timestamp_type" not in fitting(BATCH, 160)


def test_rows_of_other_files_are_whole() -> None:
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


def test_what_is_left_out_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkapy.cli.log_dump.terminal_width", lambda: 80)
    lines = run("log", "dump", f"{GOLDEN}/rf3-0", "--limit", "2").out.splitlines()
    assert max(map(len, (lines[1], *lines[3:]))) <= 80
    assert lines[2].startswith("(no room for magic, compression, ")
