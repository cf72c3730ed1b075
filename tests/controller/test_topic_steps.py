"""Requests for many topics, and what the controller makes of them, let other work run between any two topics."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafkapy import turns
from kafkapy.controller.topics import MorePartitions, NewTopic, TopicAdmin
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.server.handlers import leader_and_isr, metadata, update_metadata
from tests.controller.harness import Cluster, cluster
from tests.server.handlers.topic_context import context_of

COUNT = 700
"""More than are written together."""
NAMES = [f"t.{number}" for number in range(COUNT)]


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices that are over as soon as they begin: each place to pause lets other work run."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    monkeypatch.setattr(turns, "FIRST_SLICE_S", 0.0)


async def _turns_of_others(work: Awaitable[Any]) -> int:
    """How often another task ran while the work was done."""
    task = asyncio.ensure_future(work)
    count = 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    await task
    return count


REQUESTS: dict[str, Callable[[TopicAdmin], Awaitable[Any]]] = {
    "created": lambda admin: admin.create_topics([NewTopic(f"new.{name}", 1, 1) for name in NAMES], 60_000),
    "checked": lambda admin: admin.create_topics(
        [NewTopic(f"new.{name}", 1, 1) for name in NAMES], 1, validate_only=True
    ),
    "there": lambda admin: admin.create_topics([NewTopic(name, 1, 1) for name in NAMES], 1),
    "illegal": lambda admin: admin.create_topics([NewTopic(f"a b{name}", 1, 1) for name in NAMES], 1),
    "created automatically": lambda admin: admin.create_automatically([f"auto.{name}" for name in NAMES]),
    "not created automatically": lambda admin: admin.create_automatically([f"a b{name}" for name in NAMES]),
    "grown": lambda admin: admin.create_partitions([MorePartitions(name, 2) for name in NAMES], 60_000),
    "not grown": lambda admin: admin.create_partitions([MorePartitions(name, 1) for name in NAMES], 1),
    "of many partitions": lambda admin: admin.create_topics([NewTopic("big", COUNT, 1)], 60_000),
    "deleted": lambda admin: admin.delete_topics(NAMES, 60_000),
    "unknown": lambda admin: admin.delete_topics([f"nix{name}" for name in NAMES], 1),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_other_work_runs_after_each_topic(name: str) -> None:
    async def main() -> None:
        async with cluster(1) as started:
            admin = started.controller.node.topic_admin
            created = await admin.create_topics([NewTopic(name, 1, 1) for name in NAMES], 60_000)
            assert {result.error for result in created} == {None}
            assert await _turns_of_others(REQUESTS[name](admin)) >= COUNT

    asyncio.run(main())


def _leader_and_isr() -> LeaderAndIsrRequest:
    states = [LeaderAndIsrPartitionState("t", index, 1, 9, 0, [9], 0, [9]) for index in range(COUNT)]
    return LeaderAndIsrRequest(topic_states=[LeaderAndIsrTopicState("t", partition_states=states)])


def _update_metadata(started: Cluster) -> UpdateMetadataRequest:
    states = [UpdateMetadataPartitionState(partition_index=index, leader=1, replicas=[1]) for index in range(COUNT)]
    fence = started.controller.node.fence
    return UpdateMetadataRequest(
        controller_epoch=fence.controller_epoch,
        broker_epoch=fence.broker_epoch,
        live_brokers=[UpdateMetadataBroker(1, endpoints=[UpdateMetadataEndpoint(9092, "h", "PLAINTEXT", 0)])],
        topic_states=[UpdateMetadataTopicState(topic_name="t", partition_states=states)],
    )


def test_a_step_is_a_partition_or_a_name() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            context = context_of(started.controller, 4)
            await started.controller.node.config_admin.load_topics(["t"])
            assert sum(1 for _ in leader_and_isr.handle(context, _leader_and_isr())) >= COUNT
            assert sum(1 for _ in update_metadata.handle(context, _update_metadata(started))) >= COUNT
            assert len(started.controller.node.cache.image.topics["t"].partitions) == COUNT
            assert (
                sum(1 for _ in metadata.handle(context, MetadataRequest(topics=None)))
                >= COUNT // metadata.PARTITIONS_IN_A_STEP
            )
            names = [MetadataRequestTopic(name=name) for name in NAMES]
            unknown = MetadataRequest(topics=names, allow_auto_topic_creation=False)
            assert sum(1 for _ in metadata.handle(context, unknown)) >= 2 * COUNT

    asyncio.run(main())


def test_an_image_that_changes_between_two_steps_is_not_lost() -> None:
    async def main() -> None:
        async with cluster(1) as started:
            cache, request = started.controller.node.cache, _update_metadata(started)
            steps = cache.apply(request)
            for _ in range(COUNT // 2):
                next(steps)
            created = await started.controller.node.topic_admin.create_topics([NewTopic("meanwhile", 2, 1)], 60_000)
            assert created[0].error is None
            assert "t" not in cache.image.topics, "the image changes as a whole"
            for _ in steps:
                pass
            assert {name: len(topic.partitions) for name, topic in cache.image.topics.items()} == {
                "meanwhile": 2, "t": COUNT,
            }  # fmt: skip
            assert cache.image.replica_count == COUNT + 2

    asyncio.run(main())
