"""New producer ids for handlers, within the time that a client waits."""

from typing import TYPE_CHECKING

from kafkapy.errors import BrokerError
from kafkapy.metadata.store import CLIENT_WAIT_MS, in_time
from kafkapy.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


async def new_producer_id(context: "RequestContext") -> int:
    """Return an id that has not been used yet; raises ``BrokerError`` if the metadata store can't give one."""
    services = context.services
    return await in_time(services.store, services.clock, CLIENT_WAIT_MS, services.producer_ids.next_producer_id())


def code_of(error: BrokerError) -> int:
    """Return an error's code; for that of a store that does not answer, one after which every client retries."""
    is_late = error.error_code == ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_late else error.error_code
