"""The broker of ``tests.coordinator.world`` with real logs, which check producers and which the next process loads."""

import shutil
import tempfile
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from kafkapy.config.log_config import LogConfig
from kafkapy.records.validate import ValidatedBatch
from kafkapy.storage.log.log import AppendResult, Log, Storage
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import SHARD
from tests.coordinator.world import Broker, Later
from tests.storage.support import crash

MEMORY: Final = Path("/dev/shm")
CONFIG: Final = LogConfig()


class LogBroker(Broker):
    """Other replicas acknowledge only ``__transaction_state`` late, when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="kafkapy-", dir=MEMORY if MEMORY.is_dir() else None))
        self.leader_epoch = 0
        self.acknowledged = 0
        """The end of the records of ``__transaction_state`` that all replicas have."""
        self.partitions = SimpleNamespace(get=self.partition)
        self._open()

    def _open(self) -> None:
        clock = ManualClock()
        storage = Storage(clock)
        storage.verifies_transactions = True
        self.manager = LogManager([str(self.directory / "data")], CONFIG, clock, storage=storage)
        load_logs(self.manager, lambda _: CONFIG)
        for log in self.manager.all_logs():
            log.update_high_watermark(log.log_end_offset)

    def close(self) -> None:
        """Remove the files."""
        crash(self.manager)
        shutil.rmtree(self.directory)

    def kill(self, random: Random) -> None:
        """The process ends and the next one starts: some of the records without acknowledgement are lost."""
        self.unacknowledged = []
        kept = random.randint(self.acknowledged, self.log(SHARD).log_end_offset)
        crash(self.manager)
        self._open()
        self.log(SHARD).truncate_to(kept)
        self.log(SHARD).update_high_watermark(kept)
        self.acknowledged = kept
        self.leader_epoch += 1

    def log(self, tp: TopicPartition) -> Any:
        """The partition's log."""
        return self.manager.get_or_create(tp, CONFIG)

    def partition(self, tp: TopicPartition) -> Any:
        """See ``Broker``."""
        return SimpleNamespace(topic_partition=tp, log=self.log(tp), is_leader=True, leader_epoch=0, remotes=())

    def append_to(self, partition: Any, records: Any, *, required_acks: int) -> AppendResult:
        """See ``ReplicaManager.append_to``."""
        assert required_acks == -1
        if partition.topic_partition in self.errors:
            raise self.errors[partition.topic_partition]
        return self._append(partition.log, records, from_client=True)

    def append(self, tp: TopicPartition, records: Any, *, required_acks: int, from_client: bool = True) -> Any:
        """See ``Broker``."""
        assert (required_acks, from_client) == (0, False)
        return self._append(self.log(tp), records, from_client=False)

    def append_internal(
        self, tp: TopicPartition, batch: bytearray | ValidatedBatch, timeout_ms: int, required_acks: int
    ) -> Any:
        """See ``Broker``."""
        if tp in self.errors:
            raise self.errors[tp]
        result = self._append(self.log(tp), batch, from_client=False)
        if tp == SHARD and self.is_slow:
            future = Later()
            self.unacknowledged.append((future, result))
            return future
        if tp == SHARD:
            self.acknowledged = self.log(SHARD).log_end_offset
        return result

    def _append(self, log: Log, records: Any, *, from_client: bool) -> AppendResult:
        result = log.append_as_leader(records, self.leader_epoch, from_client=from_client)
        log.update_high_watermark(log.log_end_offset)
        return result

    def acknowledge(self, error: BaseException | None = None) -> None:
        """See ``Broker``."""
        if error is None:
            self.acknowledged = self.log(SHARD).log_end_offset
        super().acknowledge(error)
