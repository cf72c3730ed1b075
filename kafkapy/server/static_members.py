"""Static members while some brokers of the cluster may be too old to know them (KIP-345)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext


def refuses_static_member(context: "RequestContext", instance_id: str | None) -> bool:
    """Whether the member names a group instance that this broker's ``inter.broker.protocol.version`` does not allow.

    Below 2.3 a group may move to a broker that would forget the instance; Kafka answers UNSUPPORTED_VERSION.
    """
    return instance_id is not None and not context.services.group_coordinator.settings.allows_static_members
