from pathlib import Path

from kafkapy.platform.files import Files
from kafkapy.storage.recovery.listing import Listing, list_partition


def _files(directory: Path, *names: str) -> None:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).write_bytes(b"x" * len(name))


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    assert list_partition(Files(), str(tmp_path / "t-0")) == ({}, {}, 0)
    assert (tmp_path / "t-0").is_dir()


def test_segments_snapshots_and_epochs_are_listed_and_other_files_stay(tmp_path: Path) -> None:
    zero, five = f"{0:020d}", f"{5:020d}"
    strangers = ["README", f"{zero}.other", "x" * 20 + ".log"]
    _files(tmp_path, f"{zero}.log", f"{zero}.index", f"{five}.log", f"{five}.snapshot", "leader-epoch-checkpoint")
    _files(tmp_path, *strangers)
    found = list_partition(Files(), str(tmp_path))
    assert found == Listing({0: {".log": 24, ".index": 26}, 5: {".log": 24}}, {5: 29}, 23)
    assert not found.says_nothing_of_producers(5)
    assert found._replace(snapshots={5: 10, 3: 56}).says_nothing_of_producers(5)
    assert found._replace(snapshots={}).says_nothing_of_producers(5)
    assert {path.name for path in tmp_path.iterdir()} >= set(strangers)


def test_leftovers_and_indexes_without_a_segment_are_removed(tmp_path: Path) -> None:
    nine = f"{9:020d}"
    gone = [f"{nine}.log.deleted", "leader-epoch-checkpoint.tmp", f"{nine}.index", f"{nine}.timeindex"]
    _files(tmp_path, *gone, f"{nine}.log.cleaned", f"{nine}.index.swap")
    assert list_partition(Files(), str(tmp_path)) == ({}, {}, 0)
    assert list(tmp_path.iterdir()) == []


def test_files_that_this_start_has_renamed_stay(tmp_path: Path) -> None:
    name = f"{0:020d}.log.deleted"
    _files(tmp_path, name)
    assert list_partition(Files(), str(tmp_path), keep_deleted=True) == ({}, {}, 0)
    assert (tmp_path / name).exists()
