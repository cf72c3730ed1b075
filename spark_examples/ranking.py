"""Ranks destinations: per airport and day, where most flights went and how many left late, back into Kafka.

`python -m spark_examples.ranking [--bootstrap HOST:PORT] [--out DIRECTORY]`; without an address it starts kafkapy.

The stream counts flights by day, airport and destination; the watermark closes a day, all its counts in one
micro-batch, so ranking within the batch (foreachBatch) ranks the whole day. A batch that is repeated after a crash
writes the same records under the same keys: whoever takes the last value of a key sees each day once.

The run is in two parts with a restart from the checkpoint between. Some flights are held back and sent in the second
part, when their days are closed: they must not change a ranking, and are counted as late. Spark's own number of dropped
rows counts what its partial aggregation has left of them, so flights are also counted through: read = ranked + late.
"""

import argparse
import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from spark_examples import flights, ranking_chart, topics
from spark_examples.monitoring import SCHEMA, WATERMARK
from spark_examples.report import CONSOLE, Summary, number_table, parsed_arguments, run_on_broker
from spark_examples.session import open_session

TOPIC = "ranking-flights"
PARTITIONS = 3
ROWS_PER_BATCH = 60_000
TOP = 3
LATE_FROM_MINUTES = 15
"""From this delay on, a departure counts as delayed."""
DAY_BEGINS = "5 hours"
"""Midnight in New York, one o'clock in summer, as UTC; nothing is scheduled between midnight and five."""
DAY_BEGINS_MS = 5 * 60 * flights.MINUTE_MS
HELD_BACK_DAYS, HELD_BACK_SHARE = 10, 50
"""Of the first days that are ranked, every so many-th flight is held back."""
MIN_DAYS = HELD_BACK_DAYS + 15
"""So that the watermark has passed the days of what is held back."""


class MiscountError(RuntimeError):
    """Flights were ranked other than plain Python ranks them."""


@dataclass(frozen=True)
class RankingJob:
    """What is ranked, and where it goes; `since` is the time (ms) of the first record to read, None for all."""

    bootstrap: str
    topic: str
    checkpoint: Path
    since_ms: int | None = None
    rows_per_batch: int = ROWS_PER_BATCH

    @property
    def rankings(self) -> str:
        """The topic for the result."""
        return f"{self.topic}-top"


def read_since(spark: SparkSession, job: RankingJob) -> DataFrame:
    """The topic as a stream of flights with their event time. Where it starts counts for the first run alone."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("subscribe", job.topic)
        .option("maxOffsetsPerTrigger", job.rows_per_batch)
    )
    if job.since_ms is None:
        source = source.option("startingOffsets", "earliest")
    else:
        times = {job.topic: {str(partition): job.since_ms for partition in range(PARTITIONS)}}
        source = source.option("startingOffsetsByTimestamp", json.dumps(times))
        source = source.option("startingOffsetsByTimestampStrategy", "latest")  # of partitions with nothing since then
    value = f.from_json(f.col("value").cast("string"), SCHEMA)
    flight = source.load().select(value.alias("flight")).select("flight.*")
    return flight.withColumn("scheduled", f.timestamp_millis("scheduled_ms"))


def daily(feed: DataFrame) -> DataFrame:
    """Per day, airport and destination: flights, and those that left late; each once, when the day is closed."""
    day = f.window("scheduled", "1 day", startTime=DAY_BEGINS)
    groups = feed.withWatermark("scheduled", WATERMARK).groupBy(day, "origin", "destination")
    late = f.count_if(f.col("dep_delay") >= LATE_FROM_MINUTES)
    counts = groups.agg(f.count("*").alias("flights"), late.alias("delayed"))
    return counts.withColumn("day", f.date_format("window.start", "yyyy-MM-dd")).drop("window")


def top(days: DataFrame) -> DataFrame:
    """One record for each day and airport: its first destinations with their share of late departures."""
    place = Window.partitionBy("day", "origin")
    order = place.orderBy(f.desc("flights"), "destination")
    ranked = days.withColumn("rank", f.row_number().over(order)).withColumn("all", f.sum("flights").over(place))
    share = (f.col("delayed") / f.col("flights")).alias("late_share")
    entry = f.struct("rank", "destination", "flights", "delayed", share)
    records = (
        ranked.where(f.col("rank") <= TOP)
        .groupBy("day", "origin")
        .agg(f.first("all").alias("flights"), f.sort_array(f.collect_list(entry)).alias("top"))
    )
    value = f.to_json(f.struct("day", "origin", "flights", "top"))
    return records.select(f.concat_ws("/", "day", "origin").alias("key"), value.alias("value"))


def start(spark: SparkSession, job: RankingJob) -> StreamingQuery:
    """Starts on what the topic holds beyond the checkpoint; it ends by itself."""

    def write(closed: DataFrame, _: int) -> None:
        sink = top(closed).write.format("kafka").option("kafka.bootstrap.servers", job.bootstrap)
        sink.option("topic", job.rankings).save()

    writer = daily(read_since(spark, job)).writeStream.queryName("ranking").foreachBatch(write)
    return writer.outputMode("append").option("checkpointLocation", str(job.checkpoint)).trigger(
        availableNow=True
    ).start()  # fmt: skip


class Pass(NamedTuple):
    """What one run over the topic did; `dropped` is Spark's number for late rows."""

    rows: int
    batches: int
    dropped: int


def process(spark: SparkSession, job: RankingJob) -> Pass:
    """Ranks what the topic holds beyond the checkpoint."""
    query = start(spark, job)
    query.awaitTermination()
    progress = query.recentProgress
    dropped = sum(operator["numRowsDroppedByWatermark"] for each in progress for operator in each["stateOperators"])
    read = [each["numInputRows"] for each in progress if each["numInputRows"]]
    return Pass(sum(read), len(read), dropped)


Rankings = dict[tuple[str, str], dict[str, Any]]


def read_rankings(job: RankingJob) -> Rankings:
    """By day and airport; of a key that was written twice, the last value."""
    values = (json.loads(record.value) for record in topics.read_all(job.bootstrap, job.rankings))
    return {(value["day"], value["origin"]): value for value in values}


def rankings_expected(feed: list[flights.Flight]) -> Rankings:
    """The same from the data set, without Kafka and without Spark."""
    groups: dict[tuple[str, str], dict[str, list[flights.Flight]]] = defaultdict(lambda: defaultdict(list))
    for flight in feed:
        groups[flights.day_of(flight.scheduled_ms - DAY_BEGINS_MS), flight.origin][flight.destination].append(flight)
    return {(day, origin): _ranking(day, origin, groups[day, origin]) for day, origin in groups}


def _ranking(day: str, origin: str, by_destination: Mapping[str, list[flights.Flight]]) -> dict[str, Any]:
    order = sorted(by_destination, key=lambda destination: (-len(by_destination[destination]), destination))
    entries = []
    for rank, destination in enumerate(order[:TOP], 1):
        rows = by_destination[destination]
        delayed = sum(1 for row in rows if row.dep_delay is not None and row.dep_delay >= LATE_FROM_MINUTES)
        entry = {"rank": rank, "destination": destination, "flights": len(rows), "delayed": delayed}
        entries.append(entry | {"late_share": delayed / len(rows)})
    flown = sum(len(rows) for rows in by_destination.values())
    return {"day": day, "origin": origin, "flights": flown, "top": entries}


class Feed(NamedTuple):
    """The flights in time, and those that are held back until their days are closed."""

    punctual: list[flights.Flight]
    held_back: list[flights.Flight]


def split(feed: list[flights.Flight], since_ms: int | None) -> Feed:
    """Holds back some flights of the first days from `since_ms` on."""
    first = feed[0].scheduled_ms if since_ms is None else since_ms
    early = [flight for flight in feed if first <= flight.scheduled_ms < first + HELD_BACK_DAYS * flights.DAY_MS]
    held = set(map(id, early[::HELD_BACK_SHARE]))
    return Feed([flight for flight in feed if id(flight) not in held], early[::HELD_BACK_SHARE])


def run(job: RankingJob, out: Path, summary: Summary, days: int, master: str | None = None) -> None:
    """The whole job against a running broker."""
    with summary.step("stream the flights in") as remarks:
        feed = split(flights.first_days(days), job.since_ms)
        flights.create_topics(job.bootstrap, {job.topic: PARTITIONS, job.rankings: 1})  # fails if they exist
        shutil.rmtree(job.checkpoint, ignore_errors=True)
        remarks.append(f"{flights.send(job.bootstrap, job.topic, feed.punctual):,} acknowledged")
    with summary.step("start Spark") as remarks:
        spark = open_session("ranking", out / "spark.log", master=master)
        remarks.append(f"Spark {spark.version}")
    with summary.step("rank the stream") as remarks:
        first = process(spark, job)
        remarks.append(f"{first.rows:,} rows in {first.batches} micro-batches")
    with summary.step("send what was held back, and resume") as remarks:
        flights.send(job.bootstrap, job.topic, feed.held_back)
        flights.close_feed(job.bootstrap, job.topic, feed.punctual[-1].scheduled_ms)
        second = process(spark, job)
        remarks.append(f"{second.rows:,} rows, {second.dropped} groups of rows dropped as late")
    spark.stop()
    with summary.step("read the result back") as remarks:
        rankings = read_rankings(job)
        read = first.rows + second.rows - 1  # the closing row
        late = read - sum(ranking["flights"] for ranking in rankings.values())
        remarks.append(f"{len(rankings):,} rankings, {late} late flights")
    check(rankings, [flight for flight in feed.punctual if flight.scheduled_ms >= (job.since_ms or 0)])
    if late != len(feed.held_back):
        raise MiscountError(f"{late} flights were late, other than the {len(feed.held_back)} that were held back")
    (out / "rankings.json").write_text(json.dumps(list(rankings.values()), indent=1))
    ranking_chart.draw(list(rankings.values()), out / "rankings.png")
    show(rankings)


def resume(job: RankingJob, out: Path, summary: Summary, master: str | None = None) -> None:
    """Ranks what the topic holds beyond the checkpoint; sends nothing, so there is no data set to check it against."""
    if not topics.extents(job.bootstrap, job.topic):
        raise RuntimeError(
            f"The topic {job.topic} does not exist: run it without --resume once, or name another --topic."
        )
    with summary.step("start Spark") as remarks:
        spark = open_session("ranking", out / "spark.log", master=master)
        remarks.append(f"Spark {spark.version}")
    with summary.step("rank what is new") as remarks:
        done = process(spark, job)
        remarks.append(
            f"{done.rows:,} rows in {done.batches} micro-batches, {done.dropped} groups of rows dropped as late"
        )
    spark.stop()
    with summary.step("read the result back") as remarks:
        rankings = read_rankings(job)
        remarks.append(f"{len(rankings):,} rankings")
    (out / "rankings.json").write_text(json.dumps(list(rankings.values()), indent=1))
    show(rankings)


def check(rankings: Rankings, feed: list[flights.Flight]) -> None:
    """Raises MiscountError if plain Python finds other rankings."""
    expected = rankings_expected(feed)
    if rankings != expected:
        different = [key for key in sorted(rankings | expected) if rankings.get(key) != expected.get(key)]
        raise MiscountError(f"{len(different)} rankings are wrong, the first of them that of {different[0]}")


def show(rankings: Rankings) -> None:
    """Prints on how many days each destination was among the first, and how late its flights left then."""
    table = number_table(
        f"Destinations among the first {TOP} of their day", "airport", "destination", "days", "flights", "left late"
    )
    totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (_, origin), ranking in rankings.items():
        for entry in ranking["top"]:
            sums = totals[origin, entry["destination"]]
            sums[:] = sums[0] + 1, sums[1] + entry["flights"], sums[2] + entry["delayed"]
    for origin, name in flights.AIRPORTS.items():
        own = [(place, sums) for place, sums in totals.items() if place[0] == origin]
        for (_, destination), (count, flown, late) in sorted(own, key=lambda item: -item[1][0])[:TOP]:
            table.add_row(name, destination, str(count), f"{flown:,}", f"{late / flown:.1%}")
    table.caption = f"late: {LATE_FROM_MINUTES} minutes or more"
    CONSOLE.print(table)


def day_begins(day: str) -> int:
    """The first moment (ms) of a day in New York, written YYYY-MM-DD."""
    return flights.midnight_ms(day) + DAY_BEGINS_MS


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this broker instead of starting kafkapy")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results go (default: out)")
    parser.add_argument("--topic", default=TOPIC)
    days = f"so many days of the year, {MIN_DAYS} at least from the first that is ranked on (default: all)"
    parser.add_argument("--days", type=int, default=flights.DAYS, help=days)
    parser.add_argument("--since", metavar="YYYY-MM-DD", type=day_begins, help="rank from this day on")
    parser.add_argument("--rows-per-batch", type=int, default=ROWS_PER_BATCH)
    kept = "send nothing, keep the checkpoint, and rank what is new; only days that are closed are ranked"
    parser.add_argument("--resume", action="store_true", help=kept)
    parser.add_argument("--master", metavar="URL", help="run on this Spark cluster, spark://HOST:PORT")
    return parser


def main() -> int:
    arguments = parsed_arguments(options())
    out: Path = arguments.out
    checkpoint = out / "checkpoints" / "ranking"
    out.mkdir(parents=True, exist_ok=True)

    def job(bootstrap: str, summary: Summary) -> None:
        own = RankingJob(bootstrap, arguments.topic, checkpoint, arguments.since, arguments.rows_per_batch)
        if arguments.resume:
            resume(own, out, summary, arguments.master)
        else:
            run(own, out, summary, arguments.days, arguments.master)

    status = run_on_broker(arguments.bootstrap, job)
    if status == 0:
        drawn = "" if arguments.resume else f" {out}/rankings.png,"
        CONSOLE.print(f"Result: {out}/rankings.json,{drawn} and the topic {arguments.topic}-top")
    return status


if __name__ == "__main__":
    sys.exit(main())
