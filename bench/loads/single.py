"""Records one by one: a request each, with or without a wait for the disk, or at a steady rate."""

import json
from dataclasses import dataclass

from bench.brokers.contestants import KAFKAPY, Arena, Contestant
from bench.loads.load import MANY, Metrics, python_client
from harness.measure import Meter


@dataclass(frozen=True)
class SingleRecords:
    """Produce requests of one record each, one in flight on each connection, ready-made frames."""

    connections: int
    requests: int
    topic: str = "single"
    warm_ups = 0
    most_rounds = MANY

    def config(self, contestant: Contestant) -> dict[str, str]:
        """The topic's settings."""
        return {}

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic, self.config(contestant))
        options = {"port": contestant.port, "topic": self.topic}
        options |= {"connections": self.connections, "requests": self.requests}
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.raw", json.dumps(options))
        contestant.check_records(self.topic, self.requests)
        return {**metrics, "us_per_request": 1e6 * meter.processor_s / self.requests, "wall_s": meter.wall_s}


@dataclass(frozen=True)
class DurableRecords(SingleRecords):
    """The same, acknowledged only when the disk has them: the cost of an fsync before the response.

    kafkapy has `kafkapy.flush=ack`, where one fsync serves many requests; Apache Kafka's nearest is
    `flush.messages=1`, an fsync for each.
    """

    topic: str = "durable"

    def config(self, contestant: Contestant) -> dict[str, str]:
        return {"kafkapy.flush": "ack"} if contestant.name == KAFKAPY else {"flush.messages": "1"}

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        metrics = super().run(contestant, arena)
        return {**metrics, "requests_per_s": self.requests / metrics["wall_s"]}


@dataclass(frozen=True)
class Latency:
    """Records of 1 kB at a fixed rate, acks=all, as librdkafka saw them acknowledged."""

    rate: int
    seconds: int
    warm_ups = 0
    most_rounds = MANY
    topic = "latency"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        options = {"bootstrap": contestant.bootstrap, "topic": self.topic, "record_size": 1000}
        options |= {"rate": self.rate, "seconds": self.seconds}
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.librdkafka", "latency", json.dumps(options))
        contestant.check_records(self.topic, int(metrics["records"]))
        return {**metrics, "us_per_request": 1e6 * meter.processor_s / metrics["records"]}
