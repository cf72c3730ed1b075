"""Transactions: abort the open one of a transactional id, find and end what holds back a partition's readers."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from kafkapy.clients import topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.clients.records import fetch
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.messages.metadata import MetadataResponseTopic
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkapy.records.batch import BatchHeader, iterate_headers
from kafkapy.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

_STILL_ENDING: Final = frozenset({int(ErrorCode.CONCURRENT_TRANSACTIONS)})


class OldestOpenTransaction(NamedTuple):
    """The first transaction of a partition that no marker has ended; readers of committed records stop before it.

    Without a producer (-1) its first records are deleted; see ``has_lost_its_start``.
    """

    partition: TopicPartition
    start_offset: int
    producer_id: int
    producer_epoch: int
    timestamp_ms: int
    """The largest timestamp of its first batch."""


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


def open_transactions(client: ClusterClient, topic: MetadataResponseTopic) -> Iterator[OldestOpenTransaction]:
    """The transaction that is open in each partition of a topic at this moment, if there is one.

    A partition without a leader is left out. Raises RequestFailedError.
    """
    name = topic.name or ""
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    stable = topics.offsets(client, topic, leaders, LATEST, is_committed=True)
    ends = topics.offsets(client, topic, stable, LATEST)
    for index, offset in sorted(stable.items()):
        if offset < ends.get(index, offset):
            partition = TopicPartition(name, index)
            headers = _headers(client, partition, offset, leaders[index])
            if headers and headers[0].is_transactional and not headers[0].is_control:
                first = headers[0]
                yield OldestOpenTransaction(
                    partition, offset, first.producer_id, first.producer_epoch, first.max_timestamp
                )
            else:
                yield OldestOpenTransaction(partition, offset, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_TIMESTAMP)


def has_lost_its_start(client: ClusterClient, topic: MetadataResponseTopic, opened: OldestOpenTransaction) -> bool:
    """Whether the first records of an open transaction are deleted, so that its producer is not known.

    The last stable offset is the log start offset then, and the batch there may be of another transaction: a marker of
    its producer follows. To see that, the rest of the partition is read. Raises RequestFailedError.
    """
    if opened.producer_id == NO_PRODUCER_ID:
        return True
    index = opened.partition.partition
    log_start = topics.offsets(client, topic, [index], EARLIEST)[index]
    if log_start == 0 or log_start < opened.start_offset:
        return False
    leader = next(each.leader_id for each in topic.partitions if each.partition_index == index)
    position, end = opened.start_offset, topics.offsets(client, topic, [index], LATEST)[index]
    while position < end and (headers := _headers(client, opened.partition, position, leader)):
        if any(each.is_control and each.producer_id == opened.producer_id for each in headers):
            return True
        position = headers[-1].next_offset
    return False


def _headers(client: ClusterClient, partition: TopicPartition, offset: int, leader: int) -> list[BatchHeader]:
    """The headers of the batches at an offset and after it, as many as one response holds."""
    name, index = partition
    fetched = fetch(client, name, {index: offset}, leader=leader, max_wait_ms=0)
    return [header for _, header in iterate_headers(fetched[index].records)]


def end_hanging(
    client: ClusterClient, hanging: OldestOpenTransaction, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Write the marker that aborts an open transaction, as its coordinator would. Raises RequestFailedError.

    The leader refuses a ``producer_epoch`` below the producer's last one, and a ``coordinator_epoch`` below that of the
    producer's last marker. The caller has seen that no coordinator knows the transaction.
    """
    name, index = hanging.partition
    marker = WritableTxnMarker(
        hanging.producer_id,
        producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name, [index])],
        coordinator_epoch=coordinator_epoch,
    )

    def attempt() -> None:
        leader = client.topic(name, led=False).partitions[index].leader_id
        answer = client.node(leader).call(WriteTxnMarkersRequest([marker]), WriteTxnMarkersResponse)
        check(answer.markers[0].topics[0].partitions[0].error_code, what=f"partition {hanging.partition}")

    client.retrying(attempt)
