"""Small requests beside fully warm brokers: the broker's cost of each, and its round trip."""

import json
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import KAFKAPY, Arena, Contestant
from bench.clients.small import SPREAD
from bench.loads.load import MANY, Floor, Metrics, python_client
from harness.measure import Meter


@dataclass(frozen=True)
class SmallRequests:
    """The same small request again and again, one in flight on each connection.

    `kind` is what `bench/clients/small.py` sends. A JVM goes on compiling for a hundred thousand requests: a
    ``SettlingLoad`` is measured when no broker gets cheaper.
    """

    kind: str
    connections: int
    requests: int
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = MANY
    settles_in: ClassVar[int] = 10
    cost: ClassVar[str] = "us_per_request"

    @property
    def topic(self) -> str:
        """Large batches have topics of their own, so that a consumer that waits gets single records."""
        return f"small-{self.kind}" if self.kind in ("large", "fetch", "spread") else "small"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic, partitions=SPREAD if self.kind == "spread" else 1)
        options = {"port": contestant.port, "topic": self.topic, "connections": self.connections}
        if self.kind in ("commit", "heartbeat"):
            python_client("bench.clients.groups", "prepare", json.dumps(options))
        options |= {"kind": self.kind, "requests": self.requests}
        metrics = self._measured(contestant.pid, options)
        if self.kind in ("produce", "large") and contestant.name == KAFKAPY:
            with Floor("bench.floors.small", self.topic) as floor:
                least = self._measured(floor.pid, {**options, "port": floor.port})
            above = metrics["us_per_request"] / least["us_per_request"]
            metrics |= {"floor_us_per_request": least["us_per_request"], "above_floor": above}
        return metrics

    def _measured(self, pid: int, options: dict[str, object]) -> Metrics:
        with Meter(pid) as meter:
            metrics = python_client("bench.clients.small", json.dumps(options))
        return {**metrics, "us_per_request": 1e6 * meter.processor_s / self.requests}
