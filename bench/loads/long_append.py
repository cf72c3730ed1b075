"""Appends to a log of very many segments and appends to a new one: the cost of a log's length."""

import json
from dataclasses import dataclass

from bench.brokers.contestants import Arena, Contestant
from bench.clients.long_log import RECORD_SIZE, RECORDS_OF_A_BATCH
from bench.loads.load import Metrics, python_client
from bench.loads.long_log import CLIENT
from bench.loads.single import SingleRecords

SEGMENT_BYTES = 1 << 20
TURNS = 3


@dataclass(frozen=True)
class AppendsToLongLogs:
    """`SingleRecords` on 16 connections, in turns to a topic of `segments` segments of 1 MiB and to a new one."""

    segments: int
    requests: int
    warm_ups = 0
    most_rounds = 2
    topics = ("long-append", "new-append")

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        long, new = self.topics
        is_filled = long in contestant.records
        for topic in self.topics:
            contestant.ensure_topic(topic, {"segment.bytes": str(SEGMENT_BYTES)})
        if not is_filled:
            batches = self.segments * SEGMENT_BYTES // (RECORD_SIZE * RECORDS_OF_A_BATCH)
            python_client(CLIENT, "fill", json.dumps({"port": contestant.port, "topic": long, "batches": batches}))
            contestant.check_records(long, batches * RECORDS_OF_A_BATCH)
        costs: dict[str, float] = dict.fromkeys(self.topics, 0.0)
        for turn in range(TURNS):
            for topic in self.topics if turn % 2 else self.topics[::-1]:
                load = SingleRecords(16, self.requests // TURNS, topic)
                costs[topic] += load.run(contestant, arena)["us_per_request"] / TURNS
        return {
            "long_us_per_request": costs[long],
            "new_us_per_request": costs[new],
            "effect": costs[long] / costs[new],
        }
