"""Reading many partitions for one fetch, at once or when there is enough.

Consumers see records below the high watermark (read_committed: below the last stable offset), followers everything.
The limits are Kafka's: each partition's own, the response's, and at least one batch whatever the limits say, as long
as nothing was found before it. Clients that are too old to expect more than they asked for get that batch cut.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from kafkapy.cluster.delayed import Delayed
from kafkapy.cluster.errors import UnknownTopicOrPartitionError
from kafkapy.cluster.partition import Partition
from kafkapy.cluster.replica_manager import ReplicaManager
from kafkapy.errors import BrokerError
from kafkapy.storage.converted import ConvertedSlice
from kafkapy.storage.errors import OffsetOutOfRangeError
from kafkapy.storage.files import FileSlice
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.storage.log import Log

T = TypeVar("T")

UNKNOWN: Final = -1
EMPTY: Final = b""


class FetchWish(NamedTuple):
    """What a client wants of one partition; sizes in bytes, -1 for an epoch or offset that it does not tell."""

    offset: int
    max_bytes: int
    current_leader_epoch: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    last_fetched_epoch: int = UNKNOWN


class FetchLimits(NamedTuple):
    """What a client wants of the whole response."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    replica_id: int = UNKNOWN
    cuts_first_batch: bool = False

    @property
    def is_follower(self) -> bool:
        """Whether another broker asks."""
        return self.replica_id >= 0


class PartitionRead(NamedTuple):
    """What was found in one partition, or why not."""

    topic_partition: TopicPartition
    records: FileSlice | ConvertedSlice | bytes = EMPTY
    error_code: int = 0
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: list[tuple[int, int]] | None = None
    diverging: tuple[int, int] | None = None


Wishes = Sequence[tuple[TopicPartition, FetchWish]]
Reads = list[PartitionRead]


def fetch(replicas: ReplicaManager, wishes: Wishes, limits: FetchLimits, build: Callable[[Reads], T]) -> T | Delayed[T]:
    """Return what ``build`` makes of the reads: now if there is enough, an error or no time, else a future of it."""
    reads = read_all(replicas, wishes, limits)
    size = sum(len(read.records) for read in reads)
    if (
        size >= limits.min_bytes
        or limits.max_wait_ms <= 0
        or not wishes
        or any(read.error_code or read.diverging for read in reads)
    ):
        return build(reads)
    sizes = {read.topic_partition: len(read.records) for read in reads}
    del reads
    by_partition = dict(wishes)

    def attempt(changed: TopicPartition | None) -> T | None:
        if changed is not None:
            sizes[changed] = _measure(replicas, changed, by_partition[changed], limits)
            if sum(sizes.values()) < limits.min_bytes:
                return None
        return build(read_all(replicas, wishes, limits))

    return replicas.purgatory.wait(by_partition, attempt, limits.max_wait_ms)


def _measure(replicas: ReplicaManager, topic_partition: TopicPartition, wish: FetchWish, limits: FetchLimits) -> int:
    """Bytes that a read would find; a partition that would answer an error is enough for any wish."""
    read = read_one(replicas, topic_partition, wish, limits, wish.max_bytes)
    return limits.min_bytes if read.error_code else len(read.records)


def read_all(replicas: ReplicaManager, wishes: Wishes, limits: FetchLimits) -> Reads:
    """Read every partition, within the limits, in the order of the wishes; those that don't exist come last."""
    reads = []
    left = limits.max_bytes
    min_one_batch = True
    for topic_partition, wish in wishes:
        read = read_one(
            replicas, topic_partition, wish, limits, min(wish.max_bytes, left), min_one_batch=min_one_batch
        )  # fmt: skip
        size = len(read.records)
        if size:
            min_one_batch = limits.cuts_first_batch
            left = max(left - size, 0)
        reads.append(read)
    if any(read.error_code == UnknownTopicOrPartitionError.error_code for read in reads):
        reads.sort(key=lambda read: read.error_code == UnknownTopicOrPartitionError.error_code)
    return reads


def read_one(
    replicas: ReplicaManager,
    topic_partition: TopicPartition,
    wish: FetchWish,
    limits: FetchLimits,
    max_bytes: int,
    *,
    min_one_batch: bool = True,
) -> PartitionRead:
    """Read one partition; an error is part of the result."""
    try:
        partition = replicas.partition(topic_partition)
        partition.check_leader(wish.current_leader_epoch)
        if limits.is_follower:
            return _read_as_follower(replicas, partition, wish, limits.replica_id, max_bytes, min_one_batch)
        log = partition.log
        stable = log.last_stable_offset
        bound = stable if limits.read_committed else log.high_watermark
        _check_size(log, wish.offset, bound, max_bytes)
        found = log.read(wish.offset, max_bytes, up_to_offset=bound, min_one_batch=min_one_batch)
        records = found.records
        if limits.cuts_first_batch and len(records) > max(max_bytes, 0):
            assert isinstance(records, FileSlice), "no bytes are longer than nothing"
            records.size = max_bytes
        aborted = None
        if limits.read_committed:
            end = min(bound, log.upper_bound(found)) if records else 0
            aborted = log.aborted_transactions(wish.offset, end) if records else []
        return PartitionRead(
            topic_partition, records, 0, log.high_watermark, stable, log.log_start_offset, aborted
        )  # fmt: skip
    except BrokerError as error:
        return PartitionRead(topic_partition, error_code=error.error_code)


def _read_as_follower(
    replicas: ReplicaManager,
    partition: Partition,
    wish: FetchWish,
    replica_id: int,
    max_bytes: int,
    min_one_batch: bool,
) -> PartitionRead:
    """Read for another replica, up to the log's end; the fetch says how far it is."""
    log = partition.log
    topic_partition = partition.topic_partition
    diverging = _divergence(partition, wish)
    records: FileSlice | bytes = EMPTY
    if diverging is None:
        _check_size(log, wish.offset, log.log_end_offset, max_bytes)
        records = log.read(wish.offset, max_bytes, min_one_batch=min_one_batch).records
        if replica_id not in partition.remotes:
            # To a broker that is no replica Kafka answers without records, and without an error if the offset is there.
            if isinstance(records, FileSlice):
                records.release()
            records = EMPTY
        elif partition.follower_fetched(replica_id, wish.offset, wish.log_start_offset):
            replicas.purgatory.check(topic_partition)
    return PartitionRead(
        topic_partition, records, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset, None, diverging
    )  # fmt: skip


def _check_size(log: "Log", offset: int, bound: int, max_bytes: int) -> None:
    """A negative size is, where there is something to be read, an unknown error (-1), as in Kafka."""
    if max_bytes < 0 and log.log_start_offset <= offset < bound:
        raise BrokerError(f"{max_bytes} bytes can't be read")


def _divergence(partition: Partition, wish: FetchWish) -> tuple[int, int] | None:
    """Return (epoch, end offset) where the follower's log leaves the leader's (KIP-595), None if it does not."""
    if wish.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.log.leader_epochs.end_offset_for(wish.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRangeError(f"the leader knows no epoch {wish.last_fetched_epoch}")
    if epoch < wish.last_fetched_epoch or end_offset < wish.offset:
        return epoch, end_offset
    return None
