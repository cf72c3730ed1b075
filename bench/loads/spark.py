"""Spark beside the broker: how long its batch reads, its micro-batches and its way into Parquet take."""

import json
import tempfile
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import Arena, Contestant
from bench.loads.load import Metrics, python_client
from bench.loads.records import java_producer
from bench.loads.workloads import Workload
from harness.measure import Meter

PARTITIONS = 4
TIMEOUT_S = 900.0
"""Seconds of Spark on an idle machine become minutes beside other work."""


@dataclass(frozen=True)
class SparkReads:
    """One Spark (`local[2]`) that reads a topic of four partitions, in the ways that `bench/clients/spark.py` tells.

    `records` of 100 B are written once, by Kafka's producer, for all runs. Spark reads them once unmeasured, which its
    Java needs to compile; the times are by the clock, medians of `reads`, and of `micro_batches`.
    """

    records: int
    reads: int
    micro_batches: int
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 5

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        topic, pinged = "spark-reads", "spark-micro-batches"
        if topic not in contestant.records:
            contestant.ensure_topic(topic, partitions=PARTITIONS)
            java_producer(contestant.bootstrap, topic, Workload(self.records, 100, 16384, 5), self.records, acks="all")
        contestant.ensure_topic(pinged)
        with tempfile.TemporaryDirectory(dir=arena.scratch) as directory, Meter(contestant.pid) as meter:
            options = {
                "bootstrap": contestant.bootstrap,
                "topic": topic,
                "pinged": pinged,
                "directory": directory,
                "records": self.records,
                "reads": self.reads,
                "micro_batches": self.micro_batches,
            }
            metrics = python_client("bench.clients.spark", json.dumps(options), timeout_s=TIMEOUT_S)
        return {**metrics, "broker_s": meter.processor_s}
