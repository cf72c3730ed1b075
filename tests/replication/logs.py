"""Logs on a temporary directory, for tests of their owners."""

from pathlib import Path

from kafkapy.config.log_config import LogConfig
from kafkapy.records.record import Record, encode_batch
from kafkapy.replication.partition import LeaderAndIsrPartition, Partition
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.storage.log.log import Log
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition

ME = 1
TP = TopicPartition("t", 0)


def batch(count: int = 1, **fields: int) -> bytearray:
    records = [Record(offset=at, timestamp=1000 + at, key=None, value=b"v", headers=()) for at in range(count)]
    return bytearray(encode_batch(records, **fields))  # type: ignore[arg-type]  # the fields are whole numbers


def state(
    leader: int = ME, epoch: int = 0, isr: tuple[int, ...] = (ME,), replicas: tuple[int, ...] = (ME,)
) -> LeaderAndIsrPartition:
    return LeaderAndIsrPartition(
        controller_epoch=1, leader=leader, leader_epoch=epoch, isr=isr, zk_version=0, replicas=replicas
    )  # fmt: skip


def leave_gap(log: Log, end_offset: int) -> None:
    """End the log at ``end_offset`` without batches up to there, as compaction before Apache Kafka 4.1 may leave it."""
    log.roll(end_offset)
    log.end_at(end_offset, log.recovery_point)


class Node:
    """A replica manager with logs in ``path``; ``known`` is what the cluster's metadata has."""

    def __init__(
        self,
        path: Path,
        config: LogConfig | None = None,
        *,
        broker_id: int = ME,
        clock: ManualClock | None = None,
        log_dirs: list[str] | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.config = config or LogConfig()
        self.logs = LogManager(log_dirs or [str(path)], self.config, self.clock)
        load_logs(self.logs)
        self.known: set[tuple[str, int]] = set()
        self.dead: set[int] = set()
        self.replicas = ReplicaManager(
            broker_id=broker_id,
            clock=self.clock,
            logs=self.logs,
            cluster=self,
            log_config_of=lambda _: self.config,
            lag_max_ms=1000,
        )

    def lacks(self, topic: str, partition: int) -> bool:
        return (topic, partition) not in self.known

    def is_alive(self, broker_id: int) -> bool:
        return broker_id not in self.dead

    def partition(self, **fields: object) -> Partition:
        """``t-0`` after a LeaderAndIsr with these fields."""
        self.replicas.become_leader_or_follower(TP, state(**fields))  # type: ignore[arg-type]  # as state() takes them
        return self.replicas.partitions[TP]
