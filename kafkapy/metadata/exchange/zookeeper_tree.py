"""A cluster's metadata in a ZooKeeper, read and written as a whole while no broker runs (kazoo, blocking)."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kafkapy.metadata.exchange.metadata_changes import GONE, NEW, NodeChange
from kafkapy.metadata.exchange.metadata_tree import ROOTS, MetadataError, MetadataTree, is_carried
from kafkapy.metadata.registration import SEQUENCE_PATH
from kafkapy.metadata.tree import parent_of
from kafkapy.metadata.znodes import BrokerIdsZNode, ClusterIdZNode, ControllerEpochZNode
from kafkapy.metadata.zookeeper_address import ZooKeeperAddress
from kafkapy.metadata.zookeeper_operations import access_list
from kafkapy.security.kazoo_client import new_kazoo_client, tls_failure, why_refused
from kafkapy.security.settings import OPEN_ZOOKEEPER, ZooKeeperSecurity

CONNECT_S: Final = 10.0
_IN_FLIGHT: Final = 500
_BYTES_OF_A_MULTI: Final = 256 * 1024
_NODES_OF_A_MULTI: Final = 200
_LAST: Final = (ClusterIdZNode.PATH, ControllerEpochZNode.PATH)

logger: Final = logging.getLogger("kafkapy.zookeeper")


class ZooKeeperTree:
    """A connection to the tree below a chroot; made by ``connected``."""

    def __init__(self, client: KazooClient, address: ZooKeeperAddress, *, protects_nodes: bool) -> None:
        self._client = client
        self._chroot = address.chroot
        self._protects_nodes = protects_nodes

    def read(self) -> MetadataTree:
        """All nodes that are carried, and the registered brokers; an empty tree if the chroot does not exist."""
        nodes: dict[str, bytes | None] = {}
        versions: dict[str, int] = {}
        level = [root for root in ROOTS if self._client.exists(self._chroot + root)]
        while level:
            found = self._read_level(level)
            for path, (data, stat, _) in found.items():
                if not stat.ephemeralOwner and is_carried(path):
                    nodes[path] = data
                    versions[path] = stat.version
            children = (f"{path}/{name}" for path, (_, _, names) in found.items() for name in names)
            level = [path for path in children if is_carried(path) and path not in nodes]
        return MetadataTree(nodes, versions.get(SEQUENCE_PATH, 0), self._live_brokers())

    def _live_brokers(self) -> tuple[int, ...]:
        try:
            names = self._client.get_children(self._chroot + BrokerIdsZNode.PATH)
        except NoNodeError:
            return ()
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def _read_level(self, paths: Sequence[str]) -> dict[str, tuple[bytes | None, Any, list[str]]]:
        """Data, stat and children of each path; a path that was deleted meanwhile is left out."""
        found = {}
        waiting = iter(dict.fromkeys(paths))
        while some := list(islice(waiting, _IN_FLIGHT)):
            asked = [
                (
                    path,
                    self._client.get_async(self._chroot + path),
                    self._client.get_children_async(self._chroot + path),
                )
                for path in some
            ]
            for path, node, children in asked:
                try:
                    data, stat = node.get()
                    found[path] = (data, stat, children.get())
                except NoNodeError:
                    continue
        return found

    def write(self, source: MetadataTree, found: Sequence[NodeChange]) -> None:
        """Make the tree equal to ``source``; ``found`` is the changes. It may be called again after a failure.

        The nodes that a starting broker checks are written last, so that no broker starts on a part of the tree.
        """
        self._client.ensure_path(self._chroot or "/", self._access_list("/"))
        for path in dict.fromkeys(parent_of(change.path) for change in found if change.kind == NEW):
            if not is_carried(path):
                self._client.ensure_path(self._chroot + path, self._access_list(path))
        self._write_all(source, [change for change in found if change.path not in _LAST])
        self._count_up(source.broker_id_sequence)
        self._write_all(source, [change for change in found if change.path in _LAST])

    def _write_all(self, source: MetadataTree, found: Sequence[NodeChange]) -> None:
        for multi in _multis(source, found):
            transaction = self._client.transaction()
            for change in multi:
                path, data = self._chroot + change.path, source.nodes.get(change.path) or b""
                if change.kind == NEW:
                    transaction.create(path, data, self._access_list(change.path))
                elif change.kind == GONE:
                    transaction.delete(path)
                else:
                    transaction.set_data(path, data)
            self._commit(transaction, multi)

    def _commit(self, transaction: Any, multi: Sequence[NodeChange]) -> None:
        for change, result in zip(multi, transaction.commit(), strict=True):
            if isinstance(result, Exception):
                raise MetadataError(
                    f"{change.path} could not be written ({type(result).__name__}): is something else changing this "
                    "tree? Run the command again"
                )

    def _access_list(self, path: str) -> Sequence[Any]:
        return access_list(path, secure=self._protects_nodes)

    def _count_up(self, sequence: int) -> None:
        """Raise the version of the node from which broker ids are generated, so that no id is generated twice."""
        stat = self._client.exists(self._chroot + SEQUENCE_PATH)
        for _ in range(sequence - stat.version if stat else 0):
            self._client.set(self._chroot + SEQUENCE_PATH, b"")


def _multis(source: MetadataTree, found: Sequence[NodeChange]) -> Iterator[list[NodeChange]]:
    """Create parents before their children, delete children before their parents; a bounded number at once."""
    going = sorted((change for change in found if change.kind == GONE), key=lambda change: change.path, reverse=True)
    coming = sorted((change for change in found if change.kind != GONE), key=lambda change: change.path)
    multi: list[NodeChange] = []
    size = 0
    for change in (*going, *coming):
        size += len(change.path) + len(source.nodes.get(change.path) or b"")
        if multi and (size > _BYTES_OF_A_MULTI or len(multi) >= _NODES_OF_A_MULTI):
            yield multi
            multi, size = [], 0
        multi.append(change)
    if multi:
        yield multi


@contextmanager
def connected(
    address: ZooKeeperAddress, security: ZooKeeperSecurity = OPEN_ZOOKEEPER, connect_s: float = CONNECT_S
) -> Iterator[ZooKeeperTree]:
    """A connection while the block runs; an error of ZooKeeper is raised as MetadataError with a sentence."""
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    client = new_kazoo_client(address.servers, security, logger=logger)
    try:
        client.start(timeout=connect_s)
        yield ZooKeeperTree(client, address, protects_nodes=security.protects_nodes)
    except KazooTimeoutError as error:
        reason = f" ({failure})" if (failure := tls_failure(client)) else ""
        raise MetadataError(
            f"no ZooKeeper answers at {address.servers} within {connect_s:g} s{reason}: is it running,"
            " is the address right?"
        ) from error
    except KazooException as error:
        raise MetadataError(f"the ZooKeeper at {address} refuses ({why_refused(client, error)})") from error
    finally:
        client.stop()
        client.close()
