"""The latency of a producer's records before and during compaction."""

import json
import os
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.contestants import Arena, Contestant
from bench.loads.compaction import CHECKPOINT, DIRTY_ENOUGH, POLICY, SETTINGS, TIMEOUT_S, alter, read, wait_until
from bench.loads.load import Metrics, python_client
from bench.loads.single import Latency
from harness.measure import LoadError

CLIENT = "bench.clients.compaction"
NEVER, SOON = {**POLICY, DIRTY_ENOUGH: "1.0"}, {**POLICY, DIRTY_ENOUGH: "0.01"}


@dataclass(frozen=True)
class CompactionLatency:
    """`Latency` on a new broker that holds dirty logs of 100 B records: first idle, then while it compacts them.

    It has compacted one of them before. Each log holds `cycles` times the same `batches`, of 500 keys each.
    """

    logs: int
    batches: int
    cycles: int
    latency: Latency
    warm_ups = 0
    most_rounds = 5  # of one round the percentile when idle may be half of another's

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        with arena.fresh(contestant.name, SETTINGS) as fresh:
            return self._measured(fresh, arena)

    def _measured(self, contestant: Contestant, arena: Arena) -> Metrics:
        admin = AdminClient({"bootstrap.servers": contestant.bootstrap, "log_level": 0})
        warm, *topics = [f"compacted-{number}" for number in range(self.logs + 1)]
        asked = admin.create_topics([NewTopic(topic, 1, 1, config=NEVER) for topic in (warm, *topics)])
        for done in asked.values():
            done.result(TIMEOUT_S)
        options = {"port": contestant.port, "batches": self.batches, "cycles": self.cycles}
        python_client(CLIENT, json.dumps({**options, "topics": [warm, *topics]}))
        alter(admin, warm, SOON)
        checkpoint = contestant.process.directory / "data" / CHECKPOINT
        wait_until(lambda: f"{warm} 0 " in read(checkpoint), f"{contestant.name} compacts {warm}")
        os.sync()  # later write-back would be counted as compaction
        quiet = self.latency.run(contestant, arena)
        for topic in topics:
            alter(admin, topic, SOON)
        busy = self.latency.run(contestant, arena)
        if all(f"{topic} 0 " in read(checkpoint) for topic in topics):
            raise LoadError(f"{contestant.name} had compacted everything before the latency was measured")
        return {
            "quiet_p50": quiet["p50"],
            "quiet_p99": quiet["p99"],
            "busy_p50": busy["p50"],
            "busy_p99": busy["p99"],
            "p50_ratio": busy["p50"] / quiet["p50"],
            "p99_ratio": busy["p99"] / quiet["p99"],
        }
