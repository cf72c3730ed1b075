from pathlib import Path
from random import Random

import pytest

from tests.simulation.durable import DurableTree, FileNode, FolderNode, Survival


@pytest.fixture
def tree(tmp_path: Path) -> DurableTree:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_bytes(b"inner")
    return DurableTree(str(tmp_path))


def _file(tree: DurableTree, name: str) -> FileNode:
    node = tree.find(f"{tree.root}/{name}")
    assert isinstance(node, FileNode)
    return node


def test_the_content_at_the_beginning_survives(tree: DurableTree, tmp_path: Path) -> None:
    tree.cut_power(Survival.NOTHING, Random(0))
    assert (tmp_path / "old").read_bytes() == b"old"
    assert (tmp_path / "folder" / "inner").read_bytes() == b"inner"


def test_paths_outside_of_the_root_have_no_node(tree: DurableTree) -> None:
    assert tree.find(str(Path(tree.root).parent)) is None
    assert tree.find(f"{tree.root}/old/deeper") is None
    assert tree.find(tree.root) is tree.top


def test_names_need_an_fsync_of_the_folder_and_bytes_of_the_file(tree: DurableTree, tmp_path: Path) -> None:
    new = FileNode()
    tree.added(f"{tree.root}/new", new)
    new.pending.append((0, b"bytes"))
    tree.top.settle()
    tree.renamed(f"{tree.root}/old", f"{tree.root}/renamed")
    tree.removed(f"{tree.root}/new")
    tree.cut_power(Survival.NOTHING, Random(0))
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "new", "old"}
    assert (tmp_path / "new").read_bytes() == b""


def test_settled_changes_stay(tree: DurableTree, tmp_path: Path) -> None:
    node = _file(tree, "old")
    node.pending += [(5, b"later"), (8, None), (1, b"OL")]
    node.settle()
    tree.renamed(f"{tree.root}/old", f"{tree.root}/renamed")
    tree.removed(f"{tree.root}/folder")
    tree.added(f"{tree.root}/empty", FolderNode())
    tree.top.settle()
    tree.cut_power(Survival.NOTHING, Random(0))
    assert {path.name for path in tmp_path.iterdir()} == {"empty", "renamed"}
    assert (tmp_path / "renamed").read_bytes() == b"oOL\0\0lat"


def test_bytes_of_a_failed_fsync_are_lost_though_the_next_one_succeeds(tree: DurableTree, tmp_path: Path) -> None:
    node = _file(tree, "old")
    node.pending += [(3, b"lost"), (7, b"kept")]
    node.forfeit()
    node.pending += [(7, b"kept"), (10, None)]
    node.settle()
    tree.cut_power(Survival.NOTHING, Random(0))
    assert (tmp_path / "old").read_bytes() == b"old\0\0\0\0kep"


def test_a_failed_fsync_of_a_folder_loses_no_name(tree: DurableTree, tmp_path: Path) -> None:
    tree.renamed(f"{tree.root}/old", f"{tree.root}/renamed")
    tree.top.forfeit()
    tree.top.settle()
    tree.cut_power(Survival.NOTHING, Random(0))
    assert (tmp_path / "renamed").exists()


def _outcomes(root: Path, survival: Survival) -> set[tuple[bytes, bool, bool]]:
    found = set()
    for seed in range(60):
        directory = root / str(seed)
        directory.mkdir()
        (directory / "file").write_bytes(b"o" * 8000)
        tree = DurableTree(str(directory))
        _file(tree, "file").pending += [(0, b"n" * 8000), (8000, b"m" * 100)]
        tree.added(f"{directory}/first", FileNode())
        tree.added(f"{directory}/second", FileNode())
        tree.cut_power(survival, Random(seed))
        found.add(((directory / "file").read_bytes(), (directory / "first").exists(), (directory / "second").exists()))
    return found


def test_a_journal_keeps_the_order_and_tears_the_last_write(tmp_path: Path) -> None:
    found = _outcomes(tmp_path, Survival.ORDERED)
    assert {names for _, *names in [(b, f, s) for b, f, s in found] for names in [tuple(names)]} == {
        (False, False), (True, False), (True, True)
    }  # fmt: skip
    contents = {content for content, _, _ in found}
    assert all(content == b"n" * content.count(b"n") + content.lstrip(b"n") for content in contents)
    assert any(b"n" in content and b"o" in content for content in contents)
    assert not any(b"o" in content and b"m" in content for content in contents)


def test_without_an_fsync_any_page_of_any_write_may_survive(tmp_path: Path) -> None:
    found = _outcomes(tmp_path, Survival.TORN)
    assert {(first, second) for _, first, second in found} == {
        (False, False), (True, False), (False, True), (True, True)
    }  # fmt: skip
    contents = {content for content, _, _ in found}
    assert b"o" * 4096 + b"n" * 3904 in {content[:8000] for content in contents}
    assert b"n" * 4096 + b"o" * 3904 in {content[:8000] for content in contents}


def test_the_same_seed_loses_the_same_changes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for survival in Survival:
        for name in ("a", "b"):
            (tmp_path / name / survival.name).mkdir()
        assert _outcomes(tmp_path / "a" / survival.name, survival) == _outcomes(
            tmp_path / "b" / survival.name, survival
        )
