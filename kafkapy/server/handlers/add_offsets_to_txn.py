"""AddOffsetsToTxn v0-4: adds to a transaction the partition in which it will commit a group's offsets.

Errors: COORDINATOR_LOAD_IN_PROGRESS 14, COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, INVALID_REQUEST 42,
INVALID_PRODUCER_ID_MAPPING 49, CONCURRENT_TRANSACTIONS 51, PRODUCER_FENCED 90 (below v2: INVALID_PRODUCER_EPOCH 47).
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond
from kafkapy.coordinator.transaction.transaction import AddCall, ProducerIdAndEpoch
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkapy.server.handlers.shared.older_versions import fencing_code
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

_FIRST_VERSION_OF_FENCED: Final = 2


def handle(
    context: "RequestContext", request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """See the card."""
    services = context.services
    partition = TopicPartition(GROUP_METADATA_TOPIC, services.group_coordinator.partition_for(request.group_id))
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    version = context.header.api_version

    def build(error_code: int) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fencing_code(error_code, version, _FIRST_VERSION_OF_FENCED))

    call = AddCall(request.transactional_id, producer, (partition,))
    return respond(services.transaction_coordinator.add_partitions(call), build)
