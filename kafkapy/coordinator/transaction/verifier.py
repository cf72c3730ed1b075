"""Asks the coordinator of a transactional id about a partition that the producer is about to write to (KIP-890).

The coordinator is this broker, which answers at once, or the leader of the id's partition of ``__transaction_state``,
which is asked over the network (AddPartitionsToTxn 4). A producer of an earlier transaction version has added the
partition itself, and the coordinator confirms it. The leader of the partition adds it for a producer of version 2.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.runtime import Metadata
from kafkapy.coordinator.transaction.coordinator import TransactionCoordinator
from kafkapy.coordinator.transaction.transaction import AddCall
from kafkapy.metadata.topic_rules import TRANSACTION_STATE_TOPIC
from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ProtocolError
from kafkapy.types import NO_LEADER

if TYPE_CHECKING:
    from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

logger: Final = logging.getLogger(__name__)

VERSION: Final = 4
"""The first version of AddPartitionsToTxn that asks without adding; brokers of one cluster may differ."""


class TransactionVerifier:
    """Lets a partition's leader confirm transactions, or add the partition to them."""

    def __init__(
        self, coordinator: TransactionCoordinator, broker_id: int, peers: BrokerChannel, metadata: Metadata
    ) -> None:
        self._coordinator = coordinator
        self._broker_id = broker_id
        self._peers = peers
        self._metadata = metadata
        self._requests: set[asyncio.Task[None]] = set()

    def ask(self, call: AddCall, *, is_adding: bool) -> Answer[int]:
        """Return the error code for all partitions of the call; 0 if they are part of the open transaction.

        With ``is_adding`` they are added first, which begins a transaction if none is open.
        """
        coordinator = self._coordinator
        answer = coordinator.add_partitions(call) if is_adding else Answer.of(coordinator.verify(call))
        if not answer.is_set or answer.value != ErrorCode.NOT_COORDINATOR:
            return answer
        partition = coordinator.partition_for(call.transactional_id)
        known = self._metadata.image.partition(TRANSACTION_STATE_TOPIC, partition)
        leader = NO_LEADER if known is None else int(known.leader)
        if leader in (NO_LEADER, self._broker_id):
            return Answer.of(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._ask_other(leader, call, is_adding=is_adding)

    def _ask_other(self, broker_id: int, call: AddCall, *, is_adding: bool) -> Answer[int]:
        answer: Answer[int] = Answer()
        sending = self._send(broker_id, _request(call, is_adding=is_adding), answer)
        request = asyncio.get_running_loop().create_task(sending)
        self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        return answer

    async def _send(self, broker_id: int, request: "AddPartitionsToTxnRequest", answer: Answer[int]) -> None:
        error_code: int = ErrorCode.NETWORK_EXCEPTION
        try:
            response: Any = await self._peers.send(broker_id, request, VERSION)
        except (PeerUnreachableError, ProtocolError) as error:
            logger.warning("Broker %d did not answer about a transaction: %s", broker_id, error)
        else:
            codes = [
                result.partition_error_code
                for transaction in response.results_by_transaction
                for topic in transaction.topic_results
                for result in topic.results_by_partition
            ]
            error_code = response.error_code or next(filter(None, codes), 0)
        answer.set(error_code)


def _request(call: AddCall, *, is_adding: bool) -> "AddPartitionsToTxnRequest":
    from kafkapy.protocol.messages.add_partitions_to_txn import (  # a broker without others sends none
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnTopic,
        AddPartitionsToTxnTransaction,
    )

    topics: dict[str, list[int]] = {}
    for topic, index in call.partitions:
        topics.setdefault(topic, []).append(index)
    named = [AddPartitionsToTxnTopic(*each) for each in topics.items()]
    return AddPartitionsToTxnRequest(
        [AddPartitionsToTxnTransaction(call.transactional_id, *call.producer, not is_adding, named)]
    )
