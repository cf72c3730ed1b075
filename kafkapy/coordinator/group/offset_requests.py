"""OffsetCommit, TxnOffsetCommit and OffsetFetch: the decision about each commit, and the offsets that were replayed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.calls import COMMITTER, CommitCall, Producer
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.offsets import CommittedOffset, FetchedOffset
from kafkapy.coordinator.group.records import commits_in_steps, offset_record, plain_commits
from kafkapy.coordinator.group.runtime import GroupRuntime
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.group.writes import CommitWrite, DecodedCommitWrite
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.validate import ValidatedBatch
from kafkapy.turns import Steps, pieces
from kafkapy.types import TopicPartition


def too_large(call: CommitCall, max_length: int) -> set[TopicPartition]:
    """The partitions whose metadata is longer than allowed, in UTF-16 units as Java counts."""
    refused = set()
    # a loop: a comprehension has a frame of its own, which costs more than the few elements of most commits
    for topic_partition, committed in call.offsets.items():
        metadata = committed.metadata
        # a string of n characters has at most 2n units: most need no encoding to be counted
        if metadata and len(metadata) * 2 > max_length and utf16_length(metadata) > max_length:
            refused.add(topic_partition)
    return refused


def utf16_length(text: str) -> int:
    """The length of a string in UTF-16 units, as Java counts."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


NOTHING_FETCHED: Final = FetchedOffset()


class OffsetRequests:
    """Commits and fetches offsets of groups."""

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def commit_large(
        self, call: CommitCall, producer: Producer = COMMITTER
    ) -> Steps[Answer[dict[TopicPartition, int]]]:
        """OffsetCommit or TxnOffsetCommit of many partitions: the batch is built in steps.

        The group decides on it when the batch is built, in one step with the append.
        """
        runtime, prepared = self._runtime, None
        if runtime.writes_plain_commits and not too_large(call, runtime.settings.offset_metadata_max_bytes):
            prepared = yield from commits_in_steps(call.group_id, call.offsets, runtime.now_ms(), producer)
        if producer is COMMITTER:
            return self.commit(call, prepared)
        return self.commit_in_transaction(call, producer, prepared)

    def commit(self, call: CommitCall, prepared: ValidatedBatch | None = None) -> Answer[dict[TopicPartition, int]]:
        """OffsetCommit: an error code for each partition. The empty group id is allowed, as old clients use it."""
        shard = self._runtime.find(call.group_id)
        if isinstance(shard, int):
            return Answer.of(dict.fromkeys(call.offsets, shard))
        group = shard.groups.get(call.group_id)
        if group is None:
            if call.generation_id >= 0:
                unknown = ErrorCode.GROUP_ID_NOT_FOUND if call.has_member_epoch else ErrorCode.ILLEGAL_GENERATION
                return Answer.of(dict.fromkeys(call.offsets, unknown))
            group = shard.get_or_create(call.group_id)
        error_code = group.commit_error(call)
        if error_code:
            return Answer.of(dict.fromkeys(call.offsets, error_code))
        group.touch_member(call.member_id)
        return self._write_offsets(shard, group, call, batch=prepared)

    def commit_in_transaction(
        self, call: CommitCall, producer: Producer, prepared: ValidatedBatch | None = None
    ) -> Answer[dict[TopicPartition, int]]:
        """TxnOffsetCommit: kept until the producer's transaction ends; an error code for each partition."""
        shard = self._runtime.find_named(call.group_id)
        if isinstance(shard, int):
            return Answer.of(dict.fromkeys(call.offsets, shard))
        group = shard.get_or_create(call.group_id)
        error_code = group.transaction_commit_error(call)
        if error_code:
            return Answer.of(dict.fromkeys(call.offsets, error_code))
        return self._write_offsets(shard, group, call, producer, prepared)

    def _write_offsets(
        self,
        shard: GroupShard,
        group: Group,
        call: CommitCall,
        producer: Producer = COMMITTER,
        batch: ValidatedBatch | None = None,
    ) -> Answer[dict[TopicPartition, int]]:
        """Write the offsets whose metadata are not too long. ``batch`` is of all of them, if it is built already.

        Nearly all commits have neither metadata nor compression: these are written in a fifth of the time.
        """
        runtime = self._runtime
        offsets: Mapping[TopicPartition, CommittedOffset] = call.offsets
        response = dict.fromkeys(offsets, 0)
        if batch is None and runtime.writes_plain_commits:
            batch = plain_commits(group.group_id, offsets, runtime.now_ms(), producer)
        if batch is None:
            refused = too_large(call, runtime.settings.offset_metadata_max_bytes)
            response.update(dict.fromkeys(refused, ErrorCode.OFFSET_METADATA_TOO_LARGE))
            offsets = {key: each for key, each in offsets.items() if key not in refused}
        # the log checks the epoch only of producers that it knows
        if producer is not COMMITTER and producer.epoch < 0 <= producer.producer_id:
            response.update(dict.fromkeys(offsets, ErrorCode.INVALID_PRODUCER_EPOCH))
            return Answer.of(response)
        if not offsets:
            return Answer.of(response)
        if batch is not None:
            return runtime.write(CommitWrite(shard, group, offsets, producer, batch, response))
        return runtime.write(self._decoded_write(shard, group, offsets, producer, response))

    def _decoded_write(
        self,
        shard: GroupShard,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        producer: Producer,
        response: dict[TopicPartition, int],
    ) -> DecodedCommitWrite:
        runtime, now_ms = self._runtime, self._runtime.now_ms()
        version = runtime.settings.offset_value_version
        records = [offset_record(group.group_id, *each, now_ms, version) for each in offsets.items()]
        write = DecodedCommitWrite(shard, group, offsets, producer, runtime.encode(records, producer), response)
        write.records = records
        return write

    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition], *, require_stable: bool = False
    ) -> tuple[int, dict[TopicPartition, FetchedOffset]]:
        """OffsetFetch of few partitions: an error code, and their offsets."""
        shard = self._runtime.find(group_id)
        if isinstance(shard, int):
            return shard, {}
        group = shard.groups.get(group_id)
        if group is None:
            return 0, dict.fromkeys(partitions, NOTHING_FETCHED)
        fetch = group.offsets.fetch
        return 0, {each: fetch(each, require_stable=require_stable) for each in partitions}

    def fetch_many(
        self, group_id: str, partitions: Sequence[TopicPartition] | None, *, require_stable: bool = False
    ) -> Steps[tuple[int, dict[TopicPartition, FetchedOffset]]]:
        """OffsetFetch in steps; with ``None`` all partitions that have an offset.

        If the group is deleted between two steps, the remaining partitions have no offsets; if its shard is unloaded,
        the result is an error.
        """
        error_code, fetched = self.fetch(group_id, ())
        if partitions is None:
            partitions = self._committed(group_id)
        for piece in pieces(partitions):
            if fetched:
                yield
            error_code, found = self.fetch(group_id, piece, require_stable=require_stable)
            if error_code:
                return error_code, {}
            fetched.update(found)
        return error_code, fetched

    def _committed(self, group_id: str) -> list[TopicPartition]:
        shard = self._runtime.find(group_id)
        group = None if isinstance(shard, int) else shard.groups.get(group_id)
        return [] if group is None else list(group.offsets.committed)
