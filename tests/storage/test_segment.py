from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN, START_MS, batch
from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.platform.files import Files
from kafkapy.records.batch import read_header
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch, encode_legacy
from kafkapy.storage.log.batches import SMALLEST_BATCH
from kafkapy.storage.log.index import IndexCache
from kafkapy.storage.log.segment import AppendedRange, Segment
from kafkapy.storage.log.time_search import find_timestamp


def _segment(path: Path, base_offset: int = 0) -> Segment:
    return Segment(Files(), IndexCache(), str(path), base_offset, 10_485_760, START_MS)


def _filled(path: Path, batches: int, *, value: bytes = b"v" * 1000, interval: int = 4096) -> Segment:
    segment = _segment(path)
    segment.create()
    for offset in range(batches):
        content = batch(timestamp=START_MS + offset, value=value, base_offset=offset)
        segment.append(content, AppendedRange(offset, offset, START_MS + offset, offset, len(content)), interval)
    return segment


def _golden(base_offset: int = 75) -> Segment:
    segment = _segment(GOLDEN / "seg-0", base_offset)
    stem = f"{base_offset:020d}"
    segment.load({path.name.removeprefix(stem): path.stat().st_size for path in (GOLDEN / "seg-0").glob(f"{stem}.*")})
    return segment


def test_real_kafkas_segment_reads() -> None:
    segment = _golden()
    headers = [header for _, header, _ in segment.batches(0, segment.size)]
    assert (headers[0].base_offset, segment.next_offset()) == (75, 183)
    for header in headers:
        found = segment.translate(header.last_offset)
        assert found is not None
        assert found[1] == header.size == segment.batch_size(found[0])
    assert segment.translate(183) is None


def test_an_entry_only_after_more_than_the_interval(tmp_path: Path) -> None:
    size = len(batch(value=b"v" * 1000))
    segment = _filled(tmp_path, 10, interval=4 * size - 1)
    assert [segment.offset_index.entry(slot) for slot in range(2)] == [(4, 4 * size), (8, 8 * size)]
    exact = tmp_path / "exact"
    exact.mkdir()
    assert _filled(exact, 10, interval=4 * size).offset_index.entry(0) == (5, 5 * size)


def test_large_batches_and_many_small_ones_are_found(tmp_path: Path) -> None:
    large = _filled(tmp_path, 4, value=b"x" * 300_000)
    assert [position for position, _, _ in large.batches(0, large.size)] == [n * large.size // 4 for n in range(4)]
    small = tmp_path / "small"
    small.mkdir()
    segment = _filled(small, 3000, value=b"", interval=10**9)
    assert segment.next_offset() == 3000
    found = segment.translate(2500)
    assert found is not None
    assert next(segment.batches(found[0], segment.size))[1].base_offset == 2500


def _reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    read_at = Files.read_at

    def counting(files: Files, descriptor: Descriptor, size: int, position: int) -> bytes:
        sizes.append(size)
        return read_at(files, descriptor, size, position)

    monkeypatch.setattr(Files, "read_at", counting)
    return sizes


def test_a_large_batch_is_found_by_one_look_at_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = _filled(tmp_path, 10, value=b"x" * 50_000)
    size = segment.size // 10
    sizes = _reads(monkeypatch)
    for offset in (2, 5, 7):
        assert segment.translate(offset) == (offset * size, size)
    assert len(sizes) == 3


def test_where_an_entry_stands_for_several_large_batches_all_are_found(tmp_path: Path) -> None:
    segment = _segment(tmp_path)
    segment.create()
    for first in range(0, 12, 3):  # as a follower appends them: three at a time; every other offset is missing
        batches = [batch(value=b"x" * 9000, base_offset=2 * (first + n)) for n in range(3)]
        content = b"".join(batches)
        added = AppendedRange(2 * first, 2 * first + 4, START_MS, 2 * first, len(content))
        segment.append(content, added, 4096)
    assert segment.offset_index.entries == 3
    size = segment.size // 12
    for offset in range(23):
        assert segment.translate(offset) == ((offset + 1) // 2 * size, size)
    assert segment.translate(23) is None


def test_the_shortest_entry_of_format_0_may_be_the_next_indexed_one(tmp_path: Path) -> None:
    segment = _filled(tmp_path, 2, value=b"x" * 9000)
    position = segment.size
    entry = encode_legacy([Record(None, None, offset=5)], 0)
    assert len(entry) == SMALLEST_BATCH
    segment.append(entry, AppendedRange(5, 5, -1, 5, len(entry)), 4096)
    assert segment.offset_index.around(3) == (position // 2, position)
    assert segment.translate(3) == (position, SMALLEST_BATCH)


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_end_is_no_batch(tmp_path: Path, cut: int) -> None:
    segment = _filled(tmp_path, 2)
    segment.size -= segment.size // 2 - cut
    with pytest.raises(CorruptRecordError):
        segment.next_offset()


def test_a_file_shorter_than_it_should_be(tmp_path: Path) -> None:
    segment = _filled(tmp_path, 2)
    Files().truncate(segment.log.path, 10)
    with pytest.raises(CorruptRecordError, match="ends before"):
        segment.next_offset()
    with pytest.raises(KafkaStorageError, match="ends before"):
        segment.translate(1)
    Files().write(segment.log.path, bytes(segment.size))
    with pytest.raises(KafkaStorageError, match="holds no batch"):
        segment.translate(1)


def test_truncation_cuts_indexes_and_largest_timestamp(tmp_path: Path) -> None:
    segment = _filled(tmp_path, 20)
    segment.truncate_to(50, START_MS)
    assert segment.size == 20 * len(batch(value=b"v" * 1000))
    segment.truncate_to(10, START_MS)
    assert (segment.next_offset(), segment.max_timestamp, segment.max_timestamp_offset) == (10, START_MS + 9, 9)
    segment.truncate_to(0, START_MS + 5)
    assert (segment.size, segment.created_ms, segment.max_timestamp) == (0, START_MS + 5, -1)


def test_timestamps_are_found_to_the_record(tmp_path: Path) -> None:
    segment = _segment(tmp_path)
    segment.create()
    for first in range(0, 40, 4):
        content = batch(4, timestamp=START_MS + first, value=b"v" * 500, base_offset=first)
        segment.append(content, AppendedRange(first, first + 3, START_MS + first + 3, first + 3, len(content)), 4096)
    for wanted in (0, 1, 17, 39):
        assert find_timestamp(segment, START_MS + wanted, 0) == (wanted, START_MS + wanted)
    assert find_timestamp(segment, START_MS + 2, 10) == (10, START_MS + 10)
    assert find_timestamp(segment, START_MS + 40, 0) is None
    assert find_timestamp(segment, START_MS + 2, 40) is None


def test_the_latest_record_may_lie_below_the_start(tmp_path: Path) -> None:
    segment = _segment(tmp_path)
    segment.create()
    records = [Record(None, b"", START_MS + ahead) for ahead in (90, 10)]
    content = encode_batch(records)
    segment.append(content, AppendedRange(0, 1, START_MS + 90, 0, len(content)), 4096)
    assert find_timestamp(segment, START_MS + 50, 0) == (0, START_MS + 90)
    assert find_timestamp(segment, START_MS + 50, 1) is None


def test_its_files_can_be_renamed_and_removed(tmp_path: Path) -> None:
    segment = _filled(tmp_path, 1)
    before = segment.log.read_at(1000, 0)
    segment.rename(".deleted")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".deleted"] * 3
    other = _filled(tmp_path, 1)
    segment.log.drop()
    assert segment.log.read_at(1000, 0) == before
    other.remove()
    assert len(segment.paths()) == len(list(tmp_path.iterdir())) == 3
    segment.rename("")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".index", ".log", ".timeindex"]


def test_a_renaming_that_failed_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = _filled(tmp_path, 1)
    real_rename = Files.rename

    def refused(files: Files, path: str, target: str) -> None:
        if path.endswith(".timeindex"):
            raise OSError("no")
        real_rename(files, path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "rename", refused)
        with pytest.raises(OSError, match="no"):
            segment.rename(".swap")
    segment.rename(".swap")
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".swap"] * 3


def test_files_are_made_with_a_suffix(tmp_path: Path) -> None:
    segment = Segment(Files(), IndexCache(), str(tmp_path), 7, 1000, START_MS)
    segment.rename(".cleaned")
    segment.create()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"00000000000000000007.{kind}.cleaned" for kind in ("index", "log", "timeindex")
    ]
    segment.rename(".swap")
    segment.rename("")
    assert [Path(path).name for path in segment.paths()] == [
        f"00000000000000000007.{kind}" for kind in ("log", "index", "timeindex")
    ]


def test_recovery_indexes_like_the_append(tmp_path: Path) -> None:
    segment = _filled(tmp_path, 50)
    segment.become_inactive()
    indexes = [Path(path).read_bytes() for path in segment.paths_to_sync()[1:]]
    segment.reset_indexes()
    for position, header, _ in segment.batches(0, segment.size):
        segment.index_again(position, header, 4096)
    segment.become_inactive()
    assert [Path(path).read_bytes() for path in segment.paths_to_sync()[1:]] == indexes
    assert read_header(batch()).base_offset == 0
