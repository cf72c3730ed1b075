"""Transactions of one librdkafka producer, one after the other.

The producer with its own mock cluster, which keeps nothing and answers at once, runs beside the brokers: its cost is
then the client's, independent of the broker.
"""

import json
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import Arena, Contestant
from bench.clients.librdkafka import WARM_TRANSACTIONS
from bench.loads.in_tests import MOCK
from bench.loads.load import MANY, Metrics, python_client
from harness.measure import Meter


@dataclass(frozen=True)
class Transactions:
    """So many transactions of so many records: begin, produce, commit."""

    records: int
    transactions: int
    group: ClassVar[str | None] = None
    peers: ClassVar[tuple[str, ...]] = (MOCK,)
    warm_ups: ClassVar[int] = 1
    most_rounds: ClassVar[int] = MANY

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        topic = f"transactions-{self.records}"
        options: dict[str, str | int] = {
            "topic": topic,
            "records": self.records,
            "record_size": 100,
            "transactions": self.transactions,
        }
        if contestant.name == MOCK:
            return python_client("bench.clients.librdkafka", "transact", json.dumps(options))
        contestant.ensure_topic(topic)
        options["bootstrap"] = contestant.bootstrap
        if self.group is not None:
            options["group"] = self.group
        with Meter(contestant.pid) as meter:
            metrics = python_client("bench.clients.librdkafka", "transact", json.dumps(options))
        count = self.transactions + WARM_TRANSACTIONS
        contestant.check_records(topic, count * (self.records + 1))  # each ends with a marker
        return {**metrics, "ms_per_transaction": 1e3 * meter.processor_s / count}


@dataclass(frozen=True)
class TransactionsWithOffsets(Transactions):
    """The same, each with a committed offset, as a stream from topic to topic has it; beside fully warm brokers."""

    group: ClassVar[str | None] = "transactions"
    peers: ClassVar[tuple[str, ...]] = ()
    warm_ups: ClassVar[int] = 0
    settles_in: ClassVar[int] = 5
    cost: ClassVar[str] = "ms_per_transaction"
