"""Mirrors a topic of transactions to a second broker while it is written, and runs the same query on both sides.

Flights are written in transactions, and a fifth of each is written before in a transaction that is aborted. `kafkapy
mirror --exactly-once` copies the first half while it is written, is stopped, and copies the second half when it is
there. The offsets of the two sides differ: the target has neither the aborted records nor the source's markers, but
those of the mirror's own transactions. The totals by carrier must be the same on both sides, and those of plain Python.

The query commits its positions to a consumer group on each side, for `kafkapy groups describe mirror-then-analyse`; the
lag that this shows is checked as well.
"""

import argparse
import importlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_examples.common import topics
from spark_examples.common.broker import running_broker
from spark_examples.common.progress import Progress, Totals
from spark_examples.common.report import (
    CONSOLE,
    Summary,
    at_least,
    demonstration_options,
    number_table,
    parsed,
    run_on_broker,
)
from spark_examples.common.session import open_session
from spark_examples.data import flights
from spark_examples.mirror_then_analyse import chart, job
from spark_examples.mirror_then_analyse.check import Analysis, CarrierTotals, check, check_lag, expected
from spark_examples.mirror_then_analyse.mirror import lags, mirror_rest, mirroring
from spark_examples.mirror_then_analyse.watcher import Watcher

parquet: Any = importlib.import_module("pyarrow.parquet")  # it has no types
GROUP = "mirror-then-analyse"
PARTITIONS = 3
MIN_DAYS = 7
SOURCE, TARGET = "source", "target"


@dataclass(frozen=True)
class Side:
    """One of the two brokers, and the query's options for it."""

    name: str
    options: job.Options

    @property
    def bootstrap(self) -> str:
        """The broker's address."""
        return self.options.bootstrap


class Analyst:
    """Runs the job in a session that lasts for the demonstration."""

    def __init__(self, out: Path, master: str | None) -> None:
        self.spark = open_session("mirror_then_analyse", out / "spark.log", master=master)
        self._progress = Progress(self.spark)
        self._reached: dict[str, Mapping[int, int]] = {}

    def analyse(self, side: Side) -> Totals:
        """Brings the side's table up to what is committed in its topic now."""
        with job.positions_committed(self.spark, side.options):
            (totals,) = self._progress.finish([job.start(self.spark, side.options)])
        self._reached[side.name] = totals.reached[side.options.topic]
        return totals

    def checked_lag(self, side: Side) -> int:
        """The query's lag on the side's broker, in offsets; raises SidesDifferError if it is not what it must be."""
        shown = lags(side.bootstrap, GROUP, side.options.topic)
        ends = {index: extent.end for index, extent in topics.extents(side.bootstrap, side.options.topic).items()}
        return check_lag(side.name, shown, self._reached[side.name], ends)


def read_table(path: str) -> Analysis:
    """The result of the query."""
    rows = parquet.read_table(path).to_pylist()
    return {row["carrier"]: CarrierTotals(*(row[name] for name in CarrierTotals._fields)) for row in rows}


def write(side: Side, feed: list[flights.Flight]) -> int:
    """Sends the flights, and waits until they can be read; how many records were aborted besides."""
    aborted = flights.send_in_transactions(side.bootstrap, side.options.topic, feed)
    topics.wait_until_committed(side.bootstrap, [side.options.topic])
    return aborted


def create_topic(source: Side, target: Side) -> None:
    """Creates the topic on the source; the mirror creates it on the target. Raises TopicExistsError."""
    topic = source.options.topic
    if topics.extents(target.bootstrap, topic):
        raise topics.TopicExistsError(
            f"The topic {topic} exists already on the target: give another name with --topic."
        )
    flights.create_topics(source.bootstrap, {topic: PARTITIONS}, "--topic")


def run(source: Side, target: Side, out: Path, summary: Summary, days: int, master: str | None) -> None:
    """Writes, mirrors and analyses the flights, and checks both sides."""
    both = source.bootstrap, target.bootstrap, source.options.topic
    feed = flights.first_days(days)
    half = len(feed) // 2
    create_topic(source, target)
    for side in (source, target):
        shutil.rmtree(side.options.checkpoint, ignore_errors=True)
    with summary.step("start Spark") as remarks:
        analyst = Analyst(out, master)
        remarks.append(f"Spark {analyst.spark.version}")
    with Watcher(*both, GROUP) as watcher:

        @contextmanager
        def step(name: str, short: str) -> Iterator[list[str]]:
            watcher.note(short)
            with summary.step(name) as remarks:
                yield remarks

        with step("write the first half, mirrored meanwhile", "write, mirror") as remarks:
            with mirroring(*both, out / "mirror.log"):
                aborted = write(source, feed[:half])
            remarks.append(f"{half:,} flights committed, {aborted:,} records aborted")
        with step("analyse the source", "query source") as remarks:
            done = analyst.analyse(source)
            remarks.append(f"{done.rows:,} rows, lag {analyst.checked_lag(source)}")
        with step("write the second half", "write") as remarks:
            aborted += write(source, feed[half:])
            remarks.append(f"the query's lag is {analyst.checked_lag(source):,} offsets")
        with step("mirror the rest", "mirror") as remarks:
            remarks.append(f"{mirror_rest(*both):,} records")
        for side in (source, target):
            with step(f"analyse the {side.name}", f"query {side.name}") as remarks:
                done = analyst.analyse(side)
                remarks.append(f"{done.rows:,} rows in {len(done.batches)} micro-batches")
                remarks.append(f"lag {analyst.checked_lag(side)}")
    analyst.spark.stop()
    with summary.step("check both sides") as remarks:
        right = expected(feed)
        for side in (source, target):
            check(side.name, read_table(side.options.table), right)
        held = {side.name: topics.held(side.bootstrap, source.options.topic) for side in (source, target)}
        remarks.append(f"{held[SOURCE]:,} offsets on the source, {held[TARGET]:,} on the target")
    kinds = chart.Kinds(len(feed), aborted, held[SOURCE], held[TARGET])
    chart.draw(watcher.samples, watcher.steps, kinds, out / "mirror_then_analyse.png")
    show(right)


def show(analysis: Analysis) -> None:
    """Prints the result."""
    table = number_table(
        "Departures by carrier, the same on both sides", "carrier", "flights", "cancelled", "mean delay", "worst"
    )
    for carrier, totals in sorted(analysis.items(), key=lambda item: -item[1].flights):
        mean = totals.dep_delay / max(totals.departed, 1)
        cancelled = f"{totals.flights - totals.departed:,}"
        table.add_row(carrier, f"{totals.flights:,}", cancelled, f"{mean:.1f}", f"{totals.worst or 0:,}")
    table.caption = "delays in minutes"
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("mirror_then_analyse", __doc__)
    parser.add_argument("--target", metavar="HOST:PORT", help="mirror to this broker instead of starting kafkapy")
    parser.add_argument("--topic", default=job.Options.topic, help=f"topic (default: {job.Options.topic})")
    days = f"so many days of the year, {MIN_DAYS} at least (default: all)"
    parser.add_argument("--days", type=at_least(MIN_DAYS), default=flights.DAYS, help=days)
    parser.add_argument("--offsets-per-batch", type=at_least(1), default=job.Options.offsets_per_batch)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    out: Path = arguments.out

    def side(name: str, bootstrap: str) -> Side:
        own = job.Options(
            bootstrap,
            topic=arguments.topic,
            table=str(out / f"analysis-{name}"),
            checkpoint=str(out / "checkpoints" / f"analysis-{name}"),
            group=GROUP,
            offsets_per_batch=arguments.offsets_per_batch,
            fail_on_data_loss=arguments.fail_on_data_loss,
        )
        return Side(name, own)

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        with ExitStack() as stack:
            step = "start the second broker" if arguments.target is None else "reach the second broker"
            with summary.step(step) as remarks:
                log = out / "target-broker.log"
                second = stack.enter_context(running_broker(arguments.target, log, option="--target"))
                remarks.append(second)
            sides = side(SOURCE, bootstrap), side(TARGET, second)
            run(*sides, out, summary, arguments.days, arguments.master)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        CONSOLE.print(
            f"Results: {out}/analysis-{SOURCE} and {out}/analysis-{TARGET} (Parquet), {out}/mirror_then_analyse.png"
        )
    return status
