from typing import Any

import pytest

from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.coordinator.group.classic.membership import join
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.errors import ErrorCode
from tests.coordinator.world import RANGE, TP, World, subscription

STICKY = (("sticky", subscription("t")),)
BOTH = (("range", subscription("t")), ("sticky", subscription("t")))


def test_without_initial_delay_the_first_member_joins_at_once() -> None:
    world = World()
    result = world.joined()
    assert (result.generation_id, result.protocol_type, result.protocol_name) == (1, "consumer", "range")
    assert result.leader_id == result.member_id
    assert [(member.member_id, member.metadata) for member in result.members] == [(result.member_id, subscription("t"))]
    assert world.group().state.value == "CompletingRebalance"


def test_a_member_id_is_handed_out_before_the_member_joins() -> None:
    world = World()
    required = world.join(requires_known_member_id=True).value
    assert (required.error_code, required.generation_id, required.leader_id) == (79, -1, "")
    assert required.member_id.startswith("client-")
    assert world.group().state.value == "Empty"
    result = world.joined(required.member_id, requires_known_member_id=True)
    assert result.member_id == required.member_id
    assert not world.group().pending


def test_an_unused_pending_id_is_forgotten_after_the_session_timeout() -> None:
    world = World()
    leader = world.stable()[0]
    pending = world.join(requires_known_member_id=True).value.member_id
    rejoin = world.join(leader)
    assert not rejoin.is_set  # the group waits for the pending member id
    world.clock.advance(10_000)
    assert rejoin.value.generation_id == 2
    assert world.join(pending).value.error_code == 25


def test_a_handed_out_member_id_excludes_an_instance_id() -> None:
    world = World()
    pending = world.join(requires_known_member_id=True).value.member_id
    refused = world.join(pending, instance_id="i").value
    assert (refused.error_code, refused.member_id) == (-1, "")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"group_id": ""}, 24),
        ({"session_timeout_ms": 5_999}, 26),
        ({"session_timeout_ms": 1_800_001}, 26),
        ({"member_id": "stranger"}, 25),
        ({"protocols": ()}, 23),
        ({"protocol_type": ""}, 23),
    ],
)
def test_joins_that_an_empty_group_refuses(fields: dict[str, Any], expected: int) -> None:
    assert World().join(**fields).value.error_code == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"protocols": STICKY}, 23),
        ({"protocol_type": "connect"}, 23),
        ({"member_id": "stranger"}, 25),
        ({"member_id": "stranger", "instance_id": "unknown"}, 25),
        ({"member_id": "stranger", "instance_id": "i"}, 82),
        ({"member_id": "stranger", "instance_id": "i", "protocols": STICKY}, 23),
        ({"member_id": "known", "instance_id": "unknown"}, 25),
    ],
)
def test_joins_that_a_stable_group_refuses(fields: dict[str, Any], expected: int) -> None:
    world = World()
    known = world.stable(instance_id="i")[0]
    if fields.get("member_id") == "known":
        fields = {**fields, "member_id": known}
    refused = world.join(**fields).value
    assert (refused.error_code, refused.generation_id) == (expected, -1)
    assert world.group().state.value == "Stable"


def test_a_dead_group_refuses_joins() -> None:
    world = World()
    world.stable()
    group = world.group()
    world.coordinator.shutdown()
    assert join(world.coordinator.classic._rebalancer, group, world.call()).value.error_code == 15


def test_a_second_member_makes_the_first_join_again() -> None:
    world = World()
    leader = world.stable()[0]
    second = world.join()
    assert (second.is_set, world.heartbeat(leader, 1)) == (False, 27)
    again = world.joined(leader)
    assert again.generation_id == second.value.generation_id == 2
    assert [len(again.members), len(second.value.members)] == [2, 0]
    assert second.value.leader_id == leader


def test_the_protocol_that_all_support_is_chosen() -> None:
    world = World()
    leader = world.stable(protocols=BOTH)[0]
    second = world.join(protocols=STICKY)
    world.joined(leader, protocols=BOTH)
    assert second.value.protocol_name == "sticky"


def test_a_follower_that_repeats_its_join_gets_the_same_result() -> None:
    world = World()
    leader, follower = world.stable(2)
    again = world.joined(follower)
    assert (again.generation_id, again.leader_id, again.members) == (2, leader, ())
    assert world.group().state.value == "Stable"


@pytest.mark.parametrize("who", ["leader", "follower with something new"])
def test_a_changed_member_or_the_leader_starts_a_rebalance_by_joining_again(who: str) -> None:
    world = World()
    leader, follower = world.stable(2, protocols=BOTH)
    answer = world.join(leader, protocols=BOTH) if who == "leader" else world.join(follower)
    assert not answer.is_set
    assert world.group().state.value == "PreparingRebalance"


def test_unchanged_members_that_join_again_in_completing_get_the_same_result() -> None:
    world = World()
    leader = world.joined()
    assert world.joined(leader.member_id) == leader
    changed = world.joined(leader.member_id, protocols=BOTH)
    assert changed.generation_id == 2


def test_a_full_stable_group_refuses_new_members_and_keeps_known_ones() -> None:
    world = World(group_max_size=2)
    leader, follower = world.stable(2)
    refused = world.join().value
    assert (refused.error_code, refused.member_id) == (81, "")
    assert world.group().state.value == "Stable"
    assert world.joined(follower).error_code == 0
    assert not world.join(leader).is_set


def test_a_group_above_its_bound_refuses_the_last_members_that_join_again() -> None:
    world = World(group_max_size=2)
    first, second = world.stable(2)
    third = world.join(second, protocols=BOTH)
    newcomer = world.join(protocols=BOTH)
    assert world.join(first).value.error_code == 81
    assert [third.value.generation_id, newcomer.value.generation_id] == [3, 3]
    assert first not in world.group().members


def test_a_waiting_member_may_join_again_in_a_full_group() -> None:
    world = World(group_max_size=2)
    leader, follower = world.stable(2)
    world.join(follower, protocols=BOTH)
    newcomer = world.join()
    assert world.join(follower, protocols=BOTH).is_set is False
    assert not newcomer.is_set
    assert leader in world.group().members


def test_a_refused_static_member_loses_its_instance_id() -> None:
    world = World(group_max_size=1)
    world.stable(instance_id="i")
    assert world.join(instance_id="i").value.error_code == 81
    assert world.group().members.static_ids == {}


class TestStaticMembers:
    def test_static_members_need_no_member_id_to_join(self) -> None:
        world = World()
        assert world.joined(instance_id="i").member_id.startswith("i-")

    def test_a_restarted_static_member_causes_no_rebalance_of_a_stable_group(self) -> None:
        world = World()
        old = world.stable(instance_id="i")[0]
        assignment = world.group().members[old].assignment
        back = world.joined(instance_id="i")
        assert (back.generation_id, back.leader_id, back.members) == (1, old, ())
        assert world.group().state.value == "Stable"
        assert world.sync(back.member_id, 1, instance_id="i").value.assignment == assignment
        assert world.heartbeat(old, 1, "i") == 82
        assert world.join(old, instance_id="i").value.error_code == 82
        world.restart()
        assert list(world.group().members) == [back.member_id]

    def test_a_restarted_static_leader_is_told_to_keep_the_assignment(self) -> None:
        world = World()
        world.stable(instance_id="i")
        back = world.joined(instance_id="i", can_skip_assignment=True)
        assert (back.generation_id, back.leader_id, back.skips_assignment) == (1, back.member_id, True)
        assert [each.member_id for each in back.members] == [back.member_id]
        assert not world.joined(instance_id="i").skips_assignment

    def test_a_restarted_static_follower_has_no_assignment_to_skip(self) -> None:
        world = World()
        world.stable(instance_id="i")
        second = world.join(instance_id="j")
        leader = world.joined(world.group().members.static_ids["i"], instance_id="i")
        waiting = world.sync(second.value.member_id, 2, instance_id="j")
        parts = {leader.member_id: b"1", second.value.member_id: b"2"}
        world.sync(leader.member_id, 2, instance_id="i", assignments=parts)
        assert waiting.value.assignment == b"2"
        back = world.joined(instance_id="j", can_skip_assignment=True)
        assert (back.generation_id, back.leader_id, back.members) == (2, leader.member_id, ())
        assert not back.skips_assignment

    def test_a_restarted_static_member_with_other_protocols_causes_a_rebalance(self) -> None:
        world = World()
        world.stable(instance_id="i", protocols=BOTH)
        back = world.joined(instance_id="i", protocols=(BOTH[1], BOTH[0]))
        assert (back.generation_id, back.protocol_name) == (2, "sticky")

    def test_a_static_member_that_restarts_in_completing_causes_a_rebalance(self) -> None:
        world = World()
        first = world.joined(instance_id="i")
        waiting = world.sync(first.member_id, 0)
        assert waiting.value.error_code == 22
        back = world.joined(instance_id="i")
        assert (back.generation_id, back.leader_id) == (2, back.member_id)

    def test_a_static_member_that_restarts_in_the_join_phase_joins(self) -> None:
        world = World()
        leader = world.stable(instance_id="i")[0]
        second = world.join(instance_id="j")
        back = world.join(instance_id="i")
        assert back.value.generation_id == second.value.generation_id == 2
        assert leader not in world.group().members

    def test_a_waiting_join_of_a_replaced_static_member_is_fenced(self) -> None:
        world = World()
        leader = world.stable(instance_id="i")[0]
        waiting = world.join(instance_id="j")
        world.join(instance_id="j")
        assert waiting.value.error_code == 82
        assert leader in world.group().members

    def test_a_waiting_sync_of_a_replaced_static_member_is_fenced(self) -> None:
        world = World()
        leader = world.joined().member_id
        follower = world.join(instance_id="j")
        generation = world.joined(leader).generation_id
        waiting = world.sync(follower.value.member_id, generation, instance_id="j")
        world.join(instance_id="j")
        assert waiting.value.error_code == 82

    def test_the_old_member_id_stays_if_the_log_refuses_the_new_one(self) -> None:
        world = World()
        old = world.stable(instance_id="i")[0]
        world.broker.error = KafkaStorageError("disk")
        refused = world.join(instance_id="i").value
        assert (refused.error_code, refused.member_id, refused.generation_id, refused.leader_id) == (16, "", 1, old)
        assert list(world.group().members) == [old]
        assert world.heartbeat(old, 1, "i") == 0

    def test_a_rebalance_that_starts_before_the_new_id_is_in_the_log_continues(self) -> None:
        world = World()
        world.stable(instance_id="i")
        world.broker.is_slow = True
        back = world.join(instance_id="i")
        second = world.join()
        assert back.value.generation_id == second.value.generation_id == 2
        world.broker.acknowledge()
        assert world.group().state.value == "CompletingRebalance"

    def test_static_members_stay_in_the_group_while_they_are_away(self) -> None:
        world = World()
        first = world.joined(instance_id="i", session_timeout_ms=1_800_000).member_id
        second = world.join()
        world.clock.advance(60_000)
        assert second.value.leader_id == second.value.member_id
        assert first in world.group().members

    def test_new_members_that_joined_at_the_same_time_count_as_new(self) -> None:
        world = World(group_initial_rebalance_delay_ms=3_000)
        world.join()
        world.join(protocols=RANGE)
        assert world.group().has_new_member


def test_a_refused_member_leaves_the_group_of_an_aborted_transaction() -> None:
    world = World()
    call = CommitCall("g", "", -1, {TP: CommittedOffset(5)})
    world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0))
    world.coordinator.transaction_ended(0, 7, is_commit=False)
    assert world.join("stranger").value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.has_group()


def test_a_refused_member_leaves_no_group_behind() -> None:
    world = World()
    assert world.join(protocols=()).value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not world.has_group()


@pytest.mark.parametrize("version_4", [False, True])
@pytest.mark.parametrize("text", ["c" * 32_731, "\u00e9" * 16_366])
def test_a_member_id_that_no_response_can_have_is_refused(text: str, version_4: bool) -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR, or nothing, and keeps the member."""
    world = World()
    world.stable()
    for fields in ({"client_id": text}, {"instance_id": text}):
        requires = version_4 and "client_id" in fields
        refused = world.join(requires_known_member_id=requires, **fields).value
        assert (refused.error_code, refused.member_id) == (-1, "")
    assert (len(world.group().members), len(world.group().pending)) == (1, 0)
    assert world.join(client_id=text[1:], requires_known_member_id=True).value.error_code == 79
