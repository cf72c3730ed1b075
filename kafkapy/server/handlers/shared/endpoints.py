"""The addresses of brokers that a client can use, and the leaders that an answer names beside an error (KIP-951)."""

from typing import TYPE_CHECKING

from kafkapy.metadata.image import BrokerInfo
from kafkapy.types import NO_EPOCH, NO_LEADER, TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

Address = tuple[int, str, int, str | None]
"""Id, host, port and rack of a broker."""


def client_address(context: "RequestContext", broker: BrokerInfo) -> tuple[str, int] | None:
    """Host and port of a broker on the client's listener; None if it has no such listener."""
    endpoint = broker.endpoints.get(context.session.listener)
    if endpoint is None:
        return None
    is_own = broker.id == context.services.config.broker_id
    return context.own_endpoint() if is_own else (endpoint.host, endpoint.port)


class CurrentLeaders:
    """The leaders that one answer names, so that its client needs no further request to find them (KIP-951)."""

    def __init__(self, context: "RequestContext") -> None:
        self._context = context
        self.addresses: dict[int, Address] = {}
        """Those of the leaders that are alive and have the client's listener."""

    def of(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Return the leader and its epoch as this broker knows them; ``NO_LEADER`` and ``NO_EPOCH`` if it does not."""
        services = self._context.services
        partition = services.replica_manager.partitions.get(topic_partition)
        image = services.metadata.image
        if partition is not None and partition.is_leader:
            leader, epoch = services.config.broker_id, partition.leader_epoch
        elif (known := image.partition(*topic_partition)) is not None:
            leader, epoch = known.leader, known.leader_epoch
        else:
            return NO_LEADER, NO_EPOCH
        broker = image.brokers.get(leader)
        address = None if broker is None else client_address(self._context, broker)
        if broker is not None and address is not None:
            self.addresses[leader] = (leader, *address, broker.rack)
        return leader, epoch
