"""One partition of ``__consumer_offsets`` as state: the groups whose ids hash to it, and the replay of its records.

Replay is the only code that changes offsets, settles an assignment or restores a group. It applies both the records
that are loaded and those that this broker has just appended, so that a restart loads the state that clients have seen.
The records of groups are replayed by their types (``group.py``).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Final

from kafkapy.coordinator.group.group import Group, GroupTypes
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.records import OffsetKey, RecordKey, decode_key, decode_offset
from kafkapy.coordinator.loading import BATCHES_IN_A_STEP, LoadProgress, replay_records
from kafkapy.coordinator.runtime import Shard
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, iterate_headers, read_header
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.errors import InvalidRecordError, RecordsError
from kafkapy.records.record import Record
from kafkapy.records.scanner import latest_alike
from kafkapy.turns import Steps
from kafkapy.types import NO_PRODUCER_ID, TopicPartition

GROUPS_IN_A_STEP: Final = 64
COMMIT_SIZE: Final = 24
"""Bytes of the value of a commit without metadata (version 3)."""
NO_HEADERS: Final = b"\0"
_OFFSET_AND_LENGTH: Final = Struct(">qi")


class KnownCommit:
    """The key of the record in a batch of one commit, and the record's offset delta."""

    __slots__ = ("key", "offset_delta")

    def __init__(self, key: OffsetKey, offset_delta: int) -> None:
        self.key = key
        self.offset_delta = offset_delta


class GroupShard(Shard):
    """The groups of one partition. When ``is_read`` the whole log has been replayed.

    ``known_keys`` holds, until then, the decoded keys, since a log repeats each key many times; ``known_commits`` holds
    those of batches of one commit, by the bytes up to the value. ``open_transactions`` holds, by producer id, the
    groups for which it has committed offsets in a transaction.
    """

    __slots__ = ("groups", "open_transactions", "known_keys", "known_commits", "is_read", "_types")

    def __init__(self, topic_partition: TopicPartition, leader_epoch: int, types: GroupTypes) -> None:
        super().__init__(topic_partition, leader_epoch)
        self.groups: dict[str, Group] = {}
        self.open_transactions: dict[int, set[str]] = {}
        self.known_keys: dict[bytes, RecordKey | None] = {}
        self.known_commits: dict[bytes, KnownCommit] = {}
        self.is_read = False
        self._types = types

    @property
    def entry_count(self) -> int:
        """The number of groups."""
        return len(self.groups)

    def get_or_create(self, group_id: str) -> Group:
        """The group, made as an empty one if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = self._types[OffsetKey].new_group(group_id)
        return group

    def remove(self, group: Group) -> None:
        """Remove a group that was deleted."""
        del self.groups[group.group_id]

    def forget(self, group: Group) -> None:
        """The records of a group were deleted: only its offsets remain, in a group of the default type."""
        self.put(self._types[OffsetKey].new_group(group.group_id))
        group.release_name()

    def put(self, group: Group) -> None:
        """Keep a group, in place of one of another type, whose offsets and waiting decisions it takes."""
        former = self.groups.get(group.group_id)
        if former is not None:
            group.take_over(former)
        self.groups[group.group_id] = group

    def apart(self) -> "GroupShard":
        """A shard without groups, to replay records in steps that no request may see between them."""
        return GroupShard(self.topic_partition, self.leader_epoch, self._types)

    def replace(self, former: Group, group: Group) -> None:
        """Keep a group of another type, made apart, in place of ``former``."""
        self.put(group)
        former.kill(ErrorCode.NOT_COORDINATOR)

    def finish_loading(self) -> Steps[None]:
        """The whole log was replayed: drop deleted groups, start the sessions of the others, then serve."""
        self.is_read = True
        self.known_keys.clear()
        self.known_commits.clear()
        for count, group in enumerate(list(self.groups.values()), 1):
            if not group.has_record and group.offsets.is_empty():
                del self.groups[group.group_id]
                group.release_name()
            else:
                yield from group.loaded()
            if count % GROUPS_IN_A_STEP == 0:
                yield
        self.is_loading = False

    # Replay while loading

    def replay_batches(self, content: bytes, progress: LoadProgress) -> Steps[int | None]:
        """Replay the whole batches of one read; returns the offset behind the last one, None if there is none.

        A log consists nearly wholly of commits of one partition without metadata. Of a run of such batches only the
        last commit of each key is decoded (``records/alike.py``). The record's bytes up to its value contain all
        lengths, so they identify the key without being read again.
        """
        position, count, begin = 0, 0, progress.offset
        while True:
            last_commits, position = latest_alike(content, position, COMMIT_SIZE + len(NO_HEADERS), self.known_commits)
            if last_commits:
                self._replay_last_commits(content, last_commits, progress)
            found = next(iterate_headers(content, position), None)
            if found is None:
                return None if progress.offset == begin else progress.offset
            _, header = found
            progress.check(content, position, header)
            yield from self.replay_batch(content, header, position, progress)
            position += header.size
            progress.offset = header.next_offset
            count += 1
            if count % BATCHES_IN_A_STEP == 0:
                yield

    def _replay_last_commits(
        self, content: bytes, last_commits: dict[KnownCommit, int], progress: LoadProgress
    ) -> None:
        # All are checked first: if one is damaged, none is replayed, since an earlier commit of its key may be good.
        for position in last_commits.values():
            progress.check(content, position, read_header(content, position))
        for known, position in last_commits.items():
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(content, position)
            end = position + LOG_OVERHEAD + length - len(NO_HEADERS)
            committed = decode_offset(content[end - COMMIT_SIZE : end])
            offsets = self.get_or_create(known.key.group_id).offsets
            offsets.replay(known.key.topic_partition, base_offset + known.offset_delta, committed)
        progress.offset = read_header(content, max(last_commits.values())).next_offset

    def replay_batch(self, content: bytes, header: BatchHeader, position: int, progress: LoadProgress) -> Steps[None]:
        """Replay a batch of the log; records that can't be decoded are skipped."""
        if header.is_control:
            try:
                control = read_control(content, header, position)
            except RecordsError as error:
                progress.skip(header.base_offset, error)
                return
            if control.type in (ControlType.COMMIT, ControlType.ABORT):
                yield from self.end_transaction(header.producer_id, is_commit=control.type == ControlType.COMMIT)
            return
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        replay = partial(self.replay_record, producer_id=producer_id)
        last = yield from replay_records(content, header, position, progress, replay)
        if header.record_count == 1 and not header.attributes and header.magic == MAGIC and last is not None:
            self._remember_commit(content, header, position, last)

    def _remember_commit(self, batch: bytes, header: BatchHeader, position: int, record: Record) -> None:
        """Keep the batch's bytes up to the value, if they end where the value of a commit without metadata begins."""
        key = self.known_keys.get(record.key or b"")
        if isinstance(key, OffsetKey) and record.value is not None and len(record.value) == COMMIT_SIZE:
            content = batch[position + HEADER_SIZE : position + header.size]
            tail = record.value + NO_HEADERS
            if content.endswith(tail):
                self.known_commits[content[: -len(tail)]] = KnownCommit(key, record.offset - header.base_offset)

    # Replay of one record

    def replay_record(self, record: Record, producer_id: int = NO_PRODUCER_ID) -> bool:
        """Replay one record; ``producer_id`` is that of a transaction that has not ended yet.

        Returns False for a record of a kind that only a later release of Kafka knows. Raises one of ``UNDECODABLE`` if
        it is not as a broker writes it; nothing has changed then.
        """
        if record.key is None:
            raise InvalidRecordError("the record has no key")
        key = self._decode_key(record.key)
        if isinstance(key, OffsetKey):
            self._replay_offset(key, record, producer_id)
        elif key is not None:
            self._types[type(key)].replay(self, key, record.value)
        return key is not None

    def replay_in_steps(self, records: Sequence[Record], first_offset: int) -> Steps[None]:
        """Replay records that the log has from ``first_offset`` on, one in a step: each may be large."""
        for offset, record in enumerate(records, first_offset):
            self.replay_records((record,), offset)
            yield

    def replay_records(self, records: Sequence[Record], first_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Replay records that the log has from ``first_offset`` on."""
        for offset, (key, value, timestamp, headers, _) in enumerate(records, first_offset):
            self.replay_record(Record(key, value, timestamp, headers, offset), producer_id)

    def replay_commits(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, CommittedOffset],
        first_offset: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """Replay the records of ``plain_commits`` without decoding them: the commits are known."""
        if producer_id == NO_PRODUCER_ID:
            for position, (topic_partition, committed) in enumerate(offsets.items(), first_offset):
                group.offsets.replay(topic_partition, position, committed)
            return
        for position, (topic_partition, committed) in enumerate(offsets.items(), first_offset):
            self._replay_in_transaction(group, topic_partition, (position, committed), producer_id)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> Steps[None]:
        """Replay a marker, in steps: the offsets of the producer's transaction become visible, or are dropped.

        Commits of the producer after this call belong to its next transaction, also before the first of the steps.
        """
        groups = [self.groups.get(group_id) for group_id in self.open_transactions.pop(producer_id, ())]
        # the others were deleted, with the offsets that the transaction would have committed
        kept = [group.offsets for group in groups if group is not None]
        return _one_after_the_other([each.end_transaction(producer_id, is_commit=is_commit) for each in kept])

    def _decode_key(self, data: bytes) -> RecordKey | None:
        if not self.is_loading:
            return decode_key(data)
        try:
            return self.known_keys[data]
        except KeyError:
            key = self.known_keys[data] = decode_key(data)
            return key

    def _replay_offset(self, key: OffsetKey, record: Record, producer_id: int) -> None:
        committed = None if record.value is None else decode_offset(record.value)
        group = self.get_or_create(key.group_id)
        if producer_id == NO_PRODUCER_ID:
            group.offsets.replay(key.topic_partition, record.offset, committed)
        else:
            self._replay_in_transaction(group, key.topic_partition, (record.offset, committed), producer_id)

    def _replay_in_transaction(
        self,
        group: Group,
        topic_partition: TopicPartition,
        commit: tuple[int, CommittedOffset | None],
        producer_id: int,
    ) -> None:
        self.open_transactions.setdefault(producer_id, set()).add(group.group_id)
        group.offsets.replay_in_transaction(producer_id, topic_partition, *commit)


def _one_after_the_other(works: list[Steps[None]]) -> Steps[None]:
    for steps in works:
        yield from steps
