"""Loads that start a broker: the time until it serves, and its memory."""

import time
from dataclasses import dataclass

from bench.brokers.contestants import Arena, Contestant
from bench.clients.raw import first_acknowledged_s
from bench.loads.load import MANY, Load, Metrics
from bench.loads.records import Fetch, Produce
from bench.loads.workloads import Workload
from harness.measure import LoadError, processor_time, resident_mib

START_TIMEOUT_S = 60.0
SETTLE_S = 3.0
NEW_BROKERS = 2


@dataclass(frozen=True)
class StartUp:
    """From the start of the broker's process, on an empty data directory, to the first acknowledged record.

    ZooKeeper runs already and a KRaft node's storage is formatted; the topic is created by asking for it.
    """

    warm_ups = 0
    most_rounds = MANY

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        process = arena.prepared(contestant.name)
        try:
            process.start(wait=False)
            acknowledged_s = until_acknowledged(process.port, contestant.name)
            used_s = processor_time(process.pid).total_s if process.pid is not None else 0.0
            return {"start_s": acknowledged_s - process.started_s, "processor_s": used_s}
        finally:
            process.close()


@dataclass(frozen=True)
class Memory:
    """Resident memory of a new broker: idle, then after `records` of the workload were produced and fetched."""

    workload: Workload
    warm_ups = 0
    most_rounds = 1

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        with arena.fresh(contestant.name) as fresh:
            until_acknowledged(fresh.port, contestant.name)
            time.sleep(SETTLE_S)
            idle = resident_mib(fresh.pid)
            Produce("java", self.workload).run(fresh, arena)
            Fetch("java", self.workload, self.workload.records).run(fresh, arena)
            return {"idle_mib": idle, "loaded_mib": resident_mib(fresh.pid)}


@dataclass(frozen=True)
class OnNewBroker:
    """Another load, each time on a broker that has just started: the cost of the first one of a long run."""

    load: Load
    warm_ups = 0
    most_rounds = NEW_BROKERS

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        process = arena.prepared(contestant.name)
        try:
            process.start()
            until_acknowledged(process.port, contestant.name)
            return self.load.run(Contestant(contestant.name, process, arena.scratch), arena)
        finally:
            process.close()


def until_acknowledged(port: int, name: str) -> float:
    """Asks for the acknowledgement of a record until it comes; the time at which it did, on the monotonic clock."""
    try:
        return first_acknowledged_s(port, "first", time.monotonic() + START_TIMEOUT_S)
    except TimeoutError:
        raise LoadError(f"{name} acknowledged nothing within {START_TIMEOUT_S:.0f} s of its start") from None
