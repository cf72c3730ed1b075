"""Followers of a partition, in clusters of two and three brokers."""

from pathlib import Path

from tests.replication.brokers import TP, brokers
from tests.server.harness import run


def test_brokers_of_one_store_share_a_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2) as cluster:
            await cluster.create_topic(2, 1)
            assert (await cluster.state())[:3] == (2, 0, (2, 1))
            assert (cluster.partition(2).is_leader, cluster.partition(1).is_leader) == (True, False)
            await cluster.stop(2)
            await cluster.leads(1, epoch=1)
            assert cluster.partition(1).log.log_end_offset == 0
            assert TP in cluster[1].services.replica_manager.partitions

    run(scenario())
