import errno
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN
from kafkapy.platform.files import Files
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from tests.storage.broken_disk import BrokenDisk


def _epochs(path: Path, *entries: tuple[int, int], end: int = 100) -> LeaderEpochs:
    epochs = LeaderEpochs(Files(), str(path / "leader-epoch-checkpoint"), lambda: end)
    for epoch, offset in entries:
        epochs.assign(epoch, offset)
    return epochs


def _text(epochs: LeaderEpochs) -> str:
    return Path(epochs.path).read_text()


def test_real_kafkas_file_parses_and_encodes_the_same(tmp_path: Path) -> None:
    real = LeaderEpochs(Files(), str(GOLDEN / "rf3-0" / "leader-epoch-checkpoint"), lambda: 62)
    real.load()
    assert real.entries[:3] == [(0, 0), (1, 30), (6, 50)]
    copy = _epochs(tmp_path, *real.entries)
    assert _text(copy) == Path(real.path).read_text()


def test_a_missing_file_holds_nothing(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path)
    epochs.load()
    assert (epochs.latest, epochs.latest_start_offset, epochs.entries) == (-1, -1, [])
    assert (epochs.is_latest(-1, 5), epochs.is_latest(0, 5)) == (True, False)
    assert epochs.end_offset_for(0) == (-1, -1)
    assert epochs.end_offset_for(-2) == (-1, -1)


@pytest.mark.parametrize("text", ["0\n1\na b\n", "0\n2\n1 0\n0 5\n", "0\n2\n0 5\n1 0\n", "0\n1\n1_0 5\n", "1\n0\n"])
def test_a_malformed_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(text)
    epochs = _epochs(tmp_path)
    with pytest.raises(MalformedCheckpointError, match="leader-epoch-checkpoint"):
        epochs.load()
    assert epochs.entries == []


def test_epochs_are_rebuilt_from_batches(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path)
    epochs.rebuild(EpochEntry(epoch, offset) for epoch, offset in [(-1, 0), (2, 5), (2, 6), (1, 7), (4, 9)])
    assert epochs.entries == [(2, 5), (4, 9)]
    assert _text(epochs) == "0\n2\n2 5\n4 9\n"


def test_an_epoch_without_records_leaves_no_trace(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path, (0, 0), (2, 18), (4, 18), (7, 25), (7, 30))
    assert epochs.entries == [(0, 0), (4, 18), (7, 25)]
    assert _text(epochs) == "0\n3\n0 0\n4 18\n7 25\n"
    assert [epochs.is_latest(*place) for place in ((7, 25), (7, 24), (4, 25), (-1, 25))] == [True, False, False, False]
    epochs.assign(7, 20)
    assert epochs.entries == [(0, 0), (4, 18), (7, 20)]


def test_end_offsets_follow_kip_101(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path, (2, 10), (4, 18), (7, 25))
    asked = {-1: (-1, -1), 1: (1, 10), 2: (2, 18), 3: (2, 18), 4: (4, 25), 6: (4, 25), 7: (7, 100), 8: (-1, -1)}
    assert {epoch: epochs.end_offset_for(epoch) for epoch in asked} == asked


def test_the_epoch_of_an_offset(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path, (2, 10), (4, 18))
    assert [epochs.epoch_for(offset) for offset in (9, 10, 17, 18, 99)] == [-1, 2, 2, 4, 4]


def test_truncation_at_both_ends(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path, (2, 10), (4, 18), (7, 25))
    epochs.truncate_from_end(26)
    epochs.truncate_from_end(25)
    assert epochs.entries == [(2, 10), (4, 18)]
    epochs.truncate_from_start(5)
    epochs.truncate_from_start(10)
    assert epochs.entries == [(2, 10), (4, 18)]
    epochs.truncate_from_start(20)
    assert epochs.entries == [EpochEntry(4, 20)]
    epochs.clear()
    assert _text(epochs) == "0\n0\n"


def test_an_empty_partition_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    monkeypatch.setattr(Files, "sync", lambda *_: waits.append("fsync"))
    _epochs(tmp_path, (0, 0), end=0)
    assert not waits
    _epochs(tmp_path, (0, 0), end=1)
    assert waits


@pytest.mark.parametrize("cut", ["start", "end"])
def test_epochs_that_a_full_disk_refuses_are_written_later(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = LeaderEpochs(Files(), str(path), lambda: 20)
    epochs.assign(1, 0)
    epochs.assign(2, 10)
    before = path.read_text()
    disk = BrokenDisk(errno.ENOSPC)
    disk.broken = str(tmp_path)
    epochs._files = disk
    if cut == "start":
        epochs.truncate_from_start(15)
        left = [(2, 15)]
    else:
        epochs.truncate_from_end(5)
        left = [(1, 0)]
    assert (epochs.entries, path.read_text()) == (left, before)
    with pytest.raises(OSError, match="No space"):
        epochs.write_again()
    with pytest.raises(OSError, match="No space"):
        epochs.assign(3, 20)
    disk.broken = "nothing"
    epochs.write_again()
    assert path.read_text() == f"0\n1\n{left[0][0]} {left[0][1]}\n"
    path.unlink()
    epochs.write_again()
    assert not path.exists(), "it is as it should be"
    disk.number, disk.broken = errno.EIO, str(tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        epochs.truncate_from_end(0)
    assert epochs.entries == left


def test_epochs_dropped_in_memory_stay_in_the_file_until_a_new_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _epochs(tmp_path, (2, 10), (4, 25))
    epochs = _epochs(tmp_path)
    epochs.load()
    epochs.forget_from_end(25)
    assert (epochs.entries, _text(epochs)) == ([(2, 10)], "0\n2\n2 10\n4 25\n")
    writes: list[str] = []
    replace = Files.replace

    def counted(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
        writes.append(path)
        replace(files, path, data, sync=sync)

    monkeypatch.setattr(Files, "replace", counted)
    epochs.assign(4, 25)
    assert (epochs.entries, epochs.wait_for_flush, writes) == ([(2, 10), (4, 25)], True, [])
    epochs.assign(5, 25)
    assert (_text(epochs), epochs.wait_for_flush, len(writes)) == ("0\n2\n2 10\n5 25\n", False, 1)


def test_a_forgotten_epoch_is_written_over_by_the_next_records(tmp_path: Path) -> None:
    _epochs(tmp_path, (2, 10), (4, 25))
    epochs = _epochs(tmp_path)
    epochs.load()
    epochs.forget_from_end(20)
    epochs.assign(3, 22)
    assert _text(epochs) == "0\n2\n2 10\n3 22\n"
    epochs.load()
    assert epochs.entries == [(2, 10), (3, 22)]


def test_epochs_below_the_start_are_forgotten_in_memory_until_the_file_is_written_again(tmp_path: Path) -> None:
    epochs = _epochs(tmp_path, (2, 10), (4, 18))
    before = _text(epochs)
    epochs.forget_from_start(5)
    assert not epochs.is_stale
    epochs.forget_from_start(20)
    assert (epochs.entries, epochs.is_stale, _text(epochs)) == ([(4, 20)], True, before)
    disk = BrokenDisk(errno.ENOSPC)
    disk.broken = str(tmp_path)
    epochs._files = disk
    epochs.write_again(may_wait=True)
    assert (epochs.is_stale, _text(epochs)) == (True, before)
    disk.broken = "nothing"
    epochs.write_again(may_wait=True)
    assert (epochs.is_stale, _text(epochs)) == (False, "0\n1\n4 20\n")
