import asyncio
from typing import Any

import pytest

from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.server.handlers import join_group
from tests.coordinator.world import RANGE
from tests.server.handlers.groups_context import Asker


def request(**fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name, metadata) for name, metadata in RANGE]
    return JoinGroupRequest(
        **{"group_id": "g", "session_timeout_ms": 10_000, "protocol_type": "consumer", "protocols": protocols} | fields
    )


@pytest.mark.parametrize("version", range(8))
def test_the_first_member_is_leader_in_every_version(version: int) -> None:
    asker = Asker()
    joining = request(rebalance_timeout_ms=60_000 if version else -1)
    response = asker.ask(join_group, joining, version)
    if version >= 4:
        assert (response.error_code, response.generation_id, response.members) == (79, -1, [])
        response = asker.ask(join_group, request(member_id=response.member_id), version)
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 1, "range")
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert response.leader == response.member_id
    assert [(member.member_id, member.metadata) for member in response.members] == [(response.leader, RANGE[0][1])]


@pytest.mark.parametrize(("version", "expected"), [(0, 10_000), (1, 60_000)])
def test_the_oldest_version_rejoins_within_its_session_timeout(version: int, expected: int) -> None:
    asker = Asker()
    member_id = asker.ask(join_group, request(rebalance_timeout_ms=60_000 if version else -1), version).member_id
    member = asker.world.group().members[member_id]
    assert (member.rebalance_timeout_ms, member.client_id, member.client_host) == (expected, "client", "/127.0.0.1")


@pytest.mark.parametrize("version", [5, 6, 7])
def test_static_members(version: int) -> None:
    response = Asker().ask(join_group, request(group_instance_id="i"), version)
    assert (response.error_code, response.members[0].group_instance_id) == (0, "i")


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_an_error_has_no_protocol(version: int, name: str | None) -> None:
    response = Asker().ask(join_group, request(group_id=""), version)
    assert (response.error_code, response.protocol_name, response.leader, response.member_id) == (24, name, "", "")


def test_only_a_bounded_number_of_protocols_is_read() -> None:
    asker = Asker()
    protocols = [JoinGroupRequestProtocol("range", b"")] * 10_000
    assert asker.ask(join_group, request(protocols=protocols), 3).error_code == 81
    assert not asker.world.has_group()


def test_a_client_without_a_client_id_joins() -> None:
    assert Asker().ask(join_group, request(), 0, client_id=None).member_id.startswith("-")


def test_the_second_member_waits_for_the_first() -> None:
    async def scenario() -> None:
        asker = Asker()
        leader = asker.world.stable()[0]
        waiting = join_group.handle(asker.context(0), request())
        assert isinstance(waiting, asyncio.Future)
        asker.world.joined(leader)
        assert (await waiting).generation_id == 2

    asyncio.run(scenario())
