"""Segments that Apache Kafka before 1.1 has compacted: with offsets too far above their base offsets."""

from pathlib import Path

import pytest

from harness.storage.batches import START_MS
from kafkapy.records.record import Record, encode_batch, encode_legacy
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.segment import AppendedRange
from kafkapy.storage.recovery import recovery
from tests.storage.compacting import World, append, close_segment, names_of, values_in
from tests.storage.support import open_log
from tests.storage.test_compaction import end, transactional

FAR = 2**31
CRASHED = Checkpointed(clean=False)


def _record(offset: int, magic: int, key: bytes = b"k", timestamp: int | None = None) -> bytes:
    record = Record(key, b"%d" % offset * 100, timestamp or START_MS + offset, (), offset)
    if magic < 2:
        return encode_legacy([record], magic, compression=1)
    return encode_batch([record], base_offset=offset, partition_leader_epoch=0)


def _write(directory: Path, *offsets: int, magic: int = 2) -> Path:
    log = open_log(directory)
    log.close()
    path = Path(log.segments.first.log.path)
    path.write_bytes(b"".join(_record(offset, magic) for offset in offsets))
    return path


def _bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("magic", [1, 2])
def test_a_recovery_splits_the_segment(
    tmp_path: Path, *, clean: bool, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_PIECE_BYTES", 100)
    offsets = (0, 5, FAR - 1, FAR, FAR + 7, 2 * FAR + 7, 2 * FAR + 8)
    path = _write(tmp_path, *offsets, magic=magic)
    path.with_suffix(".index").unlink()
    log = open_log(tmp_path, checkpointed=Checkpointed(clean=clean))
    assert tuple(values_in(log)) == offsets
    assert _bases(log) == [0, FAR, 2 * FAR + 7] if magic == 2 else len(_bases(log)) == 3
    assert log.log_end_offset == 2 * FAR + 9
    for segment in log.segments:
        assert segment.time_index.last_timestamp == segment.max_timestamp == START_MS + segment.max_timestamp_offset
    log.close()
    again = open_log(tmp_path)
    assert (_bases(again), again.log_end_offset) == (_bases(log), log.log_end_offset)


@pytest.mark.parametrize("magic", [1, 2])
def test_a_compaction_splits_the_segment(tmp_path: Path, magic: int) -> None:
    """Apache Kafka 2.7 splits the segment first and compacts the parts."""
    world = World(tmp_path)
    log = world.log()
    offsets = (0, 5, FAR - 1, FAR, FAR + 7, 2 * FAR + 7, 2 * FAR + 8)
    segment = log.segments.first
    for offset in offsets:
        timestamp = START_MS - offset  # the indexes have no room for what is far above
        content = _record(offset, magic, b"k%d" % (offset % 7), timestamp)
        segment.append(content, AppendedRange(offset, offset, timestamp, offset, len(content)), 10**6)
    log.log_end_offset = 2 * FAR + 9
    log.update_high_watermark(log.log_end_offset)
    close_segment(log)
    world.compact()
    newest = {offset % 7: offset for offset in offsets}
    assert list(values_in(log)) == sorted(newest.values())
    assert _bases(log) == ([0, FAR, 2 * FAR + 7, 2 * FAR + 9])
    for each in log.segments:
        assert each.time_index.last_timestamp == each.max_timestamp
    assert not names_of(log, ".cleaned", ".swap")
    world.cleaner.stop()
    log.close()
    again = open_log(tmp_path)
    assert (_bases(again), list(values_in(again))) == (_bases(log), list(values_in(log)))


def test_an_abort_is_in_the_index_of_the_new_segment(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.log()
    transactional(log, 0, b"a")
    end(log, commit=False)
    far = FAR + 10
    log.log_end_offset = far
    transactional(log, 1, b"b")
    end(log, commit=False)
    close_segment(log)
    world.compact()
    assert _bases(log) == [0, far, far + 2]
    assert [each.first_offset for part in log.segments for each in part.transaction_index] == [0, far]
    assert [len(list(part.transaction_index)) for part in log.segments] == [1, 1, 0]
    world.cleaner.stop()


def test_an_aborted_compaction_removes_all_new_segments(tmp_path: Path) -> None:
    world = World(tmp_path)
    log = world.log()
    append(log, (b"a", b"1"))
    log.log_end_offset = FAR + 10
    append(log, (b"a", b"2"))
    close_segment(log)
    world.cleaner.start()
    world.clock.advance(0)
    assert len(names_of(log, ".log.cleaned")) == 2
    before = values_in(log)
    world.cleaner.about_to_cut(log, 0)
    world.run_posted()
    assert values_in(log) == before
    assert not names_of(log, ".cleaned", ".swap")
    world.cleaner.stop()


def test_damage_after_the_split_ends_the_log(tmp_path: Path) -> None:
    path = _write(tmp_path, 0, FAR, FAR + 1, 2 * FAR)
    later = path.with_name(f"{3 * FAR:020d}.log")
    later.write_bytes(_record(3 * FAR, 2))
    content = bytearray(path.read_bytes())
    content[-len(_record(2 * FAR, 2)) - 3] ^= 1
    path.write_bytes(content)
    log = open_log(tmp_path, checkpointed=CRASHED)
    assert tuple(values_in(log)) == (0, FAR)
    assert (_bases(log), log.log_end_offset) == ([0, FAR], FAR + 1)
    assert later.with_name(later.name + ".deleted").exists()


def test_a_crash_before_the_old_one_was_cut_leaves_no_record_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(tmp_path, 0, 5, FAR + 5)
    log = open_log(tmp_path)

    def power_cut(_path: str, _size: int) -> None:
        raise InterruptedError

    monkeypatch.setattr(log.storage.files, "truncate", power_cut)
    with pytest.raises(InterruptedError):
        recovery.split(log, log.segments.first, len(_record(0, 2)) + len(_record(5, 2)), FAR + 5)
    log.release()
    again = open_log(tmp_path, checkpointed=CRASHED)
    assert list(values_in(again)) == [0, 5, FAR + 5]
    assert _bases(again) == [0, FAR + 5]
