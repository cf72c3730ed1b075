"""Loads a topic into a table of Parquet files or of Apache Iceberg, in batches with explicit offsets, each row once.

`python -m spark_examples.warehouse [--bootstrap HOST:PORT] [--out DIRECTORY] [--format iceberg]`; without an address it
starts kafkapy. With `--resume` it sends no flights, and loads what the topic holds beyond the table.

How a row comes to be in the table once. A load reads a range of offsets that was fixed before. Its rows and the range
are staged where no reader sees them, and committed together in one step (`warehouse_tables.py`). Where the next load
begins is read from the table. A load that died before its commit left nothing that a reader sees, and is repeated from
the same offset. One process at a time may load: a lock sees to it on a local disk, on a shared one the scheduler must;
two that began at the same offset can't both commit in any case. Lines that are no flights go into a topic of their own
before the commit: a repeated load sends them again, under the same key.
"""

import argparse
import json
import math
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from kafka import KafkaProducer
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import flights, topics, totals_chart
from spark_examples.monitoring import SCHEMA
from spark_examples.report import CONSOLE, Summary, number_table, parsed_arguments, run_on_broker
from spark_examples.session import open_session
from spark_examples.topics import Extent
from spark_examples.warehouse_tables import ICEBERG, PARQUET, Load, ParquetTable, WarehouseTable, open_table, place

TOPIC = "warehouse-flights"
PARTITIONS = 3
ROWS_PER_LOAD = 60_000
TASKS = 4
"""Spark divides each load into at least so many tasks, though the topic has fewer partitions."""
RESULTS = {PARQUET: "Parquet, a directory for each load", ICEBERG: "Iceberg, a snapshot for each load"}
BROKEN_LINES = (b"no flight at all", b'{"origin":"JFK","scheduled_ms":13570', b'{"origin":"LGA"}')
LINES_PER_BROKEN = 50_000


class OffsetsGoneError(RuntimeError):
    """The topic no longer holds the offsets at which the next load begins."""


class NotExactError(RuntimeError):
    """Table and topic differ."""


@dataclass(frozen=True)
class Source:
    """What is loaded, and how."""

    bootstrap: str
    topic: str = TOPIC
    rows_per_load: int = ROWS_PER_LOAD
    fail_on_data_loss: bool = True

    @property
    def dead_letters(self) -> str:
        """The topic for what is no flight."""
        return f"{self.topic}-dead-letters"


class Plan(NamedTuple):
    """What the next load reads, and how many offsets are gone that it should have read."""

    ranges: dict[int, Extent]
    lost: int


def positions(source: Source, stored: Mapping[int, int], held: Mapping[int, Extent]) -> dict[int, int]:
    """By partition, where to begin; raises OffsetsGoneError."""
    if not held:
        raise OffsetsGoneError(
            f"The topic {source.topic} does not exist. If it was deleted, what the table lacks can't be loaded: "
            "neither value of Spark's option failOnDataLoss helps."
        )
    begin = {}
    for partition, extent in held.items():
        position = stored.get(partition, extent.first)
        if position > extent.end:
            raise OffsetsGoneError(
                f"Partition {partition} of {source.topic} ends at {extent.end}, but the table has its offsets up to "
                f"{position}: the topic was deleted and created again. Load it into another table (--out)."
            )
        if position < extent.first and source.fail_on_data_loss:
            raise OffsetsGoneError(
                f"Partition {partition} of {source.topic} begins at offset {extent.first}, but the next one to load "
                f"is {position}: {extent.first - position} are gone (retention, or deleted records). Spark's option "
                "failOnDataLoss decides: with --no-fail-on-data-loss the load goes on, and counts them as lost."
            )
        begin[partition] = max(position, extent.first)
    return begin


def plan(source: Source, stored: Mapping[int, int], held: Mapping[int, Extent]) -> Plan:
    """The next range of each partition: a share of `rows_per_load` that is proportional to what it still holds."""
    begin = positions(source, stored, held)
    left = {partition: held[partition].end - first for partition, first in begin.items()}
    together = max(sum(left.values()), 1)
    share = min(source.rows_per_load / together, 1)
    ranges = {
        partition: Extent(first, first + math.ceil(left[partition] * share)) for partition, first in begin.items()
    }
    return Plan(ranges, sum(max(first - stored.get(partition, first), 0) for partition, first in begin.items()))


def next_plan(source: Source, table: WarehouseTable) -> Plan:
    """The plan after what is in the table, of what the topic holds now."""
    return plan(source, table.stored(source.topic), topics.extents(source.bootstrap, source.topic))


def read_ranges(spark: SparkSession, source: Source, ranges: Mapping[int, Extent]) -> DataFrame:
    """The records of these ranges: their flight, if they are one, and where they lie."""
    first, end = (
        json.dumps({source.topic: {str(partition): extent[side] for partition, extent in ranges.items()}})
        for side in (0, 1)
    )
    records = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribe", source.topic)
        .option("startingOffsets", first)
        .option("endingOffsets", end)
        .option("minPartitions", TASKS)
        .option("failOnDataLoss", str(source.fail_on_data_loss).lower())
        .load()
    )
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed"}
    flight = f.from_json(f.col("value").cast("string"), f"{SCHEMA}, malformed STRING", options)
    return records.select("partition", "offset", "value", flight.alias("flight")).withColumn("reason", reason())


def reason() -> Column:
    """Why a record is no flight; null if it is one."""
    needed = ("origin", "scheduled_ms", "carrier", "number", "destination")
    incomplete = f.greatest(*(f.col(f"flight.{name}").isNull() for name in needed))
    malformed = f.col("flight").isNull() | f.col("flight.malformed").isNotNull()
    return f.when(malformed, "not JSON").when(incomplete, "incomplete")


def flights_of(records: DataFrame) -> DataFrame:
    """The rows of the table; their month (UTC) is its partition."""
    flight = records.where("reason IS NULL").select("flight.*", "partition", "offset").drop("malformed")
    scheduled = f.timestamp_millis("scheduled_ms")
    table = flight.withColumn("scheduled", scheduled).withColumn("month", f.date_format(scheduled, "yyyy-MM"))
    return table.drop("scheduled_ms")


def write_broken(records: DataFrame, source: Source) -> None:
    """The other records, unchanged, into the dead-letter topic; their key says where they lay, a header why."""
    place = f.concat_ws("/", f.lit(source.topic), "partition", "offset")
    why = f.array(f.struct(f.lit("reason").alias("key"), f.col("reason").cast("binary").alias("value")))
    letters = records.where("reason IS NOT NULL").select(place.alias("key"), "value", why.alias("headers"))
    sink = letters.write.format("kafka").option("kafka.bootstrap.servers", source.bootstrap)
    sink.option("topic", source.dead_letters).save()


def load_next(spark: SparkSession, source: Source, table: WarehouseTable) -> Load | None:
    """One load; None if the table has all that the topic holds."""
    number = table.next_number()
    ranges, lost = next_plan(source, table)
    if not lost and all(extent.first == extent.end for extent in ranges.values()):
        return None
    CONSOLE.print(f"  load {number}: reading")
    records = read_ranges(spark, source, ranges).persist()
    counted = records.agg(f.count("*").alias("all"), f.count("reason").alias("broken")).first()
    assert counted is not None
    load = Load(source.topic, ranges, counted["all"] - counted["broken"], counted["broken"], lost)
    staged = table.stage(flights_of(records), load, number)
    if load.broken:
        write_broken(records, source)
    records.unpersist()
    CONSOLE.print(f"  load {number}: staged")
    table.commit(staged)
    CONSOLE.print(f"  load {number}: committed {load.rows:,} rows, {load.broken} broken")
    return load


def load_all(spark: SparkSession, source: Source, table: WarehouseTable) -> list[Load]:
    """Loads until the table has what the topic holds."""
    done: list[Load] = []
    while (load := load_next(spark, source, table)) is not None:
        done.append(load)
    return done


@dataclass(frozen=True)
class Reconciled:
    """What is in the table and in the dead letters, after all of it was found to be exact."""

    rows: int
    broken: int
    lost: int
    repeated_letters: int


def reconcile(spark: SparkSession, source: Source, table: WarehouseTable) -> Reconciled:
    """Holds the (partition, offset) pairs against what the broker's offsets promise; raises NotExactError.

    So many pairs as offsets, all different, the smallest the first and the largest the last: then each is there once.
    The markers of transactions would take offsets too; the feed has none.
    """
    letters = dead_letters(source)
    rows = table.rows(spark).select("partition", "offset")
    both = rows.union(spark.createDataFrame(sorted(set(letters)), "partition INT, offset LONG"))
    found = both.groupBy("partition").agg(f.count("*"), f.countDistinct("offset"), f.min("offset"), f.max("offset") + 1)
    per_partition = {row[0]: tuple(row)[1:] for row in found.collect()}
    expected = {partition: (count, count, *extent) for partition, count, extent in _promised(source, table)}
    if per_partition != expected:
        raise NotExactError(
            f"(records, distinct offsets, first, end) by partition: {per_partition} in table and dead letters, "
            f"{expected} by the broker"
        )
    loads = table.loads()
    counted, broken = rows.count(), len(set(letters))
    if (counted, broken) != (sum(load.rows for load in loads), sum(load.broken for load in loads)):
        raise NotExactError(f"{counted} rows and {broken} dead letters, other than the loads have noted")
    return Reconciled(counted, broken, sum(load.lost for load in loads), len(letters) - broken)


def _promised(source: Source, table: WarehouseTable) -> Iterator[tuple[int, int, Extent]]:
    """By partition that ever held something: how many offsets it had for the loads, and from where to where."""
    firsts: dict[int, int] = {}
    read: dict[int, int] = defaultdict(int)
    for load in table.loads():
        for partition, extent in load.ranges.items():
            read[partition] += extent.end - extent.first
            if extent.end > extent.first:
                firsts.setdefault(partition, extent.first)
    for partition, held in topics.extents(source.bootstrap, source.topic).items():
        if partition in firsts:
            yield partition, read[partition], Extent(firsts[partition], held.end)


def dead_letters(source: Source) -> list[tuple[int, int]]:
    """Where each dead letter lay, (partition, offset); one that was sent twice is there twice."""
    places = (record.key.decode().split("/") for record in topics.read_all(source.bootstrap, source.dead_letters))
    return [(int(partition), int(offset)) for topic, partition, offset in places if topic == source.topic]


class MonthTotals(NamedTuple):
    """Sums of a month; delays in minutes."""

    flights: int
    departed: int
    dep_delay: int
    arr_delay: int


def monthly(spark: SparkSession, table: WarehouseTable) -> dict[str, MonthTotals]:
    """The months of the table."""
    rows = table.rows(spark).groupBy(f.col("month").cast("string"))
    sums = (f.count("*"), f.count("dep_delay"), f.sum("dep_delay"), f.sum("arr_delay"))
    return {row[0]: MonthTotals(*tuple(row)[1:]) for row in rows.agg(*sums).collect()}


def monthly_expected(feed: Iterable[flights.Flight]) -> dict[str, MonthTotals]:
    """The same from the data set, without Kafka and without Spark."""
    months: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for flight in feed:
        totals = months[flights.day_of(flight.scheduled_ms)[:7]]
        added = 1, flight.dep_delay is not None, flight.dep_delay or 0, flight.arr_delay or 0
        totals[:] = (total + more for total, more in zip(totals, added, strict=True))
    return {month: MonthTotals(*totals) for month, totals in months.items()}


def send_broken(bootstrap: str, topic: str, count: int) -> None:
    """Lines that are no flights, among the flights."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number in range(count):
        producer.send(topic, BROKEN_LINES[number % len(BROKEN_LINES)], f"broken-{number}".encode())
    producer.flush()
    producer.close()


@dataclass(frozen=True)
class SentDays:
    """What is sent: so many days of the data set, so many times, each time dated a year later."""

    days: int
    copies: int = 1

    def parts(self) -> Iterator[list[flights.Flight]]:
        """One copy after the other: of several, only one is in memory."""
        return flights.years(flights.first_days(self.days), self.copies)


def stream_in(source: Source, feed: SentDays, table: Path) -> tuple[int, int]:
    """Creates the topics and sends the feed, with broken lines between; how many of both. The table begins anew."""
    if topics.extents(source.bootstrap, source.topic):
        raise RuntimeError(f"The topic {source.topic} exists already: use --resume, or --topic with another name.")
    shutil.rmtree(table, ignore_errors=True)
    flights.create_topics(source.bootstrap, {source.topic: PARTITIONS, source.dead_letters: 1})
    sent = broken = 0
    for part in feed.parts():
        for first in range(0, len(part), LINES_PER_BROKEN):
            sent += flights.send(source.bootstrap, source.topic, part[first : first + LINES_PER_BROKEN])
            send_broken(source.bootstrap, source.topic, len(BROKEN_LINES))
            broken += len(BROKEN_LINES)
    return sent, broken


def run(
    source: Source, out: Path, table_format: str, summary: Summary, feed: SentDays | None, master: str | None = None
) -> None:
    """The whole job; the feed is sent, None if the topic has its rows already."""
    path = place(table_format, out)
    if feed is None and table_format == PARQUET:
        next_plan(source, ParquetTable(path))  # if it fails, then before Spark starts; Iceberg's offsets need Spark
    if feed is not None:
        with summary.step("stream the flights in") as remarks:
            sent, broken = stream_in(source, feed, path)
            remarks.append(f"{sent:,} flights, {broken} broken lines acknowledged")
    with summary.step("start Spark") as remarks:
        spark = open_session(
            "warehouse", out / "spark.log", master=master, lake=path.parent if table_format == ICEBERG else None
        )
        table = open_table(table_format, out, spark)
        remarks.append(f"Spark {spark.version}")
    with summary.step("load") as remarks:
        started = time.monotonic()
        with table.alone():
            done = load_all(spark, source, table)
        loaded = sum(load.rows for load in done)
        remarks.append(f"{loaded:,} rows in {len(done)} loads, {loaded / (time.monotonic() - started):,.0f} rows/s")
    if not any(load.rows for load in table.loads()):
        CONSOLE.print("  no flights in the topic yet")
        return
    with summary.step("reconcile table and topic") as remarks:
        exact = reconcile(spark, source, table)
        remarks.append(f"{exact.rows:,} rows + {exact.broken} dead letters, each offset once, {exact.lost} lost")
    with summary.step("sum up the months"):
        months = monthly(spark, table)
        if feed is not None and months != monthly_expected(chain.from_iterable(feed.parts())):
            raise NotExactError(f"the months {months} are not those of the data set")
    spark.stop()
    title = f"{exact.rows:,} flights in the warehouse, each once"
    counts = {"flights": [months[month].flights for month in sorted(months)]}
    totals_chart.draw(title, sorted(months), counts, "by month (UTC)", out / "warehouse.png")
    show(months)


def show(months: Mapping[str, MonthTotals]) -> None:
    """Prints the result."""
    table = number_table("Departures from New York", "month (UTC)", "flights", "cancelled", "mean delay, minutes")
    for month, totals in sorted(months.items()):
        mean = totals.dep_delay / max(totals.departed, 1)
        table.add_row(month, f"{totals.flights:,}", f"{totals.flights - totals.departed:,}", f"{mean:.1f}")
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this broker instead of starting kafkapy")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the table goes (default: out)")
    parser.add_argument(
        "--format", choices=(PARQUET, ICEBERG), default=PARQUET, help="what the table is made of (default: parquet)"
    )
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--days", type=int, default=flights.DAYS, help="so many days of the year (default: all)")
    parser.add_argument("--copies", type=int, default=1, help="so many times, each a year later (default: 1)")
    parser.add_argument("--rows-per-load", type=int, default=ROWS_PER_LOAD)
    parser.add_argument("--resume", action="store_true", help="send nothing, keep the table, and load what it lacks")
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--master", metavar="URL", help="run on this Spark cluster, spark://HOST:PORT")
    return parser


def main() -> int:
    arguments = parsed_arguments(options())
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)

    def job(bootstrap: str, summary: Summary) -> None:
        source = Source(bootstrap, arguments.topic, arguments.rows_per_load, arguments.fail_on_data_loss)
        feed = None if arguments.resume else SentDays(arguments.days, arguments.copies)
        run(source, out, arguments.format, summary, feed, arguments.master)

    status = run_on_broker(arguments.bootstrap, job)
    if status == 0:
        CONSOLE.print(f"Result: {place(arguments.format, out)} ({RESULTS[arguments.format]})")
    return status


if __name__ == "__main__":
    sys.exit(main())
