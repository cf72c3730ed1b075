from pathlib import Path

import pytest

from kafkapy.cluster.sqlite_file import SqliteFile, row_of
from kafkapy.cluster.store import NodeStat, StoreFileError
from kafkapy.cluster.tree import TreeNode


def test_nodes_come_back_as_they_were(tmp_path: Path) -> None:
    path = str(tmp_path / "store.sqlite")
    file = SqliteFile(path)
    assert file.load() == (0, [])
    null = TreeNode(None, NodeStat(1, 1, 0, 10, 0), 4)
    text = TreeNode(b"{}", NodeStat(2, 9, 3, 11, 0))
    file.write(9, [row_of("/null", null), row_of("/text", text), row_of("/gone", text)], [])
    file.write(12, [], ["/gone"])
    file.close()
    file.close()
    again = SqliteFile(path)
    zxid, nodes = again.load()
    assert zxid == 12
    assert [row_of(*found) for found in nodes] == [row_of("/null", null), row_of("/text", text)]
    again.close()


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "missing" / "store.sqlite")
    with pytest.raises(StoreFileError, match=path):
        SqliteFile(path).load()
