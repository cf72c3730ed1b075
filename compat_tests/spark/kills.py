"""Kill Spark and its brokers while sessions are formed: `python -m compat_tests.spark.kills --target kafkapy`.

The job of `spark_examples/sessions` runs by `spark-submit`, alone in a directory, on a topic of transactions of which
some are aborted. The seed draws the victims, which are killed with SIGKILL at any point of a micro-batch: Spark, a
broker, or both at once. Each is started again. At the end the Parquet table and the compacted topic have each session
exactly once, as plain Python finds them. `--target` is kafkapy, kafkapy-cluster (three brokers; the leader of one of
the topics or the controller is killed), or a release of Apache Kafka, kafka-2.7.2 or kafka-4.4.0.
"""

import argparse
import importlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from compat_tests.cluster.three_brokers import ThreeBrokers
from compat_tests.spark.runs import PipelineRun, submit, watched
from harness.kafkapy_process import KafkapyProcess
from harness.process import BrokerError, ChildProcess
from harness.real_kafka import RealKafka
from spark_examples.common import topics
from spark_examples.data import flights

parquet: Any = importlib.import_module("pyarrow.parquet")  # it has no types
TOPIC, PERIODS = "flights", "periods"
TARGETS = "kafkapy, kafkapy-cluster, kafka-2.7.2, kafka-4.4.0"
PARTITIONS = 3
GAP_MS = 6 * 3_600_000
ROWS_PER_BATCH = 800
MOST_PAUSE_S = 1.5
DOWN_S = 0.0, 2.0
NO_PROGRESS_S = 300.0
SESSION_S = 60.0
MOST_FAILURES = 3
"""Spark 4.1 may end once with an error of its own after a kill (docs/spark.md), and is started again."""
SPARK, BROKER, BOTH = "Spark", "a broker", "Spark and a broker"
Period = tuple[str, int, int, int, int, int]
"""Route, begin and last departure (ms), flights, those that left, their delay in minutes."""


class LostSessionsError(AssertionError):
    """The result is not exact."""


class Brokers(NamedTuple):
    """What is killed: a broker goes away, and comes back."""

    bootstrap: str
    kill: Callable[[random.Random], str]
    start: Callable[[], object]


def opened(target: str) -> AbstractContextManager[Any]:
    """The brokers, which start with the context."""
    if target == "kafkapy-cluster":
        return ThreeBrokers(target)
    return KafkapyProcess() if target == "kafkapy" else RealKafka(target.removeprefix("kafka-"))


def brokers(running: Any) -> Brokers:
    """What can be done to them."""
    if not isinstance(running, ThreeBrokers):

        def kill_it(_: random.Random) -> str:
            running.kill()
            return "the broker"

        return Brokers(running.bootstrap, kill_it, lambda: start_again(running))

    def kill_one(chance: random.Random) -> str:
        kinds = {
            "the leader of the topic": lambda: running.leader_of([TOPIC]),
            "the leader of the result": lambda: running.leader_of([PERIODS]),
            "the controller": running.controller_id,
        }
        name = chance.choice(list(kinds))
        running.kill(kinds[name](), wait=False)
        return name

    return Brokers(running.bootstrap, kill_one, running.start)


def start_again(broker: ChildProcess) -> None:
    """Starts a broker that was killed: Apache Kafka 2.7 ends at its start while its old session lives."""
    deadline = time.monotonic() + SESSION_S
    while True:
        try:
            broker.start()
        except BrokerError:
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
        else:
            return


def expected(feed: list[flights.Flight]) -> set[Period]:
    """The sessions in plain Python: departures of a route that are at most the gap apart."""
    routes: dict[str, list[flights.Flight]] = defaultdict(list)
    for flight in feed:  # in the order of time
        routes[f"{flight.origin}-{flight.destination}"].append(flight)
    found: set[Period] = set()
    for route, rows in routes.items():
        begins = [0, *(i for i in range(1, len(rows)) if rows[i].scheduled_ms - rows[i - 1].scheduled_ms > GAP_MS)]
        for begin, end in zip(begins, [*begins[1:], len(rows)], strict=True):
            own = rows[begin:end]
            delays = [row.dep_delay for row in own if row.dep_delay is not None]
            found.add((route, own[0].scheduled_ms, own[-1].scheduled_ms, len(own), len(delays), sum(delays)))
    return found


def _period(row: dict[str, Any]) -> Period:
    return row["route"], row["begin_ms"], row["last_ms"], row["flights"], row["departed"], row["delay"]


def check(bootstrap: str, periods: str, table: Path, feed: list[flights.Flight]) -> str:
    """Raises LostSessionsError unless table and topic have each session exactly once; what was counted."""
    right = expected(feed)
    rows = Counter(map(_period, parquet.read_table(table).to_pylist()))
    records = topics.read_all(bootstrap, periods)
    by_key: dict[bytes, set[Period]] = defaultdict(set)
    for record in records:
        by_key[record.key].add(_period(json.loads(record.value)))
    sent = Counter(period for periods in by_key.values() for period in periods)
    for place, found in (("table", rows), ("topic", sent)):
        again = sum(count - 1 for count in found.values())
        missing, surplus = right - set(found), set(found) - right
        if missing or surplus or again:
            raise LostSessionsError(
                f"in the {place} {len(missing)} sessions are missing, {len(surplus)} surplus, {again} there again, "
                f"the first: {sorted(missing | surplus)[:1]}"
            )
    return f"{len(right):,} sessions, each once in table and topic; {len(records) - len(right):,} records repeated"


class Run:
    """The job, started as often as it must be."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self.directory = directory
        self.starts = 0

    def start(self) -> subprocess.Popen[str]:
        """`spark-submit`; it continues from the checkpoint."""
        self.starts += 1
        options = ["--bootstrap", self._bootstrap, "--topic", TOPIC, "--periods", PERIODS]
        return submit("sessions", self.directory, *options, "--rows-per-batch", str(ROWS_PER_BATCH))

    def to_the_end(self) -> int:
        """Starts it until it has read everything; how often it ended with an error before."""
        for failures in range(MOST_FAILURES):
            with watched(self.start()) as spark:
                if spark.end(2 * NO_PROGRESS_S) == 0:
                    return failures
        raise LostSessionsError(f"Spark did not come to the end:\n{spark.told[-4000:]}")

    @property
    def batch(self) -> int:
        """The last micro-batch whose offsets are fixed; -1 before the first."""
        found = (self.directory / "checkpoints/sessions/offsets").glob("[0-9]*")
        return max((int(path.name) for path in found), default=-1)

    def wait_for_next_batch(self, spark: PipelineRun, number: int) -> bool:
        """Waits until so many more micro-batches have begun; False if Spark ended by itself before."""
        wanted, deadline = self.batch + number, time.monotonic() + NO_PROGRESS_S

        def came() -> bool:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no progress in {NO_PROGRESS_S:.0f} s:\n{spark.told[-4000:]}")
            return self.batch >= wanted

        return spark.lasts_until(came, f"micro-batch {wanted}")


def campaign(target: str, kills: int, days: int, chance: random.Random, directory: Path) -> str:
    """Kills so often; the verdict. Raises LostSessionsError."""
    with opened(target) as running:
        victims = brokers(running)
        feed = flights.first_days(days)
        flights.create_topics(victims.bootstrap, {TOPIC: PARTITIONS}, "--topic")
        topics.create(victims.bootstrap, {PERIODS: 1}, "--topic", cleanup_policy="compact")
        aborted = flights.send_in_transactions(victims.bootstrap, TOPIC, feed)
        flights.close_feed(victims.bootstrap, TOPIC, feed[-1].scheduled_ms)
        print(f"{target}: {len(feed):,} flights committed, {aborted:,} records aborted", flush=True)
        run, done, failures = Run(victims.bootstrap, directory / "job"), 0, 0
        while done < kills:
            with watched(run.start()) as spark:
                while done < kills:
                    if not run.wait_for_next_batch(spark, chance.choice((1, 1, 2))):
                        if spark.end() == 0:
                            raise LostSessionsError(f"all was read after {done} kills: take more --days")
                        failures += 1  # it had waited too long for a broker; it is started again
                        break
                    time.sleep(chance.uniform(0, MOST_PAUSE_S))  # anywhere in a micro-batch
                    victim, batch = chance.choice((SPARK, BROKER, BROKER, BOTH)), run.batch
                    name = "" if victim == SPARK else victims.kill(chance)
                    if victim != BROKER:
                        spark.kill()
                    done += 1
                    print(f"  kill {done}: micro-batch {batch}: {victim} {name}", flush=True)
                    if name:
                        time.sleep(chance.uniform(*DOWN_S))
                        victims.start()
                    if victim != BROKER:
                        break
        failures += run.to_the_end()
        told = check(victims.bootstrap, PERIODS, run.directory / "sessions", feed)
    return f"{target}: {done} kills, Spark started {run.starts} times ({failures} after an error of its own): {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="kafkapy", help=f"one of {TARGETS} (default: kafkapy)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--days", type=int, default=60, help="so many days of flights (default: 60)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="spark-kills-") as directory:
        chance = random.Random(arguments.seed)
        try:
            print(campaign(arguments.target, arguments.kills, arguments.days, chance, Path(directory)))
        except LostSessionsError as error:
            print(f"not exact: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
