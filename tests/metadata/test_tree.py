"""The tree against a model, with random operations: a refused multi changes nothing, others change both alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.metadata.store import (
    Check,
    Create,
    Delete,
    EventKind,
    NodeStat,
    NotEmptyError,
    Operation,
    SetData,
    StoreError,
    WatchEvent,
)
from kafkapy.metadata.tree import Tree, TreeNode, Watches, parent_of

PATHS = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/deep"])
VERSIONS = st.sampled_from([-1, 0, 1])
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, PATHS, st.binary(max_size=2), st.booleans(), st.booleans()),
    st.builds(SetData, PATHS, st.binary(max_size=2), VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


def _picture(tree: Tree) -> dict[str, object]:
    return {
        path: (node.data, node.stat, node.sequence, sorted(node.children or ())) for path, node in tree.nodes.items()
    }


@given(st.lists(st.lists(OPERATIONS, max_size=5), max_size=12))
def test_random_multis(multis: list[list[Operation]]) -> None:
    tree = Tree()
    for multi in multis:
        before, zxid = _picture(tree), tree.zxid
        try:
            applied = tree.apply(multi, 5, 77)
        except StoreError:
            assert _picture(tree) == before
        else:
            after = _picture(tree)
            differing = {path for path in before | after if before.get(path) != after.get(path)}
            assert {path for path in differing if path in after and path in before} <= applied.changed | {
                parent_of(path) for path in applied.changed
            }
            assert differing <= applied.changed | {parent_of(path) for path in applied.changed}
            assert len(applied.results) == len(multi)
        assert tree.zxid == zxid + 1
        for path in tree.nodes:
            names = {other.rpartition("/")[2] for other in tree.nodes if other != "/" and parent_of(other) == path}
            assert set(tree.children(path)) == names


def test_loading_stored_nodes_in_any_order() -> None:
    tree = Tree()
    stat = NodeStat(3, 4, 1, 100, 0)
    rows = [("/a/b", TreeNode(b"leaf", stat)), ("/", TreeNode(None, stat, 7)), ("/a", TreeNode(None, stat, 2))]
    tree.load(rows)
    assert tree.children("/") == ["a"]
    assert tree.children("/a") == ["b"]
    assert tree.find("/").sequence == 7
    assert tree.find("/a/b").stat == stat


def test_the_root_stays() -> None:
    with pytest.raises(NotEmptyError):
        Tree().apply([Delete("/")], 0, 1)


def test_a_session_knows_its_nodes_oldest_first() -> None:
    tree = Tree()
    for path in ("/z", "/y"):
        tree.apply([Create(path, b"", ephemeral=True)], 0, 5)
    tree.apply([Create("/x", b"", ephemeral=True)], 0, 6)
    assert tree.owned_by(5) == ["/z", "/y"]


def test_a_deletion_tells_both_kinds_of_watch_once() -> None:
    watches = Watches()
    told: list[WatchEvent] = []
    watches.add_data("/a", told.append)
    watches.add_children("/a", told.append)
    watches.fire([WatchEvent(EventKind.DELETED, "/a"), WatchEvent(EventKind.CREATED, "/a")])
    assert len(told) in (1, 2)
    assert set(told) == {WatchEvent(EventKind.DELETED, "/a")}
