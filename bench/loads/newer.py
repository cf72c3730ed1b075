"""Groups of KIP-848, transactions of version 2, and the newest versions of usual requests beside older ones.

Apache Kafka 2.7.2 has none of them and takes no part.
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.brokers.contestants import KAFKAPY, KAFKAS, Arena, Contestant
from bench.clients.newer import PARTITIONS_EACH, WARM_TRANSACTIONS
from bench.loads.load import MANY, Metrics, python_client
from harness.measure import Meter

CLIENT = "bench.clients.newer"
WITH_THEM = (KAFKAPY, KAFKAS[-1])
PRODUCE_VERSION = 8
CONNECTIONS = 16
PASSES = 4
"""The versions take turns so often in one run."""


@dataclass(frozen=True)
class _Newer:
    warm_ups: ClassVar[int] = 1
    most_rounds: ClassVar[int] = MANY
    takes_part: ClassVar[tuple[str, ...]] = WITH_THEM

    @staticmethod
    def _measured(contestant: Contestant, mode: str, **options: Any) -> tuple[float, Metrics]:
        """The processor-seconds of the broker, and what the client has measured."""
        with Meter(contestant.pid) as meter:
            metrics = python_client(CLIENT, mode, json.dumps({"port": contestant.port, **options}))
        return meter.processor_s, metrics


@dataclass(frozen=True)
class ConsumerHeartbeats(_Newer):
    """Heartbeats of the only members of settled groups, one in flight on each connection."""

    connections: int
    requests: int

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        contestant.ensure_topic("newer")
        processor_s, metrics = self._measured(
            contestant,
            "requests",
            topic="newer",
            kind="heartbeat",
            version=1,
            connections=self.connections,
            requests=self.requests,
        )
        return {**metrics, "us_per_request": 1e6 * processor_s / self.requests}


@dataclass(frozen=True)
class SettleConsumers(_Newer):
    """Members that join one after the other; from the last join until each has its partitions.

    Each sends heartbeat after heartbeat, so that the time is the broker's.
    """

    members: int
    groups: int

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        partitions = PARTITIONS_EACH * self.members
        topic = f"newer-{partitions}"
        contestant.ensure_topic(topic, partitions=partitions)
        options = {"topic": topic, "members": self.members, "groups": self.groups}
        processor_s, metrics = self._measured(contestant, "settle", **options)
        return {**metrics, "ms_per_member": 1e3 * processor_s / (self.members * self.groups)}


@dataclass(frozen=True)
class TransactionsOfVersion2(_Newer):
    """Transactions of one record: Produce 12 and EndTxn 5, one after the other."""

    transactions: int

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        topic = "newer-transactions"
        contestant.ensure_topic(topic)
        processor_s, metrics = self._measured(contestant, "transact", topic=topic, transactions=self.transactions)
        count = self.transactions + WARM_TRANSACTIONS
        contestant.check_records(topic, 2 * count)  # each ends with a marker
        return {**metrics, "ms_per_transaction": 1e3 * processor_s / count}


@dataclass(frozen=True)
class NewestVersion(_Newer):
    """A usual request in an older and in the newest version by turns, on the same broker."""

    kind: str
    older: int
    newest: int
    requests: int

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        topic = f"newer-{self.kind}"
        contestant.ensure_topic(topic)
        self._cost(contestant, "produce", topic, PRODUCE_VERSION, CONNECTIONS)  # records to fetch
        costs: dict[int, float] = {self.older: 0.0, self.newest: 0.0}
        for number in range(PASSES):
            for version in sorted(costs, reverse=number % 2 == 1):
                costs[version] += self._cost(contestant, self.kind, topic, version, self.requests // PASSES)
        us = {version: 1e6 * cost / (self.requests // PASSES * PASSES) for version, cost in costs.items()}
        older, newest = us[self.older], us[self.newest]
        return {"older_us": older, "us_per_request": newest, "above_older": newest / older}

    def _cost(self, contestant: Contestant, kind: str, topic: str, version: int, requests: int) -> float:
        options = {"topic": topic, "kind": kind, "version": version, "connections": CONNECTIONS, "requests": requests}
        return self._measured(contestant, "requests", **options)[0]
