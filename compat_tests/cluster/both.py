"""The same cluster of kafkapy brokers or of Apache Kafka 2.7.2, for tests that run on both."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from harness.cluster import Cluster
from harness.process import ChildProcess
from harness.real_kafka import RealKafka, ZooKeeper

KAFKAPY, APACHE = "kafkapy", "2.7.2"


class ApacheCluster(Cluster):
    """Brokers of Apache Kafka 2.7.2."""

    def __init__(self, zookeeper: ZooKeeper, brokers: int = 3, config: Mapping[str, str] | None = None) -> None:
        self._zookeeper = zookeeper
        super().__init__(zookeeper, brokers, config)

    def new_broker(self, broker_id: int, **config: str) -> ChildProcess:
        """See ``Cluster.new_broker``."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return RealKafka(
            APACHE, config={**self.config, **settings}, zookeeper=self._zookeeper, broker_id=broker_id, heap="256M"
        )


@contextmanager
def cluster_of(
    kind: str, zookeeper: ZooKeeper, config: Mapping[str, str] | None = None, *, racks: tuple[str, ...] = ()
) -> Iterator[Cluster]:
    """Three running brokers; ``racks`` are those of the brokers 1, 2 and 3."""
    made = (ApacheCluster if kind == APACHE else Cluster)(zookeeper, 3, config)
    for number, rack in enumerate(racks, start=1):
        made.brokers[number] = made.new_broker(number, broker_rack=rack)
    with made as cluster:
        yield cluster
