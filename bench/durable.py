"""Produce requests that are acknowledged only when the disk has them: what a fsync before the answer costs.

kafkapy has `kafkapy.flush=ack`, where one fsync serves many requests; Apache Kafka's nearest is `flush.messages=1`, an
fsync for each.
"""

import json
from dataclasses import dataclass

from bench.brokers import KAFKAPY, Arena, Contestant
from bench.loads import MANY, Metrics, python_client
from bench.measure import Meter


@dataclass(frozen=True)
class DurableRecords:
    """As `SingleRecords`, on a topic whose acknowledgements wait for the disk."""

    connections: int
    requests: int
    warm_ups = 0
    most_rounds = MANY
    topic = "durable"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(
            self.topic, {"kafkapy.flush": "ack"} if contestant.name == KAFKAPY else {"flush.messages": "1"}
        )
        options = {"port": contestant.port, "topic": self.topic}
        options |= {"connections": self.connections, "requests": self.requests}
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.raw_client", json.dumps(options))
        contestant.check_records(self.topic, self.requests)
        return {
            **metrics,
            "us_per_request": 1e6 * meter.processor_s / self.requests,
            "requests_per_s": self.requests / meter.wall_s,
            "wall_s": meter.wall_s,
        }
