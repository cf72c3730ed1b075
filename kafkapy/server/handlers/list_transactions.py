"""ListTransactions v0-2: the transactional ids that this broker coordinates (KIP-664, KIP-994, KIP-1152).

Done: filters by state, producer id, the time since the transaction was begun, and a regular expression that matches the
whole id (an empty one lets all pass); ids that the client may not describe are left out.
Errors: COORDINATOR_LOAD_IN_PROGRESS 14 (some ids are still loading: none is listed), COORDINATOR_NOT_AVAILABLE 15,
INVALID_REGULAR_EXPRESSION 128.
"""

from typing import Final

from kafkapy.coordinator.regular_expressions import InvalidRegularExpressionError, RegularExpression
from kafkapy.coordinator.transaction.states import STATE_NAMES
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.turns import Steps, pieces

_DESCRIBE: Final = (AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID)


def handle(context: RequestContext, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    """See the card; a transactional id passes if all filters let it pass."""
    try:
        expression = RegularExpression(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except InvalidRegularExpressionError as error:
        return ListTransactionsResponse(error_code=error.error_code)
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
            if (expression is None or expression.matches(each.transactional_id))
            and (rights is None or rights.may(*_DESCRIBE, each.transactional_id, logs=False))
        ]
        yield
    return response
