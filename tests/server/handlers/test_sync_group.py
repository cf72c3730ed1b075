import asyncio
from collections.abc import Generator

import pytest

from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafkapy.server.handlers import sync_group
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.server.handlers.groups_context import Asker


@pytest.mark.parametrize("version", range(6))
def test_the_leader_gets_its_assignment_in_every_version(version: int) -> None:
    asker = Asker()
    leader = asker.world.joined().member_id
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest("g", 1, leader, assignments=[SyncGroupRequestAssignment(leader, b"x")], **protocol)
    response = asker.ask(sync_group, request, version)
    assert (response.error_code, response.assignment) == (0, b"x")
    assert (response.protocol_type, response.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))


@pytest.mark.parametrize("fields", [{"protocol_type": "consumer"}, {"protocol_name": "range"}])
def test_from_version_5_the_protocol_must_be_named(fields: dict[str, str]) -> None:
    assert Asker().ask(sync_group, SyncGroupRequest("g", 1, "m", **fields), 5).error_code == 23


def test_static_members_are_fenced() -> None:
    asker = Asker()
    asker.world.stable(instance_id="i")
    response = asker.ask(sync_group, SyncGroupRequest("g", 1, "m", group_instance_id="i"), 3)
    assert (response.error_code, response.assignment) == (82, b"")


def test_many_assignments_are_copied_in_steps() -> None:
    """Assignments of unknown members are dropped; of a member that is named repeatedly the last one counts."""
    asker = Asker()
    leader = asker.world.joined().member_id
    named = [SyncGroupRequestAssignment(str(number), b"stranger") for number in range(1000)]
    named += [SyncGroupRequestAssignment(leader, str(number).encode()) for number in range(10_000)]
    request = SyncGroupRequest("g", 1, leader, assignments=named)
    steps = sync_group.handle(asker.context(3), request)
    assert isinstance(steps, Generator)
    assert len(list(steps)) == 43
    assert asker.world.group().members[leader].assignment == b"9999"
    response = asker.ask(sync_group, request, 3)
    assert (response.error_code, response.assignment) == (0, b"9999")
    assert len(asker.world.group().members) == 1


def test_a_coordinator_that_moves_between_two_steps() -> None:
    asker = Asker()
    leader = asker.world.joined().member_id
    named = [SyncGroupRequestAssignment(leader, b"x")] * 1000
    steps = sync_group.handle(asker.context(3), SyncGroupRequest("g", 1, leader, assignments=named))
    assert isinstance(steps, Generator)
    next(steps)
    asker.world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), 1)
    assert finish(steps) == SyncGroupResponse(error_code=16)


def test_followers_wait() -> None:
    async def scenario() -> None:
        asker = Asker()
        leader = asker.world.joined().member_id
        follower = asker.world.join()
        asker.world.joined(leader)
        waiting = sync_group.handle(asker.context(0), SyncGroupRequest("g", 2, follower.value.member_id))
        assert isinstance(waiting, asyncio.Future)
        asker.world.sync(leader, 2, assignments={follower.value.member_id: b"f"})
        assert (await waiting).assignment == b"f"

    asyncio.run(scenario())
