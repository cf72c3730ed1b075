import asyncio
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.client import Client, batch, frame, produce_request, values_of
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.join_group import JoinGroupRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequest
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkapy.protocol.places import PLACES
from kafkapy.server.handlers import REGISTRY
from kafkapy.testing.faults.error_answers import release_bodies
from kafkapy.types import TopicPartition
from tests.server.harness import run
from tests.testing.faults.faulty import end_of, faulty
from tests.testing.requests import TOPIC, errors_in, request_of

SERVED = [api for api in REGISTRY.values() if not api.between_brokers]


def _in_version(request: Any, version: int, topic_id: UUID) -> Any:
    """Topics get the id by which later versions name them; DeleteTopics has another list from that version on."""
    if isinstance(request, DeleteTopicsRequest) and version >= 6:
        return DeleteTopicsRequest([DeleteTopicState(name) for name in request.topic_names], timeout_ms=1000)
    if isinstance(request, ProduceRequest | FetchRequest | OffsetCommitRequest | TxnOffsetCommitRequest):
        place = PLACES[request.API_KEY][0]
        for topic in getattr(request, place.request):
            topic.topic_id = topic_id
    if isinstance(request, OffsetFetchRequest):
        for topic in (each for group in request.groups for each in group.topics or ()):
            topic.topic_id = topic_id
    return request


@pytest.mark.parametrize("when", ["before", "after"])
def test_every_version_of_every_api_can_answer_an_error(tmp_path: Path, when: str) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            for api in SERVED:
                if TOPIC not in broker.services.metadata.image.topics:  # at first, and behind DeleteTopics
                    await client.create_topic(TOPIC)
                topic_id = await client.topic_id(TOPIC)
                for version in range(api.min_version, api.max_version + 1):
                    with faults.error("THROTTLING_QUOTA_EXCEEDED", api=int(api.key), when=when) as rule:
                        request = _in_version(request_of(api.key, version), version, topic_id)
                        response = await client.ask(request, version)
                    place = f"{api.module} v{version}"
                    assert set(errors_in(api.key, response)) == {ErrorCode.THROTTLING_QUOTA_EXCEEDED}, place
                    assert rule.fired == 1, place

    run(scenario())


def _produce(*partitions: tuple[str, int], acks: int = 1) -> ProduceRequest:
    topics = [
        TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch(b"x"))])
        for topic, index in partitions
    ]
    return ProduceRequest(None, acks, 1000, topics)


def test_partitions_that_a_rule_does_not_select_are_handled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            await client.create_topic("a", 2)
            request = ProduceRequest(
                None, 1, 1000,
                [TopicProduceData("a", partition_data=[PartitionProduceData(at, batch(b"x")) for at in (0, 1)])],
            )  # fmt: skip
            faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="a", partition=1)
            response = await client.ask(request, 8)
            (topic,) = response.responses
            codes = {each.index: (each.error_code, each.base_offset) for each in topic.partition_responses}
            assert codes == {0: (0, 0), 1: (6, -1)}
            assert broker.services.replica_manager.partition(TopicPartition("a", 1)).log.log_end_offset == 0

    run(scenario())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rule_selects_topics_by_name_that_requests_name_by_id(tmp_path: Path, when: str) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            ids = {}
            for name in ("a", "b"):
                await client.create_topic(name)
                await client.produce(name, batch(b"x"))
                ids[name] = await client.topic_id(name)
            topics = [
                FetchTopic(topic_id=each, partitions=[FetchPartition(0, fetch_offset=1)]) for each in ids.values()
            ]
            opened = await client.ask(FetchRequest(session_epoch=0, topics=topics), 13)
            with faults.error("NOT_LEADER_OR_FOLLOWER", api="Fetch", topic="a", when=when) as rule:
                answer = await client.ask(FetchRequest(session_id=opened.session_id, session_epoch=1), 13)
            assert rule.fired == 1
            assert [(each.topic_id, each.partitions[0].error_code) for each in answer.responses] == [(ids["a"], 6)]
            answer = await client.ask(FetchRequest(session_id=opened.session_id, session_epoch=2), 13)
            assert [(each.topic_id, each.partitions[0].error_code) for each in answer.responses] == [(ids["a"], 0)]

    run(scenario())


@pytest.mark.parametrize(("when", "moved"), [("before", [1]), ("after", [0, 1])])
def test_replicas_that_a_rule_selects_are_not_moved(tmp_path: Path, when: str, moved: list[int]) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            await client.create_topic("a", 2)
            (directory,) = broker.services.log_manager.directories
            topics = [AlterReplicaLogDirTopic("a", [0, 1])]
            asked: list[int] = []
            alter = broker.services.replica_manager.alter_log_dir
            broker.services.replica_manager.alter_log_dir = (  # type: ignore[method-assign]  # notes what is asked for
                lambda topic_partition, path: asked.append(topic_partition.partition) or alter(topic_partition, path)
            )
            faults.error("CLUSTER_AUTHORIZATION_FAILED", api="AlterReplicaLogDirs", topic="a", partition=0, when=when)
            request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(directory.absolute_path, topics)])
            response = await client.ask(request, 1)
            codes = {row.partition_index: row.error_code for topic in response.results for row in topic.partitions}
            assert codes == {0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1: 0}
            assert asked == moved

    run(scenario())


def test_a_rule_after_the_handling_answers_an_error_for_a_written_record(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await client.create_topic("a")
            with faults.error("REQUEST_TIMED_OUT", api="Produce", when="after"):
                assert (await client.produce("a", batch(b"x"))).error_code == ErrorCode.REQUEST_TIMED_OUT
            assert values_of((await client.fetch("a")).responses[0].partitions[0].records) == [b"x"]

    run(scenario())


@pytest.mark.parametrize(("when", "count"), [("before", 0), ("after", 1)])
def test_a_produce_without_acks_is_answered_by_closing(tmp_path: Path, when: str, count: int) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            await client.create_topic("a")
            await client.create_topic("b")
            rule = faults.error("CORRUPT_MESSAGE", api="Produce", topic="a", when=when)
            client.send(frame(_produce(("a", 0), ("b", 0), acks=0), 8))
            assert await client.is_closed()
            assert rule.fired == 1
            assert [end_of(broker, name) for name in "ab"] == [count, 1]
            again = await Client.connect(broker)
            again.send(frame(_produce(("a", 0), acks=0), 8))
            assert await again.is_closed()

    run(scenario())


def test_no_partition_of_a_transaction_is_added_if_a_rule_refuses_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            topics = [AddPartitionsToTxnTopic("a", [0, 1]), AddPartitionsToTxnTopic("b", [0])]
            faults.error("TOPIC_AUTHORIZATION_FAILED", api="AddPartitionsToTxn", topic="a", partition=1)
            response = await client.ask(AddPartitionsToTxnRequest([], "id", 1, 0, topics), 2)
            codes = {
                (topic.name, each.partition_index): each.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            untried = ErrorCode.OPERATION_NOT_ATTEMPTED
            assert codes == {("a", 0): untried, ("a", 1): ErrorCode.TOPIC_AUTHORIZATION_FAILED, ("b", 0): untried}

    run(scenario())


def _fetch(session_id: int = 0, epoch: int = -1, topics: Any = (("a", 0), ("b", 0))) -> FetchRequest:
    wishes = [FetchTopic(name, partitions=[FetchPartition(at, partition_max_bytes=1 << 20)]) for name, at in topics]
    return FetchRequest(max_wait_ms=20_000, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=wishes)


def _codes(response: Any) -> dict[str, int]:
    return {topic.topic: topic.partitions[0].error_code for topic in response.responses}


def test_a_rule_refuses_partitions_of_a_fetch_session_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await client.create_topic("a")
            await client.create_topic("b")
            await client.produce("a", batch(b"x"))
            opened = await client.ask(_fetch(epoch=0), 11)
            session = opened.session_id
            with faults.error("KAFKA_STORAGE_ERROR", api="Fetch", topic="b", count=1) as rule:
                response = await client.ask(_fetch(session, 1, ()), 11)
                assert _codes(response)["b"] == ErrorCode.KAFKA_STORAGE_ERROR
                assert rule.fired == 1
                response = await client.ask(_fetch(session, 2, ()), 11)
                assert _codes(response)["b"] == 0, "that it is well again is news"
            with faults.error("OFFSET_OUT_OF_RANGE", api="Fetch", topic="a"):
                response = await client.ask(_fetch(), 4)
                assert _codes(response) == {"a": ErrorCode.OFFSET_OUT_OF_RANGE, "b": 0}

    run(scenario())


def test_errors_of_a_fetch_session_fail_the_whole_fetch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await client.create_topic("a")
            await client.produce("a", batch(b"x"))
            rule = faults.error("FETCH_SESSION_ID_NOT_FOUND", api="Fetch")
            response = await client.ask(_fetch(topics=(("a", 0),)), 7)
            assert (response.error_code, response.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])
            response = await client.ask(_fetch(topics=(("a", 0),)), 6)
            assert _codes(response) == {"a": 0}, "version 6 knows no sessions"
            assert rule.fired == 1

    run(scenario())


def test_metadata_has_errors_for_topics_and_for_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, broker, client):
            await client.create_topic("a", 2)
            with faults.error("LEADER_NOT_AVAILABLE", api="Metadata", topic="a", partition=1):
                response = await client.ask(MetadataRequest(None), 9)
                (topic,) = response.topics
                assert topic.error_code == 0
                found = {each.partition_index: (each.error_code, each.leader_id) for each in topic.partitions}
                assert found == {0: (0, 0), 1: (ErrorCode.LEADER_NOT_AVAILABLE, -1)}
            with faults.error("INVALID_TOPIC_EXCEPTION", api="Metadata", topic="new") as rule:
                response = await client.ask(MetadataRequest([MetadataRequestTopic(name="new")]), 4)
                assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
                assert "new" not in broker.services.metadata.image.topics, "it must not come into being"
                assert (await client.ask(MetadataRequest([]), 4)).topics == []
                assert rule.fired == 1, "a request for no topics has no place for it"

    run(scenario())


def test_api_versions_are_refused_in_version_0(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            faults.error("UNSUPPORTED_VERSION", api="ApiVersions")
            client.send(frame(request_of(ApiKey.API_VERSIONS), 3))
            response = Client.decode(ApiKey.API_VERSIONS, 0, await client.receive())
            assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert response.api_keys
            client.send(struct.pack(">ihhihb", 11, ApiKey.API_VERSIONS, 99, 1, -1, 0))
            response = Client.decode(ApiKey.API_VERSIONS, 0, await client.receive())
            assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert faults.rules[0].fired == 1, "the second was refused by the broker itself"

    run(scenario())


def test_a_rule_for_a_topic_does_not_select_other_resources(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            faults.error("INVALID_CONFIG", api="DescribeConfigs", topic="0")
            request = DescribeConfigsRequest([DescribeConfigsResource(4, "0", None)])
            assert (await client.ask(request, 2)).results[0].error_code == 0

    run(scenario())


def test_refused_joins_have_their_member_id_and_topics_have_separate_errors(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="JoinGroup")
            response = await client.ask(JoinGroupRequest("g", 10_000, 10_000, "me", protocol_type="consumer"), 5)
            assert (response.error_code, response.member_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "me")
            faults.error("POLICY_VIOLATION", api="CreateTopics", topic="b")
            topics = [CreatableTopic(name, 1, 1) for name in ("a", "b")]
            response = await client.ask(CreateTopicsRequest(topics, timeout_ms=5000), 4)
            assert {each.name: each.error_code for each in response.topics} == {"a": 0, "b": 44}

    run(scenario())


def test_bodies_that_are_not_sent_are_released() -> None:
    released = []

    class Body:
        def release(self) -> None:
            released.append(self)

    class Item:
        records = Body()

    class Topic:
        partitions = (Item(), Item())

    class Response:
        responses = (Topic(),)

    release_bodies(Response())
    release_bodies(None)
    assert len(released) == 2


def test_the_first_of_two_rules_answers(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with faulty(tmp_path) as (faults, _, client):
            await client.create_topic("a")
            first = faults.error("CORRUPT_MESSAGE", api="Produce", topic="a", count=1)
            counting = faults.delay(1, api="Produce", topic="a", nth=2)
            second = faults.error("REQUEST_TIMED_OUT", api="Produce")
            answers = [(await client.ask(produce_request("a", batch(b"x")), 8)).responses[0] for _ in range(2)]
            assert [answer.partition_responses[0].error_code for answer in answers] == [2, 7]
            assert (first.fired, second.fired, counting.fired) == (1, 1, 1)

    run(asyncio.wait_for(scenario(), 20))
