"""Three brokers with the topics of the cluster from which the traces were recorded."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kafkapy.clock import Clock
from kafkapy.controller.topics import NewTopic
from tests.controller.harness import Cluster, cluster

ASSIGNED = {
    "rf1": {0: [1], 1: [2], 2: [3]},
    "rf2": {0: [1, 2], 1: [2, 3]},
    "rf3": {0: [3, 1, 2]},
    "cmp": {0: [2, 3, 1]},
    "auto": {0: [3, 2], 1: [1, 3], 2: [2, 1]},
}

AS_RECORDED = {"zookeeper.connect": "127.0.0.1:2181"}
"""The settings of a cluster on ZooKeeper, whose topics have no ids."""


def run(
    scenario: Callable[[Cluster], Awaitable[None]],
    topics: tuple[str, ...] = tuple(ASSIGNED),
    *,
    clock: Clock | None = None,
    settings: Mapping[str, str] | None = None,
) -> None:
    async def main() -> None:
        async with cluster(1, 2, 3, clock=clock, **AS_RECORDED, **(settings or {})) as started:
            if topics:
                new = [NewTopic(name, assignments=ASSIGNED[name]) for name in topics]
                results = await started.controller.node.topic_admin.create_topics(new, 1000)
                assert [result.error for result in results] == [None] * len(topics)
                await started.settle()
            started.forget()
            await scenario(started)

    asyncio.run(main())


def state_line(topic: str, partition: int, controller_epoch: int, leader: int, epoch: int, isr: str) -> str:
    return (
        f"/brokers/topics/{topic}/partitions/{partition}/state "
        f'{{"controller_epoch":{controller_epoch},"leader":{leader},"version":1,"leader_epoch":{epoch},"isr":[{isr}]}}'
    )
