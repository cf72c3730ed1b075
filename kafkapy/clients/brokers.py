"""Brokers: their addresses and racks, the partitions that they lead, their replicas, and the sizes of these."""

from collections import Counter
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

Place = tuple[str, int]
"""A topic and a partition of it."""


class LogDir(NamedTuple):
    """A log directory of a broker; ``sizes`` are those of its partitions in bytes, ``problem`` is why it is offline."""

    path: str
    sizes: dict[Place, int]
    problem: str | None

    @property
    def size(self) -> int:
        """The bytes of all partitions."""
        return sum(self.sizes.values())


class BrokerSummary(NamedTuple):
    """A broker that is registered, or that has replicas but is not (then it has no address)."""

    broker_id: int
    address: str | None
    rack: str | None
    is_controller: bool
    leads: int
    """Partitions that it leads."""
    replicas: int
    out_of_sync: int
    """Replicas that are not in sync."""


def summaries(client: ClusterClient) -> list[BrokerSummary]:
    """All brokers by id."""
    found = client.metadata()
    partitions = [partition for topic in found.topics for partition in topic.partitions]
    leads = Counter(partition.leader_id for partition in partitions)
    replicas = Counter(broker for partition in partitions for broker in partition.replica_nodes)
    in_sync = Counter(broker for partition in partitions for broker in partition.isr_nodes)
    registered = {broker.node_id: broker for broker in found.brokers}
    result = []
    for broker_id in sorted(registered.keys() | replicas.keys()):
        broker = registered.get(broker_id)
        summary = BrokerSummary(
            broker_id,
            None if broker is None else f"{broker.host}:{broker.port}",
            None if broker is None else broker.rack,
            broker_id == found.controller_id,
            leads[broker_id],
            replicas[broker_id],
            replicas[broker_id] - in_sync[broker_id],
        )
        result.append(summary)
    return result


def log_dirs(client: ClusterClient, broker_id: int) -> list[LogDir]:
    """The log directories of one broker, by path."""
    answer = client.node(broker_id).call(DescribeLogDirsRequest(None), DescribeLogDirsResponse)
    check(answer.error_code, what=f"broker {broker_id}")
    result = []
    for each in answer.results:
        sizes: Counter[Place] = Counter()
        for topic in each.topics:
            for partition in topic.partitions:
                sizes[topic.name, partition.partition_index] += partition.partition_size
        problem = str(RequestFailedError(each.error_code)) if each.error_code != ErrorCode.NONE else None
        result.append(LogDir(each.log_dir, dict(sizes), problem))
    return sorted(result)


TIMEOUT_S: Final = 3.0
"""How long to wait for the sizes that one broker reports: a broker that is silent must not delay the others' long."""
