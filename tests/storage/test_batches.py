from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch
from kafkapy.platform.files import Files
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_legacy
from kafkapy.storage.log.batches import SMALLEST_BATCH, read_batches
from kafkapy.storage.log.log_file import LogFile


def _file(path: Path, *contents: bytes | bytearray) -> tuple[LogFile, int]:
    data = b"".join(contents)
    (path / "0.log").write_bytes(data)
    return LogFile(Files(), str(path / "0.log")), len(data)


def _entry(magic: int, offset: int, value: bytes | None = b"v", **fields: int) -> bytes:
    return encode_legacy([Record(None, value, START_MS, (), offset)], magic, **fields)


def test_entries_and_batches_of_every_format_come_one_by_one(tmp_path: Path) -> None:
    wrapper = encode_legacy([Record(b"k", b"v" * 400, START_MS + at, (), at) for at in (2, 3, 4)], 1, compression=1)
    contents = [_entry(0, 0), _entry(1, 1), wrapper, bytes(batch(3, base_offset=5)), _entry(0, 8, None)]
    log, size = _file(tmp_path, *contents)
    found = list(read_batches(log, 0, size))
    assert [bytes(content) for _, _, content in found] == contents
    assert [(header.magic, header.base_offset, header.last_offset) for _, header, _ in found] == [
        (0, 0, 0), (1, 1, 1), (1, 4, 4), (2, 5, 7), (0, 8, 8),
    ]  # fmt: skip
    assert [header.max_timestamp for _, header, _ in found[:3]] == [-1, START_MS, START_MS + 4]


def test_batches_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    contents = [_entry(1, 0, b"x" * 300_000), bytes(batch(value=b"y" * 300_000, base_offset=1)), _entry(0, 2)]
    log, size = _file(tmp_path, *contents)
    assert [bytes(content) for _, _, content in read_batches(log, 0, size)] == contents
    assert [header.base_offset for _, header, _ in read_batches(log, len(contents[0]), size)] == [1, 2]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (bytes(SMALLEST_BATCH - 1), "ends within a batch's header"),
        (bytes(100), "holds a batch of 12 bytes"),
        (_entry(0, 1)[:-1] + b"X", "bytes that are no batch"),
        (_entry(1, 1)[:-1], "where 34 are left"),
        (_entry(1, 1)[:16] + b"\x03" + _entry(1, 1)[17:], "No format has magic 3|No whole record batch"),
    ],
)
def test_bytes_that_are_no_batch_raise(tmp_path: Path, tail: bytes, message: str) -> None:
    log, size = _file(tmp_path, _entry(0, 0), tail)
    batches = read_batches(log, 0, size)
    assert next(batches)[1].base_offset == 0
    with pytest.raises(CorruptRecordError, match=message):
        next(batches)


def test_a_file_that_is_shorter_than_it_should_be(tmp_path: Path) -> None:
    log, size = _file(tmp_path, _entry(0, 0))
    with pytest.raises(CorruptRecordError, match=f"ends before position {size + 50}"):
        list(read_batches(log, 0, size + 50))
