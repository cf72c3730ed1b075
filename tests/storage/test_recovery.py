import shutil
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN, START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import Files
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch, encode_legacy, read_records
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.errors import OutOfOrderSequenceError
from kafkapy.storage.log.leader_epochs import EpochEntry
from kafkapy.storage.log.log import Log, Storage
from kafkapy.storage.recovery.recovery import RecoveredEpochs, load, recover_segment
from kafkapy.testing.clock import ManualClock
from tests.simulation.disk import SimulatedDisk
from tests.simulation.durable import Survival
from tests.storage.support import append, contents, fill, offsets_of, open_log, reopen

SMALL = LogConfig(segment_bytes=2000)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = open_log(tmp_path, SMALL)
    fill(log, 50)
    return log


def _damage(log: Log, name: str, content: bytes, position: int = -1) -> None:
    with (Path(log.directory) / name).open("r+b") as file:
        file.seek(position, 2 if position < 0 else 0)
        file.write(content)


def test_after_a_crash_nothing_that_was_written_is_missing(log: Log) -> None:
    again = reopen(log, clean=False)
    assert (again.log_end_offset, again.high_watermark, again.recovery_point) == (50, 50, log.recovery_point)
    assert again.lookup_timestamp(START_MS + 481) == (49, START_MS + 490)
    again.close()
    clean = contents(Path(log.directory))
    again = reopen(open_log(Path(log.directory).parent, SMALL, Checkpointed(clean=True)), clean=False)
    again.close()
    assert contents(Path(log.directory)) == clean


@pytest.mark.parametrize("cut", [1, 60, 100, 170])
def test_a_torn_tail_is_cut(log: Log, cut: int) -> None:
    active = Path(log.segments.active.log.path)
    size = active.stat().st_size
    with active.open("r+b") as file:
        file.truncate(size - cut)
    again = reopen(log, clean=False)
    assert again.log_end_offset == 49
    assert active.stat().st_size == size - len(batch(value=b"v" * 100))
    fill(again, 1)
    assert reopen(again).log_end_offset == 50


def test_zeros_after_a_power_failure_are_cut(log: Log) -> None:
    with Path(log.segments.active.log.path).open("ab") as file:
        file.write(bytes(5000))
    assert reopen(log, clean=False).log_end_offset == 50


def test_a_torn_tail_after_a_clean_stop_is_cut_too(log: Log) -> None:
    log.close()
    with Path(log.segments.active.log.path).open("ab") as file:
        file.write(b"half a batch")
    again = open_log(Path(log.directory).parent, SMALL)
    assert again.log_end_offset == 50


@pytest.mark.parametrize("size", [0, 1000])
def test_a_log_shorter_than_its_index_is_recovered_after_a_clean_stop(tmp_path: Path, size: int) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0))
    fill(log, 20)
    log.close()
    with Path(log.segments.active.log.path).open("r+b") as file:
        file.truncate(size)
    again = open_log(tmp_path, LogConfig(index_interval_bytes=0))
    assert again.log_end_offset == size // len(batch(value=b"v" * 100))
    assert again.append_as_leader(batch(), 0).first_offset == again.log_end_offset - 1
    assert reopen(again, clean=False).log_end_offset == again.log_end_offset


def test_damage_ends_the_log_and_later_segments_are_dropped(log: Log) -> None:
    second = list(log.segments)[1]
    log.recovery_point = 0
    _damage(log, Path(second.log.path).name, b"X", 300)
    again = reopen(log, clean=False)
    assert again.log_end_offset == second.base_offset + 1
    assert len(list(Path(log.directory).glob("*.log"))) == 2
    doomed = list(Path(log.directory).glob("*.log.deleted"))
    assert len(doomed) == len(log.segments) - 2
    again.storage.clock.advance(60_000)  # type: ignore[attr-defined]  # the tests' clock
    assert not [path for path in doomed if path.exists()]


def test_snapshots_of_lost_records_are_deleted(log: Log) -> None:
    """Other records will get their offsets: the snapshot would have producers that never wrote to the log."""
    second = list(log.segments)[1]
    log.recovery_point = 0
    _damage(log, Path(second.log.path).name, b"X", 300)
    again = reopen(log, clean=False)
    assert again.producer_state.snapshot_offsets[-1] == again.log_end_offset
    on_disk = sorted(int(path.stem) for path in Path(log.directory).glob("*.snapshot"))
    assert on_disk == again.producer_state.snapshot_offsets


def test_offsets_that_a_later_segment_has_too_are_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    log.roll()
    fill(log, 2)
    log.recovery_point = 0
    with Path(log.segments.first.log.path).open("ab") as file:
        file.write(batch(base_offset=3))
    assert reopen(log, clean=False).log_end_offset == 5


def test_offsets_that_go_back_end_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 3)
    with Path(log.segments.active.log.path).open("ab") as file:
        file.write(batch(base_offset=1) + batch(base_offset=3))
    assert reopen(log, clean=False).log_end_offset == 3


def test_segments_below_the_recovery_point_are_trusted(log: Log) -> None:
    first = log.segments.first
    _damage(log, Path(first.log.path).name, b"X", 300)
    assert log.recovery_point > first.base_offset + 10
    assert reopen(log, clean=False).log_end_offset == 50


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "odd size"])
@pytest.mark.parametrize("clean", [True, False])
def test_an_index_that_can_not_be_right_is_rebuilt(tmp_path: Path, suffix: str, how: str, *, clean: bool) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=300))
    fill(log, 50)
    log.close()
    path = Path(log.directory) / f"{0:020d}{suffix}"
    good = path.read_bytes()
    path.unlink()
    if how == "odd size":
        path.write_bytes(good + b"x")
    again = open_log(tmp_path, LogConfig(index_interval_bytes=300), Checkpointed(clean))
    assert again.log_end_offset == 50
    again.close()
    assert path.read_bytes() == good


@pytest.mark.parametrize("clean", [True, False])
def test_a_rebuilt_index_is_logged_unless_the_segment_is_read_anyway(
    log: Log, caplog: pytest.LogCaptureFixture, *, clean: bool
) -> None:
    """A crash of Apache Kafka leaves ten megabytes of zeros in the indexes of every active segment."""
    log.close()
    index = Path(log.segments.active.log.path).with_suffix(".index")
    index.write_bytes(index.read_bytes() + bytes(8000))
    reopen(log, clean=clean)
    said = [record.getMessage() for record in caplog.records if "Rebuilding the indexes" in record.getMessage()]
    assert [str(index) in each for each in said] == ([True] if clean else [])


def test_a_damaged_transaction_index_is_rebuilt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0, transactional=True), 0)
    log.append_as_leader(marker(commit=False), 0, from_client=False)
    log.close()
    path = Path(log.directory) / f"{0:020d}.txnindex"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    again = open_log(tmp_path)
    assert path.read_bytes() == good
    assert again.aborted_transactions(0, 2) == [(7, 0)]


def test_producers_and_open_transactions_come_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    log.roll()
    log.append_as_leader(produced(1, transactional=True), 0)
    log.update_high_watermark(2)
    for clean in (False, True):
        log = reopen(log, clean=clean)
        assert log.last_stable_offset == 1
        assert log.append_as_leader(produced(1, transactional=True), 0).duplicate
        with pytest.raises(OutOfOrderSequenceError):
            append(log, produced(3, transactional=True))


@pytest.mark.parametrize("clean", [True, False])
def test_a_snapshot_keeps_a_producer_whose_batch_was_compacted(tmp_path: Path, *, clean: bool) -> None:
    """Also if the indexes have to be rebuilt, as after a power failure during the replacement."""
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    compacted_bytes = log.segments.active.size
    fill(log, 1)
    log.roll()
    log.close()
    path = Path(log.directory) / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[compacted_bytes:])
    path.with_suffix(".index").unlink()
    again = open_log(tmp_path, checkpointed=Checkpointed(clean, 2, 0, 2))
    assert [entry.last_sequence for entry in again.producer_state.producers.values()] == [0]


def test_a_clean_stop_without_snapshots_needs_no_replay(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    log.close()
    for path in Path(log.directory).glob("*.snapshot"):
        path.unlink()
    again = open_log(tmp_path)
    assert again.producer_state.producers == {}
    assert again.producer_state.snapshot_offsets == [1]


def test_leader_epochs_are_filled_from_batches(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for epoch in (0, 3):
        log.append_as_leader(batch(), epoch)
    Path(log.leader_epochs.path).unlink()
    assert reopen(log, clean=False).leader_epochs.entries == [(0, 0), (3, 1)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"\0\0\0", b"0\n9\n0 0\n", b"0\n2\n5 0\n3 1\n"])
def test_damaged_leader_epochs_are_made_again_from_every_batch(
    tmp_path: Path, *, clean: bool, content: bytes | None
) -> None:
    log = open_log(tmp_path, SMALL)
    for epoch in (0, 3, 7):
        log.append_as_leader(batch(), epoch)
        log.roll()
    log.flush()
    path = Path(log.leader_epochs.path)
    log.close() if clean else log.release()
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    again = Log(log.topic_partition, log.directory, SMALL, log.storage)
    load(again, Checkpointed(clean, log.recovery_point))
    assert again.leader_epochs.entries == [(0, 0), (3, 1), (7, 2)]


def test_leftovers_are_removed_and_foreign_files_stay(log: Log) -> None:
    directory = Path(log.directory)
    for name in (f"{0:020d}.log.deleted", f"{0:020d}.log.cleaned", "leader-epoch-checkpoint.tmp", f"{99:020d}.index"):
        (directory / name).write_bytes(b"x")
    (directory / "README").write_bytes(b"mine")
    (directory / f"{0:020d}.other").write_bytes(b"mine")
    reopen(log)
    names = {path.name for path in directory.iterdir()}
    assert {"README", f"{0:020d}.other"} <= names
    assert not [
        name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or name.startswith(f"{99:020d}")
    ]


def test_a_log_that_ends_below_its_start_begins_at_that_start(log: Log, tmp_path: Path) -> None:
    log.close()
    again = open_log(tmp_path, SMALL, Checkpointed(log_start_offset=80, high_watermark=90))
    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (80, 80, 80)
    assert len(again.segments) == 1


def test_damage_found_because_of_a_missing_index_keeps_the_later_segments(log: Log) -> None:
    """As Apache Kafka: the records after the hole were closed cleanly."""
    log.close()
    second, third = list(log.segments)[1:3]
    _damage(log, Path(second.log.path).name, b"X", 300)
    Path(second.offset_index.path).unlink()
    again = open_log(Path(log.directory).parent, SMALL)
    assert (len(again.segments), again.log_end_offset) == (len(log.segments), 50)
    found = again.read(second.base_offset + 1, 10_000).records
    assert not isinstance(found, bytes)
    assert read_header(found.read()).base_offset == third.base_offset


def test_a_batch_without_records_ends_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, 1)
    with Path(log.segments.active.log.path).open("ab") as file:
        file.write(encode_batch([], base_offset=1))
    assert reopen(log, clean=False).log_end_offset == 1


def test_real_kafkas_segments_rebuild_to_the_byte(tmp_path: Path) -> None:
    """The topic had an index interval of 1,024 bytes."""
    shutil.copytree(GOLDEN / "seg-0", tmp_path / "orders-0")
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1024), Checkpointed(clean=True, log_start_offset=80))
    segment = log.segments.first
    before = contents(tmp_path)
    assert recover_segment(log, segment, RecoveredEpochs(log.leader_epochs, 0, ())) is None
    after = contents(tmp_path)
    for suffix in ("log", "index", "timeindex"):
        name = f"orders-0/{75:020d}.{suffix}"
        assert after[name] == before[name]


def test_records_of_a_lost_truncation_yield_to_later_records(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), disk))
    log.append_as_leader(batch(), 0)
    log.append_as_leader(batch(4, value=b"old"), 0)
    log.flush()
    log.truncate_to(1)
    log.roll()
    log.append_as_leader(batch(2, value=b"new"), 1)
    new = Path(log.segments.active.log.path)
    content = new.read_bytes()
    disk.cut_power(Survival.NOTHING)
    new.write_bytes(content)  # the system had time for this file, and not for the one that was cut
    again = reopen(log, clean=False)
    assert again.log_end_offset == 3
    assert [segment.base_offset for segment in again.segments] == [0, 1]
    assert again.leader_epochs.entries == [(0, 0), (1, 1)]
    values = [
        (record.offset, record.value)
        for segment in again.segments
        for _, header, found in segment.batches(0, segment.size)
        for record in read_records(found, header)
    ]
    assert values == [(0, b"v"), (1, b"new"), (2, b"new")]


def test_a_flush_makes_a_truncation_durable(tmp_path: Path) -> None:
    disk = SimulatedDisk(str(tmp_path))
    log = open_log(tmp_path, storage=Storage(ManualClock(START_MS), disk))
    for _ in range(3):
        log.append_as_leader(batch(), 0)
    log.flush()
    log.truncate_to(1)
    log.flush()
    disk.cut_power(Survival.NOTHING)
    assert reopen(log, clean=False).log_end_offset == 1


def test_missing_offsets_stay_in_a_log_that_was_compacted(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 22)
    first = log.segments.first
    with Path(first.log.path).open("r+b") as file:
        file.truncate(first.size - len(batch(value=b"v" * 100)))
    config = LogConfig(segment_bytes=2000, kafkapy_flush="ack")
    assert open_log(tmp_path, config, Checkpointed(clean=False, was_compacted=True)).log_end_offset == 22


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize(
    ("policy", "flush", "recovery_point", "is_cut"),
    [
        ("delete", "ack", 0, True),
        ("delete", "ack", 10, True),
        ("delete", "ack", 11, False),
        ("compact", "ack", 0, False),
        ("delete", "kafka", 0, False),
    ],
)
def test_offsets_missing_between_segments_end_a_log_that_is_flushed_before_it_answers(
    tmp_path: Path, policy: str, flush: str, recovery_point: int, is_cut: bool, is_empty: bool
) -> None:
    log = open_log(tmp_path, SMALL)
    fill(log, 22)
    first, second = log.segments.between(0, 22)
    assert (first.base_offset, second.base_offset) == (0, 11)
    with Path(first.log.path).open("r+b") as file:
        file.truncate(first.size - len(batch(value=b"v" * 100)))
    if is_empty:
        Path(second.log.path).write_bytes(b"")
    end_offset = 10 if is_cut else 11 if is_empty else 22
    config = LogConfig(segment_bytes=2000, cleanup_policy=(policy,), kafkapy_flush=flush)
    again = open_log(tmp_path, config, Checkpointed(clean=False, recovery_point=recovery_point))
    assert again.log_end_offset == end_offset
    fill(again, 1)
    assert read_header(again.read(10, 100_000).records.read()).base_offset == min(end_offset, 11)
    assert reopen(again).log_end_offset == end_offset + 1


@pytest.mark.parametrize("flush", ["ack", "kafka"])
@pytest.mark.parametrize(("gap", "base_offset"), [(1, 11), (2**31 - 1, 11), (2**31, 2**31 + 11)])
def test_a_gap_in_the_leaders_log_is_none_after_a_power_failure(
    tmp_path: Path, flush: str, gap: int, base_offset: int
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, kafkapy_flush=flush))
    fill(log, 11)
    log.append_as_follower(batch(value=b"v" * 100, base_offset=11 + gap))
    assert log.segments.active.base_offset == base_offset
    again = open_log(tmp_path, log.config, Checkpointed(clean=False))
    assert again.log_end_offset == 12 + gap
    assert offsets_of(again.read(11, 1000).records) == [11 + gap]


@pytest.mark.parametrize(("flush", "end_offset"), [("ack", 2), ("kafka", 8)])
def test_a_truncation_that_a_power_failure_has_undone_in_part(tmp_path: Path, flush: str, end_offset: int) -> None:
    """The log was to begin at offset 2: the new segment is there, and the old ones are back."""
    log = open_log(tmp_path, LogConfig(kafkapy_flush=flush))
    fill(log, 5)
    log.roll()
    fill(log, 3)
    log.release()
    (Path(log.directory) / f"{2:020d}.log").touch()
    again = open_log(tmp_path, log.config, Checkpointed(clean=False, recovery_point=2))
    assert (again.log_start_offset, again.log_end_offset) == (0, end_offset)
    assert offsets_of(again.read(0, 10_000).records) == [0, 1]
    fill(again, 1)
    assert offsets_of(again.read(end_offset, 10_000).records) == [end_offset]
    again.release()


def test_an_empty_segment_after_a_torn_one_is_dropped(log: Log) -> None:
    path = Path(log.segments.active.log.path)
    log.roll()
    log.release()
    path.write_bytes(path.read_bytes()[:-5])
    again = open_log(path.parents[1], log.config, Checkpointed(clean=False))
    assert again.segments.active.log.path == str(path)
    assert again.log_end_offset == log.log_end_offset - 1


@pytest.mark.parametrize(
    ("start", "expected"),
    [(0, [(0, 1), (1, 5), (2, 7), (4, 11)]), (3, [(0, 3), (1, 5), (2, 7), (4, 11)]), (11, [(4, 11)])],
)
def test_epochs_come_back_with_the_records_when_a_crash_takes_back_the_start(
    tmp_path: Path, start: int, expected: list[tuple[int, int]]
) -> None:
    """The start is in its checkpoint each minute only, the epochs are in their file at once, as in Apache Kafka."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    log.append_as_follower(encode_legacy([Record(b"k", b"v", START_MS, (), 0)], 1))  # of which no epoch is known
    for epoch in (0, 0, 1, 2, 2, 4):
        log.append_as_leader(batch(2), epoch)
    log.flush()
    log.update_high_watermark(log.log_end_offset)
    log.advance_log_start_offset(12)
    assert log.leader_epochs.entries == [(4, 12)]
    log.leader_epochs._take([EpochEntry(4, 11)])
    log.release()
    checkpointed = Checkpointed(False, log.recovery_point, start, log.high_watermark)
    again = open_log(tmp_path, checkpointed=checkpointed)
    assert again.leader_epochs.entries == expected
    again.leader_epochs._take([EpochEntry(5, 13)])  # whose leader has written nothing
    again.release()
    last = open_log(tmp_path, checkpointed=checkpointed)
    assert last.leader_epochs.entries == expected


def test_a_snapshot_of_batches_lost_in_a_power_failure_is_not_used(tmp_path: Path) -> None:
    """The name of the next segment and the snapshot beside it were on the disk before the batch was."""
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    log.flush()
    log.append_as_leader(produced(1), 0)
    log.roll()
    log.release()
    path = Path(log.segments.first.log.path)
    path.write_bytes(path.read_bytes()[: len(produced(0))])
    again = open_log(tmp_path, checkpointed=Checkpointed(clean=False, recovery_point=1))
    assert again.producer_state.producers[7].last_sequence == 0
    assert not again.append_as_leader(produced(1), 0).duplicate


@pytest.mark.parametrize("torn", [0, 30])
def test_an_unused_segment_hides_no_record_of_a_torn_one_before(tmp_path: Path, torn: int) -> None:
    log = open_log(tmp_path)
    fill(log, 2)
    (tmp_path / "orders-0" / f"{1:020d}.log").touch()
    log.release()
    path = Path(log.segments.first.log.path)
    path.write_bytes(path.read_bytes() + bytes(batch()[:torn]))
    if not torn:
        path.with_suffix(".index").write_bytes((1).to_bytes(4) + (9999).to_bytes(4))  # beyond the file's end
    again = open_log(tmp_path, checkpointed=Checkpointed(clean=False))
    assert ([segment.base_offset for segment in again.segments], again.log_end_offset) == ([0], 2)


@pytest.mark.parametrize("records", [0, 3])
def test_a_clean_start_writes_nothing_for_a_log_whose_leader_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """Otherwise ten thousand logs would write, and rename, ten thousand files."""
    log = open_log(tmp_path)
    log.leader_epochs.assign(0, 0)
    fill(log, records)
    log.close()
    before = contents(Path(log.directory))
    written: list[str] = []
    monkeypatch.setattr(Files, "write", lambda _files, path, *_, **__: written.append(path))
    monkeypatch.setattr(Files, "replace", lambda _files, path, *_, **__: written.append(path))
    again = open_log(tmp_path, checkpointed=Checkpointed(clean=True, recovery_point=records, high_watermark=records))
    again.leader_epochs.assign(0, again.log_end_offset)
    assert (written, again.leader_epochs.entries) == ([], [(0, 0)])
    assert contents(Path(log.directory)) == before


def test_epochs_come_back_when_all_records_were_deleted_and_a_crash_takes_that_back(tmp_path: Path) -> None:
    """The last epoch began where the records end, and where recovery begins to read."""
    log = open_log(tmp_path)
    fill(log, 1)
    log.flush()
    log.roll(1)
    log.close()
    log = open_log(tmp_path, checkpointed=Checkpointed(clean=True, recovery_point=1, high_watermark=1))
    log.advance_log_start_offset(1)
    assert log.leader_epochs.entries == [(0, 1)]
    log.release()
    again = open_log(tmp_path, checkpointed=Checkpointed(clean=False, recovery_point=1, high_watermark=1))
    assert (again.log_start_offset, again.log_end_offset, again.leader_epochs.entries) == (0, 1, [(0, 0)])


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("damage", ["zeros", "length"])
def test_a_log_opens_despite_damage_below_the_recovery_point(tmp_path: Path, damage: str, *, clean: bool) -> None:
    """After an fsync that was refused, and a new process, the power may take what a later fsync has called safe."""
    log = open_log(tmp_path)
    log.append_as_leader(produced(0), 0)
    log.roll()
    log.append_as_leader(produced(1), 0)
    log.flush()
    log.release()
    path = Path(log.segments.first.log.path)
    content = bytearray(path.read_bytes())
    content[8 : 12 if damage == "length" else len(content)] = (
        (2**20).to_bytes(4, "big") if damage == "length" else bytes(len(content) - 8)
    )
    path.write_bytes(content)
    for snapshot in Path(log.directory).glob("*.snapshot"):
        snapshot.write_bytes(b"torn")
    again = open_log(tmp_path, checkpointed=Checkpointed(clean=clean, recovery_point=2, high_watermark=2))
    assert (again.log_start_offset, again.log_end_offset) == (0, 2)
    assert again.producer_state.producers[7].last_sequence == 1
    assert not again.append_as_leader(produced(2), 0).duplicate
