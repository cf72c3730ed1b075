"""Fetch 13 and later, which name topics by their ids; the expected answers are those of a running Kafka 4.4.0."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.cases.access_cases import on_topic
from harness.client import Client, batch, fetch_request, frame, produce_request
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.turns import PIECE
from kafkapy.types import TopicPartition
from tests.server.access.guarded import guarded_broker
from tests.server.harness import run, running_broker, until

STALE = UUID(int=5)
VERSIONS = [13, 15, 18]
Row = tuple[UUID, int, int]


def _request(*ids: UUID, offset: int = 0, forgotten: tuple[UUID, ...] = (), **fields: Any) -> FetchRequest:
    topics = [FetchTopic(topic_id=each, partitions=[FetchPartition(0, -1, offset)]) for each in ids]
    for topic in topics:
        topic.partitions[0].partition_max_bytes = 1 << 20
    gone = [ForgottenTopic(topic_id=each, partitions=[0]) for each in forgotten]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, **fields}, topics=topics, forgotten_topics_data=gone)


def _rows(answer: Any) -> list[Row]:
    """Id, error code and high watermark of each partition, in the order of the answer."""
    assert answer.error_code == 0
    return [
        (topic.topic_id, each.error_code, each.high_watermark)
        for topic in answer.responses
        for each in topic.partitions
    ]


async def _topic(client: Client, name: str, count: int = 1) -> UUID:
    await client.create_topic(name)
    for _ in range(count):
        await client.produce(name, batch(b"x"))
    return await client.topic_id(name)


async def _delete(client: Client, *names: str) -> None:
    answer = await client.ask(DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000), 5)
    assert {each.error_code for each in answer.responses} == {0}


@pytest.mark.parametrize("version", VERSIONS)
def test_topics_by_id(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two", 2)
            asked = await client.ask(_request(one, STALE, two, ZERO_UUID), version)
            assert _rows(asked) == [(one, 0, 1), (two, 0, 2), (STALE, 100, -1), (ZERO_UUID, 100, -1)]
            for _ in range(4):  # decoded, and by a form
                assert _rows(await client.ask(_request(one), version)) == [(one, 0, 1)]
            await _delete(client, "one")
            again = await _topic(client, "one", 3)
            assert _rows(await client.ask(_request(one), version)) == [(one, 100, -1)]
            assert _rows(await client.ask(_request(again), version)) == [(again, 0, 3)]
            refused = await client.ask(_request(two, isolation_level=9, session_id=3), version)
            assert (refused.error_code, refused.responses, refused.session_id) == (-1, [], 3)

    run(main())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_keeps_ids_that_no_topic_has(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two")
            opened = await client.ask(_request(one, two, STALE, offset=1, session_epoch=0), version)
            session: dict[str, Any] = {"session_id": opened.session_id, "session_epoch": 0}

            async def ask(*ids: UUID, **fields: Any) -> list[Row]:
                session["session_epoch"] += 1
                return _rows(await client.ask(_request(*ids, offset=1, **session, **fields), version))

            assert _rows(opened) == [(one, 0, 1), (two, 0, 1), (STALE, 100, -1)]
            assert await ask() == [(STALE, 100, -1)]
            by_name = await client.ask(fetch_request("one", session_id=opened.session_id, session_epoch=2), 12)
            assert (by_name.error_code, by_name.responses) == (106, [])
            await _delete(client, "one", "two")
            again = await _topic(client, "one")
            assert await ask() == [(one, 103, -1), (two, 3, -1), (STALE, 100, -1)]
            assert await ask(max_wait_ms=10**9) == [(one, 103, -1), (two, 3, -1), (STALE, 100, -1)]
            assert await ask(again) == [(again, 0, 1), (one, 103, -1), (two, 3, -1), (STALE, 100, -1)]
            assert await ask(forgotten=(one, two, STALE)) == await ask() == []
            assert await ask(forgotten=(again,)) == []
            assert not len(broker.services.fetch_sessions)

    run(main())


def test_a_session_of_names_is_not_continued_with_ids(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one = await _topic(client, "one")
            opened = await client.ask(fetch_request("one", 1, session_epoch=0), 12)
            session = {"session_id": opened.session_id, "session_epoch": 1}
            answer = await client.ask(_request(one, **session), 13)
            assert (answer.error_code, answer.session_id, answer.responses) == (106, 0, [])
            assert (await client.ask(FetchRequest(**session), 12)).session_id == opened.session_id

    run(main())


async def _until_waiting(broker: BrokerServer) -> None:
    await until(lambda: len(broker.services.replica_manager.purgatory) == 1)


def test_a_topic_that_is_being_deleted(tmp_path: Path) -> None:
    """The metadata lack it a moment before its log is gone."""

    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            one = await _topic(client, "one")
            client.send(_frame(_request(one, offset=1, max_wait_ms=10**9)))
            await _until_waiting(broker)
            cache = broker.services.metadata
            cache.image = cache.image._replace(topics={}, topic_names={})
            await other.produce("one", batch(b"y"))
            assert _rows(_decoded(await client.receive())) == [(one, 3, -1)]

    run(main())


@pytest.mark.parametrize("is_recreated", [True, False])
def test_a_waiting_fetch_is_not_answered_with_another_topic(is_recreated: bool, tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            one, two = await _topic(client, "one"), await _topic(client, "two")
            for topic_id in (one, two):
                waiting = _request(topic_id, STALE, offset=1, max_wait_ms=10**9)
                client.send(_frame(waiting))
                await _until_waiting(broker)
                if topic_id == two or not is_recreated:
                    name = "one" if topic_id == one else "two"
                    await other.produce(name, batch(b"y"))
                    assert _rows(_decoded(await client.receive())) == [(topic_id, 0, 2), (STALE, 100, -1)]
                    continue
                # the image changes without a call of the waiting fetch: only its next read notices that
                cache = broker.services.metadata
                image = cache.image
                topics = {**image.topics, "one": image.topics["one"]._replace(topic_id=UUID(int=9))}
                cache.image = image._replace(topics=topics)
                broker.services.replica_manager.purgatory.check(TopicPartition("one", 0))
                await other.produce("one", batch(b"y"))
                assert _rows(_decoded(await client.receive())) == [(one, 103, -1), (STALE, 100, -1)]

    run(main())


def _frame(request: Any) -> bytes:
    return frame(request, 13)


def _decoded(data: bytes) -> Any:
    return Client.decode(1, 13, data)


def test_many_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one = await _topic(client, "one")
            unknown = [UUID(int=number) for number in range(1, 2 * PIECE)]
            expected = [(one, 0, 1), *((each, 100, -1) for each in unknown)]
            opened = await client.ask(_request(*unknown, one, session_epoch=0, offset=1), 13)
            assert _rows(opened) == expected
            session = {"session_id": opened.session_id}
            assert _rows(await client.ask(_request(session_epoch=1, **session), 13)) == expected[1:]
            forgotten = await client.ask(_request(session_epoch=2, forgotten=tuple(unknown), **session), 13)
            assert _rows(forgotten) == []

    run(main())


@pytest.mark.parametrize("version", VERSIONS)
def test_rights(version: int, tmp_path: Path) -> None:
    async def main() -> None:
        async with guarded_broker(tmp_path) as guarded:
            one, two = await _topic(guarded.admin, "one"), await _topic(guarded.admin, "two")
            asked = _request(one, STALE, two)
            assert _rows(await guarded.alice.ask(asked, version)) == [(STALE, 100, -1), (one, 29, -1), (two, 29, -1)]
            guarded.allow(on_topic(Op.READ, "two"))
            assert _rows(await guarded.alice.ask(asked, version)) == [(two, 0, 1), (STALE, 100, -1), (one, 29, -1)]
            (row,) = (await guarded.alice.ask(_request(one), version)).responses
            assert row.topic == "", "only the id is shown"

    run(main())


@pytest.mark.parametrize("version", [13, 15])
def test_a_follower_by_id(version: int, tmp_path: Path) -> None:
    """A broker may read above the high watermark; one that is no replica gets no records."""

    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            one = await _topic(client, "one")
            follower: dict[str, Any] = {"replica_id": 7} if version < 15 else {"replica_state": ReplicaState(7, 1)}
            session_id = 0
            for epoch in range(3):
                asked = _request(one, session_id=session_id, session_epoch=epoch, **follower)
                answer = await client.ask(asked, version)
                session_id = answer.session_id
                for topic in answer.responses:
                    assert [(each.error_code, len(each.records)) for each in topic.partitions] == [(0, 0)]
                session = broker.services.fetch_sessions.get(session_id)
                assert session is not None
                assert session.is_follower
                assert session.quiet is None, "all of its partitions are read each time"

    run(main())


def test_produced_records_reach_a_waiting_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_broker(tmp_path) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            one = await _topic(client, "one")
            opened = await client.ask(_request(one, offset=1, session_epoch=0), 13)
            session = {"session_id": opened.session_id, "session_epoch": 1}
            client.send(_frame(_request(max_wait_ms=10**9, **session)))
            await _until_waiting(broker)
            await other.ask(produce_request("one", batch(b"y")), 8)
            assert _rows(_decoded(await client.receive())) == [(one, 0, 2)]

    run(main())
