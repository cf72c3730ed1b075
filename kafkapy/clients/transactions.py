"""Transactional ids: abort a producer's open transaction, as a new producer with the same id does."""

from typing import Final

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_STILL_ENDING: Final = frozenset({int(ErrorCode.CONCURRENT_TRANSACTIONS)})


def abort(client: ClusterClient, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Abort the open transaction of a transactional id and fence its producer, with InitProducerId.

    Brokers since Kafka 0.11 support this. ``timeout_ms`` becomes the time-out of later transactions. Returns the new
    producer id and epoch; raises RequestFailedError, also if it takes longer than 10 s.
    """
    request = InitProducerIdRequest(transactional_id, timeout_ms)

    def attempt() -> tuple[int, int]:
        answer = client.transaction_coordinator(transactional_id).call(request, InitProducerIdResponse)
        check(answer.error_code, what=f"transactional id {transactional_id}")
        return answer.producer_id, answer.producer_epoch

    return client.retrying(attempt, also=_STILL_ENDING)
