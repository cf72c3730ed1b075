"""The cost of compaction: processor-seconds of the broker, and of kafkapy's worker process."""

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from bench.brokers.contestants import Arena, Contestant
from bench.loads.load import Metrics
from harness.measure import BrokerGoneError, LoadError, parse_stat, peak_mib, processor_time

TIMEOUT_S = 120.0
SEGMENT_BYTES = 16 * 1024 * 1024
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SETTINGS = {"log.cleaner.backoff.ms": "500"}
POLICY = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)}
DIRTY_ENOUGH = "min.cleanable.dirty.ratio"
CHECKPOINT = "cleaner-offset-checkpoint"


@dataclass(frozen=True)
class Compaction:
    """A log of `records` with `keys` keys, compacted once; on a new broker that has compacted one like it before."""

    records: int
    keys: int
    record_size: int
    warm_ups = 0
    most_rounds = 3

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        with arena.fresh(contestant.name, SETTINGS) as fresh:
            self._compact(fresh, "warm")
            return self._compact(fresh, "measured")

    def _compact(self, contestant: Contestant, topic: str) -> Metrics:
        admin = AdminClient({"bootstrap.servers": contestant.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, 1, 1, config={**POLICY, DIRTY_ENOUGH: "1.0"})])[topic].result(TIMEOUT_S)
        self._produce(contestant.bootstrap, topic)
        data = contestant.process.directory / "data"
        gigabytes = sum(path.stat().st_size for path in sorted((data / f"{topic}-0").glob("*.log"))[:-1]) / 1e9
        before, started = family_time(contestant.pid), time.monotonic()
        alter(admin, topic, {**POLICY, DIRTY_ENOUGH: "0.01"})
        wait_until(lambda: f"{topic} 0 " in read(data / CHECKPOINT), f"{contestant.name} compacts {topic}")
        used = family_time(contestant.pid) - before
        wall = time.monotonic() - started
        workers = [peak_mib(child) for child in children_of(contestant.pid)]
        metrics = {"s_per_gb": used / gigabytes, "mb_per_s": 1000 * gigabytes / wall, "wall_s": wall}
        return {**metrics, "processor_s": used} | ({"worker_peak_mib": max(workers)} if workers else {})

    def _produce(self, bootstrap: str, topic: str) -> None:
        source = random.Random(20130101)
        letters = bytes(source.choices(range(97, 123), k=4 * self.record_size))
        producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 65536, "log_level": 0,
             "queue.buffering.max.messages": 200_000}
        )  # fmt: skip
        for number in range(self.records):
            place = source.randrange(3 * self.record_size)
            key = b"key-%010d" % source.randrange(self.keys)
            producer.produce(topic, letters[place : place + self.record_size], key)
            if number % 10_000 == 0:
                producer.poll(0)
                if len(producer) > 150_000:
                    producer.flush()
        if producer.flush(TIMEOUT_S):
            raise LoadError(f"{topic}: not everything was acknowledged in {TIMEOUT_S:.0f} s")


def alter(admin: AdminClient, topic: str, config: Mapping[str, str]) -> None:
    """Gives a topic these settings."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=dict(config))
    for done in admin.alter_configs([resource]).values():
        done.result(TIMEOUT_S)


def read(path: Path) -> str:
    """The content of a small file; empty if it does not exist."""
    return path.read_text() if path.exists() else ""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Returns when it is so; raises LoadError when that takes long."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise LoadError(f"{what}: not within {TIMEOUT_S:.0f} s")
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    """The processes that `pid` has started and that still run."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            children.append(int(path.parent.name))
    return children


def family_time(pid: int) -> float:
    """Processor-seconds of a broker and its workers so far; raises BrokerGoneError when the broker ended."""
    used = processor_time(pid).total_s
    for child in children_of(pid):
        try:
            _, user, system = parse_stat(Path(f"/proc/{child}/stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            raise BrokerGoneError(f"process {child} has ended meanwhile") from None
        used += (user + system) / TICKS_PER_SECOND
    return used
