"""Runs the loads: a warm-up, then rounds in which the brokers take turns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from bench.brokers.contestants import KAFKAPY, Arena, Contestant, Visitor
from bench.loads.in_tests import InTests
from bench.loads.load import ClusterLoad, Load, Metrics, SelectiveLoad, SettlingLoad
from bench.loads.transactions import Transactions
from bench.rows import Row
from harness.measure import LoadError
from harness.process import BrokerError

LAST_RUNS = 2
SETTLED = 0.95
Progress = Callable[[str], None]
REFUSALS = (LoadError, BrokerError, KafkaException, TimeoutError)
"""The errors of a failed load, of a broker that does not start, and of an admin client."""


@dataclass
class Runs:
    """The cost of one load on each broker: a set of metrics a run, or the reason why there is none."""

    measured: dict[str, list[Metrics]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    settling: dict[str, list[float]] = field(default_factory=dict)
    """The cost before, for a load that is measured when it does not fall any more."""

    def samples(self, broker: str, metric: str) -> list[float]:
        """One metric of all runs on one broker; none where it doesn't exist."""
        return [metrics[metric] for metrics in self.measured.get(broker, []) if metric in metrics]


def loads_of(rows: Sequence[Row]) -> list[Load]:
    """The loads that the rows need, each once, in the rows' order."""
    return list(dict.fromkeys(row.load for row in rows))


def turns(load: Load, brokers: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Round and broker; rounds up to 0 warm up, and each round begins with another broker."""
    brokers = brokers_of(load, brokers)
    brokers = [*brokers, *peers_of(load)] if KAFKAPY in brokers else brokers
    for number in range(1 - load.warm_ups, 1 + min(rounds, load.most_rounds)):
        first = number % len(brokers)
        yield from ((number, name) for name in [*brokers[first:], *brokers[:first]])


def peers_of(load: Load) -> tuple[str, ...]:
    """Contestants of this load in addition to the brokers that are compared."""
    return load.peers if isinstance(load, InTests | Transactions) else ()


def brokers_of(load: Load, brokers: Sequence[str]) -> Sequence[str]:
    """Which of the brokers that are compared take part in this load."""
    if isinstance(load, SelectiveLoad):
        return [name for name in brokers if name in load.takes_part]
    return [name for name in brokers if name in load.compared] if isinstance(load, ClusterLoad) else brokers


def is_settled(costs: Sequence[float]) -> bool:
    """Whether what a run costs has stopped falling: the last two are hardly below the cheapest before them."""
    return len(costs) > LAST_RUNS and min(costs[-LAST_RUNS:]) >= SETTLED * min(costs[:-LAST_RUNS])


class Runner:
    """Holds the running brokers while the loads pass over them; ``start`` says whether any load is put on such."""

    def __init__(
        self, arena: Arena, brokers: Sequence[str], rounds: int, progress: Progress, *, start: bool = True
    ) -> None:
        self._arena = arena
        self.rounds = rounds
        self._progress = progress
        self._brokers = list(brokers)
        self.contestants: dict[str, Contestant] = {}
        for name in brokers if start else ():
            progress(f"start {name}")
            self.contestants[name] = arena.running(name)

    def warm_up(self, loads: Sequence[Load]) -> None:
        """Runs loads without measuring them; raises LoadError or BrokerGoneError if one fails."""
        for name, contestant in self.contestants.items():
            for load in loads:
                self._progress(f"warm up {name}")
                load.run(contestant, self._arena)
        self.drop_topics()

    def measure(self, load: Load, label: str) -> Runs:
        """Runs one load on every broker; a broker that fails it is left out of its further rounds.

        Raises BrokerGoneError when a broker has ended.
        """
        runs = Runs()
        if isinstance(load, SettlingLoad):
            self._settle(load, label, runs)
        for number, name in turns(load, self._brokers, self.rounds):
            self._progress(f"{label}, {name}, {f'run {number}' if number > 0 else 'warm-up'}")
            if name not in runs.failures:
                self._once(load, name, runs, measured=number > 0)
        return runs

    def _settle(self, load: SettlingLoad, label: str, runs: Runs) -> None:
        """Runs the load on each broker in turn until none gets cheaper; keeps the costs in ``runs.settling``."""
        costs = runs.settling
        for number in range(1, 1 + load.settles_in):
            for name in brokers_of(load, self._brokers):
                self._progress(f"{label}, {name}, warm-up {number}")
                if name not in runs.failures:
                    metrics = self._once(load, name, runs, measured=False)
                    costs.setdefault(name, []).extend([metrics[load.cost]] if metrics else [])
            if all(is_settled(each) for name, each in costs.items() if name not in runs.failures):
                return

    def _once(self, load: Load, name: str, runs: Runs, *, measured: bool) -> Metrics | None:
        contestant = self.contestants.get(name) or Visitor(name, self._arena.scratch)
        try:
            metrics = load.run(contestant, self._arena)
        except REFUSALS as error:
            # One load less is a line of the table; the others go on.
            runs.failures[name] = next(iter(str(error).splitlines()), type(error).__name__)
            return None
        finally:
            contestant.check_alive()
        if measured:
            runs.measured.setdefault(name, []).append(metrics)
        return metrics

    def drop_topics(self) -> None:
        """Deletes the data of the loads from the disk."""
        for contestant in self.contestants.values():
            contestant.drop_topics()
