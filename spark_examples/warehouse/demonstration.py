"""Loads a year of real flights, with broken lines among them, and compares the table with the topic and the data set.

With --resume nothing is sent: the job loads what the topic holds beyond the table.
"""

import argparse
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaProducer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from spark_examples.common import topics
from spark_examples.common.progress import FULL_MARKS, shortened
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
from spark_examples.common.session import LAKE, open_session
from spark_examples.data import flights
from spark_examples.warehouse import chart, job
from spark_examples.warehouse.chart import Committed
from spark_examples.warehouse.check import MonthTotals, check_counts, check_months, check_offsets, monthly_expected

PARTITIONS = 3
BROKEN_LINES = (b"no flight at all", b'{"origin":"JFK","scheduled_ms":13570', b'{"origin":"LGA"}')
LINES_PER_BROKEN = 50_000
RESULTS = {job.PARQUET: "Parquet, a directory for each load", job.ICEBERG: "Iceberg, a snapshot for each load"}


@dataclass(frozen=True)
class SentDays:
    """What is sent: so many days of the data set, so many times, each time dated a year later."""

    days: int
    copies: int = 1

    def parts(self) -> Iterator[list[flights.Flight]]:
        """One copy after the other: of several, only one is in memory."""
        return flights.years(flights.first_days(self.days), self.copies)


class LoadFailedError(RuntimeError):
    """Spark could not finish a load; the message says what to do."""


def place(table_format: str, out: Path) -> Path:
    """The directory of the table of this format."""
    return out / LAKE / "flights" if table_format == job.ICEBERG else out / "warehouse"


def send_broken(bootstrap: str, topic: str, count: int) -> None:
    """Lines that are no flights, among the flights."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number in range(count):
        producer.send(topic, BROKEN_LINES[number % len(BROKEN_LINES)], f"broken-{number}".encode())
    producer.flush()
    producer.close()


def stream_in(options: job.Options, feed: SentDays, table: Path) -> tuple[int, int]:
    """Creates the topics and sends the feed, with broken lines between; how many of both. The table begins anew."""
    flights.create_topics(options.bootstrap, {options.topic: PARTITIONS, options.dead_letters: 1}, "--topic")
    shutil.rmtree(table, ignore_errors=True)
    sent = broken = 0
    for part in feed.parts():
        for first in range(0, len(part), LINES_PER_BROKEN):
            sent += flights.send(options.bootstrap, options.topic, part[first : first + LINES_PER_BROKEN])
            send_broken(options.bootstrap, options.topic, len(BROKEN_LINES))
            broken += len(BROKEN_LINES)
    return sent, broken


def load_all(spark: SparkSession, options: job.Options, table: job.Table) -> list[Committed]:
    """Loads until the table has what the topic holds; the table before and after each load."""
    started = time.monotonic()
    states = [_state(options, table.position(), 0.0)]
    while (position := _load_next(spark, options, table)) is not None:
        states.append(_state(options, position, time.monotonic() - started))
    return states


def _load_next(spark: SparkSession, options: job.Options, table: job.Table) -> job.Position | None:
    try:
        return job.load_next(spark, options, table)
    except PySparkException as error:
        text = str(error)
        if any(mark in text for mark in FULL_MARKS):
            raise LoadFailedError("The disk of --out is full. After space is free, --resume loads the rest.") from error
        raise LoadFailedError(f"The load failed; --resume repeats it. Spark: {shortened(text)}") from error


def _state(options: job.Options, position: job.Position | None, seconds: float) -> Committed:
    known = position or job.Position(options.topic)
    left = sum(end - known.next.get(partition, first) for partition, (first, end) in job.held(options).items())
    return Committed(seconds, known.rows, left, dict(known.next))


class Letters(NamedTuple):
    """Where the dead letters lay, (partition, offset), and how many were sent again."""

    places: set[tuple[int, int]]
    repeated: int


def dead_letters(options: job.Options) -> Letters:
    """The dead letters of the topic."""
    records = topics.read_all(options.bootstrap, options.dead_letters)
    keys = [record.key.decode().split("/") for record in records]
    places = [(int(partition), int(offset)) for topic, partition, offset in keys if topic == options.topic]
    return Letters(set(places), len(places) - len(set(places)))


def reconcile(spark: SparkSession, options: job.Options, table: job.Table) -> str:
    """Compares table and dead letters with the offsets that were loaded; raises NotExactError."""
    letters, position = dead_letters(options), table.position()
    assert position is not None
    rows = table.rows().select("partition", "offset")
    both = rows.union(spark.createDataFrame(sorted(letters.places), "partition INT, offset LONG"))
    counted = both.groupBy("partition").agg(
        f.count("*"), f.countDistinct("offset"), f.min("offset"), f.max("offset") + 1
    )
    check_offsets(position, {row[0]: (row[1], row[2], row[3], row[4]) for row in counted.collect()})
    check_counts(position, rows.count(), len(letters.places))
    lost = sum(position.lost.values())
    again = f", {letters.repeated} dead letters again" if letters.repeated else ""
    return f"{position.rows:,} rows + {position.broken} dead letters, each offset once, {lost} lost{again}"


def monthly(table: job.Table) -> dict[str, MonthTotals]:
    """The months of the table."""
    rows = table.rows().groupBy(f.col("month").cast("string"))
    sums = (f.count("*"), f.count("dep_delay"), f.sum("dep_delay"), f.sum("arr_delay"))
    return {row[0]: MonthTotals(row[1], row[2], row[3], row[4]) for row in rows.agg(*sums).collect()}


def run(options: job.Options, out: Path, summary: Summary, feed: SentDays | None, master: str | None) -> None:
    """Sends the feed, loads it, and checks the table; without a feed, loads what the topic holds beyond the table."""
    path = place(options.format, out)
    if feed is None:
        job.begin(options, job.Position(options.topic), job.held(options))  # fails before Spark starts
    else:
        with summary.step("stream the flights in") as remarks:
            sent, broken = stream_in(options, feed, path)
            remarks.append(f"{sent:,} flights, {broken} broken lines acknowledged")
    with summary.step("start Spark") as remarks:
        lake = path.parent if options.format == job.ICEBERG else None
        spark = open_session("warehouse", out / "spark.log", master=master, lake=lake)
        table = job.open_table(spark, options)
        remarks.append(f"Spark {spark.version}")
    with summary.step("load") as remarks:
        states = load_all(spark, options, table)
        loaded, seconds = states[-1].rows - states[0].rows, max(states[-1].seconds, 0.1)
        remarks.append(f"{loaded:,} rows in {len(states) - 1} loads, {loaded / seconds:,.0f} rows/s")
    if not states[-1].rows:
        CONSOLE.print("  no flights in the topic yet")
        return
    with summary.step("reconcile table and topic") as remarks:
        remarks.append(reconcile(spark, options, table))
    with summary.step("sum up the months"):
        months = monthly(table)
        if feed is not None:
            check_months(months, monthly_expected(chain.from_iterable(feed.parts())))
    spark.stop()
    if len(states) > 1:
        chart.draw(states, out / "warehouse.png")
    show(months)


def show(months: Mapping[str, MonthTotals]) -> None:
    """Prints the result."""
    table = number_table("Departures from New York", "month (UTC)", "flights", "cancelled", "mean delay, minutes")
    for month, totals in sorted(months.items()):
        mean = totals.dep_delay / max(totals.departed, 1)
        table.add_row(month, f"{totals.flights:,}", f"{totals.flights - totals.departed:,}", f"{mean:.1f}")
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("warehouse", __doc__)
    formats = (job.PARQUET, job.ICEBERG)
    parser.add_argument("--format", choices=formats, default=job.PARQUET, help="of the table (default: parquet)")
    parser.add_argument("--topic", default=job.Options.topic, help=f"topic (default: {job.Options.topic})")
    parser.add_argument("--days", type=at_least(1), default=flights.DAYS, help="days of the year (default: all)")
    parser.add_argument("--copies", type=at_least(1), default=1, help="so many times, each a year later (default: 1)")
    parser.add_argument("--rows-per-load", type=at_least(1), default=job.Options.rows_per_load)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    add_resume(parser, "send nothing, keep the table, and load what it lacks")
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    out: Path = arguments.out
    path = place(arguments.format, out)

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        own = job.Options(
            bootstrap,
            topic=arguments.topic,
            dead_letters=f"{arguments.topic}-dead-letters",
            table=f"{LAKE}.{path.name}" if arguments.format == job.ICEBERG else str(path),
            format=arguments.format,
            rows_per_load=arguments.rows_per_load,
            fail_on_data_loss=arguments.fail_on_data_loss,
        )
        run(
            own,
            out,
            summary,
            None if arguments.resume else SentDays(arguments.days, arguments.copies),
            arguments.master,
        )

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        CONSOLE.print(f"Result: {path} ({RESULTS[arguments.format]})")
    return status
