import asyncio
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import Client
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.coordinator.group.calls import CommitCall
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.metadata.image import MetadataImage
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.server.dispatch.encoding import encode
from kafkapy.server.handlers import offset_commit
from kafkapy.server.handlers.offset_commit import TREE_NODES_AT_ONCE
from kafkapy.server.handlers.shared.commits import COMMITS_IN_A_STEP, is_large, split_by_existence
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, World
from tests.server.handlers.groups_context import Asker, image
from tests.server.harness import run


def request(topic: str = "t", request_fields: dict[str, Any] | None = None, **fields: Any) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=60, **fields)
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(topic, partitions=[partition])], **(request_fields or {})
    )


def answers(response: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [(topic.name, [(p.partition_index, p.error_code) for p in topic.partitions]) for topic in response.topics]


@pytest.mark.parametrize("version", range(1, 9))
def test_every_version(version: int) -> None:
    asker = Asker()
    fields = {"committed_leader_epoch": 3} if version >= 6 else {}
    response = asker.ask(offset_commit, request(committed_metadata="m", **fields), version)
    assert answers(response) == [("t", [(0, 0)])]
    committed = asker.world.group().offsets.committed[TP]
    assert committed == CommittedOffset(60, 3 if version >= 6 else -1, "m", asker.world.clock.now_ms(), -1)


@pytest.mark.parametrize(("version", "expires"), [(2, True), (4, True), (5, False)])
def test_a_requests_retention_sets_the_expiry(version: int, expires: bool) -> None:
    asker = Asker()
    asker.ask(offset_commit, request(request_fields={"retention_time_ms": 500} if expires else {}), version)
    committed = asker.world.group().offsets.committed[TP]
    assert committed.expire_timestamp_ms == (asker.world.clock.now_ms() + 500 if expires else -1)


@pytest.mark.parametrize("retention_ms", [2**63 - 1, -(2**63), -2])
def test_a_retention_that_overflows_expires_at_once(retention_ms: int) -> None:
    """Kafka's sum overflows: the longest retention becomes none (seen on 2.7.2)."""
    asker = Asker()
    response = asker.ask(offset_commit, request(request_fields={"retention_time_ms": retention_ms}), 2)
    assert answers(response) == [("t", [(0, 0)])]
    expire_ms = asker.world.group().offsets.committed[TP].expire_timestamp_ms
    assert -(2**63) <= expire_ms < asker.world.clock.now_ms()


@pytest.mark.parametrize(("given", "expected"), [(7, 7), (-1, None)])
def test_version_1_may_name_the_commits_time(given: int, expected: int | None) -> None:
    asker = Asker()
    asker.ask(offset_commit, request(commit_timestamp=given), 1)
    wanted = asker.world.clock.now_ms() if expected is None else expected
    assert asker.world.group().offsets.committed[TP].commit_timestamp_ms == wanted


def test_metadata_may_be_missing() -> None:
    asker = Asker()
    asker.ask(offset_commit, request(committed_metadata=None), 8)
    assert asker.world.group().offsets.committed[TP].metadata == ""


def test_the_usual_answer_is_encoded_once_and_the_same_bytes() -> None:
    offset_commit._without_errors.cache_clear()
    asker = Asker()
    for version in (2, 3, 2, 7, 8, 8):
        answer = offset_commit.handle(asker.context(version), request())
        topic = OffsetCommitResponseTopic("t", partitions=[OffsetCommitResponsePartition(0, 0)])
        expected = OffsetCommitResponse(topics=[topic])
        header, is_flexible = RequestHeader(ApiKey.OFFSET_COMMIT, version, 7), version == 8
        assert encode(header, is_flexible, answer) == encode(header, is_flexible, expected)  # type: ignore[arg-type]
    assert offset_commit._without_errors.cache_info()[:2] == (2, 4)


def test_answers_with_many_partitions_or_errors_are_not_cached() -> None:
    offset_commit._without_errors.cache_clear()
    asker = Asker()
    many = range(offset_commit._KNOWN_PARTITIONS + 1)
    asker.world.broker.image = image("t", partitions=len(many))
    partitions = [OffsetCommitRequestPartition(index, 5) for index in many]
    all_of_them = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    assert answers(asker.ask(offset_commit, all_of_them, 8)) == [("t", [(index, 0) for index in many])]
    asker.world.broker.error = KafkaStorageError()
    assert answers(asker.ask(offset_commit, request(), 8)) == [("t", [(0, 16)])]
    assert offset_commit._without_errors.cache_info().currsize == 0


def test_partitions_that_do_not_exist() -> None:
    asker = Asker()
    assert answers(asker.ask(offset_commit, request("unknown"), 8)) == [("unknown", [(0, 3)])]
    assert not asker.world.has_group()
    mixed = request()
    mixed.topics.append(OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(1, 5)]))
    assert answers(asker.ask(offset_commit, mixed, 8)) == [("t", [(0, 0), (1, 3)])]


def test_members_are_checked() -> None:
    asker = Asker()
    fields = {"generation_id_or_member_epoch": 1, "member_id": "m", "group_instance_id": "i"}
    asker.world.stable(instance_id="i")
    assert answers(asker.ask(offset_commit, request(request_fields=fields), 8)) == [("t", [(0, 82)])]


def test_the_answer_waits_for_all_replicas() -> None:
    async def scenario() -> None:
        asker = Asker()
        asker.world.broker.is_slow = True
        waiting = offset_commit.handle(asker.context(8), request())
        assert isinstance(waiting, asyncio.Future)
        assert not waiting.done()
        asker.world.broker.acknowledge()
        assert answers(await waiting) == [("t", [(0, 0)])]

    asyncio.run(scenario())


def test_version_0_is_kept_in_the_tree_over_a_restart(tmp_path: Path) -> None:
    properties = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path), "offset.metadata.max.bytes": "3"}

    async def ask(version: int, *, commits: bool) -> list[tuple[int, str, int]]:
        async with BrokerServer(BrokerConfig.from_properties(properties)) as broker:
            client = await Client.connect(broker)
            if commits:
                await client.create_topic("t")
                refused = await client.ask(request(committed_metadata="long"), version)
                assert answers(refused) == [("t", [(0, 12)])]
                assert answers(await client.ask(request(committed_metadata="m"), version)) == [("t", [(0, 0)])]
                twice = request(committed_metadata="long")
                twice.topics[0].partitions.insert(0, OffsetCommitRequestPartition(0, 61, committed_metadata="m"))
                assert answers(await client.ask(twice, version)) == [("t", [(0, 12)])]  # the last one counts
            wanted = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1])])
            fetched = (await client.ask(wanted, version)).topics[0].partitions
            return [(each.committed_offset, each.metadata, each.error_code) for each in fetched]

    async def scenario() -> None:
        expected = [(60, "", 0), (-1, "", 3)]
        assert await ask(0, commits=True) == expected
        assert await ask(0, commits=False) == expected

    run(scenario())


MANY = range(3 * COMMITS_IN_A_STEP)


def many(**fields: Any) -> OffsetCommitRequest:
    """A commit of each of ``MANY`` partitions, the last one once more."""
    partitions = [OffsetCommitRequestPartition(number, 7, **fields) for number in (*MANY, MANY[-1])]
    return OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])


def large_asker(partitions: int = len(MANY)) -> Asker:
    asker = Asker()
    asker.world.broker.image = image("t", partitions=partitions)
    return asker


@pytest.mark.parametrize("metadata", ["", "said beside"])
def test_a_large_commit_writes_the_same_records_as_a_small_one(metadata: str) -> None:
    asker, plain = large_asker(), large_asker()
    assert isinstance(offset_commit.handle(asker.context(7), many()), Generator)
    answer = answers(asker.ask(offset_commit, many(committed_metadata=metadata), 7))
    assert answer == [("t", [(number, 0) for number in MANY])]
    offsets = {TopicPartition("t", number): plain.world.committed(7, metadata=metadata) for number in MANY}
    assert set(plain.world.coordinator.commit_offsets(CommitCall("g", "", -1, offsets)).value.values()) == {0}
    assert asker.world.log.batches == plain.world.log.batches
    assert asker.world.group().offsets.committed == plain.world.group().offsets.committed == offsets
    asker.world.restart()
    assert asker.world.group().offsets.committed == offsets


def test_a_large_commit_of_partitions_that_do_not_exist() -> None:
    answer = answers(large_asker(COMMITS_IN_A_STEP).ask(offset_commit, many(), 7))
    assert answer == [("t", [(number, 0 if number < COMMITS_IN_A_STEP else 3) for number in MANY])]
    assert {code for _, code in answers(large_asker(0).ask(offset_commit, many(), 7))[0][1]} == {3}


def test_a_large_commit_with_metadata_that_is_too_long() -> None:
    asker = large_asker()
    request = many()
    request.topics[0].partitions[3].committed_metadata = "x" * 5_000
    assert answers(asker.ask(offset_commit, request, 7))[0][1][2:5] == [(2, 0), (3, 12), (4, 0)]


@pytest.mark.parametrize("world", [World(offsets_topic_compression_codec=1), World()])
def test_a_large_commit_of_another_form(world: World) -> None:
    asker = Asker(world)
    asker.world.broker.image = image("t", partitions=len(MANY))
    request = many()
    request.retention_time_ms = 5_000
    assert {code for _, code in answers(asker.ask(offset_commit, request, 4))[0][1]} == {0}
    assert len(asker.world.group().offsets.committed) == len(MANY)


def test_a_large_commit_is_checked_against_the_group_after_it_is_built() -> None:
    asker = large_asker()
    steps = offset_commit.handle(asker.context(7), many())
    assert isinstance(steps, Generator)
    for _ in range(5):
        next(steps)
    asker.world.stable()
    assert {code for _, code in answers(finish(steps))[0][1]} == {25}


def test_a_large_commit_waits_for_all_replicas() -> None:
    async def scenario() -> None:
        asker = large_asker()
        asker.world.broker.is_slow = True
        steps: Any = offset_commit.handle(asker.context(7), many())
        waiting = asyncio.ensure_future(finish(steps))
        await asyncio.sleep(0)
        assert not waiting.done()
        asker.world.broker.acknowledge()
        assert {code for _, code in answers(await waiting)[0][1]} == {0}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([1], False), ([COMMITS_IN_A_STEP], True), ([1, COMMITS_IN_A_STEP], True), ([1] * COMMITS_IN_A_STEP, True)],
)
def test_which_commits_are_large(sizes: list[int], expected: bool) -> None:
    assert (
        is_large([OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0)] * size) for size in sizes])
        == expected
    )


def test_many_offsets_of_version_0_are_written_in_pieces() -> None:
    asker = Asker()
    asker.world.broker.image = image("t", partitions=300)
    written: list[int] = []

    async def transactions(writes: list[Any]) -> list[None]:
        written.append(len(writes))
        return [None] * len(writes)

    asker.services.store = SimpleNamespace(transactions=transactions)
    named = [OffsetCommitRequestPartition(index % 310, index) for index in range(10_000)]
    response = asker.ask(
        offset_commit, OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=named)]), 0
    )
    assert (sum(written), max(written)) == (300, TREE_NODES_AT_ONCE)
    codes = {each.partition_index: each.error_code for each in response.topics[0].partitions}
    assert codes == {**dict.fromkeys(range(300), 0), **dict.fromkeys(range(300, 310), 3)}


def test_commits_are_split_by_whether_their_partition_exists() -> None:
    metadata = MetadataImage(topics={"t": SimpleNamespace(partitions={0: None, 1: None})})  # type: ignore[dict-item]  # the part that is used
    topics = [
        OffsetCommitRequestTopic("gone", partitions=[OffsetCommitRequestPartition(0, 5)]),
        OffsetCommitRequestTopic(
            "t", partitions=[OffsetCommitRequestPartition(index, 6 + index) for index in (2, 1, 0)]
        ),
    ]
    commits, errors = split_by_existence(metadata, topics, 100, 200)
    assert commits == {
        TopicPartition("t", 1): CommittedOffset(7, -1, "", 100, 200),
        TopicPartition("t", 0): CommittedOffset(6, -1, "", 100, 200),
    }
    assert errors == {TopicPartition("gone", 0): 3, TopicPartition("t", 2): 3}
