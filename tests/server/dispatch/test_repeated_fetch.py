"""Fetches that have the form of an earlier one of their connection: answered as if they were decoded."""

import asyncio
import random
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.client import Client, batch, fetch_request, frame, produce_request, values_of
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.server.dispatch import forms
from kafkapy.types import TopicPartition
from tests.server.harness import raw, run, running_broker, session_of, until

SESSION_ID_PLACE = 4 + 2
"""In a response without its correlation id: behind throttle time and error."""


def masked(answer: bytes, version: int) -> bytes:
    """The answer without its session's random id; flexible versions have a tag count in front."""
    place = SESSION_ID_PLACE + (version >= 12)
    return answer[:place] + answer[place + 4 :]


def form_of(broker: Any, client: Client, version: int) -> Any:
    """The connection's form of fetches, if it is made."""
    form = session_of(broker, client).forms.get(ApiKey.FETCH << 16 | version)
    return form if form is not None and form.is_made else None


def random_fetch(rng: random.Random, fields: dict[str, Any]) -> FetchRequest:
    if rng.random() < 0.06:
        fields.clear()
        fields |= {
            "topic": rng.choice(["t", "t", "t", "missing", "other"]),
            "partition": rng.choice([0, 0, 0, 1, 7]),
            "current_leader_epoch": rng.choice([-1, -1, 0, 9]),
            "partition_max_bytes": rng.choice([1 << 20, 200, 0, -1]),
            "max_bytes": rng.choice([1 << 20, 300, 0, -5]),
            "min_bytes": rng.choice([1, 0, -1]),
            "isolation_level": rng.choice([0, 0, 0, 1, 2]),
            "rack_id": rng.choice(["", "here"]),
        }
    more = dict(fields)
    topic = more.pop("topic")
    offset = rng.choice([0, 0, 1, rng.randrange(30), 1 << 40, -1, -(1 << 63)])
    return fetch_request(topic, offset, **more)


@pytest.mark.parametrize("seed", range(6))
def test_answers_are_those_of_decoded_requests(seed: int, tmp_path: Path) -> None:
    """Each request is sent on a connection that has sent others like it, and on a new one."""
    rng = random.Random(seed)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin, client = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t", 2)
            await admin.create_topic("other")
            ids = {name: await admin.topic_id(name) for name in ("t", "other")}
            fields: dict[str, Any] = {"topic": "t"}
            version = 11
            formed = 0
            for step in range(160):
                if rng.random() < 0.2:
                    await admin.produce(rng.choice(["t", "other"]), batch(b"v" * rng.randrange(300)))
                if rng.random() < 0.1:
                    version = rng.choice([4, *[10, 11, 12, 13, 18] * 4])
                if step == 140:
                    await admin.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 3)
                request = random_fetch(rng, fields)
                request.topics[0].topic_id = ids.get(request.topics[0].topic, UUID(int=7))
                request.session_epoch = rng.choice([-1] * 9 + [5])
                if version < 11:
                    request.rack_id = ""
                data = frame(request, version, correlation_id=rng.randrange(1000))
                form = form_of(broker, client, version)
                formed += form is not None and form.obtain(memoryview(data)[4:]) is not None
                fresh = await Client.connect(broker)
                assert await raw(client, data) == await raw(fresh, data), (version, request)
                await fresh.close()
            assert formed >= 5, "the short way was taken"

    run(scenario())


@pytest.mark.parametrize("version", [11, 12, 13, 18])
def test_a_session_goes_on_as_with_decoded_requests(version: int, tmp_path: Path) -> None:
    """One session is continued on one connection, another one on a new connection each time."""
    rng = random.Random(version)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin, client = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t", 2)
            topic_id = await admin.topic_id("t")
            for _ in range(5):
                await admin.produce("t", batch(b"v"))
            sessions = {"same": 0, "new": 0}
            epoch = formed = 0
            for number in range(120):
                log = broker.services.replica_manager.partitions[TopicPartition("t", 0)].log
                offset = rng.choice([min(number // 6, 5), log.log_end_offset])  # with something new, and without
                is_bare = epoch > 0 and rng.random() < 0.2  # what the session remembers is read
                answers = []
                for which, session_id in sessions.items():
                    of_session = {"session_id": session_id, "session_epoch": epoch}
                    asked = fetch_request("t", offset, topic_id=topic_id, **of_session)
                    if number == 90:
                        asked.topics[0].partitions.append(FetchPartition(1))
                    if is_bare:
                        asked.topics = []
                    data = frame(asked, version)
                    asking = client if which == "same" else await Client.connect(broker)
                    answer = await raw(asking, data)
                    answers.append(masked(answer, version))
                    sessions[which] = struct.unpack_from(">i", answer, SESSION_ID_PLACE + (version >= 12))[0]
                assert answers[0] == answers[1]
                if number % 5 == 4:
                    await admin.produce("t", batch(b"v"), partition=rng.randrange(2))
                epoch = rng.choice([epoch + 1] * 14 + [9, -1]) if sessions["same"] else 0
                if epoch < 0 or number in (30, 60):
                    sessions, epoch = dict.fromkeys(sessions, 0), 0
                formed += form_of(broker, client, version) is not None
            assert formed >= 5, "the short way was taken"

    run(scenario())


@pytest.mark.parametrize("version", [11, 12, 13, 18])
def test_a_fetch_waits_for_records(version: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin, client, fresh = [await Client.connect(broker) for _ in range(3)]
            await admin.create_topic("t")
            await admin.produce("t", batch(b"first"))
            wanted = {"topic_id": await admin.topic_id("t"), "max_wait_ms": 60_000}
            for offset in (0, 0, 1, 2):
                data = frame(fetch_request("t", offset, **wanted), version)
                answer = asyncio.ensure_future(raw(client, data))
                if offset:
                    await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
                    await admin.produce("t", batch(b"later"))
                assert await answer == await raw(fresh, data)
            assert form_of(broker, client, version) is not None
            unknown = frame(fetch_request("t", 99, **wanted), version)
            assert await raw(client, unknown) == await raw(fresh, unknown)
            at_once = frame(fetch_request("t", 3, **wanted | {"max_wait_ms": 0}), version)
            assert await raw(client, at_once) == await raw(fresh, at_once)

    run(scenario())


def test_large_and_cut_records_arrive_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            values = [bytes([number]) * size for number, size in enumerate((10, 70_000, 140_000, 900_000))]
            for value in values:
                await client.produce("t", batch(value))
            for max_bytes in (2_000_000, 2_000_000, 80_000, 80_000):
                for offset in (*range(4), 0):
                    asked = fetch_request("t", offset, partition_max_bytes=max_bytes, max_bytes=max_bytes)
                    answer = await client.ask(asked, 11)
                    records = answer.responses[0].partitions[0].records
                    assert values_of(records)[:1] == values[offset : offset + 1]

    run(scenario())


def test_fetches_of_several_partitions_get_no_form(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", 2)
            for fields in ({}, {"replica_id": 3}):
                for _ in range(3):
                    request = fetch_request("t", **fields)
                    if not fields:
                        request.topics[0].partitions *= 2
                    await client.ask(request, 11)
                assert form_of(broker, client, 11) is None

    run(scenario())


@pytest.mark.parametrize("varying", ["partition", "rack"])
def test_forms_are_made_seldom_for_requests_that_vary(
    varying: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making one costs as much as decoding some requests."""
    rng = random.Random(3)
    made: list[int] = []
    around = forms.around_integers

    def counted(zeros: bytes, ones: bytes, formats: str) -> list[bytes]:
        made.append(len(zeros))
        return around(zeros, ones, formats)

    monkeypatch.setattr(forms, "around_integers", counted)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t", 2)
            for number in range(200):
                fields = {"partition": number % 7} if varying == "partition" else {"rack_id": f"rack-{number % 7}"}
                await client.ask(fetch_request("t", **fields), 11)
            assert 0 < len(made) <= 5
            made.clear()
            for _ in range(1000):  # a form that fits comes in the end
                await client.ask(fetch_request("t", partition=rng.randrange(1), max_wait_ms=0, min_bytes=0), 11)
            assert len(made) == 1

    run(scenario())


def with_tags(request: FetchRequest, tags: bytes) -> bytes:
    """The frame of version 12 with the request's own tag section replaced."""
    content = frame(request, 12)[4:-1] + tags
    return struct.pack(">i", len(content)) + content


@pytest.mark.parametrize("tags", [b"\2\x64\1a\x64\1a", b"\2\x64\1a\0\1\0"], ids=["one twice", "a known one last"])
def test_tags_that_do_not_ascend_end_the_connection(tags: bytes, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            client.send(with_tags(fetch_request("t", max_wait_ms=(1 << 31) - 1), tags))
            assert await client.is_closed()
            assert len(broker.services.replica_manager.purgatory) == 0

    run(scenario())


def test_requests_in_an_unusual_encoding_get_no_form(tmp_path: Path) -> None:
    """The count of tags may have more bytes than it needs."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin, client = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t")
            await admin.produce("t", batch(b"v"))
            for _ in range(12):
                answer = await raw(client, with_tags(fetch_request("t"), b"\x80\0"))
                assert answer == await raw(admin, frame(fetch_request("t"), 12))
                assert form_of(broker, client, 12) is None

    run(scenario())


def test_many_tags_are_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            tags = b"".join(bytes([number, 0]) for number in range(1, 101))
            for _ in range(3):
                await raw(client, with_tags(fetch_request("t"), bytes([100]) + tags))
            assert form_of(broker, client, 12) is None
            for _ in range(3):
                await raw(client, frame(fetch_request("t"), 12))
            assert form_of(broker, client, 12) is not None

    run(scenario())


def test_six_apis_by_turns_keep_their_forms(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            partitions = [OffsetCommitRequestPartition(0, 1)]
            for _ in range(3):
                for request, version in (
                    (fetch_request("t"), 11),
                    (HeartbeatRequest("g", 1, "m"), 3),
                    (MetadataRequest([MetadataRequestTopic(name="t")], allow_auto_topic_creation=False), 8),
                    (ListOffsetsRequest(-1, 0, [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]), 5),
                    (OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=partitions)]), 7),
                    (produce_request("t", batch(b"v")), 8),
                ):
                    await client.ask(request, version)
            assert [each.is_made for each in session_of(broker, client).forms.values()] == [True] * 6

    run(scenario())
