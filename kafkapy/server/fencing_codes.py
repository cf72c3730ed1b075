"""How a fenced producer is told so: older versions of the transaction APIs don't know the error (KIP-360)."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

PRODUCER_FENCED: Final = 90
INVALID_PRODUCER_EPOCH: Final = 47


def fencing_code(error_code: int, version: int, first_version: int) -> int:
    """The error code as the request's version knows it; PRODUCER_FENCED came with ``first_version``."""
    return INVALID_PRODUCER_EPOCH if error_code == PRODUCER_FENCED and version < first_version else error_code


# Static members while some brokers of the cluster may be too old to know them (KIP-345).


def refuses_static_member(context: "RequestContext", instance_id: str | None) -> bool:
    """Whether the member names a group instance that this broker's ``inter.broker.protocol.version`` does not allow.

    Below 2.3 a group may move to a broker that would forget the instance; Kafka answers UNSUPPORTED_VERSION.
    """
    return instance_id is not None and not context.services.group_coordinator.settings.allows_static_members
