"""Requests that have the form of an earlier one of their connection: answered as if they were decoded."""

import asyncio
import gc
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame, produce_request
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkapy.protocol.messages.sync_group import SyncGroupRequest
from kafkapy.replication.partition import RemoteReplica
from kafkapy.server.dispatch import forms as request_forms
from kafkapy.server.dispatch.encoding import ResponseTemplate
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.types import TopicPartition
from tests.server.harness import raw, run, running_broker, session_of, until

BROKER_RESOURCE = 4


async def member_of(client: Client, group: str) -> tuple[int, str]:
    """Generation and member id of the only member of a group."""
    while (await client.ask(FindCoordinatorRequest(group), 0)).error_code:
        pass
    protocols = [JoinGroupRequestProtocol("range", b"")]
    asked = JoinGroupRequest(group, 30_000, 30_000, "", protocol_type="consumer", protocols=protocols)
    joined = await client.ask(asked, 3)
    synced = await client.ask(SyncGroupRequest(group, joined.generation_id, joined.member_id), 2)
    assert (joined.error_code, synced.error_code) == (0, 0)
    return joined.generation_id, joined.member_id


def reads(rng: random.Random, generation: int, member_id: str) -> bytes:
    """A request that changes nothing, of those that get a form."""
    kind = rng.randrange(3)
    if kind == 0:
        wrong = rng.random() < 0.2
        version = rng.randrange(5)
        return frame(HeartbeatRequest("g", generation + wrong, member_id), version, correlation_id=rng.randrange(1000))
    if kind == 1:
        names = rng.sample(["t", "u", "missing", "deleted"], rng.randrange(1, 3))
        topics = [MetadataRequestTopic(name=name) for name in names] if rng.random() < 0.8 else None
        asked = MetadataRequest(topics, allow_auto_topic_creation=rng.random() < 0.5)
        return frame(asked, rng.choice([4, 7, 8, 9]), client_id=rng.choice(["a", "b", None]))
    partitions = [
        ListOffsetsPartition(rng.randrange(4), rng.choice([-1, -1, 0, 7]), rng.choice([-1, -2, 5]))
        for _ in range(rng.choice([1, 1, 1, 2]))
    ]
    request = ListOffsetsRequest(rng.choice([-1, -1, -1, 3]), rng.randrange(3), [ListOffsetsTopic("t", partitions)])
    return frame(request, rng.choice([2, 3, 4, 4, 5, 5]), correlation_id=rng.randrange(1 << 31))


async def change(rng: random.Random, admin: Client) -> None:
    """Something after which answers differ."""
    kind = rng.randrange(4)
    if kind == 0:
        await admin.produce("t", batch(b"v"))
    elif kind == 1:
        await admin.ask(DeleteTopicsRequest(topic_names=["deleted"], timeout_ms=5000), 3)
    elif kind == 2:
        created = MetadataRequest([MetadataRequestTopic(name="deleted")], allow_auto_topic_creation=True)
        await admin.ask(created, 8)
    else:
        address = f"PLAINTEXT://example-{rng.randrange(100)}:9092"
        configs = [AlterableConfig("advertised.listeners", 0, address)]
        resource = AlterConfigsResource(BROKER_RESOURCE, "0", configs)
        answered = await admin.ask(IncrementalAlterConfigsRequest([resource], validate_only=False), 1)
        assert answered.responses[0].error_code == 0


async def raw_of_new(broker: BrokerServer, data: bytes) -> bytes:
    """The answer on a new connection."""
    client = await Client.connect(broker)
    answer = await raw(client, data)
    await client.close()
    return answer


def all_have_leaders(broker: BrokerServer) -> bool:
    topics = broker.services.metadata.image.topics.values()
    return all(partition.leader >= 0 for topic in topics for partition in topic.partitions.values())


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_decoded_requests(seed: int, tmp_path: Path) -> None:
    """Each request is sent on a connection that has sent others like it, and on a new one."""
    rng = random.Random(seed)

    async def scenario() -> None:
        async with running_broker(tmp_path, auto__create__topics__enable="false" if seed else "true") as broker:
            admin, client = await Client.connect(broker), await Client.connect(broker)
            for name in ("t", "u"):
                await admin.create_topic(name, 3)
            generation, member_id = await member_of(admin, "g")
            for _ in range(60):
                data = reads(rng, generation, member_id)
                for _ in range(rng.randrange(1, 4)):
                    if rng.random() < 0.3:
                        await change(rng, admin)
                    answers = [await raw(client, data), await raw_of_new(broker, data)]
                    if answers[0] != answers[1] and data[5] == ApiKey.METADATA:
                        # a topic that the request has created gets its leader a little later
                        await until(lambda: all_have_leaders(broker))
                        answers = [await raw(client, data), await raw_of_new(broker, data)]
                    assert answers[0] == answers[1], data

    run(scenario())


async def change_offsets(rng: random.Random, broker: BrokerServer, admin: Client) -> None:
    """Something after which ListOffsets has other answers for ``t-0``."""
    partition = broker.services.replica_manager.partitions[TopicPartition("t", 0)]
    kind = rng.randrange(5)
    if kind == 0:
        await admin.produce("t", batch(b"v"))
    elif kind == 1:
        partition.is_leader = not partition.is_leader
    elif kind == 2:
        partition.leader_epoch += 1
    elif kind == 3:
        partition.log.advance_log_start_offset(partition.log.high_watermark)
    else:
        end = partition.log.log_end_offset
        partition.epoch_start_offset = end + 1 if partition.epoch_start_offset <= end else 0
    partition.is_leader |= rng.random() < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_offsets_are_those_of_decoded_requests(seed: int, tmp_path: Path) -> None:
    """As above, with requests for one partition, of which most are like the one before."""
    rng = random.Random(seed)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin, client = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t")
            forms, codes = 0, set()
            for _ in range(40):
                wanted = ListOffsetsPartition(0, rng.choice([-1, -1, 0, 3]), rng.choice([-1, -1, -2, 5]))
                topics = [ListOffsetsTopic("t", [wanted])]
                request = ListOffsetsRequest(rng.choice([-1, -1, 3]), rng.choice([0, 0, 0, 1, 2]), topics)
                version = rng.choice([4, 5])
                for _ in range(rng.randrange(4, 16)):
                    if rng.random() < 0.5:
                        await change_offsets(rng, broker, admin)
                    data = frame(request, version, correlation_id=rng.randrange(1 << 31))
                    form = session_of(broker, client).forms.get(struct.unpack_from(">i", data, 4)[0])
                    forms += form is not None and form.obtain(memoryview(data)[4:]) is not None
                    answer = await raw(client, data)
                    assert answer == await raw_of_new(broker, data), data
                    codes.add(struct.unpack_from(">h", answer, len(answer) - 22)[0])
            assert forms >= 15, "the short way was taken"
            assert {0, 6} <= codes
            assert codes & {74, 75, 78, 5}

    run(scenario())


def test_metadata_follows_changes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("first")
            for names in (["first"], ["first", "second"]):
                for _ in range(3):
                    answer = await client.ask(MetadataRequest(None), 8)
                    assert [topic.name for topic in answer.topics] == names
                if len(names) == 1:
                    await admin.create_topic("second")

    run(scenario())


def commits(rng: random.Random, count: int) -> Iterator[tuple[list[OffsetCommitRequestPartition], int, bool]]:
    """Partitions, version, and whether the member's generation is a wrong one; most are like the ones before."""
    indexes, version, metadata, epoch = [0], 7, "", -1
    for _ in range(count):
        if rng.random() < 0.2:
            indexes = [rng.randrange(4) for _ in range(rng.choice([1, 1, 2, 3, 17]))]
            version = rng.choice([2, 3, 5, 6, 7, 8])
            metadata = rng.choice(["", "note", "ä" * 20, "m" * 3000])
            epoch = rng.choice([-1, 0, 5]) if version >= 6 else -1
        offsets = [rng.choice([rng.randrange(1 << 40), -1, 0, -(1 << 63)]) for _ in indexes]
        rows = zip(indexes, offsets, strict=True)
        yield (
            [OffsetCommitRequestPartition(i, o, epoch, committed_metadata=metadata) for i, o in rows],
            version,
            rng.random() < 0.1,
        )


@pytest.mark.parametrize("seed", range(6))
def test_commits_are_those_of_decoded_requests(seed: int, tmp_path: Path) -> None:
    """Group "a" commits on one connection; group "b" commits the same, each time on a new one."""
    rng = random.Random(seed)

    async def committed(client: Client, group: str) -> Any:
        answer = await client.ask(OffsetFetchRequest(group, None), 5)
        rows = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
        return sorted(
            (name, each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata)
            for name, each in rows
        )

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            admin, client = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t", 3)
            members = {group: await member_of(admin, group) for group in ("a", "b")}
            forms = 0
            for partitions, version, is_wrong in commits(rng, 80):
                answers = []
                for group in ("a", "b"):
                    generation, member_id = members[group]
                    topics = [OffsetCommitRequestTopic("t", partitions=partitions)]
                    request = OffsetCommitRequest(group, generation + is_wrong, member_id, topics=topics)
                    data = frame(request, version, correlation_id=rng.randrange(1000))
                    if group == "a":
                        form = session_of(broker, client).forms.get(struct.unpack_from(">i", data, 4)[0])
                        forms += form is not None and form.obtain(memoryview(data)[4:]) is not None
                        answers.append(await raw(client, data))
                    else:
                        fresh = await Client.connect(broker)
                        answers.append(await raw(fresh, data))
                        await fresh.close()
                assert answers[0] == answers[1], (partitions, version, is_wrong)
            assert await committed(admin, "a") == await committed(admin, "b")
            assert forms >= 10, "the short way was taken"

    run(scenario())


def commit_of(group: str, offset: int, **fields: Any) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(0, offset)
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=[partition])], **fields)


def test_a_commit_waits_for_other_replicas_and_knows_deleted_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, offsets__topic__num__partitions="1") as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            await member_of(client, "other")
            codes = [await code_of(client, commit_of("g", offset)) for offset in range(3)]
            assert codes == [0, 0, 0]
            replicas = broker.services.replica_manager
            partition = replicas.partitions[TopicPartition("__consumer_offsets", 0)]
            partition.remotes[9] = RemoteReplica(9, broker.clock.now_ms())
            end = partition.log.log_end_offset
            asked = asyncio.ensure_future(code_of(client, commit_of("g", 3)))
            await until(lambda: partition.log.log_end_offset == end + 1)
            assert not asked.done()
            partition.follower_fetched(9, end + 1, 0)
            replicas.purgatory.check(partition.topic_partition)
            assert await asked == 0
            del partition.remotes[9]
            await admin.ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), 3)
            assert await code_of(client, commit_of("g", 4)) == 3

    run(scenario())


async def code_of(client: Client, request: OffsetCommitRequest, version: int = 7) -> int:
    answer = await client.ask(request, version)
    return int(answer.topics[0].partitions[0].error_code)


def test_a_member_that_has_left_is_told_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            await client.create_topic("t")
            generation, member_id = await member_of(client, "g")
            member = {"generation_id_or_member_epoch": generation, "member_id": member_id}
            assert [await code_of(client, commit_of("g", offset, **member)) for offset in range(3)] == [0, 0, 0]
            beat = HeartbeatRequest("g", generation, member_id)
            assert [(await client.ask(beat, 3)).error_code for _ in range(3)] == [0, 0, 0]
            await admin.ask(LeaveGroupRequest("g", member_id), 2)
            assert await code_of(client, commit_of("g", 3, **member)) == 25
            assert (await client.ask(beat, 3)).error_code == 25

    run(scenario())


def test_what_a_connection_keeps_is_bounded(tmp_path: Path) -> None:
    """Long requests get no form, nor do those with many elements."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            (connection,) = broker.listeners[0].connections
            forms = connection.session.forms
            long = "n" * 2000
            many = [MetadataRequestTopic(name="") for _ in range(100)]
            for _ in range(3):
                for request, version in (
                    (MetadataRequest([MetadataRequestTopic(name=long)], allow_auto_topic_creation=False), 8),
                    (MetadataRequest(many, allow_auto_topic_creation=False), 8),
                    (ListOffsetsRequest(-1, 0, [ListOffsetsTopic("", [])] * 100), 5),
                    (ListOffsetsRequest(-1, 0, [ListOffsetsTopic(long, [ListOffsetsPartition(0)])]), 5),
                    (HeartbeatRequest(long, 1, "m"), 3),
                    (commit_of(long, 1), 7),
                    (produce_request("\N{GRINNING FACE}" + long, batch(b"v")), 8),
                ):
                    await client.ask(request, version)
            assert not any(form.is_made or hasattr(form, "header") for form in forms.values())
            for version in range(9):
                await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), version)
                assert 0 < len(forms) <= request_forms.MOST_FORMS
            large = MetadataRequest([MetadataRequestTopic(name="large")], allow_auto_topic_creation=False)
            await client.create_topic("large", 64)
            assert len({len(await raw(client, frame(large, 8))) for _ in range(3)}) == 1
            client.send(struct.pack(">ihh", 4, 3, 8))  # a frame too short for a header
            assert await client.is_closed()

    run(scenario())


def test_errors_for_names_that_no_topic_has_leave_no_template(tmp_path: Path) -> None:
    """Such names may be 32 kB long: kept in a template each, they would fill the memory."""

    def templates() -> int:
        return sum(isinstance(each, ResponseTemplate) for each in gc.get_objects())

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            before = templates()
            for number in range(10):
                long = f"{number}" + "n" * 30_000
                answer: Any = await client.ask(produce_request(long, batch(b"v")), 8)
                assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                ends = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(long, [ListOffsetsPartition(0, -1, -1)])])
                answer = await client.ask(ends, 5)
                assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert templates() == before

    run(scenario())


def test_a_new_form_replaces_the_oldest_one_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            (connection,) = broker.listeners[0].connections
            forms = connection.session.forms
            topic = [MetadataRequestTopic(name="t")]
            for version in range(request_forms.MOST_FORMS):
                await client.ask(MetadataRequest(topic), version)
            kept = dict(forms)
            await client.ask(MetadataRequest(topic * 2), 1)
            assert list(forms) == list(kept), "another request has the same place"
            await client.ask(HeartbeatRequest("g", 2, "m"), 4)
            assert list(forms)[:-1] == list(kept)[1:]

    run(scenario())


def test_old_metadata_is_not_kept(tmp_path: Path) -> None:
    """An idle connection with forms does not hold the cluster's metadata of its last request."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client, admin = await Client.connect(broker), await Client.connect(broker)
            await admin.create_topic("t")
            await member_of(client, "g")
            for number in range(3):
                await client.ask(MetadataRequest([MetadataRequestTopic(name="t")]), 8)
                assert await code_of(client, commit_of("h", number)) == 0
            topics = broker.services.metadata.image.topics
            await admin.create_topic("other")
            gc.collect()
            assert not [each for each in gc.get_objects() if isinstance(each, MetadataImage) and each.topics is topics]

    run(scenario())
