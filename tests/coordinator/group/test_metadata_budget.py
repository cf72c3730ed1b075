"""The memory for members is bounded, and is released when they leave, for any reason."""

import random
from typing import Any

import pytest

from kafkapy.coordinator.group.classic.calls import LeavingMember
from kafkapy.coordinator.group.metadata_budget import (
    GROUP_MAX_BYTES,
    MEMBER_BYTES,
    MOST_PROTOCOLS,
    PENDING_BYTES,
    PROTOCOL_BYTES,
    TOPIC_BYTES,
    MetadataBudget,
    size_of,
)
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import RANGE, World

UUID_SIZE = 36
PENDING_SIZE = PENDING_BYTES + len("client-") + UUID_SIZE
PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)
LARGE = (("range", bytes(10_000)),)


def used(world: World) -> int:
    return world.coordinator._runtime.budget.used_bytes


def expected(world: World) -> int:
    """Count the bytes in use from the groups themselves."""
    total = 0
    for shard in world.coordinator._runtime.shards.values():
        for group in shard.groups.values():
            total += len(group.group_id) + sum(PENDING_BYTES + len(each) for each in group.pending)
            total += TOPIC_BYTES * len(group.subscribed or ())
            for each in group.members.values():
                ids = (each.member_id, each.instance_id or "", each.client_id, each.client_host)
                total += size_of(each.protocols) + len(each.assignment) + sum(map(len, ids))
    return total


def refused(world: World) -> int:
    return world.background.counters.refused_metadata


@pytest.mark.parametrize(("size", "has_room"), [(-5, True), (0, True), (1, True), (2, False)])
def test_the_budget_has_room_up_to_its_bound(size: int, has_room: bool) -> None:
    budget = MetadataBudget(100)
    budget.used_bytes = 99
    assert budget.has_room(size) == has_room
    budget.used_bytes = 1000
    assert budget.has_room(0)


def test_a_member_beyond_the_budget_is_refused() -> None:
    world = World(kafkapy_group_metadata_max_bytes=25_000)
    leader = world.joined(protocols=LARGE)
    world.join(group_id="h", protocols=LARGE)
    assert world.join(group_id="i", protocols=LARGE).value.error_code == 81
    assert (refused(world), world.has_group("i")) == (1, False)
    assert world.join(leader.member_id, protocols=LARGE).value.error_code == 0
    larger = (("range", bytes(20_000)),)
    assert world.join(leader.member_id, protocols=larger).value.error_code == 81
    finish(world.coordinator.classic.leave("g", [LeavingMember(leader.member_id)]))
    assert world.join(group_id="i", protocols=LARGE).value.error_code == 0
    ids_size = len("client-") + UUID_SIZE + len("client") + len("/127.0.0.1")
    member_size = MEMBER_BYTES + PROTOCOL_BYTES + 10_000 + len("range") + ids_size
    assert used(world) == expected(world) == 2 * member_size + len("ghi")


def test_handed_out_member_ids_are_charged() -> None:
    world = World(kafkapy_group_metadata_max_bytes=MEMBER_BYTES + PROTOCOL_BYTES + 550)
    codes = [world.join(requires_known_member_id=True, protocols=RANGE).value.error_code for _ in range(5)]
    assert codes == [79, 79, 81, 81, 81]
    assert used(world) == 2 * PENDING_SIZE + len("g")
    world.clock.advance(10_000)
    assert used(world) == len("g")
    assert world.delete_groups(["g"]) == {"g": 0}
    assert used(world) == 0


@pytest.mark.parametrize("end", ["leave", "session", "delete", "move", "restart", "shutdown"])
def test_the_budget_is_released(end: str) -> None:
    world = World()
    member_id = world.stable()[0]
    world.join(group_id="h", requires_known_member_id=True)
    assert used(world) == expected(world) > PENDING_SIZE + MEMBER_BYTES
    if end == "restart":
        before = used(world) - PENDING_SIZE - len("h")
        world.restart()
        assert used(world) == expected(world) == before
        return
    if end == "leave":
        finish(world.coordinator.classic.leave("g", [LeavingMember(member_id)]))
        assert used(world) == expected(world) == PENDING_SIZE + len("gh")
    elif end == "move":
        world.resign(PARTITION, 1)
    elif end == "shutdown":
        world.coordinator.shutdown()
    else:
        world.clock.advance(20_000)
        assert used(world) == expected(world) == len("gh")
        if end == "delete":
            world.delete_groups(["g", "h"])
    assert used(world) == {"leave": PENDING_SIZE + len("gh"), "session": len("gh")}.get(end, 0)


@pytest.mark.parametrize("name", ["c" * 32_000, "\U0001f642" * 8_000])
def test_the_ids_of_clients_are_charged(name: str) -> None:
    """A member's id contains the client's or the instance's: clients choose up to 32 kB of each."""
    kinds: list[dict[str, Any]] = [
        {"client_id": name, "requires_known_member_id": True},
        {"client_id": name},
        {"instance_id": name},
    ]
    for fields in kinds:
        world = World(kafkapy_group_metadata_max_bytes=200_000)
        codes = [world.join(group_id=f"g{number}", **fields).value.error_code for number in range(7)]
        assert codes[0] in (0, 79)
        assert codes[-1] == 81
        assert used(world) <= 200_000
    world = World(kafkapy_group_metadata_max_bytes=200_000)
    codes = [world.join(group_id=name[1:] + f"{number}").value.error_code for number in range(7)]
    assert (codes[0], codes[-1]) == (0, 81)


def test_groups_that_only_have_offsets_take_nothing_of_the_budget() -> None:
    """Commits are not refused, so they must not let the joins of others be refused."""
    world = World(kafkapy_group_metadata_max_bytes=10_000)
    for number in range(5):
        world.commit(group_id="g" * 9_000 + f"{number}")
    assert used(world) == 0
    assert world.join(group_id="h").value.error_code == 0


def test_a_static_member_that_restarts_needs_no_room_of_its_own() -> None:
    world = World(kafkapy_group_metadata_max_bytes=15_000)
    old_id = world.stable(instance_id="i", protocols=LARGE)[0]
    assert world.joined(instance_id="i", protocols=LARGE).member_id != old_id
    assert used(world) == expected(world)
    assert world.join(instance_id="j", protocols=LARGE).value.error_code == 81


def test_random_histories_are_charged_correctly() -> None:
    chance = random.Random(5)
    world = World()
    known: list[tuple[str, str]] = []
    for step in range(400):
        group_id = f"g{chance.randrange(3)}"
        protocols = (("range", bytes(chance.randrange(500))),)
        kind = chance.randrange(6)
        if kind < 2:
            answer = world.join(group_id=group_id, protocols=protocols, instance_id=chance.choice([None, "i", "j"]))
            answer.on_set(lambda result, of=group_id: known.append((of, result.member_id)))
        elif kind == 2 and known:
            group_id, member_id = chance.choice(known)
            world.join(member_id, group_id=group_id, protocols=protocols)
        elif kind == 3 and known:
            group_id, member_id = chance.choice(known)
            if world.has_group(group_id):
                generation_id = world.group(group_id).generation_id
                world.sync(member_id, generation_id, group_id=group_id, assignments={member_id: bytes(step)})
        elif kind == 4 and known:
            group_id, member_id = known.pop(chance.randrange(len(known)))
            finish(world.coordinator.classic.leave(group_id, [LeavingMember(member_id)]))
        else:
            world.clock.advance(chance.randrange(4000))
        assert used(world) == expected(world), step
    world.restart()
    assert used(world) == expected(world)


def test_the_size_of_all_members_of_a_group_is_bounded() -> None:
    world = World(kafkapy_group_metadata_max_bytes=10 * GROUP_MAX_BYTES)
    half = (("range", bytes(GROUP_MAX_BYTES // 2)),)
    assert world.join(protocols=half).value.error_code == 0
    assert world.join(protocols=half).value.error_code == 81
    assert world.join(group_id="h", protocols=half).value.error_code == 0
    assert (refused(world), used(world)) == (1, expected(world))


@pytest.mark.parametrize(("count", "expected_code"), [(MOST_PROTOCOLS, 0), (MOST_PROTOCOLS + 1, 81)])
@pytest.mark.parametrize("name", ["{}", "same"])
def test_the_protocols_of_a_member_are_counted(count: int, expected_code: int, name: str) -> None:
    world = World()
    protocols = tuple((name.format(number), b"") for number in range(count))
    assert world.join(protocols=protocols).value.error_code == expected_code
    assert refused(world) == (expected_code == 81)


def test_an_assignment_is_refused_while_the_budget_has_no_room() -> None:
    """The members stay, join again, and get their assignment when others have left; the refused one is not kept."""
    world = World(kafkapy_group_metadata_max_bytes=30_000)
    world.joined(group_id="h", protocols=LARGE)
    leader = world.joined().member_id
    follower = world.join()
    generation = world.joined(leader).generation_id
    waiting = world.sync(follower.value.member_id, generation)
    before = used(world)
    parts = {leader: bytes(10_000), follower.value.member_id: bytes(10_000), "stranger": bytes(100_000)}
    assert world.sync(leader, generation, assignments=parts).value.error_code == 15
    assert waiting.value.error_code == 15
    assert (used(world), refused(world), world.group().state.value) == (before, 1, "PreparingRebalance")
    finish(world.coordinator.classic.leave("h", [LeavingMember(next(iter(world.group("h").members)))]))
    again = world.join(follower.value.member_id)
    generation = world.joined(leader).generation_id
    assert again.value.error_code == 0
    assert world.sync(leader, generation, assignments=parts).value.error_code == 0
    assert used(world) == expected(world) > 20_000


def test_an_assignment_that_replaces_one_of_its_size_needs_no_room() -> None:
    world = World(kafkapy_group_metadata_max_bytes=15_000)
    leader = world.joined().member_id
    assert world.sync(leader, 1, assignments={leader: bytes(10_000)}).value.error_code == 0
    assert world.joined(leader).generation_id == 2
    assert world.sync(leader, 2, assignments={leader: bytes(10_001)}).value.error_code == 0
    assert used(world) == expected(world)


def test_an_assignment_that_no_record_can_hold_gets_the_logs_error() -> None:
    world = World()
    leader = world.joined().member_id
    before = GROUP_MAX_BYTES - len(RANGE[0][1]) - world.group().members[leader].ids_size
    assert world.sync(leader, 1, assignments={leader: bytes(before + 1)}).value.error_code == -1
    assert (world.group().state.value, used(world)) == ("PreparingRebalance", expected(world))
    assert list(world.log.records()) == []


def test_a_group_that_a_refused_join_created_is_forgotten() -> None:
    world = World()
    assert world.join(protocols=()).value.error_code == 23
    assert not world.has_group()
