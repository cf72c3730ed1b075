"""Watches airports through their flights: hourly delays by event time, alerts back into Kafka, history into Parquet.

Why the result is exact although it is streamed. Rows of one airport come in event-time order, but airports are spread
over partitions, and Spark takes a share of each partition that is proportional to what lies there; in a replay of the
whole year they drift up to 10.5 days apart. The watermark allows for 14 days, and a row that came too late even so is
counted and fails the run. When the feed is over, its closing row (flights.close_feed) moves the watermark past every
window, so that append mode has emitted each of them once.

A departure is also an airport's heartbeat. Its session windows end where none followed for `SILENCE`, longer than any
usual night: each session that ends is an alert, the last one too, as after it the feed is silent.
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from spark_examples.flights import END_OF_FEED

WINDOW = "1 hour"
WATERMARK = "14 days"
ROWS_PER_BATCH = 60_000
MIN_FLIGHTS = 10
MIN_MEAN_DELAY = 60.0
MIN_CANCELLED = 0.5
SILENCE = "9 hours"
SCHEMA = (
    "origin STRING, scheduled_ms LONG, dep_delay INT, arr_delay INT, carrier STRING, number INT, destination STRING"
)


@dataclass(frozen=True)
class Places:
    """Where a run reads and writes."""

    bootstrap: str
    flights_topic: str
    alerts_topic: str
    history: Path
    checkpoints: Path


def read_flights(spark: SparkSession, places: Places) -> DataFrame:
    """The topic as a stream of flights with their event time."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", places.bootstrap)
        .option("subscribe", places.flights_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS_PER_BATCH)
        .load()
    )
    flight = source.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")).select("flight.*")
    return flight.withColumn("scheduled", f.timestamp_millis("scheduled_ms")).drop("scheduled_ms")


def hourly(flights: DataFrame) -> DataFrame:
    """Per airport and hour: flights, those that left, summed and worst delay in minutes, arrival delays."""
    windows = flights.withWatermark("scheduled", WATERMARK).groupBy(f.window("scheduled", WINDOW), "origin")
    totals = windows.agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.sum("dep_delay").alias("dep_delay_sum"),
        f.max("dep_delay").alias("dep_delay_max"),
        f.count("arr_delay").alias("arrived"),
        f.sum("arr_delay").alias("arr_delay_sum"),
    )
    return totals.select(
        "origin",
        f.col("window.start").alias("hour"),
        "flights",
        "departed",
        "dep_delay_sum",
        "dep_delay_max",
        "arrived",
        "arr_delay_sum",
        (f.col("dep_delay_sum") / f.col("departed")).alias("mean_delay"),
        ((f.col("flights") - f.col("departed")) / f.col("flights")).alias("cancelled"),
    )


def reason() -> Column:
    """Why an hour is worth an alert; null when it is not."""
    late = (f.col("departed") >= MIN_FLIGHTS) & (f.col("mean_delay") >= MIN_MEAN_DELAY)
    cancelled = (f.col("flights") >= MIN_FLIGHTS) & (f.col("cancelled") >= MIN_CANCELLED)
    return f.when(cancelled, "cancellations").when(late, "delays")


def alerts(hours: DataFrame) -> DataFrame:
    """The hours that deserve attention, as Kafka records keyed by airport."""
    chosen = hours.withColumn("reason", reason()).where(f.col("reason").isNotNull())
    fields = ("origin", "hour", "reason", "flights", "departed", "mean_delay", "cancelled")
    return chosen.select(f.col("origin").alias("key"), f.to_json(f.struct(*fields)).alias("value"))


def silences(flights: DataFrame) -> DataFrame:
    """The airports from which nothing left any more, as Kafka records; `since` is their last departure before."""
    # Spark filters before it takes the watermark: the closing row, which left nowhere, must pass to move it.
    left = f.col("dep_delay").isNotNull() | (f.col("origin") == END_OF_FEED)
    departures = flights.withWatermark("scheduled", WATERMARK).where(left)
    sessions = departures.groupBy(f.session_window("scheduled", SILENCE), "origin").agg(
        f.max("scheduled").alias("since")
    )
    found = sessions.select(
        "origin", f.date_trunc("hour", "since").alias("hour"), f.lit("silence").alias("reason"), "since"
    )
    return found.select(f.col("origin").alias("key"), f.to_json(f.struct(*found.columns)).alias("value"))


def write_history(hours: DataFrame, places: Places) -> StreamingQuery:
    """Every closed window, once, as Parquet."""
    return (
        hours.writeStream.queryName("history")
        .format("parquet")
        .option("path", str(places.history))
        .option("checkpointLocation", str(places.checkpoints / "history"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )


def write_alerts(raised: DataFrame, places: Places) -> StreamingQuery:
    """The alerts, back into Kafka."""
    return (
        raised.writeStream.queryName("alerts")
        .format("kafka")
        .option("kafka.bootstrap.servers", places.bootstrap)
        .option("topic", places.alerts_topic)
        .option("checkpointLocation", str(places.checkpoints / "alerts"))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )


@dataclass(frozen=True)
class Processed:
    """What one pass over the topic did."""

    rows: int
    batches: int


class LateRowsError(Exception):
    """Rows came after their window was closed, so the result would not be exact."""


def process_available(spark: SparkSession, places: Places) -> Processed:
    """Processes what the topic holds beyond the checkpoints, through both queries at once; raises LateRowsError."""
    read = read_flights(spark, places)
    hours = hourly(read)
    raised = alerts(hours).unionByName(silences(read))
    queries = [write_history(hours, places), write_alerts(raised, places)]
    for query in queries:
        query.awaitTermination()
    late = sum(
        operator["numRowsDroppedByWatermark"]
        for query in queries
        for batch in query.recentProgress
        for operator in batch["stateOperators"]
    )
    if late:
        raise LateRowsError(f"{late} rows came more than {WATERMARK} late")
    batches = [batch for batch in queries[0].recentProgress if batch["numInputRows"]]
    return Processed(sum(batch["numInputRows"] for batch in batches), len(batches))
