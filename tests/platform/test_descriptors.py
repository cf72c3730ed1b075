from pathlib import Path

from kafkapy.platform.descriptors import OpenFiles
from kafkapy.platform.files import Files, FileSlice


def test_slices_are_opaque_bodies(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    part = FileSlice(Files().open(str(tmp_path / "f")), 1, 5)
    assert part.read() == b"bc"


class Opened:
    used = False
    dropped = False

    def drop(self) -> None:
        self.dropped = True


def test_unused_files_are_closed_before_used_ones() -> None:
    opened = OpenFiles(2)
    busy, idle, new = Opened(), Opened(), Opened()
    busy.used = True
    for file in (busy, idle, new):
        opened.add(file)
    assert [file.dropped for file in (busy, idle, new)] == [False, True, False]
    opened.forget(busy)
    opened.add(Opened())
    assert not new.dropped


def test_two_threads_may_close_files_at_the_same_time() -> None:
    opened = OpenFiles(9)
    files = [Opened() for _ in range(4)]
    for file in files:
        opened.add(file)
    first_drop = files[0].drop

    def drop() -> None:
        first_drop()
        while opened.drop_half():
            pass

    files[0].drop = drop  # type: ignore[method-assign]  # while it is dropped, others are
    assert opened.drop_half()
    assert all(file.dropped for file in files)
    opened.forget(files[0])
    assert not opened.drop_half()
