import pytest

from kafkapy.metadata.exchange.metadata_changes import NodeChange, changes, refuse_overwriting, same_data
from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree
from tests.metadata.metadata_samples import NODES, tree, without


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (None, b"", True),
        (b"7", b"7", True),
        (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', True),
        (b'{"a":1}', b'{"a":2}', False),
        (b"text", b"other", False),
        (b"{}", None, False),
    ],
)
def test_data_is_compared_by_meaning(one: bytes | None, other: bytes | None, same: bool) -> None:
    assert same_data(one, other) is same


def test_changes_make_the_target_equal_to_the_source() -> None:
    target = MetadataTree({**without("/consumers").nodes, "/controller_epoch": b"3", "/admin/extra": b""})
    assert changes(tree(), target) == [
        NodeChange("gone", "/admin/extra"),
        NodeChange("new", "/consumers"),
        NodeChange("other", "/controller_epoch"),
    ]
    assert changes(tree(), tree()) == []


def _refuse(target: MetadataTree, *, overwrite: bool = False) -> None:
    refuse_overwriting(tree(), target, changes(tree(), target), "there", overwrite=overwrite)


def test_empty_and_equal_targets_are_not_refused() -> None:
    _refuse(MetadataTree({}))
    _refuse(tree())
    _refuse(without("/consumers"))


def test_older_and_newer_metadata_is_overwritten_only_with_permission() -> None:
    older = MetadataTree({**NODES, "/controller_epoch": b"3"})
    with pytest.raises(MetadataError, match=r"older: controller epoch 3.*has 7\): /controller_epoch differs.*--overwr"):
        _refuse(older)
    _refuse(older, overwrite=True)
    with pytest.raises(MetadataError, match="NEWER: controller epoch 9"):
        _refuse(MetadataTree({**NODES, "/controller_epoch": b"9"}))
    more = {f"/consumers/{number}": b"" for number in range(9)}
    with pytest.raises(MetadataError, match=r"as old, controller epoch 7\).*/consumers/4 is only there, and 4 more"):
        _refuse(MetadataTree({**NODES, **more}))


@pytest.mark.parametrize("overwrite", [False, True])
def test_another_cluster_or_a_running_one_is_always_refused(overwrite: bool) -> None:
    other = MetadataTree({**NODES, "/cluster/id": b'{"version":"1","id":"other"}'})
    with pytest.raises(MetadataError, match="there holds another cluster, other"):
        _refuse(other, overwrite=overwrite)
    with pytest.raises(MetadataError, match=r"there has running brokers \(1, 2\)"):
        _refuse(MetadataTree({}, live_brokers=(1, 2)), overwrite=overwrite)
