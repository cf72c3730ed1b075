"""Topics that are named by id; the expected answers are those of a running Apache Kafka 4.4.0."""

from pathlib import Path
from typing import Any
from uuid import UUID

from harness.cases.access_cases import on_topic
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.turns import PIECE
from tests.server.access.guarded import Guarded, guarded_broker
from tests.server.harness import run

STALE = UUID(int=5)
Row = tuple[str | None, UUID, int]


async def _create(guarded: Guarded, name: str) -> UUID:
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], [])], 10_000)
    (row,) = (await guarded.admin.ask(request, 7)).topics
    assert row.error_code == 0
    topic_id: UUID = row.topic_id
    return topic_id


async def _describe(client: Any, version: int, *topics: tuple[str | None, UUID]) -> list[Row]:
    listed = [MetadataRequestTopic(topic_id, name) for name, topic_id in topics]
    response = await client.ask(MetadataRequest(listed, allow_auto_topic_creation=False), version)
    return [(row.name, row.topic_id, row.error_code) for row in response.topics]


async def _delete(client: Any, *topics: tuple[str | None, UUID]) -> list[Row]:
    listed = [DeleteTopicState(name, topic_id) for name, topic_id in topics]
    response = await client.ask(DeleteTopicsRequest(listed, timeout_ms=10_000), 6)
    return [(row.name, row.topic_id, row.error_code) for row in response.responses]


def test_metadata(tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded_broker(tmp_path) as guarded:
            admin, known = guarded.admin, await _create(guarded, "t")
            for version in (10, 11, 12, 13):
                assert await _describe(admin, version, ("t", ZERO_UUID)) == [("t", known, 0)]
                assert await _describe(admin, version, ("no", ZERO_UUID)) == [("no", ZERO_UUID, 3)]
            for version in (10, 11):
                assert await _describe(admin, version, ("t", known)) == [("t", known, 42)]
                named = [(None, known), ("t", ZERO_UUID)]
                assert await _describe(admin, version, *named) == [("", known, 42), ("t", ZERO_UUID, 42)]
            for version in (12, 13):
                for _ in range(3):  # a connection repeats its request without decoding it
                    assert await _describe(admin, version, (None, known)) == [("t", known, 0)]
                assert await _describe(admin, version, ("no", known)) == [("t", known, 0)]
                assert await _describe(admin, version, ("t", STALE)) == [(None, STALE, 100)]
                both = (None, known), (None, STALE), (None, known)
                assert await _describe(admin, version, *both) == [(None, STALE, 100), ("t", known, 0)]
                assert await _describe(admin, version, (None, known), ("no", ZERO_UUID)) == [("t", known, 0)]
                assert await _describe(admin, version, (None, ZERO_UUID)) == [("", ZERO_UUID, -1)]
            many = [(None, known), *((None, UUID(int=number)) for number in range(1, 2 * PIECE))]
            rows = await _describe(admin, 12, *many)
            assert [row[2] for row in rows] == [100] * (2 * PIECE - 1) + [0]
            names = [(f"t{number}", ZERO_UUID) for number in range(2 * PIECE)]
            assert {row[2] for row in await _describe(admin, 12, *names)} == {3}
            refused = await admin.ask(MetadataRequest([MetadataRequestTopic(name=None)]), 13)
            assert refused.error_code == -1

    run(main())


def test_deletion(tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded_broker(tmp_path) as guarded:
            admin, known = guarded.admin, await _create(guarded, "t")
            assert await _delete(admin, (None, STALE)) == [(None, STALE, 100)]
            assert await _delete(admin, ("no", ZERO_UUID)) == [("no", ZERO_UUID, 3)]
            assert await _delete(admin, (None, ZERO_UUID)) == [(None, ZERO_UUID, 42)]
            assert await _delete(admin, ("t", known)) == [("t", known, 42)]
            assert await _delete(admin, (None, known), (None, known)) == [(None, known, 42)]
            assert await _delete(admin, ("t", ZERO_UUID), (None, known)) == [("t", known, 42)]
            assert await _delete(admin, (None, known)) == [("t", known, 0)]
            again = await _create(guarded, "t")
            assert again not in (known, ZERO_UUID)
            assert await _delete(admin, (None, known)) == [(None, known, 100)]
            assert await _describe(admin, 12, (None, known)) == [(None, known, 100)]
            assert await _delete(admin, ("t", ZERO_UUID)) == [("t", again, 0)]

    run(main())


def test_a_name_is_shown_only_to_clients_that_may_describe_the_topic(tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded_broker(tmp_path) as guarded:
            alice, known = guarded.alice, await _create(guarded, "t")
            assert await _describe(alice, 12, (None, known), (None, STALE)) == [(None, STALE, 100), (None, known, 29)]
            assert await _delete(alice, (None, known)) == [(None, known, 29)]
            assert await _delete(alice, ("t", ZERO_UUID)) == [("t", ZERO_UUID, 29)]
            guarded.allow(on_topic(Op.DESCRIBE, "t"))
            assert await _describe(alice, 12, (None, known)) == [("t", known, 0)]
            assert await _delete(alice, (None, known)) == [("t", known, 29)]
            guarded.allow(on_topic(Op.DELETE, "t"))
            assert await _delete(alice, (None, known)) == [("t", known, 0)]

    run(main())
