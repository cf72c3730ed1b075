"""Produce requests that are acknowledged only when the disk has them: the cost of an fsync before the response.

kafkapy has `kafkapy.flush=ack`, where one fsync serves many requests; Apache Kafka's nearest is `flush.messages=1`, an
fsync for each.
"""

from dataclasses import dataclass

from bench.brokers import KAFKAPY, Arena, Contestant
from bench.loads import Metrics, SingleRecords


@dataclass(frozen=True)
class DurableRecords(SingleRecords):
    """The same on a topic whose acknowledgements wait for the disk."""

    topic: str = "durable"

    def config(self, contestant: Contestant) -> dict[str, str]:
        return {"kafkapy.flush": "ack"} if contestant.name == KAFKAPY else {"flush.messages": "1"}

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        metrics = super().run(contestant, arena)
        return {**metrics, "requests_per_s": self.requests / metrics["wall_s"]}
