"""Consumer groups: commits, how long a group of some size takes to settle, and a consumer's way to its first record."""

import json
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import Arena, Contestant
from bench.loads.load import MANY, Metrics, python_client
from harness.measure import Meter


@dataclass(frozen=True)
class Commits:
    """Commits of one partition's offset each, one in flight on each connection, ready-made frames."""

    connections: int
    requests: int
    warm_ups: ClassVar[int] = 1
    most_rounds: ClassVar[int] = MANY
    topic: ClassVar[str] = "groups"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        options = {"port": contestant.port, "topic": self.topic}
        options |= {"connections": self.connections, "requests": self.requests}
        python_client("bench.clients.groups", "prepare", json.dumps(options))
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.groups", "commits", json.dumps(options))
        return {**metrics, "us_per_request": 1e6 * meter.processor_s / self.requests, "wall_s": meter.wall_s}


@dataclass(frozen=True)
class Settle:
    """Members that join an empty group together until each has its part; they beat every 20 ms while they wait."""

    members: int
    groups: int
    warm_ups: ClassVar[int] = 1
    most_rounds: ClassVar[int] = MANY
    topic: ClassVar[str] = "groups"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        options = {"port": contestant.port, "members": self.members, "groups": self.groups}
        python_client("bench.clients.groups", "prepare", json.dumps({**options, "topic": self.topic, "connections": 1}))
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.groups", "settle", json.dumps(options))
        return {**metrics, "ms_per_member": 1e3 * meter.processor_s / (self.members * self.groups)}


@dataclass(frozen=True)
class FirstRecord:
    """From librdkafka's subscribe, by the only member of a new group, to the first record."""

    groups: int
    warm_ups: ClassVar[int] = 1
    most_rounds: ClassVar[int] = MANY
    topic: ClassVar[str] = "groups"

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic(self.topic)
        options = {"port": contestant.port, "topic": self.topic, "groups": self.groups}
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.groups", "first_record", json.dumps(options))
        contestant.check_records(self.topic, self.groups)
        return {**metrics, "cost_ms": 1e3 * meter.processor_s / self.groups}
