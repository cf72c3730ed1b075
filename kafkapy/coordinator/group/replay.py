"""Records → state: the only code that changes offsets, settles an assignment or brings a group back.

It serves reading a partition from its start and every record that this broker has just appended: what a restart would
see is what the living see. The one difference: while loading, a group's record makes its members; when living, they
are there already (they carry waiting requests and timers), and the record settles their assignment.
"""

from collections.abc import Mapping
from functools import partial
from struct import Struct

from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.members import Member
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.records import GroupKey, OffsetKey, decode_group, decode_key, decode_offset
from kafkapy.coordinator.group.results import JoinCall
from kafkapy.coordinator.group.shard import KnownCommit, Shard
from kafkapy.coordinator.partition_log import BATCHES_IN_A_STEP, Reading, replay_records
from kafkapy.protocol.messages.stored.group_metadata import GroupMetadataValue
from kafkapy.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    iterate_headers,
    read_header,
)
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.errors import InvalidRecordError, RecordsError
from kafkapy.records.record import Record
from kafkapy.records.scanner import latest_alike
from kafkapy.turns import Steps
from kafkapy.types import NO_PRODUCER_ID, TopicPartition

COMMIT_SIZE = 24
"""Bytes of the value of a commit without metadata (version 3)."""
NO_HEADERS = b"\0"
_OFFSET_AND_LENGTH = Struct(">qi")


def replay_all(shard: Shard, content: bytes, reading: Reading) -> Steps[int | None]:
    """Take over the batches of one read; returns the offset behind the last whole one, None if there is none.

    Raises ``CorruptRecordError`` where the bytes are no batch as it was written.
    """
    position, count, begin = 0, 0, reading.offset
    while True:
        met, position = latest_alike(content, position, COMMIT_SIZE + len(NO_HEADERS), shard.known_commits)
        if met:
            _replay_latest(shard, content, met, reading)
        found = next(iterate_headers(content, position), None)
        if found is None:
            return None if reading.offset == begin else reading.offset
        _, header = found
        reading.check(content, position, header)
        yield from replay_batch(shard, content, header, position, reading)
        position += header.size
        reading.offset = header.next_offset
        count += 1
        if count % BATCHES_IN_A_STEP == 0:
            yield


def _replay_latest(shard: Shard, content: bytes, met: dict[KnownCommit, int], reading: Reading) -> None:
    """Take over, of a stretch of commits, the last of each partition.

    Of a log nearly all is commits of one partition without metadata, again and again: the record's bytes up to its
    value say all lengths, so that they need no second reading, and what a later one replaces need not be read at all.
    """
    for place in met.values():  # before any is taken: one that was replaced may be the last that is not damaged
        reading.check(content, place, read_header(content, place))
    for known, place in met.items():
        base_offset, length = _OFFSET_AND_LENGTH.unpack_from(content, place)
        end = place + LOG_OVERHEAD + length - len(NO_HEADERS)
        committed = decode_offset(content[end - COMMIT_SIZE : end])
        offsets = shard.get_or_create(known.key.group_id).offsets
        offsets.replay(known.key.partition, base_offset + known.offset_delta, committed)
    reading.offset = read_header(content, max(met.values())).next_offset


def replay_batch(shard: Shard, content: bytes, header: BatchHeader, position: int, reading: Reading) -> Steps[None]:
    """Take over a batch of the log; records that can't be decoded are skipped."""
    if header.is_control:
        try:
            control = read_control(content, header, position)
        except RecordsError as error:
            reading.skip(header.base_offset, error)
            return
        if control.type in (ControlType.COMMIT, ControlType.ABORT):
            end_transaction(shard, header.producer_id, is_commit=control.type == ControlType.COMMIT)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    replay = partial(replay_record, shard, producer_id=producer_id)
    last = yield from replay_records(content, header, position, reading, replay)
    if header.record_count == 1 and not header.attributes and header.magic == MAGIC and last is not None:
        _remember_commit(shard, content, header, position, last)


def _remember_commit(shard: Shard, batch: bytes, header: BatchHeader, position: int, record: Record) -> None:
    """Keep what the batch holds up to the value, if that is where such a commit's would be."""
    key = shard.known_keys.get(record.key or b"")
    if isinstance(key, OffsetKey) and record.value is not None and len(record.value) == COMMIT_SIZE:
        content = batch[position + HEADER_SIZE : position + header.size]
        tail = record.value + NO_HEADERS
        if content.endswith(tail):
            shard.known_commits[content[: -len(tail)]] = KnownCommit(key, record.offset - header.base_offset)


def replay_record(shard: Shard, record: Record, producer_id: int = NO_PRODUCER_ID) -> bool:
    """Take over one record; ``producer_id`` is that of a transaction that has not ended yet.

    Returns False for a record of a kind that only a later release of Kafka knows. Raises one of ``UNDECODABLE`` when it
    is none that a broker writes; nothing has changed then.
    """
    if record.key is None:
        raise InvalidRecordError("the record has no key")
    key = _key(shard, record.key)
    if isinstance(key, OffsetKey):
        _replay_offset(shard, key, record, producer_id)
    elif isinstance(key, GroupKey):
        _replay_group(shard, key.group_id, record.value)
    return key is not None


def replay_commits(
    shard: Shard,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    first_offset: int,
    producer_id: int = NO_PRODUCER_ID,
) -> None:
    """Take over the records of ``plain_commits``: what each says when it is read is the commit that it was made of."""
    group = shard.groups.get(group_id)
    if group is None:
        return  # deleted between the append and its acknowledgement
    if producer_id == NO_PRODUCER_ID:
        for position, (partition, committed) in enumerate(offsets.items(), first_offset):
            group.offsets.replay(partition, position, committed)
        return
    for position, (partition, committed) in enumerate(offsets.items(), first_offset):
        _replay_in_transaction(shard, group, partition, (position, committed), producer_id)


def _key(shard: Shard, data: bytes) -> OffsetKey | GroupKey | None:
    if not shard.is_loading:
        return decode_key(data)
    try:
        return shard.known_keys[data]
    except KeyError:
        key = shard.known_keys[data] = decode_key(data)
        return key


def end_transaction(shard: Shard, producer_id: int, *, is_commit: bool) -> None:
    """A marker: the offsets of the producer's transaction count, or are dropped."""
    for group_id in shard.open_transactions.pop(producer_id, ()):
        group = shard.groups.get(group_id)
        if group is not None:  # else it was deleted, and with it what the transaction would have committed
            group.offsets.end_transaction(producer_id, is_commit=is_commit)


def _replay_offset(shard: Shard, key: OffsetKey, record: Record, producer_id: int) -> None:
    committed = None if record.value is None else decode_offset(record.value)
    group = shard.get_or_create(key.group_id) if shard.is_loading else shard.groups.get(key.group_id)
    if group is None:
        return  # deleted between the append and its acknowledgement
    if producer_id == NO_PRODUCER_ID:
        group.offsets.replay(key.partition, record.offset, committed)
    else:
        _replay_in_transaction(shard, group, key.partition, (record.offset, committed), producer_id)


def _replay_in_transaction(
    shard: Shard, group: Group, partition: TopicPartition, commit: tuple[int, CommittedOffset | None], producer_id: int
) -> None:
    shard.open_transactions.setdefault(producer_id, set()).add(group.group_id)
    group.offsets.replay_in_transaction(producer_id, partition, *commit)


def _replay_group(shard: Shard, group_id: str, value: bytes | None) -> None:
    if shard.is_loading:
        stored = None if value is None else decode_group(value)
        if stored is None:
            _restore_nothing(shard.get_or_create(group_id))
        elif len({each.member_id for each in stored.members}) < len(stored.members):
            raise InvalidRecordError("the group has several members of one id")
        else:
            _restore(shard.get_or_create(group_id), stored)
    elif value is not None and group_id in shard.groups:
        _settle(shard.groups[group_id], decode_group(value))


def _restore_nothing(group: Group) -> None:
    """The group was deleted; offsets that come later in the log belong to one that only keeps offsets."""
    group.restore(states.EMPTY, -1)
    group.generation_id = 0
    group.protocol_type = group.protocol_name = None
    group.clear_members()


def _restore(group: Group, stored: GroupMetadataValue) -> None:
    group.restore(states.STABLE if stored.members else states.EMPTY, stored.current_state_timestamp)
    group.generation_id = stored.generation
    group.protocol_type = stored.protocol_type or None
    group.protocol_name = stored.protocol
    group.clear_members()
    for each in stored.members:
        call = JoinCall(
            group_id=group.group_id,
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            rebalance_timeout_ms=each.rebalance_timeout,
            session_timeout_ms=each.session_timeout,
            protocol_type=stored.protocol_type,
            protocols=((stored.protocol or "", each.subscription),),
        )
        member = Member(each.member_id, call)
        member.assignment = each.assignment
        group.members.add(member)
    if stored.leader in group.members:
        group.members.leader_id = stored.leader


def _settle(group: Group, stored: GroupMetadataValue) -> None:
    if stored.generation != group.generation_id or group.state not in (states.COMPLETING, states.STABLE):
        return  # somebody came or went while the log was written: another join phase is on
    for each in stored.members:
        member = group.members.get(each.member_id)
        if member is not None:
            group.members.assign(member, each.assignment)
    if group.state is states.COMPLETING:
        group.move_to(states.STABLE)
