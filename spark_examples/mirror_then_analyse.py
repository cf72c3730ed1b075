"""Mirrors a topic to a second broker, analyses both sides with the same Spark query, and holds the results together.

`python -m spark_examples.mirror_then_analyse [--bootstrap HOST:PORT] [--target HOST:PORT] [--out DIRECTORY]`; each
broker whose address is not given is a kafkapy of its own.

Flights are written in transactions, each of which is tried once and aborted before it is committed, as by a writer that
fails and repeats. `kafkapy mirror --exactly-once` copies the topic while it is written, is stopped in the middle, and
goes on where it was. Only with `read_committed` does a query see each flight once, on the source because of the aborted
transactions, on the target also because the mirror may have aborted some of its own.

A streaming query commits no offsets to Kafka, so lag tools know nothing of it. The pipeline commits what the query's
last batch has reached into a group on the same broker: `kafkapy groups describe` then shows the lag.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples import flights, topics, totals_chart
from spark_examples.broker import running_broker
from spark_examples.monitoring import SCHEMA
from spark_examples.report import CONSOLE, Summary, number_table, run_on_broker
from spark_examples.session import open_session

TOPIC = "mirrored-flights"
GROUP = "mirror-then-analyse"
PARTITIONS = 3
FLIGHTS_PER_TRANSACTION = 5_000
ABORTED_SHARE = 5
"""Of each transaction, one in so many flights is written first in a transaction that is aborted."""
OFFSETS_PER_BATCH = 60_000
COMMAND_TIMEOUT_S = 300
MIRROR_START_TIMEOUT_S = 60
KAFKAPY = (sys.executable, "-c", "from kafkapy.cli.main import main; main()")
SOURCE, TARGET = "source", "target"


class MirrorFailedError(RuntimeError):
    """A command of kafkapy failed; the message is what it wrote."""


class SidesDifferError(RuntimeError):
    """The analyses of source and target, or that of plain Python, are not the same."""


class CarrierTotals(NamedTuple):
    """A carrier's year. Delays are sums in minutes; the checksum is the sum of the CRC-32 of each record's value."""

    flights: int
    departed: int
    dep_delay: int
    worst: int | None
    checksum: int


Analysis = dict[str, CarrierTotals]


@dataclass(frozen=True)
class Side:
    """One of the two brokers, and where the query over it keeps its result and its checkpoint."""

    name: str
    bootstrap: str
    topic: str
    out: Path
    offsets_per_batch: int = OFFSETS_PER_BATCH

    @property
    def result(self) -> Path:
        """The Parquet files of the analysis."""
        return self.out / f"analysis-{self.name}"

    @property
    def checkpoint(self) -> Path:
        """The query's directory."""
        return self.out / "checkpoints" / f"analysis-{self.name}"


class Pass(NamedTuple):
    """One run of the query; `reached` is its last batch's end by partition."""

    rows: int
    batches: int
    reached: dict[int, int]


class Position(NamedTuple):
    """A partition as `kafkapy groups describe` shows it for the query's group."""

    committed: int
    end: int
    lag: int


def write_in_transactions(bootstrap: str, topic: str, feed: list[flights.Flight]) -> int:
    """Writes the flights so that each is committed once; returns how many records were written and aborted."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"{topic}-writer", compression_type="gzip", linger_ms=50
    )
    producer.init_transactions()
    aborted = 0
    for first in range(0, len(feed), FLIGHTS_PER_TRANSACTION):
        rows = feed[first : first + FLIGHTS_PER_TRANSACTION]
        repeated = rows[::ABORTED_SHARE]
        producer.begin_transaction()
        _send(producer, topic, repeated)
        producer.abort_transaction()
        aborted += len(repeated)
        producer.begin_transaction()
        _send(producer, topic, rows)
        producer.commit_transaction()
    producer.close()
    return aborted


def _send(producer: Any, topic: str, rows: list[flights.Flight]) -> None:
    """Writes the rows, keyed by airport; returns when all are acknowledged."""
    futures = [producer.send(topic, row.to_json(), row.origin.encode(), timestamp_ms=row.scheduled_ms) for row in rows]
    producer.flush()
    for future in futures:
        future.get(timeout=0)


def mirror_command(source: str, target: str, topic: str) -> list[str]:
    """What copies the topic exactly once, until it is stopped."""
    return [*KAFKAPY, "mirror", "--from", source, "--to", target, "--topics", re.escape(topic), "--exactly-once"]


@contextmanager
def mirroring(source: str, target: str, topic: str, log: Path) -> Iterator[None]:
    """The mirror copies meanwhile, and is told to stop then; raises MirrorFailedError if it failed."""
    with log.open("wb") as output:
        process = subprocess.Popen(mirror_command(source, target, topic), stdout=output, stderr=output)
    deadline = time.monotonic() + MIRROR_START_TIMEOUT_S
    try:
        while not topics.extents(target, topic):  # the mirror creates it
            if process.poll() is not None or time.monotonic() > deadline:
                raise MirrorFailedError(f"kafkapy mirror did not begin:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)
        yield
        process.send_signal(signal.SIGTERM)
        if process.wait(COMMAND_TIMEOUT_S) != 0:
            raise MirrorFailedError(f"kafkapy mirror failed:\n{log.read_text(errors='replace')}")
    finally:
        process.kill()
        process.wait()


def _kafkapy(*words: str) -> Any:
    """Runs a command of kafkapy to its end; its answer. Raises MirrorFailedError."""
    run = subprocess.run(
        [*KAFKAPY, *words, "--json"], capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    if run.returncode != 0:
        raise MirrorFailedError(f"kafkapy {words[0]} failed:\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout)


def mirror_rest(source: str, target: str, topic: str) -> int:
    """Copies what is left; how many records that were."""
    words = mirror_command(source, target, topic)[len(KAFKAPY) :]
    records: int = _kafkapy(*words, "--once")["records"]
    return records


def carriers(feed: DataFrame) -> DataFrame:
    """The analysis: totals by carrier."""
    value = f.from_json(f.col("value").cast("string"), SCHEMA)
    flight = feed.select("value", value.alias("flight")).select("value", "flight.*")
    return flight.groupBy("carrier").agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("dep_delay"),
        f.max("dep_delay").alias("worst"),
        f.sum(f.crc32("value")).alias("checksum"),
    )


def analyse(spark: SparkSession, side: Side) -> Pass:
    """Brings the analysis up to what is committed in the topic now, and the group's offsets to where the query is.

    The query keeps its totals, so each pass reads only what is new (`availableNow`), and each batch writes all totals:
    a batch that is repeated after a crash writes the same.
    """
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", side.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", side.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", side.offsets_per_batch)
        .load()
    )

    def write(totals: DataFrame, _: int) -> None:
        totals.write.mode("overwrite").parquet(str(side.result))

    writer = carriers(source).writeStream.queryName(side.name).foreachBatch(write).outputMode("complete")
    query = writer.option("checkpointLocation", str(side.checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    read = [each for each in query.recentProgress if each["sources"]]
    ends = json.loads(read[-1]["sources"][0]["endOffset"])[side.topic] if read else {}
    done = Pass(
        sum(each["numInputRows"] for each in read),
        sum(1 for each in read if each["numInputRows"]),
        {int(partition): end for partition, end in ends.items()},
    )
    commit(side, done.reached)
    return done


def commit(side: Side, reached: Mapping[int, int]) -> None:
    """Stores the query's position as offsets of a group."""
    consumer = KafkaConsumer(bootstrap_servers=side.bootstrap, group_id=GROUP, enable_auto_commit=False)
    positions = {TopicPartition(side.topic, partition): end for partition, end in reached.items()}
    consumer.assign(list(positions))
    consumer.commit({place: OffsetAndMetadata(end, "", -1) for place, end in positions.items()})
    consumer.close()


def positions_of(side: Side) -> dict[int, Position]:
    """The query's positions and lag by partition, as the broker has them."""
    rows = _kafkapy("groups", "describe", GROUP, "--bootstrap", side.bootstrap)["offsets"]
    own = [row for row in rows if row["topic"] == side.topic]
    return {row["partition"]: Position(row["committed"], row["end_offset"], row["lag"]) for row in own}


def read_analysis(spark: SparkSession, side: Side) -> Analysis:
    """The result of the query."""
    rows = spark.read.parquet(str(side.result)).select("carrier", *CarrierTotals._fields).collect()
    return {row[0]: CarrierTotals(*tuple(row)[1:]) for row in rows}


def analysis_expected(feed: list[flights.Flight]) -> Analysis:
    """The same from the data set, without Kafka and without Spark."""
    by_carrier: dict[str, list[flights.Flight]] = defaultdict(list)
    for flight in feed:
        by_carrier[flight.carrier].append(flight)
    found = {}
    for carrier, rows in by_carrier.items():
        left = [row.dep_delay for row in rows if row.dep_delay is not None]
        checksum = sum(zlib.crc32(row.to_json()) for row in rows)
        found[carrier] = CarrierTotals(len(rows), len(left), sum(left), max(left, default=None), checksum)
    return found


def check(expected: Analysis, found: Mapping[str, Analysis]) -> None:
    """Raises SidesDifferError unless all are the same."""
    for name, analysis in found.items():
        different = [each for each in sorted(expected | analysis) if expected.get(each) != analysis.get(each)]
        if different:
            first = different[0]
            raise SidesDifferError(
                f"{len(different)} carriers of the {name} are wrong. {first} has {analysis.get(first)} there, and "
                f"{expected.get(first)} by the data set."
            )


def check_positions(side: Side, done: Pass) -> int:
    """The query's lag as the broker has it; raises SidesDifferError if it is not the distance to the topic's ends."""
    shown = positions_of(side)
    ends = {partition: extent.end for partition, extent in topics.extents(side.bootstrap, side.topic).items()}
    expected = {
        partition: Position(reached, ends[partition], ends[partition] - reached)
        for partition, reached in done.reached.items()
    }
    if shown != expected:
        raise SidesDifferError(f"kafkapy groups describe shows {shown} for the {side.name}, other than {expected}")
    return sum(position.lag for position in shown.values())


def create_sides(source: Side, target: Side) -> None:
    """Creates the topic on the source; the mirror creates it on the target. Raises RuntimeError if it exists."""
    for side in (source, target):
        if topics.extents(side.bootstrap, side.topic):
            raise RuntimeError(f"The topic {side.topic} exists already on the {side.name}: use another --topic.")
    flights.create_topics(source.bootstrap, {source.topic: PARTITIONS})


def run(source: Side, target: Side, summary: Summary, days: int, master: str | None = None) -> None:
    """The whole job between two running brokers."""
    both = source.bootstrap, target.bootstrap, source.topic
    feed = flights.first_days(days)
    half = len(feed) // 2
    create_sides(source, target)
    with summary.step("write the first half, mirrored meanwhile") as remarks, \
            mirroring(*both, source.out / "mirror.log"):  # fmt: skip
        aborted = write_in_transactions(source.bootstrap, source.topic, feed[:half])
        remarks.append(f"{half:,} flights committed, {aborted:,} records aborted")
    with summary.step("start Spark") as remarks:
        spark = open_session("mirror-then-analyse", source.out / "spark.log", master=master)
        remarks.append(f"Spark {spark.version}")
    with summary.step("analyse the source") as remarks:
        first = analyse(spark, source)
        remarks.append(f"{first.rows:,} rows, lag {check_positions(source, first)}")
    with summary.step("write the second half") as remarks:
        write_in_transactions(source.bootstrap, source.topic, feed[half:])
        remarks.append(f"the query's lag is {check_positions(source, first):,} offsets")
    with summary.step("mirror the rest") as remarks:
        remarks.append(f"{mirror_rest(*both):,} records")
    for side in (source, target):
        with summary.step(f"analyse the {side.name}") as remarks:
            done = analyse(spark, side)
            remarks.append(f"{done.rows:,} rows in {done.batches} micro-batches, lag {check_positions(side, done)}")
    found = {side.name: read_analysis(spark, side) for side in (source, target)}
    spark.stop()
    check(analysis_expected(feed), found)
    labels = sorted(found[TARGET], key=lambda carrier: -found[TARGET][carrier].flights)
    counts = {f"the {name}": [analysis[carrier].flights for carrier in labels] for name, analysis in found.items()}
    title = "The same flights on both sides of a mirror"
    totals_chart.draw(title, labels, counts, "by carrier", source.out / "mirror_then_analyse.png")
    show(found[TARGET])


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="mirror from this broker instead of starting kafkapy")
    parser.add_argument("--target", metavar="HOST:PORT", help="mirror to this broker instead of starting kafkapy")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results go (default: out)")
    parser.add_argument("--topic", default=TOPIC)
    parser.add_argument("--days", type=int, default=flights.DAYS, help="so many days of the year (default: all)")
    parser.add_argument("--offsets-per-batch", type=int, default=OFFSETS_PER_BATCH)
    parser.add_argument("--master", metavar="URL", help="run on this Spark cluster, spark://HOST:PORT")
    return parser


def main() -> int:
    arguments: Any = options().parse_args()
    out: Path = arguments.out
    for name in (SOURCE, TARGET):
        shutil.rmtree(out / "checkpoints" / f"analysis-{name}", ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)

    def job(bootstrap: str, summary: Summary) -> None:
        with ExitStack() as stack:
            with summary.step("start the second broker") as remarks:
                second = stack.enter_context(running_broker(arguments.target))
                remarks.append(second)
            source, target = (
                Side(name, address, arguments.topic, out, arguments.offsets_per_batch)
                for name, address in ((SOURCE, bootstrap), (TARGET, second))
            )
            run(source, target, summary, arguments.days, arguments.master)

    status = run_on_broker(arguments.bootstrap, job)
    if status == 0:
        CONSOLE.print(f"Results: {out}/analysis-{SOURCE} and {out}/analysis-{TARGET} (Parquet)")
    return status


if __name__ == "__main__":
    sys.exit(main())
