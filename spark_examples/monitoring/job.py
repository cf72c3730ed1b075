"""Watches airports through their flights: hourly delays by event time, alerts back into Kafka, history into Parquet.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

A departure is also an airport's heartbeat. Its session windows end where none followed for nine hours, longer than any
usual night: each session that ends is an alert.

In a replay of a year, partitions are read at their own speed and drift up to 10.5 days apart. The watermark allows for
14 days, so no row is dropped, and append mode gives each closed window to exactly one micro-batch. A live stream needs
no such allowance: with the default, its windows close 14 days late (`--watermark`).

Spark reads each window of the Parquet table exactly once; other readers must follow its `_spark_metadata`. A query with
a new checkpoint needs a new table, since the sink skips the micro-batches whose numbers the table has. The Kafka sink
is at-least-once: a repeated alert has the same key (airport/reason/hour) and the same value, so a reader that takes the
last value of each key has each alert exactly once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "origin STRING, scheduled_ms LONG, dep_delay INT, arr_delay INT"
WINDOW, SILENCE = "1 hour", "9 hours"
MIN_FLIGHTS, MIN_MEAN_DELAY, MIN_CANCELLED = 10, 60.0, 0.5
"""An hour with so many flights is an alert from this mean delay in minutes on, or from this share of cancellations."""


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    bootstrap: str
    topic: str = "flights"
    alerts: str = "alerts"
    history: str = "history"
    checkpoints: str = "checkpoints"
    watermark: str = "14 days"
    rows_per_batch: int = 60_000
    fail_on_data_loss: bool = True
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


def read(spark: SparkSession, options: Options) -> DataFrame:
    """The topic as a stream of flights with their event time. A flight without a delay never left."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.rows_per_batch)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
        .load()
    )
    flights = source.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")).select("flight.*")
    scheduled = flights.withColumn("scheduled", f.timestamp_millis("scheduled_ms")).drop("scheduled_ms")
    return scheduled.withWatermark("scheduled", options.watermark)


def hourly(flights: DataFrame) -> DataFrame:
    """By airport and hour: flights, those that left, summed and worst delay in minutes, arrival delays."""
    totals = flights.groupBy(f.window("scheduled", WINDOW), "origin").agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.sum("dep_delay").alias("dep_delay_sum"),
        f.max("dep_delay").alias("dep_delay_max"),
        f.count("arr_delay").alias("arrived"),
        f.sum("arr_delay").alias("arr_delay_sum"),
    )
    hours = totals.select("origin", f.col("window.start").alias("hour"), *totals.columns[2:])
    return hours.withColumn("mean_delay", f.col("dep_delay_sum") / f.col("departed")).withColumn(
        "cancelled", (f.col("flights") - f.col("departed")) / f.col("flights")
    )


def delays(hours: DataFrame) -> DataFrame:
    """The hours that deserve attention, as Kafka records."""
    enough = f.col("flights") >= MIN_FLIGHTS
    late = (f.col("departed") >= MIN_FLIGHTS) & (f.col("mean_delay") >= MIN_MEAN_DELAY)
    reason = f.when(enough & (f.col("cancelled") >= MIN_CANCELLED), "cancellations").when(late, "delays")
    fields = ("origin", "hour", "reason", "flights", "departed", "mean_delay", "cancelled")
    return records(hours.withColumn("reason", reason).where("reason IS NOT NULL").select(*fields))


def silences(flights: DataFrame) -> DataFrame:
    """The airports from which nothing left any more, as Kafka records; `since` is their last departure before."""
    departures = flights.where("dep_delay IS NOT NULL")
    sessions = departures.groupBy(f.session_window("scheduled", SILENCE), "origin").agg(
        f.max("scheduled").alias("since")
    )
    hour = f.date_trunc("hour", "since").alias("hour")
    return records(sessions.select("origin", hour, f.lit("silence").alias("reason"), "since"))


def records(alerts: DataFrame) -> DataFrame:
    """Alerts with the key that names them."""
    key = f.concat_ws("/", "origin", "reason", "hour")
    return alerts.select(key.alias("key"), f.to_json(f.struct(*alerts.columns)).alias("value"))


def start(spark: SparkSession, options: Options) -> list[StreamingQuery]:
    """Starts both queries on what the topic holds beyond their checkpoints; they end by themselves."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # of days and hours in the result
    flights = read(spark, options)
    hours = hourly(flights)
    history = hours.writeStream.queryName("history").format("parquet").option("path", options.history)
    alerts = delays(hours).unionByName(silences(flights)).writeStream.queryName("alerts").format("kafka")
    alerts = alerts.options(**options.kafka).option("topic", options.alerts)
    return [
        query.outputMode("append")
        .option("checkpointLocation", f"{options.checkpoints}/{name}")
        .trigger(availableNow=True)
        .start()
        for name, query in (("history", history), ("alerts", alerts))
    ]


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--topic", default=Options.topic, help="topic of departures as JSON: " + SCHEMA)
    parser.add_argument("--alerts", default=Options.alerts, help="topic of the alerts")
    parser.add_argument(
        "--history", default=Options.history, help="directory of the Parquet files, or a URL of Hadoop's"
    )
    parser.add_argument("--checkpoints", default=Options.checkpoints)
    parser.add_argument("--watermark", default=Options.watermark, help="how late a departure may come")
    parser.add_argument("--rows-per-batch", type=int, default=Options.rows_per_batch)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    session = SparkSession.builder.appName("monitoring").getOrCreate()
    for running in start(session, parsed()):
        running.awaitTermination()
