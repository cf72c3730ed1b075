"""The registration of a broker in the tree: the nodes that must exist, the cluster's id, and ``/brokers/ids/N``."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kafkapy.clock import Clock
from kafkapy.errors import BrokerError
from kafkapy.metadata.store import (
    Create,
    MetadataStore,
    NodeExistsError,
    NodeStat,
    NoNodeError,
    SetData,
    StoreError,
    ensure_path,
)
from kafkapy.metadata.znodes import (
    PERSISTENT_PATHS,
    BrokerEndpoint,
    BrokerIdsZNode,
    BrokerIdZNode,
    ClusterIdZNode,
    ForeignDataError,
    decoded,
)
from kafkapy.storage.errors import ClusterIdMismatchError
from kafkapy.types import base64_id

CLUSTER_ID_BYTES: Final = 16


SEQUENCE_PATH: Final = "/brokers/seqid"
"""Its version is the last broker id that was generated, less ``reserved.broker.max.id``."""


class BrokerIdTakenError(BrokerError):
    """Another broker is registered under this broker's id, or with one of its addresses."""


async def ensure_persistent_paths(store: MetadataStore) -> None:
    """Create the nodes that must exist before a broker registers, in one call of the store."""
    wanted = dict.fromkeys(found for path in PERSISTENT_PATHS for found in _with_parents(path))
    for outcome in await store.transactions([Create(path)] for path in wanted):
        if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
            raise outcome


def _with_parents(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:depth]) for depth in range(2, len(names) + 1)]


async def generated_broker_id(store: MetadataStore, above: int) -> int:
    """A broker id that no other broker of the cluster has generated, larger than ``above``."""
    await ensure_path(store, SEQUENCE_PATH)
    return above + (await store.set(SEQUENCE_PATH, b"")).version


async def check_cluster_id(store: MetadataStore, expected: str) -> None:
    """Raise ClusterIdMismatchError unless the store has the cluster that a data directory belongs to."""
    try:
        found = await _read_cluster_id(store)
    except NoNodeError:
        raise ClusterIdMismatchError(
            f"the data directory belongs to cluster {expected}, and there is no cluster at the address of "
            "zookeeper.connect: check the chroot, or carry the metadata over with 'kafkapy metadata export' first"
        ) from None
    if found != expected:
        raise ClusterIdMismatchError(
            f"the data directory belongs to cluster {expected}, and zookeeper.connect leads to cluster {found}: "
            "check the address and the chroot, or choose another data directory"
        )


async def _read_cluster_id(store: MetadataStore) -> str:
    node = await store.get(ClusterIdZNode.PATH)
    return decoded(ClusterIdZNode.PATH, node.data, ClusterIdZNode.decode)


async def cluster_id(store: MetadataStore, random_bytes: Callable[[int], bytes]) -> str:
    """The cluster's id; the first broker makes it: 22 characters that do not begin with a dash."""
    try:
        return await _read_cluster_id(store)
    except NoNodeError:
        made = base64_id(random_bytes(CLUSTER_ID_BYTES))
        await ensure_path(
            store, ClusterIdZNode.PATH, ClusterIdZNode.encode(made.replace("-", "A", 1) if made[0] == "-" else made)
        )
    return await _read_cluster_id(store)


async def register(
    store: MetadataStore, clock: Clock, broker_id: int, endpoints: Sequence[BrokerEndpoint], rack: str | None
) -> int:
    """Register a broker; returns its epoch.

    Raises BrokerIdTakenError when another session holds the id or an address.
    """
    await _check_addresses(store, broker_id, endpoints)
    path = BrokerIdZNode.path(broker_id)
    data = BrokerIdZNode(broker_id, tuple(endpoints), rack, clock.now_ms()).encode()
    try:
        _, stat = await store.multi([Create(path, b"", ephemeral=True), SetData(path, data)])
    except NodeExistsError:
        found = await store.exists(path)
        if found is None or found.owner != store.session_id:
            raise BrokerIdTakenError(
                f"A broker with id {broker_id} is registered already: give this one another broker.id, or wait until "
                "the session of the other one has ended"
            ) from None
        return found.czxid
    assert isinstance(stat, NodeStat), "the result of a SetData is a NodeStat"
    return stat.czxid


async def change_endpoints(
    store: MetadataStore, clock: Clock, broker_id: int, endpoints: Sequence[BrokerEndpoint], rack: str | None
) -> None:
    """Give a broker that is registered other end points; its epoch stays. Raises StoreError."""
    data = BrokerIdZNode(broker_id, tuple(endpoints), rack, clock.now_ms()).encode()
    await store.set(BrokerIdZNode.path(broker_id), data)


async def _check_addresses(store: MetadataStore, broker_id: int, endpoints: Sequence[BrokerEndpoint]) -> None:
    """Clients and brokers would not know which of two brokers they reach."""
    wanted = {(endpoint.host, endpoint.port): endpoint for endpoint in endpoints}
    ids = [int(name) for name in await store.children(BrokerIdsZNode.PATH) if name.isdecimal()]
    others = [other for other in ids if other != broker_id]
    paths = [BrokerIdZNode.path(other) for other in others]
    for other, path, node in zip(others, paths, await store.get_many(paths), strict=True):
        if node is None:
            continue
        try:
            found = decoded(path, node.data, partial(BrokerIdZNode.decode, other))
        except ForeignDataError:  # the controller logs it
            continue
        for endpoint in found.endpoints:
            taken = wanted.get((endpoint.host, endpoint.port))
            if taken is not None:
                raise BrokerIdTakenError(
                    f"Broker {other} is registered already with the address of {taken.listener_name}, "
                    f"{endpoint.host}:{endpoint.port}: give this one other advertised.listeners, or wait until the "
                    "session of the other one has ended"
                )
