import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, fetch_request, frame, produce_request
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.observe.trace.filter import parse_filter
from kafkapy.observe.trace.lines import as_json
from kafkapy.observe.trace.output import TraceOutput
from kafkapy.observe.trace.trace import Trace
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.replication.partition import RemoteReplica
from kafkapy.server.dispatch.interception import Hooks
from kafkapy.testing.faults import Faults
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until


class Shown:
    """A trace into a pipe; its lines can be read after it is closed."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.output = TraceOutput(self.writer)

    def trace(self, wanted: str = "") -> Trace:
        return Trace(self.output, as_json, '{"kind": "left out", "lines": %d}', parse_filter(wanted))

    def lines(self) -> list[dict[str, Any]]:
        self.output.close()
        os.close(self.writer)
        with os.fdopen(self.reader, "rb") as stream:
            return [json.loads(line) for line in stream.read().splitlines()]


@pytest.fixture
def shown() -> Shown:
    return Shown()


def test_repeated_requests_have_lines_too(tmp_path: Path, shown: Shown) -> None:
    """The broker does not decode them where nothing is traced."""

    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=Hooks(trace=shown.trace("api=produce"))) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            for _ in range(4):
                await client.produce("t", batch(b"x"))

    run(scenario())
    assert [line["kind"] for line in shown.lines()] == ["request", "response"] * 4


def test_every_request_and_every_answer_has_a_line(tmp_path: Path, shown: Shown) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=Hooks(trace=shown.trace())) as broker:
            client = await Client.connect(broker)
            await client.create_topic("t")
            await client.produce("t", batch(b"x", b"y"))
            client.send(frame(produce_request("t", batch(b"z"), acks=0), 8))
            await client.fetch("t")
            client.send(frame(fetch_request("t", 3, max_wait_ms=20_000), 11))
            await until(lambda: len(broker.services.replica_manager.purgatory) == 1)
            await client.reset()
            await until(lambda: len(broker.services.replica_manager.purgatory) == 0)
            client = await Client.connect(broker)
            client.send(frame(produce_request("t", None), 2))
            assert await client.is_closed()

    run(scenario())
    lines = shown.lines()
    assert [(line["kind"], line["api"]) for line in lines] == [
        ("request", "CreateTopics"), ("response", "CreateTopics"),
        ("request", "Produce"), ("response", "Produce"),
        ("request", "Produce"), ("no answer", "Produce"),
        ("request", "Fetch"), ("response", "Fetch"),
        ("request", "Fetch"), ("no answer", "Fetch"),
        ("request", "Produce"), ("no answer", "Produce"),
    ]  # fmt: skip
    created, produced, fetched = lines[1], lines[2], lines[7]
    assert created["body"]["topics"][0]["name"] == "t"
    assert (produced["version"], produced["client_id"], produced["correlation_id"]) == (8, "test", 1)
    assert produced["bytes"] == len(frame(produce_request("t", batch(b"x", b"y")), 8))
    assert produced["body"]["topic_data"][0]["partition_data"][0]["records"]["records"] == 2
    assert fetched["body"]["responses"][0]["partitions"][0]["records"]["records"] == 3
    assert fetched["duration_ms"] >= 0
    assert lines[5]["reason"] == "none wanted"
    assert lines[9]["reason"] == "the client has gone"
    assert lines[11]["reason"] == "records of t-0 are null"


def test_a_request_whose_client_leaves_first_is_shown_without_an_answer(tmp_path: Path, shown: Shown) -> None:
    """The second request is acknowledged first, and their client leaves before the first one is."""

    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=Hooks(trace=shown.trace("api=Produce"))) as broker:
            client = await Client.connect(broker)
            replicas = broker.services.replica_manager
            for topic in ("t", "u"):
                await client.create_topic(topic)
            for topic in ("t", "u"):
                partition = replicas.partitions[TopicPartition(topic, 0)]
                partition.remotes[9] = RemoteReplica(9, broker.clock.now_ms())
                client.send(frame(produce_request(topic, batch(b"v"), acks=-1), 8))
                await until(lambda: partition.log.log_end_offset == 1)  # noqa: B023
            partition.follower_fetched(9, 1, 0)
            replicas.purgatory.check(partition.topic_partition)
            await client.reset()
            await until(lambda: len(replicas.purgatory) == 0)

    run(scenario())
    assert [line["kind"] for line in shown.lines()] == ["request", "request", "response", "no answer"]


def test_an_answer_that_was_encoded_before_is_shown(tmp_path: Path, shown: Shown) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=Hooks(trace=shown.trace("api=OffsetCommit"))) as broker:
            client = await Client.connect(broker)
            for name in ("t", GROUP_METADATA_TOPIC):
                await client.create_topic(name)
            topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
            for _ in range(2):
                await client.ask(OffsetCommitRequest("g", topics=[topic]), 8)
            await client.close()

    run(scenario())
    answers = [line["body"]["topics"] for line in shown.lines() if line["kind"] == "response"]
    assert answers == [[{"name": "t", "partitions": [{"partition_index": 0}]}]] * 2  # zeros are left out


def test_only_requests_that_pass_the_filter_are_shown(tmp_path: Path, shown: Shown) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=Hooks(trace=shown.trace("topic=b"))) as broker:
            client = await Client.connect(broker)
            for name in ("a", "b"):
                await client.create_topic(name)
                await client.produce(name, batch(b"x"))
            await client.ask(ListGroupsRequest(), 2)
            client.send(frame(fetch_request("b", 1, max_wait_ms=1), 11))
            await client.receive()
            await client.close()

    run(scenario())
    lines = shown.lines()
    assert [line["api"] for line in lines] == ["CreateTopics"] * 2 + ["Produce"] * 2 + ["Fetch"] * 2
    assert '"a"' not in json.dumps(lines)


def test_answers_of_fault_rules_are_shown(tmp_path: Path, shown: Shown) -> None:
    async def scenario() -> None:
        faults = Faults()
        async with running_broker(tmp_path, hooks=Hooks(faults, shown.trace())) as broker:
            client = await Client.connect(broker)
            faults.error("POLICY_VIOLATION", api="CreateTopics")
            await client.ask(CreateTopicsRequest([CreatableTopic("t", 1, 1)], timeout_ms=5000), 5)
            faults.drop(when="after", api="ListGroups")
            client.send(frame(ListGroupsRequest(), 2))
            assert await client.is_closed()

    run(scenario())
    lines = shown.lines()
    assert lines[1]["body"]["topics"][0]["error_code"] == "POLICY_VIOLATION"
    assert lines[3]["reason"] == "fault rule 2 drops the answer"


def test_lines_without_room_are_counted(tmp_path: Path, shown: Shown) -> None:
    async def scenario() -> None:
        trace = shown.trace()
        async with running_broker(tmp_path, hooks=Hooks(trace=trace)) as broker:
            client = await Client.connect(broker)
            shown.output._limit, limit = 0, shown.output._limit  # as if the terminal did not read
            await client.ask(ListGroupsRequest(), 2)
            assert shown.output.left_out == 2
            shown.output._limit = limit
            await client.ask(ListGroupsRequest(), 2)
            await client.close()
        trace.leave_out()
        trace.close()

    run(scenario())
    kinds = [line["kind"] for line in shown.lines()]
    assert kinds == ["left out", "request", "response", "left out"]


def test_large_requests_are_shown_with_their_answers(tmp_path: Path, shown: Shown) -> None:
    """They are decoded, and their answers encoded, on the compute thread, while others are served."""
    asked = [OffsetForLeaderPartition(at, -1, 0) for at in range(5_000)]
    large = OffsetForLeaderEpochRequest(-1, [OffsetForLeaderTopic("t", asked)])

    async def scenario() -> None:
        async with running_broker(tmp_path, hooks=Hooks(trace=shown.trace())) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            client.send(frame(large, 2))
            await other.ask(ListGroupsRequest(), 0)
            answer = Client.decode(large.API_KEY, 2, await client.receive())
            assert len(answer.topics[0].partitions) == 5_000

    run(scenario())
    lines = [line for line in shown.lines() if line["api"] == "OffsetForLeaderEpoch"]
    assert [line["kind"] for line in lines][:2] == ["request", "response"]
    assert lines[0]["bytes"] == len(frame(large, 2))
    assert len(lines[1]["body"]["topics"][0]["partitions"]) > 0
