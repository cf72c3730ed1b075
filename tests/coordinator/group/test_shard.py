from pathlib import Path
from typing import Any

import pytest

from kafkapy.coordinator.group.classic.group import ClassicGroup, as_classic
from kafkapy.coordinator.group.classic.records import group_tombstone
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.group.records import offset_record
from kafkapy.coordinator.group.shard import GroupShard
from kafkapy.coordinator.loading import LoadProgress
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.metrics import Counters
from kafkapy.records.batch import HEADER_SIZE, iterate_headers, read_header, write_batch
from kafkapy.records.control import ControlType, Marker, encode_leader_change, encode_marker
from kafkapy.records.record import Record, encode_batch
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.group.test_records import real_records
from tests.coordinator.world import TP, World, bare_shard

GOLDEN = Path(__file__).parents[2] / "golden"
PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)


def replay(shard: GroupShard, data: bytes) -> Counters:
    """Load the batches of ``data``; the counters count skipped records."""
    counters = Counters()
    for position, header in iterate_headers(data):
        finish(shard.replay_batch(data, header, position, LoadProgress(PARTITION, counters)))
    return counters


def loaded_groups(shard: GroupShard) -> list[ClassicGroup]:
    finish(shard.finish_loading())
    return [as_classic(group) for group in shard.groups.values()]


def loaded(*batches: bytes) -> GroupShard:
    shard = bare_shard(0)
    for batch in batches:
        replay(shard, batch)
    loaded_groups(shard)
    return shard


def committed(offset: int, **fields: int | bool) -> bytes:
    return encode_batch([offset_record("g", TP, CommittedOffset(offset), 0)], **fields)  # type: ignore[arg-type]  # passed on


def test_groups_are_loaded_from_real_records() -> None:
    shard = bare_shard(0)
    records = real_records()
    for record in records[:3]:
        shard.replay_record(record)
    static = as_classic(shard.groups["g-static"])
    assert (static.state.value, static.generation_id, static.protocol_name) == ("Stable", 1, "range")
    assert static.members.static_ids == {"inst-1": static.members.leader_id}
    assert static.is_subscribed_to("other")  # subscriptions are not read before the whole log is loaded
    finish(static.update_subscribed())
    assert static.is_subscribed_to("cmp")
    assert not static.is_subscribed_to("other")
    assert [each.offset for each in shard.groups["g-simple"].offsets.committed.values()] == [7]
    for record in records[3:]:
        shard.replay_record(record)
    assert (static.state.value, static.generation_id, static.protocol_type) == ("Empty", 2, "consumer")
    assert {group.group_id for group in loaded_groups(shard)} == {"g-static", "g-tx", "g-dyn"}


def test_a_real_partition_with_a_transaction_is_read() -> None:
    data = (GOLDEN / "datadir-272/__consumer_offsets-2/00000000000000000000.log").read_bytes()
    shard = bare_shard(2)
    replay(shard, data)
    (group,) = loaded_groups(shard)
    assert (group.group_id, group.state.value, group.generation_id) == ("g-tx", "Empty", 2)
    assert group.offsets.fetch(TopicPartition("rf3", 0), require_stable=True).offset == 11


@pytest.mark.parametrize(("marker", "expected"), [(ControlType.COMMIT, 9), (ControlType.ABORT, 5), (None, 5)])
def test_offsets_in_transactions_wait_for_their_marker(marker: ControlType | None, expected: int) -> None:
    batches = [committed(5), committed(9, base_offset=1, producer_id=4, producer_epoch=0, is_transactional=True)]
    if marker is not None:
        batches.append(encode_marker(marker, Marker(4, 0, 0), 0, base_offset=2))
    shard = loaded(*batches)
    assert shard.groups["g"].offsets.fetch(TP).offset == expected
    assert shard.groups["g"].offsets.is_unstable(TP) == (marker is None)
    assert bool(shard.open_transactions) == (marker is None)


def test_markers_of_other_producers_and_other_control_records_change_nothing() -> None:
    shard = loaded(committed(5), encode_marker(ControlType.ABORT, Marker(4, 0, 0), 0), encode_leader_change(b"", 0))
    assert shard.groups["g"].offsets.fetch(TP).offset == 5


def test_records_of_unknown_kinds_are_skipped() -> None:
    data = encode_batch([Record(None, b"x"), Record(b"\x00\x63", b"x"), Record(b"\x00\x63", None)])
    assert not loaded(data).groups
    assert replay(bare_shard(0), data).skipped_records == 1  # the one without a key; the others are newer


def test_offsets_after_a_tombstone_belong_to_a_group_without_members() -> None:
    world = World()
    world.stable()
    batch = encode_batch([group_tombstone("g", 0), offset_record("g", TP, CommittedOffset(1), 0)], base_offset=9)
    shard = loaded(*world.log.batches, batch)
    group = shard.groups["g"]
    assert (group.state.value, group.generation_id, group.protocol_type, len(group.members)) == ("Empty", 0, None, 0)


def test_the_first_member_leads_if_the_record_names_no_leader() -> None:
    world = World()
    member_id = world.stable()[0]
    group = world.group()
    group.members.leader_id = "somebody"
    world.coordinator.classic._store(group, {})
    world.restart()
    assert world.group().members.leader_id == member_id


def test_a_record_settles_a_served_group_only_in_the_same_generation() -> None:
    world = World()
    world.broker.is_slow = True
    leader = world.joined().member_id
    world.sync(leader, 1, assignments={leader: b"x", "gone": b"y"})
    world.group().members.remove(leader)
    world.broker.acknowledge()
    assert world.group().state.value == "Stable"


def test_a_tombstone_of_a_served_group_changes_nothing() -> None:
    world = World()
    world.stable()
    world.coordinator._runtime.shards[0].replay_record(group_tombstone("g", 0))
    assert world.has_group()


def commit_batch(offset: int, tail: bytes = b"\0", **fields: Any) -> bytes:
    """A batch of one commit, as an append makes it; ``tail`` in the place of the record's number of headers."""
    record = offset_record("g", TopicPartition("t", 0), CommittedOffset(offset, **fields), 7)
    data = encode_batch([record], base_sequence=0)
    header = read_header(data)
    content = data[HEADER_SIZE:-1] + tail
    return write_batch(header, bytes([content[0] + 2 * (len(tail) - 1)]) + content[1:])


@pytest.mark.parametrize(
    "batches",
    [
        [commit_batch(1), commit_batch(2), commit_batch(3)],
        [commit_batch(1), commit_batch(2, metadata="somewhat longer"), commit_batch(3)],
        [commit_batch(1, tail=b"\x80\0"), commit_batch(2, tail=b"\x80\0"), commit_batch(3, tail=b"\x80\0")],
        [commit_batch(1), commit_batch(2), commit_batch(3, expire_timestamp_ms=10**15)],
    ],
    ids=["all alike", "one with metadata", "an unusual zero", "a retention time"],
)
def test_repeated_commits_of_a_partition_are_decoded_by_their_values(batches: list[bytes]) -> None:
    world = World(leads=False)
    for batch in batches:
        world.log.append(batch)
    world.start()
    assert world.fetch() == 3


def test_the_rest_of_a_compacted_batch_keeps_its_offset() -> None:
    """The later of two commits that are alike up to the value lies at the lower offset delta."""
    shard = bare_shard(0)
    record = offset_record("g", TopicPartition("t", 0), CommittedOffset(1), 7)._replace(offset=5)
    for base_offset in (0, 10):
        data = encode_batch([record._replace(offset=base_offset + 5)], base_offset=base_offset, keep_offsets=True)
        replay(shard, data)
    assert shard.groups["g"].offsets._position == {TopicPartition("t", 0): 15}


def test_a_broken_record_is_not_read_as_a_known_commit() -> None:
    shard = bare_shard(0)
    data = bytearray(commit_batch(1))
    replay(shard, bytes(data))
    data[-1] = 2
    assert replay(shard, bytes(data)).skipped_records == 1


def test_groups_without_content_are_dropped_after_loading() -> None:
    shard = bare_shard(0)
    shard.get_or_create("gone")
    shard.get_or_create("offsets").offsets.replay(TP, 0, CommittedOffset(1))
    as_classic(shard.get_or_create("group")).generation_id = 1
    assert shard.is_loading
    assert [group.group_id for group in loaded_groups(shard)] == ["offsets", "group"]
    assert not shard.is_loading
    assert shard.get_or_create("group") is shard.groups["group"]
