"""The changes that replace one metadata tree by another, and the refusal to overwrite a tree without permission."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkapy.metadata.exchange.metadata_tree import MetadataError, MetadataTree

NEW: Final = "new"
OTHER: Final = "other"
GONE: Final = "gone"

_NAMED: Final = 5


class NodeChange(NamedTuple):
    """``kind`` is ``new`` (the source alone has the node), ``gone`` (the target alone) or ``other`` (other data)."""

    kind: str
    path: str


def same_data(one: bytes | None, other: bytes | None) -> bool:
    """Whether two nodes have equal data: JSON is compared by its values, and no data equals empty data."""
    if (one or b"") == (other or b""):
        return True
    try:
        return bool(json.loads(one or b"") == json.loads(other or b""))
    except ValueError:
        return False


def changes(source: MetadataTree, target: MetadataTree) -> list[NodeChange]:
    """The changes that make ``target`` equal to ``source``, by path."""
    found = []
    for path in sorted(source.nodes.keys() | target.nodes.keys()):
        if path not in target.nodes:
            found.append(NodeChange(NEW, path))
        elif path not in source.nodes:
            found.append(NodeChange(GONE, path))
        elif not same_data(source.nodes[path], target.nodes[path]):
            found.append(NodeChange(OTHER, path))
    return found


def refuse_overwriting(
    source: MetadataTree, target: MetadataTree, found: Sequence[NodeChange], where: str, *, overwrite: bool
) -> None:
    """Raise MetadataError unless the target is empty, equal already, or the user gave --overwrite.

    The metadata of another cluster, or of a running one, is never overwritten.
    """
    if target.live_brokers:
        ids = ", ".join(map(str, target.live_brokers))
        raise MetadataError(f"{where} has running brokers ({ids}): stop them first, then wait until their session ends")
    if target.cluster_id is None:
        return
    if target.cluster_id != source.cluster_id:
        raise MetadataError(
            f"{where} holds another cluster, {target.cluster_id}; this one is {source.cluster_id}. "
            "Choose an empty place, another chroot for example, or remove the other cluster yourself"
        )
    replaced = [change for change in found if change.kind != NEW]
    if replaced and not overwrite:
        raise MetadataError(
            f"{where} holds other metadata of this cluster ({_age(source, target)}): {_listed(replaced)}. "
            "Look with --dry-run, then give --overwrite to replace it"
        )


def _age(source: MetadataTree, target: MetadataTree) -> str:
    here, there = source.controller_epoch, target.controller_epoch
    if there == here:
        return f"as old, controller epoch {here}"
    return f"{'older' if there < here else 'NEWER'}: controller epoch {there}, what would replace it has {here}"


def _listed(found: Sequence[NodeChange]) -> str:
    words = {OTHER: "differs", GONE: "is only there"}
    named = [f"{change.path} {words[change.kind]}" for change in found[:_NAMED]]
    if len(found) > _NAMED:
        named.append(f"and {len(found) - _NAMED} more")
    return ", ".join(named)
