import errno
import os
from pathlib import Path

import pytest

from kafkapy.metadata.journal import HEADER, SPARE_BYTES, MetadataJournal, Row, node_of, row_of
from kafkapy.metadata.store import StoreDamagedError
from kafkapy.platform.descriptors import Descriptor
from kafkapy.platform.files import Files

NULL: Row = ("/null", None, 1, 1, 0, 10, 4)
TEXT: Row = ("/täxt", b"{}", 2, 9, 3, 11, 0)
EMPTY: Row = ("/empty", b"", 2, 2, 0, 11, 0)


def _journal(path: Path, files: Files | None = None) -> MetadataJournal:
    return MetadataJournal(files or Files(), str(path / "store.journal"))


def _written(path: Path) -> MetadataJournal:
    journal = _journal(path)
    assert journal.load() is None
    assert journal.is_stale
    journal.replace(5, [NULL, EMPTY])
    journal.append(9, [TEXT], [])
    journal.append(12, [], ["/empty", "/unknown"])
    return journal


def test_a_row_is_a_node() -> None:
    assert row_of("/täxt", node_of(TEXT)) == TEXT


def test_nodes_come_back_as_they_were(tmp_path: Path) -> None:
    _written(tmp_path)
    again = _journal(tmp_path)
    assert again.load() == (12, {"/null": NULL, "/täxt": TEXT})
    assert (again.problem, again.is_stale) == (None, False)
    again.append(13, [EMPTY], [])
    assert _journal(tmp_path).load() == (13, {"/null": NULL, "/täxt": TEXT, "/empty": EMPTY})


def test_any_damaged_byte_and_any_length_leave_the_commits_before_it_or_nothing(tmp_path: Path) -> None:
    journal = _written(tmp_path)
    content = Path(journal.path).read_bytes()
    states = {
        5: {"/null": NULL, "/empty": EMPTY},
        9: {"/null": NULL, "/empty": EMPTY, "/täxt": TEXT},
        12: {"/null": NULL, "/täxt": TEXT},
    }
    damaged = [content[:at] + bytes([content[at] ^ 0x10]) + content[at + 1 :] for at in range(len(content))]
    cut = [content[:at] for at in range(len(content))]
    zeros = [content[:at] + bytes(len(content) - at) for at in range(len(content))]
    seen = set()
    for each in damaged + cut + zeros:
        Path(journal.path).write_bytes(each)
        again = _journal(tmp_path)
        try:
            found = again.load()
        except StoreDamagedError:
            seen.add(0)
            continue
        assert found is not None
        assert found.rows == states[found.zxid]
        assert found.zxid < 12 or each == content
        assert again.is_stale or each in cut
        seen.add(found.zxid)
    assert seen == {0, 5, 9}


def test_many_nodes_cut_off_among_them_count_as_damage(tmp_path: Path) -> None:
    rows: list[Row] = [(f"/n{number}", b"x", number, number, 0, 1, 0) for number in range(2500)]
    journal = _journal(tmp_path)
    journal.replace(2500, rows)
    again = _journal(tmp_path)
    assert again.load() == (2500, {row[0]: row for row in rows})
    content = Path(journal.path).read_bytes()
    second = len(HEADER) + 8 + int.from_bytes(content[len(HEADER) : len(HEADER) + 4], "big")
    Path(journal.path).write_bytes(content[:second])
    with pytest.raises(StoreDamagedError, match=f"cut off at byte {second}"):
        _journal(tmp_path).load()


def test_a_large_journal_is_written_again(tmp_path: Path) -> None:
    journal = _written(tmp_path)
    big: Row = ("/big", b"x" * 40_000, 13, 13, 0, 1, 0)
    while not journal.is_large:
        journal.append(14, [big], [])
    assert SPARE_BYTES < Path(journal.path).stat().st_size < 2 * SPARE_BYTES
    again = _journal(tmp_path)
    again.load()
    assert again.is_large
    again.replace(14, [NULL, big])
    assert not again.is_large
    again.append(15, [TEXT], [])
    assert _journal(tmp_path).load() == (15, {"/null": NULL, "/big": big, "/täxt": TEXT})


class _Refusing(Files):
    """Writes half of the bytes, or refuses the fsync."""

    number = 0
    writes = True

    def write_at(self, descriptor: Descriptor, data: bytes | bytearray | memoryview, position: int) -> None:
        if self.number and self.writes:
            super().write_at(descriptor, data[: len(data) // 2], position)
            raise OSError(self.number, os.strerror(self.number))
        super().write_at(descriptor, data, position)

    def sync(self, descriptor: Descriptor) -> None:
        if self.number:
            raise OSError(self.number, os.strerror(self.number))
        super().sync(descriptor)


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize(("number", "is_stale"), [(errno.ENOSPC, False), (errno.EIO, True)])
def test_a_refused_commit_is_not_in_the_journal(tmp_path: Path, number: int, is_stale: bool, writes: bool) -> None:
    _written(tmp_path)
    files = _Refusing()
    files.writes = writes
    journal = _journal(tmp_path, files)
    journal.load()
    files.number = number
    with pytest.raises(OSError, match=os.strerror(number)):
        journal.append(13, [EMPTY], [])
    assert journal.is_stale is is_stale
    files.number = 0
    if is_stale:
        journal.replace(12, [NULL, TEXT])
    else:
        journal.append(14, [], ["/null"])
        assert _journal(tmp_path).load() == (14, {"/täxt": TEXT})
