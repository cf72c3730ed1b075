"""Small requests beside fully warm brokers: what each costs the broker, and its round trip."""

import json
import statistics
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers import Arena, Contestant
from bench.loads import MANY, Metrics, python_client
from bench.measure import Meter

ALIKE = 3
"""A broker is warm when so many runs one after the other differ by less than ``TOLERANCE``."""
TOLERANCE = 0.05
MOST_RUNS = 12


@dataclass(frozen=True)
class SmallRequests:
    """The same small request again and again, one in flight on each connection.

    `kind` is what `bench/small_client.py` sends. Each measurement is the median of the last `ALIKE` runs, when these
    cost about the same: a JVM goes on compiling for a hundred thousand requests.
    """

    kind: str
    connections: int
    requests: int
    warm_ups: ClassVar[int] = 1
    most_rounds: ClassVar[int] = MANY
    topic: ClassVar[str] = "small"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        options = {"port": contestant.port, "topic": self.topic, "connections": self.connections}
        if self.kind in ("commit", "heartbeat"):
            python_client("bench.group_client", "prepare", json.dumps(options))
        options |= {"kind": self.kind, "requests": self.requests}
        runs: list[Metrics] = []
        while len(runs) < ALIKE or not (_are_alike(runs[-ALIKE:]) or len(runs) >= MOST_RUNS):
            with Meter(contestant.pid) as meter:
                metrics = python_client("bench.small_client", json.dumps(options))
            runs.append({**metrics, "us_per_request": 1e6 * meter.processor_s / self.requests})
        return {metric: statistics.median(run[metric] for run in runs[-ALIKE:]) for metric in runs[0]}


def _are_alike(runs: list[Metrics]) -> bool:
    costs = [run["us_per_request"] for run in runs]
    return max(costs) <= (1 + TOLERANCE) * min(costs)
