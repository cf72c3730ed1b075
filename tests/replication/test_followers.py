"""Followers of a partition, in clusters of two and three brokers."""

from pathlib import Path

from tests.replication.brokers import TP, brokers
from tests.server.harness import batch, run


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


def test_records_arrive_on_all_replicas_as_the_leader_wrote_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(2, 1, 3, segment__bytes="4000")
            for number in range(30):
                answer = await cluster.produce(2, batch(*(b"%d %d" % (number, each) for each in range(20))))
                assert (answer.error_code, answer.base_offset) == (0, 20 * number)
            await cluster.same_end(1, 2, 3)
            assert cluster.log(1).log_end_offset == 600
            assert cluster.content(1) == cluster.content(2) == cluster.content(3)
            assert len(cluster.content(1)) > 2

    run(scenario())
