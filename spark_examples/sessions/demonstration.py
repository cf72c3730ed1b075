"""Joins the departures of each route into periods of service, from transactions of which some are aborted.

The run is in two parts with a restart from the checkpoint between. Table and topic must have each period exactly once,
as plain Python finds them. With --resume nothing is sent, and the query continues from its checkpoint.
"""

import argparse
import importlib
import json
import shutil
from pathlib import Path
from typing import Any

from spark_examples.common import topics
from spark_examples.common.progress import Progress, Totals, check_none_late
from spark_examples.common.report import (
    CONSOLE,
    Summary,
    add_resume,
    at_least,
    demonstration_options,
    number_table,
    parsed,
    run_on_broker,
)
from spark_examples.common.session import open_session
from spark_examples.data import flights
from spark_examples.sessions import chart, job
from spark_examples.sessions.check import Period, WrongPeriodsError, check, expected

datasets: Any = importlib.import_module("pyarrow.dataset")  # it has no types
PARTITIONS = 3
MIN_DAYS = 20
"""So that the watermark closes some periods before the end of the feed."""


def create_topics(options: job.Options) -> None:
    """Creates the input and the compacted topic of the result."""
    flights.create_topics(options.bootstrap, {options.topic: PARTITIONS}, "--topic")
    topics.create(options.bootstrap, {options.periods: 1}, "--topic", cleanup_policy="compact")


def read_topic(options: job.Options) -> tuple[list[Period], int]:
    """The periods in the topic, the last value of each key, and how many records are repeated ones."""
    found: dict[bytes, Period] = {}
    records = topics.read_all(options.bootstrap, options.periods)
    for record in records:
        period = Period(**json.loads(record.value))
        if found.setdefault(record.key, period) != period:
            raise WrongPeriodsError(f"The topic has two different periods of the key {record.key.decode()}.")
    return sorted(found.values()), len(records) - len(found)


def read_table(path: Path) -> list[Period]:
    """The periods in the Parquet files."""
    table = datasets.dataset(path, format="parquet", partitioning="hive").to_table(columns=list(Period._fields))
    return sorted(Period(**row) for row in table.to_pylist())


class Sessions:
    """Runs the job in a session that lasts for the demonstration."""

    def __init__(self, options: job.Options, out: Path, master: str | None) -> None:
        self._options = options
        self.spark = open_session("sessions", out / "spark.log", master=master)
        self._progress = Progress(self.spark)

    def process(self) -> Totals:
        """Processes what the topic holds beyond the checkpoint; raises LateRowsError."""
        totals = self._progress.finish([job.start(self.spark, self._options)])
        check_none_late(totals, self._options.watermark)
        return totals[0]


def run(options: job.Options, out: Path, summary: Summary, days: int, master: str | None) -> None:
    """Sends the flights in transactions, processes them in two parts, and checks table and topic."""
    with summary.step("stream the first half in") as remarks:
        feed = flights.first_days(days)
        half = len(feed) // 2
        create_topics(options)
        for directory in (options.checkpoint, options.table):
            shutil.rmtree(directory, ignore_errors=True)
        aborted = flights.send_in_transactions(options.bootstrap, options.topic, feed[:half])
        remarks.append(f"{half:,} flights committed, {aborted:,} records aborted")
    with summary.step("start Spark") as remarks:
        sessions = Sessions(options, out, master)
        remarks.append(f"Spark {sessions.spark.version}")
    with summary.step("join them") as remarks:
        done = sessions.process()
        remarks.append(f"{done.rows:,} rows in {len(done.batches)} micro-batches")
    with summary.step("stream the second half in, and resume") as remarks:
        flights.send_in_transactions(options.bootstrap, options.topic, feed[half:])
        flights.close_feed(options.bootstrap, options.topic, feed[-1].scheduled_ms)
        done = sessions.process()
        remarks.append(f"{done.rows:,} rows in {len(done.batches)} micro-batches")
    sessions.spark.stop()
    with summary.step("read the results back, and check them") as remarks:
        found, repeated = read_topic(options)
        right = expected(feed)
        check(read_table(Path(options.table)), right, "table")
        check(found, right, "topic")
        remarks.append(f"{len(found):,} periods, {repeated} records repeated")
    chart.draw(found, out / "sessions.png")
    show(found)


def resume(options: job.Options, out: Path, summary: Summary, master: str | None) -> None:
    """Processes what the topic holds beyond the checkpoint; table and topic must have the same periods."""
    with summary.step("start Spark") as remarks:
        sessions = Sessions(options, out, master)
        remarks.append(f"Spark {sessions.spark.version}")
    with summary.step("continue from the checkpoint") as remarks:
        done = sessions.process()
        remarks.append(f"{done.rows:,} rows in {len(done.batches)} micro-batches")
    sessions.spark.stop()
    with summary.step("read the results back") as remarks:
        found, repeated = read_topic(options)
        check(read_table(Path(options.table)), found, "table")
        remarks.append(f"{len(found):,} periods, {repeated} records repeated")
    show(found)


def show(found: list[Period]) -> None:
    """Prints the routes with the most flights in one period."""
    table = number_table("The busiest periods of service", "route", "hours", "flights", "left", "mean delay")
    for period in sorted(found, key=lambda each: (-each.flights, each))[:10]:
        hours = (period.last_ms - period.begin_ms) / flights.HOUR_MS
        mean = period.delay / max(period.departed, 1)
        table.add_row(period.route, f"{hours:.1f}", str(period.flights), str(period.departed), f"{mean:.1f}")
    table.caption = "delays in minutes"
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("sessions", __doc__)
    parser.add_argument("--topic", default=job.Options.topic, help=f"topic (default: {job.Options.topic})")
    days = f"so many days of the year, {MIN_DAYS} at least (default: 91)"
    parser.add_argument("--days", type=at_least(MIN_DAYS), default=91, help=days)
    parser.add_argument("--rows-per-batch", type=at_least(1), default=job.Options.rows_per_batch)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    add_resume(parser, "send nothing, and continue from the checkpoint")
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    out: Path = arguments.out

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        own = job.Options(
            bootstrap,
            topic=arguments.topic,
            periods=f"{arguments.topic}-periods",
            table=str(out / "sessions"),
            checkpoint=str(out / "checkpoints" / "sessions"),
            rows_per_batch=arguments.rows_per_batch,
            fail_on_data_loss=arguments.fail_on_data_loss,
        )
        if arguments.resume:
            resume(own, out, summary, arguments.master)
        else:
            run(own, out, summary, arguments.days, arguments.master)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        drawn = "" if arguments.resume else f" {out}/sessions.png,"
        CONSOLE.print(f"Result: {out}/sessions (Parquet),{drawn} and the topic {arguments.topic}-periods")
    return status
