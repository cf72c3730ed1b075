import os
from pathlib import Path

import pytest

from kafkapy.storage.inspection.overlay import CUT, REMOVED, RENAMED, WRITTEN, Action, RecordingFiles, ShadowFiles


def _data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "t-0").mkdir(parents=True)
    for name in ("a.log", "a.index", "b.log", "same", "old"):
        (data / "t-0" / name).write_bytes(b"0123456789")
    (data / ".lock").write_bytes(b"")
    return data


def _change(files: RecordingFiles, folder: str) -> list[Action]:
    files.truncate(f"{folder}/a.log", 4)
    files.truncate(f"{folder}/a.index", 3)
    files.write(f"{folder}/a.index", b"xyz", 1)
    files.create(f"{folder}/new")
    files.write(f"{folder}/new", b"n")
    files.replace(f"{folder}/same", b"0123456789", sync=False)
    files.remove(f"{folder}/old")
    files.remove(f"{folder}/none")
    files.rename(f"{folder}/a.log", f"{folder}/c.log")
    files.rename(f"{folder}/b.log", f"{folder}/b.log.deleted")
    files.create(f"{folder}/same")
    files.write(f"{folder}/same", b"0123456789")
    return files.done()


def _expected(folder: str) -> list[Action]:
    return [
        Action(CUT, f"{folder}/a.log", "from 10 to 4 bytes"),
        Action(REMOVED, f"{folder}/old", "10 bytes"),
        Action(RENAMED, f"{folder}/a.log", "to c.log"),
        Action(RENAMED, f"{folder}/b.log", "to b.log.deleted"),
        Action(WRITTEN, f"{folder}/a.index", "rebuilt"),
        Action(WRITTEN, f"{folder}/new", "new"),
    ]


def test_changes_are_recorded(tmp_path: Path) -> None:
    folder = str(_data(tmp_path) / "t-0")
    files = RecordingFiles()
    assert _change(files, folder) == _expected(folder)
    files.remove(f"{folder}/c.log")
    assert files.done()[-3:-2] != []
    files.forget()
    assert [action.kind for action in files.done()] == [WRITTEN, WRITTEN]
    assert Path(folder, "a.index").read_bytes() == b"0xyz"


def test_a_file_that_is_replaced_by_the_same_content_is_no_change(tmp_path: Path) -> None:
    path = str(_data(tmp_path) / "t-0" / "old")
    files = RecordingFiles()
    files.remove(path)
    files.write(path, b"0123456789")
    assert files.done() == []


@pytest.mark.parametrize("lack", [None, OSError("a privilege is not held"), NotImplementedError()])
def test_a_shadow_takes_every_change_and_leaves_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lack: Exception | None
) -> None:
    def refuse(*_: object) -> None:
        assert lack is not None
        raise lack

    if lack is not None:
        monkeypatch.setattr(os, "symlink", refuse)
    data = _data(tmp_path)
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    files = ShadowFiles()
    shadow = tmp_path / "shadow"
    files.add_directory(str(data), str(shadow))
    assert not (shadow / ".lock").exists()
    assert (shadow / "t-0" / "a.log").is_symlink() == (lack is None)
    folder = str(shadow / "t-0")
    assert _change(files, folder) == _expected(folder)
    assert files.size(f"{folder}/c.log") == 4
    assert files.list_directory(folder) == [
        ("a.index", 4), ("b.log.deleted", 10), ("c.log", 4), ("new", 1), ("same", 10),
    ]  # fmt: skip
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before
