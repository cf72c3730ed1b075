"""Loads that stop a broker and start it again on the data directory that it left."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.contestants import Arena, Contestant
from bench.clients.long_log import RECORD_SIZE, RECORDS_OF_A_BATCH
from bench.loads.lifecycle import until_acknowledged
from bench.loads.load import Metrics, python_client
from bench.loads.long_log import CLIENT
from harness.measure import LoadError, processor_time, resident_mib
from harness.process import ChildProcess
from harness.real_kafka import RealKafka

MANY_HEAP = "2G"
CREATE_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
"""A clean stop waits for the disk, once or more for each log that was written to."""


@dataclass(frozen=True)
class Recovery:
    """The additional cost of a start after an unclean stop that left `gigabytes` to be read, compared with a clean one.

    Both are of the same directory: for the second the mark of the clean stop and the recovery points are taken away.
    """

    gigabytes: int
    warm_ups = 0
    most_rounds = 2
    topic = "recovered"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        process = arena.prepared(contestant.name)
        try:
            process.start()
            fresh = Contestant(contestant.name, process, arena.scratch)
            fresh.ensure_topic(self.topic)
            batches = self.gigabytes * 10**9 // (RECORD_SIZE * RECORDS_OF_A_BATCH)
            python_client(CLIENT, "fill", json.dumps({"port": process.port, "topic": self.topic, "batches": batches}))
            clean_s, clean_wall_s = _restarted(process, contestant.name)
            process.stop()
            data = _data(process)
            (data / ".kafka_cleanshutdown").unlink()
            (data / "recovery-point-offset-checkpoint").unlink()
            unclean_s, unclean_wall_s = _restarted(process, contestant.name)
            fresh.records[self.topic] = 0
            fresh.check_records(self.topic, batches * RECORDS_OF_A_BATCH)
            return {
                "s_per_gb": (unclean_s - clean_s) / self.gigabytes,
                "wall_s_per_gb": (unclean_wall_s - clean_wall_s) / self.gigabytes,
            }
        finally:
            process.close()


@dataclass(frozen=True)
class ManyPartitions:
    """A topic of very many partitions: made, filled a little, then started on after a clean stop. The JVM gets 2 GB."""

    partitions: int
    warm_ups = 0
    most_rounds = 1

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        process = arena.prepared(contestant.name)
        if isinstance(process, RealKafka):
            process.heap = MANY_HEAP
        try:
            process.start()
            until_acknowledged(process.port, contestant.name)
            create_s = self._create(process)
            self._write_to_each(process)
            used_s, start_s = _restarted(process, contestant.name)
            assert process.pid is not None
            resident = resident_mib(process.pid)
            self._write_to_each(process)
            return {
                "create_s": create_s,
                "start_s": start_s,
                "processor_s": used_s,
                "resident_mib": resident,
                "used_resident_mib": resident_mib(process.pid),
                "open_files": len(list(Path(f"/proc/{process.pid}/fd").iterdir())),
            }
        finally:
            process.close()

    def _write_to_each(self, process: ChildProcess) -> None:
        producer = Producer({"bootstrap.servers": process.bootstrap, "linger.ms": 50, "log_level": 0})
        for number in range(self.partitions):
            producer.produce("many", bytes(100), partition=number)
        if producer.flush(CREATE_TIMEOUT_S):
            raise LoadError(f"not each of {self.partitions} partitions took a record in {CREATE_TIMEOUT_S:.0f} s")

    def _create(self, process: ChildProcess) -> float:
        admin = AdminClient({"bootstrap.servers": process.bootstrap, "log_level": 0, "socket.timeout.ms": 120_000})
        began = time.monotonic()
        topic = NewTopic("many", self.partitions, 1)
        asked = admin.create_topics([topic], operation_timeout=CREATE_TIMEOUT_S, request_timeout=2 * CREATE_TIMEOUT_S)
        try:
            asked["many"].result()
        except KafkaException as error:
            raise LoadError(f"{self.partitions} partitions could not be made: {error}") from error
        while not self._all_led(admin):
            if time.monotonic() - began > CREATE_TIMEOUT_S:
                raise LoadError(f"{self.partitions} partitions had no leaders after {CREATE_TIMEOUT_S:.0f} s")
            time.sleep(0.1)
        return time.monotonic() - began

    def _all_led(self, admin: AdminClient) -> bool:
        found = admin.list_topics("many", timeout=CREATE_TIMEOUT_S).topics["many"].partitions
        return len(found) == self.partitions and all(each.leader >= 0 for each in found.values())


def _restarted(process: ChildProcess, name: str) -> tuple[float, float]:
    """Stops the process and starts it; (processor-seconds, seconds) until it acknowledged a record."""
    process.stop(STOP_TIMEOUT_S)
    process.start(wait=False)
    acknowledged_s = until_acknowledged(process.port, name)
    assert process.pid is not None
    return processor_time(process.pid).total_s, acknowledged_s - process.started_s


def _data(process: ChildProcess) -> Path:
    (mark,) = process.directory.glob("**/.kafka_cleanshutdown")
    return mark.parent
