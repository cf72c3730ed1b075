"""ListTransactions v0-1: the transactional ids that this broker coordinates (KIP-664, KIP-994).

Done: filters by state, producer id and the time since the transaction was begun; ids that the client may not describe
are left out.
Not done: version 2, whose pattern is a regular expression (KIP-1152).
Errors: COORDINATOR_LOAD_IN_PROGRESS 14 (some ids are still loading: none is listed), COORDINATOR_NOT_AVAILABLE 15.
"""

from kafkapy.coordinator.transaction.states import STATE_NAMES
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, pieces


def handle(context: RequestContext, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    """See the card; a transactional id passes if all filters let it pass."""
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in STATE_NAMES]
    coordinator = context.services.transaction_coordinator
    error_code, transactions = yield from coordinator.list(
        frozenset(request.state_filters), frozenset(request.producer_id_filters), request.duration_filter
    )
    response = ListTransactionsResponse(error_code=error_code, unknown_state_filters=unknown, transaction_states=[])
    rights = context.rights()
    for piece in pieces(transactions):
        response.transaction_states += [
            TransactionState(each.transactional_id, each.data.producer_id, STATE_NAMES[each.data.state])
            for each in piece
            if rights is None
            or rights.may(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, each.transactional_id, logs=False)
        ]
        yield
    return response
