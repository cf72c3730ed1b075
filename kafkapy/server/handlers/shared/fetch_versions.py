"""Adapts fetched batches to clients with old versions of Fetch.

Versions 0 and 1 know format 0, versions 2 and 3 formats 0 and 1: newer batches are converted while they are sent
(``storage.log.converted``), or refused if ``message.downconversion.enable`` is false. The format of every batch is
checked. Apache Kafka checks the topic's ``message.format.version`` instead, and therefore sends newer batches to old
clients after a downgrade of that key.
"""

from collections.abc import Mapping
from typing import Final

from kafkapy.errors import BrokerError
from kafkapy.platform.disk_errors import as_storage_error
from kafkapy.platform.files import FileSlice
from kafkapy.protocol.errors import ErrorCode
from kafkapy.replication.fetching import FetchWish, PartitionRead, Reads
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.storage.log.converted import Compute, ConvertedSlice, holds_newer_format
from kafkapy.turns import in_turns
from kafkapy.types import TopicPartition

FIRST_VERSION_OF_FORMAT_2: Final = 4
FIRST_VERSION_WITH_ALL: Final = 10
"""From this version on clients know every format and codec."""

_FIRST_VERSION_OF_FORMAT_1: Final = 2
_FIRST_VERSION_OF_STORAGE_ERROR: Final = 6


def fit(replicas: ReplicaManager, version: int, reads: Reads) -> Reads:
    """Return ``reads``, with errors for those that ``version`` (below ``FIRST_VERSION_WITH_ALL``) does not support."""
    return [_fit(replicas, version, read) for read in reads]


def _fit(replicas: ReplicaManager, version: int, read: PartitionRead) -> PartitionRead:
    partition = replicas.partitions.get(read.topic_partition)
    if partition is not None and partition.log.config.compression_type == "zstd":
        return _refused(read, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if read.error_code == ErrorCode.KAFKA_STORAGE_ERROR and version < _FIRST_VERSION_OF_STORAGE_ERROR:
        return read._replace(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return read


async def convert_all(
    replicas: ReplicaManager,
    version: int,
    reads: Reads,
    wishes: Mapping[TopicPartition, FetchWish],
    *,
    is_follower: bool,
    compute: Compute,
) -> Reads:
    """Return ``reads`` in formats that a request of ``version`` (below ``FIRST_VERSION_OF_FORMAT_2``) knows.

    The search for newer batches and the conversion of the first one, whose size must be known, run in slices.
    """
    magic = 1 if version >= _FIRST_VERSION_OF_FORMAT_1 else 0
    return [
        await _convert(replicas, read, magic, wishes[read.topic_partition].offset, compute, is_follower=is_follower)
        for read in reads
    ]


async def _convert(
    replicas: ReplicaManager, read: PartitionRead, magic: int, offset: int, compute: Compute, *, is_follower: bool
) -> PartitionRead:
    partition, records = replicas.partitions.get(read.topic_partition), read.records
    if partition is None or not isinstance(records, FileSlice):
        return read
    log = partition.log
    try:
        with as_storage_error(log, "read"):
            if not await in_turns(holds_newer_format(records, magic)):
                return read
            if not (log.config.message_downconversion_enable or is_follower):
                return _refused(read, ErrorCode.UNSUPPORTED_VERSION)
            converted = ConvertedSlice(records, magic, offset, compute)
            await in_turns(converted.prepare())
    except BrokerError as error:
        is_of_disk = error.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        return _refused(read, ErrorCode.NOT_LEADER_OR_FOLLOWER if is_of_disk else error.error_code)
    return read._replace(records=converted)


def _refused(read: PartitionRead, error_code: int) -> PartitionRead:
    return PartitionRead(read.topic_partition, error_code=error_code)
