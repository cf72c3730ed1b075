"""Searches by timestamp that take long are left to the caller, and find the same."""

from pathlib import Path

import pytest

from harness.storage.batches import START_MS, batch
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch, encode_empty_batch, encode_legacy
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.time_search import INLINE_RECORDS, INLINE_SIZE, LongSearchError
from tests.storage.support import open_log


def _found(log: Log, timestamp_ms: int, most_searches: int = 9) -> tuple[tuple[int, int] | None, int]:
    """Search as the handler does; return also how many batches took long."""
    from_offset = 0
    for count in range(most_searches):
        try:
            return log.lookup_timestamp(timestamp_ms, from_offset, inline=True), count
        except LongSearchError as error:
            found = error.search.run()
            if found is not None:
                return found, count + 1
            from_offset = error.search.next_offset
    raise AssertionError(most_searches)


@pytest.mark.parametrize(
    ("content", "is_long"),
    [
        (batch(3), False),
        (batch(3, compression=1), True),
        (batch(3, value=bytes(INLINE_SIZE // 3)), True),
        (batch(INLINE_RECORDS, value=b""), False),
        (batch(INLINE_RECORDS + 1, value=b""), True),
    ],
)
def test_compressed_and_large_batches_take_long(content: bytearray, is_long: bool, tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(content, 0, from_client=False)
    for ahead in (0, 1, 2):
        wanted = (ahead, START_MS + ahead)
        assert _found(log, START_MS + ahead) == (wanted, is_long)
        assert log.lookup_timestamp(START_MS + ahead) == wanted
    assert _found(log, START_MS + 10_000) == (None, 0)


def test_old_formats_are_searched_in_the_same_way(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    records = [Record(None, b"v", START_MS + ahead, offset=ahead) for ahead in range(3)]
    log.append_as_follower(encode_legacy(records, 1, compression=1))
    assert _found(log, START_MS + 1) == ((1, START_MS + 1), 1)


def test_the_search_goes_on_behind_a_batch_that_has_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for first in (0, 2):
        records = [Record(None, b"v", START_MS + ahead) for ahead in (90 + first, 10)]
        log.append_as_leader(bytearray(encode_batch(records, compression=1)), 0, from_client=False)
    log.update_high_watermark(4)
    log.advance_log_start_offset(1)
    assert _found(log, START_MS + 50) == ((2, START_MS + 92), 2)
    assert log.lookup_timestamp(START_MS + 50) == (2, START_MS + 92)
    log.advance_log_start_offset(3)
    assert _found(log, START_MS + 50) == (None, 1)


@pytest.mark.parametrize("codec", [0, 1])
def test_the_search_goes_on_in_the_next_segments(codec: int, tmp_path: Path) -> None:
    """The records with the largest timestamps of two segments are gone: by DeleteRecords, and by compaction."""
    log = open_log(tmp_path)
    for stamps in ((90, 10), (20,), (60,)):
        records = [Record(b"k", b"v", START_MS + stamp) for stamp in stamps]
        log.append_as_leader(bytearray(encode_batch(records, compression=codec)), 0, from_client=False)
        log.roll()
    empty = read_header(encode_batch([Record(b"k", b"v", START_MS + 80)], base_offset=4))
    log.append_as_follower(encode_empty_batch(empty))
    log.roll()
    log.append_as_leader(bytearray(encode_batch([Record(b"k", b"v", START_MS + 70)])), 0, from_client=False)
    log.update_high_watermark(6)
    log.advance_log_start_offset(1)
    for stamp, wanted in ((5, 1), (15, 2), (25, 3), (65, 5)):
        found, _ = _found(log, START_MS + stamp)
        assert found is not None
        assert found[0] == wanted
        assert log.lookup_timestamp(START_MS + stamp) == found
    assert _found(log, START_MS + 75) == (None, codec)
    assert log.lookup_timestamp(START_MS + 75) is None


def test_the_largest_timestamp_is_that_of_any_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.largest_timestamp == -1
    log.append_as_leader(batch(3), 0, from_client=False)
    assert log.largest_timestamp == START_MS + 2
    assert log.lookup_timestamp(log.largest_timestamp) == (2, START_MS + 2)
