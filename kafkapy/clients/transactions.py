"""Transactional ids: abort what a producer has left open, as its successor would."""

from typing import Final

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_STILL_ENDING: Final = frozenset({int(ErrorCode.CONCURRENT_TRANSACTIONS)})


def abort(client: ClusterClient, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Take the transactional id over: its open transaction is aborted and its producer fenced (InitProducerId).

    Any broker since Kafka 0.11 does so. ``timeout_ms`` is kept as the time-out of later transactions. Returns the
    producer id and epoch that the id has now; raises RequestFailedError, also if it takes longer than 10 s.
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms)

    def attempt() -> tuple[int, int]:
        answer = client.transaction_coordinator(transactional_id).call(request, InitProducerIdResponse)
        check(answer.error_code, what=f"transactional id {transactional_id}")
        return answer.producer_id, answer.producer_epoch

    return client.retrying(attempt, also=_STILL_ENDING)
