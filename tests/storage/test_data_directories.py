from pathlib import Path

import pytest

from harness.storage.batches import START_MS
from kafkapy.platform.errors import LogDirectoryError, LogDirectoryLockedError
from kafkapy.platform.files import Files
from kafkapy.storage.data_directories import DataDirectories
from kafkapy.storage.data_directory import DataDirectory
from kafkapy.storage.errors import BrokerIdMismatchError, ClusterIdMismatchError


def _directories(*paths: Path) -> DataDirectories:
    return DataDirectories(Files(), [str(path) for path in paths])


def _fail(directory: DataDirectory, error: OSError) -> None:
    directory.failure = str(error)


def test_a_directory_that_can_not_be_used_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("a file")
    directories = _directories(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    assert directories.lock(_fail) is None
    assert [each.path for each in directories.online] == [f"{tmp_path}/a", f"{tmp_path}/c"]
    assert [each.path for each in directories.offline] == [f"{tmp_path}/b"]
    directories.write_identity(1, "cluster", START_MS)
    assert not (tmp_path / "b").is_dir()


def test_without_a_usable_directory_the_error_has_every_reason(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(LogDirectoryError, match=r"a can't be used .* File exists.*; .*a/b can't be used .* Not a dir"):
        _directories(tmp_path / "a", tmp_path / "a" / "b").lock(_fail)


def test_the_same_directory_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(LogDirectoryError, match="names one directory twice"):
        _directories(tmp_path / "a", tmp_path / "b").lock(_fail)


def test_a_second_broker_is_refused_until_the_first_unlocks(tmp_path: Path) -> None:
    first, second = _directories(tmp_path / "a"), _directories(tmp_path / "a")
    first.lock(_fail)
    assert first.are_locked
    first.lock(_fail)
    with pytest.raises(LogDirectoryLockedError):
        second.lock(_fail)
    first.unlock()
    second.lock(_fail)


def test_identities(tmp_path: Path) -> None:
    directories = _directories(tmp_path / "a", tmp_path / "b")
    assert directories.lock(_fail) is None
    directories.write_identity(1, "cluster", START_MS)
    assert (tmp_path / "a" / "meta.properties").read_text().startswith("#\n#Tue Nov 14 22:13:20 UTC 2023\n")
    assert directories.lock(_fail) == (1, "cluster")
    with pytest.raises(ClusterIdMismatchError):
        directories.check_identity(1, "other")
    with pytest.raises(BrokerIdMismatchError):
        directories.write_identity(2, "cluster", START_MS)
    (tmp_path / "b" / "meta.properties").write_text("broker.id=2\ncluster.id=cluster\n")
    with pytest.raises(LogDirectoryError, match="different brokers"):
        directories.lock(_fail)


def test_the_directory_of_a_path_is_found(tmp_path: Path) -> None:
    directories = _directories(tmp_path / "a", tmp_path / "ab")
    assert [
        found.path.rpartition("/")[2] if (found := directories.containing(f"{tmp_path}/{name}")) else None
        for name in ("a", "a/t-0", "ab/t-0", "abc")
    ] == ["a", "a", "ab", None]
