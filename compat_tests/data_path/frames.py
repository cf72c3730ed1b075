"""Requests of the data path, and their responses in comparable form."""

import socket
import struct
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from compat_tests.groups.wire import Wire, answer_to_creation
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.batch import crc_of
from kafkapy.records.record import Record, encode_batch

NOW_MS = int(time.time() * 1000)
TIMEOUT_S = 10


def batch(*values: bytes, **fields: Any) -> bytes:
    """A batch as a producer sends it."""
    listed = [
        Record(offset=at, timestamp=NOW_MS + at, key=None, value=value, headers=()) for at, value in enumerate(values)
    ]
    return bytes(encode_batch(listed, **fields))


def patched(data: bytes, position: int, new: bytes, *, with_crc: bool = True) -> bytes:
    """A batch with other bytes in its header, and the matching CRC unless ``with_crc`` is false."""
    changed = bytearray(data[:position] + new + data[position + len(new) :])
    if with_crc:
        changed[17:21] = struct.pack(">I", crc_of(changed, 0, len(changed)))
    return bytes(changed)


def new_topic(wire: Wire, partitions: int = 1, **configs: str) -> str:
    """A topic of its own, ready to be used."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    settings = [CreatableTopicConfig(key.replace("__", "."), value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    assert (code := answer_to_creation(wire, topic)) == 0, f"CreateTopics with {configs} is answered {code}"
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 4).topics[0]
        if found.error_code == 0 and all(partition.error_code == 0 for partition in found.partitions):
            break
    while time.monotonic() < deadline:  # a KRaft broker may tell of a leader a moment before it leads
        if all(list_offsets(wire, name, -1, partition=index).error_code == 0 for index in range(partitions)):
            return name
    raise AssertionError(f"{name} has no leader")


def produce_request(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, transactional_id: str | None = None
) -> ProduceRequest:
    """One batch for one partition."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=5000, topic_data=[data])


def produce(wire: Wire, topic: str, records: bytes | None, version: int = 8, **fields: Any) -> tuple[int, int]:
    """(error code, base offset)."""
    answer = wire.ask(produce_request(topic, records, **fields), version).responses[0].partition_responses[0]
    return answer.error_code, answer.base_offset


def fetch(wire: Wire, topic: str, offset: int = 0, version: int = 11, **fields: Any) -> Any:
    """The partition's answer."""
    partition = FetchPartition(
        partition=fields.pop("partition", 0),
        fetch_offset=offset,
        current_leader_epoch=fields.pop("current_leader_epoch", -1),
        last_fetched_epoch=fields.pop("last_fetched_epoch", -1),
        partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
    )
    request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, **fields})
    request.topics = [FetchTopic(topic=topic, partitions=[partition])]
    response = wire.ask(request, version)
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def list_offsets(wire: Wire, topic: str, timestamp: int, version: int = 5, **fields: Any) -> Any:
    """The partition's answer."""
    isolation_level = fields.pop("isolation_level", 0)
    replica_id = fields.pop("replica_id", -1)
    partition = ListOffsetsPartition(partition_index=fields.pop("partition", 0), timestamp=timestamp, **fields)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[partition])],
    )
    return wire.ask(request, version).topics[0].partitions[0]


@contextmanager
def raw(bootstrap: str) -> Iterator[socket.socket]:
    """A bare connection."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as sock:
        yield sock


def is_closed(sock: socket.socket) -> bool:
    """Whether the broker closes the connection without a response; False if it does neither within the time."""
    sock.settimeout(3)
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False
