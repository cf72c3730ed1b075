"""Produce and Fetch with record batches as bytes."""

from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, check
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

TIMEOUT_MS: Final = 30_000
NO_LIMIT: Final = 2**31 - 1
_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of ``key`` as by Java's default partitioner: the positive murmur2 hash modulo ``partitions``."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    value = (_SEED ^ len(data)) & _MASK
    whole = len(data) // 4 * 4
    for place in range(0, whole, 4):
        word = int.from_bytes(data[place : place + 4], "little") * _MIX & _MASK
        word = (word ^ word >> 24) * _MIX & _MASK
        value = (value * _MIX & _MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MIX & _MASK
    value = (value ^ value >> 13) * _MIX & _MASK
    return value ^ value >> 15


def produce(client: ClusterClient, topic: str, partition: int, batch: bytes, *, acks: int, leader: int) -> int:
    """Append ``batch``; return its first offset (-1 with acks=0). Raises RequestFailedError.

    The request is retried (10 s) while the leader does not know yet that it is the leader.
    """
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, memoryview(batch))])]
    request = ProduceRequest(None, acks, TIMEOUT_MS, data)
    if acks == 0:
        client.node(leader).send(request)
        return -1

    def attempt() -> int:
        answer = client.node(leader).call(request, ProduceResponse)
        result = answer.responses[0].partition_responses[0]
        check(result.error_code, result.error_message, what=f"partition {topic}-{partition}")
        return result.base_offset

    return client.retrying(attempt)


class Fetched(NamedTuple):
    """A partition's answer: its batches (the last one may be cut), and its high watermark."""

    records: bytes
    high_watermark: int


def fetch(
    client: ClusterClient, topic: str, offsets: dict[int, int], *, leader: int, max_wait_ms: int
) -> dict[int, Fetched]:
    """Partition → its records from the given offset on; waits at most ``max_wait_ms`` for the first record."""
    asked = [
        FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20) for index, offset in offsets.items()
    ]
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic=topic, partitions=asked)]
    )
    answer = client.node(leader).call(request, FetchResponse)
    check(answer.error_code, what=f"topic {topic}")
    found = {}
    for partition in (partition for topic_answer in answer.responses for partition in topic_answer.partitions):
        check(partition.error_code, what=f"partition {topic}-{partition.partition_index}")
        if isinstance(partition.records, memoryview | bytes):
            found[partition.partition_index] = Fetched(bytes(partition.records), partition.high_watermark)
        elif partition.records is None:
            found[partition.partition_index] = Fetched(b"", partition.high_watermark)
        else:
            raise ClientError("a response holds records that were not read from the wire")
    return found
