from typing import Any

from kafkapy.coordinator.group.classic.calls import JoinCall, JoinedMember, JoinResult
from kafkapy.coordinator.group.classic.members import Member, Members


def member(member_id: str, names: str = "a b", **fields: Any) -> Member:
    protocols = tuple((name, name.encode()) for name in names.split())
    call = JoinCall("g", member_id, None, "c", "/h", 10, 20, "consumer", protocols)
    return Member(member_id, call._replace(**fields))


def members(*them: Member) -> Members:
    group = Members()
    for each in them:
        group.add(each)
    return group


def test_the_first_member_leads_and_the_next_one_succeeds_it() -> None:
    group = members(member("1"), member("2"), member("3"))
    assert group.leader_id == "1"
    group.remove("2")
    assert group.leader_id == "1"
    group.remove("1")
    assert group.leader_id == "3"
    group.remove("3")
    assert group.leader_id is None
    group.remove("stranger")
    assert (len(group), list(group), group.all()) == (0, [], [])


def test_the_common_protocols_follow_changes() -> None:
    first, second = member("1", "a b"), member("2", "b")
    group = members(first, second)
    assert group.select_protocol() == "b"
    group.change_protocols(second, (("a", b""), ("a", b"")))
    assert (group.select_protocol(), group.common_protocols.accept(first.protocols)) == ("a", False)
    group.change_protocols(second, (("a", b""),))
    assert group.common_protocols.accept(first.protocols)
    group.remove("2")
    assert group.common_protocols.all_support("b")


def test_a_leader_that_has_not_joined_is_replaced() -> None:
    first, second = member("1"), member("2")
    group = members(first, second)
    assert not group.elect_joined_leader()
    second.wait_for_join()
    assert group.elect_joined_leader()
    assert (group.leader_id, group.waiting_for_join()) == ("2", 1)
    assert group.elect_joined_leader()
    assert Members().elect_joined_leader()


def test_a_static_member_is_replaced_in_its_place() -> None:
    group = members(member("1", instance_id="i"), member("2"))
    replaced = group.replace_static("i", "1b")
    assert (list(group), group.leader_id, group.static_ids, replaced.member_id) == (
        ["1b", "2"],
        "1b",
        {"i": "1b"},
        "1b",
    )
    assert group.is_fenced("1", "i")
    assert not group.is_fenced("1b", "i")
    assert not group.is_fenced("1", None)
    assert not group.is_fenced("1", "other")
    group.remove("1b")
    assert group.static_ids == {}


def test_a_static_follower_is_replaced_without_becoming_leader() -> None:
    group = members(member("1"), member("2", instance_id="i"))
    group.replace_static("i", "2b")
    assert group.leader_id == "1"


def test_removing_a_member_leaves_anothers_instance_id_alone() -> None:
    group = members(member("1", instance_id="i"))
    group.static_ids["i"] = "2"
    group.remove("1")
    assert group.static_ids == {"i": "2"}


def test_a_second_request_of_a_member_ends_the_waiting_of_the_first() -> None:
    waiting = member("1")
    first = waiting.wait_for_join()
    second = waiting.wait_for_join()
    assert (first.value.error_code, second.is_set, waiting.is_waiting) == (27, False, True)
    waiting.answer_join(JoinResult(0, "1"))
    waiting.answer_join(JoinResult(25, "1"))
    assert second.value.error_code == 0
    first_sync, _ = waiting.wait_for_sync(), waiting.wait_for_sync()
    assert first_sync.value.error_code == 27


def test_the_members_in_the_leaders_response() -> None:
    group = members(member("1", instance_id="i"), member("2"))
    assert group.joined("b") == (JoinedMember("1", "i", b"b"), JoinedMember("2", None, b"b"))


def test_the_longest_rebalance_timeout_counts() -> None:
    assert members(member("1", rebalance_timeout_ms=5), member("2", rebalance_timeout_ms=7)).rebalance_timeout_ms() == 7
    assert Members().rebalance_timeout_ms() == 0
