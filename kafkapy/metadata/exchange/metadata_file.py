"""Read and write the whole content of the embedded store's files, while no broker has them open."""

import os
from collections.abc import Sequence

from kafkapy.metadata.embedded import FILE_NAME
from kafkapy.metadata.exchange.metadata_changes import GONE, NodeChange
from kafkapy.metadata.exchange.metadata_tree import MetadataTree, is_carried
from kafkapy.metadata.journal import node_of, row_of
from kafkapy.metadata.registration import SEQUENCE_PATH
from kafkapy.metadata.store import NodeStat
from kafkapy.metadata.store_files import StoreFiles, is_stored
from kafkapy.metadata.tree import TreeNode, parent_of


def metadata_path(log_directory: str) -> str:
    """The path of the store's database in the first log directory of a broker."""
    return os.path.join(log_directory, FILE_NAME)


def read_file_tree(path: str) -> MetadataTree:
    """The metadata in the files; an empty tree when there are none. Raises ``StoreFileError``."""
    if not is_stored(path):
        return MetadataTree({})
    file = StoreFiles(path)
    try:
        nodes = {row[0]: node_of(row) for row in file.load(repairs=False).rows.values()}
    finally:
        file.close()
        file.thread.shutdown()
    sequence = nodes[SEQUENCE_PATH].version if SEQUENCE_PATH in nodes else 0
    return MetadataTree({path: node.data for path, node in nodes.items() if is_carried(path)}, sequence)


def write_file_tree(path: str, source: MetadataTree, found: Sequence[NodeChange], now_ms: int) -> None:
    """Make the files equal to ``source``, in one commit; ``found`` is the changes. Raises ``StoreFileError``.

    Nodes that stay as they are keep their numbers; the others get the next one, with version 0.
    """
    file = StoreFiles(path)
    try:
        content = file.load()
        zxid = content.zxid + 1
        before = {row[0]: node_of(row) for row in content.rows.values()}
        written = {change.path: source.nodes[change.path] for change in found if change.kind != GONE}
        # A parent may be a node that is not carried over.
        for node_path in list(written):
            while (node_path := parent_of(node_path)) != "/" and node_path not in before:
                written.setdefault(node_path, None)
        if SEQUENCE_PATH in source.nodes:
            written[SEQUENCE_PATH] = source.nodes[SEQUENCE_PATH]
        made = []
        for node_path, data in written.items():
            version = source.broker_id_sequence if node_path == SEQUENCE_PATH else 0
            old = before.get(node_path)
            made.append(row_of(node_path, TreeNode(data, NodeStat(zxid, zxid, version, now_ms, 0), _sequence(old))))
        file.write(zxid, made, [change.path for change in found if change.kind == GONE])
    finally:
        file.close()
        file.thread.shutdown()


def _sequence(node: TreeNode | None) -> int:
    """The next number of a sequential child; a number is never used twice, even if the node is deleted."""
    return 0 if node is None else node.sequence
