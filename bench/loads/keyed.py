"""A producer with keys and a group that reads, both at the defaults of librdkafka, at a steady rate."""

import json
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import Arena, Contestant
from bench.loads.load import MANY, Metrics, python_client
from harness.measure import Meter

PARTITIONS = 12


@dataclass(frozen=True)
class KeyedRecords:
    """So many records a second, for so many seconds: the broker's processor time for each of them.

    The time in which the clients connect and the group settles counts, too: it is the same for all brokers.
    """

    rate: int
    seconds: int
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = MANY
    settles_in: ClassVar[int] = 5
    cost: ClassVar[str] = "us_per_record"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic("keyed", partitions=PARTITIONS)
        options = {
            "bootstrap": contestant.bootstrap,
            "topic": "keyed",
            "rate": self.rate,
            "seconds": self.seconds,
            "record_size": 100,
        }
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.librdkafka", "keyed", json.dumps(options))
        return {**metrics, "us_per_record": 1e6 * meter.processor_s / metrics["records"]}
