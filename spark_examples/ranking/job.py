"""Ranks the destinations of each airport and day by their flights, from a stream of departures.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

The watermark closes a day. All its counts come in one micro-batch, so a ranking within the batch ranks the whole day.
A micro-batch that is repeated after a crash writes the same values under the same keys (day/airport): the sink has each
ranking at least once, and a reader that takes the last value of each key has it exactly once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "origin STRING, scheduled_ms LONG, dep_delay INT, destination STRING"
DAY_BEGINS = "5 hours"
"""Midnight in New York in winter, as UTC; nothing is scheduled between midnight and five."""
LATE_FROM_MINUTES = 15


@dataclass(frozen=True)
class Options:
    """The options of the command line; `since_ms` is the time of the first record to read, None for all."""

    bootstrap: str
    topic: str = "ranking-flights"
    rankings: str = "ranking-flights-top"
    checkpoint: str = "checkpoints/ranking"
    since_ms: int | None = None
    rows_per_batch: int = 60_000
    top: int = 3
    watermark: str = "14 days"
    fail_on_data_loss: bool = True
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


def read(spark: SparkSession, options: Options) -> DataFrame:
    """The topic as a stream of flights. Where it starts counts for a query without a checkpoint alone."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("subscribe", options.topic)
        .option("maxOffsetsPerTrigger", options.rows_per_batch)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    )
    if options.since_ms is None:
        source = source.option("startingOffsets", "earliest")
    else:
        source = source.option("startingTimestamp", options.since_ms)
        source = source.option("startingOffsetsByTimestampStrategy", "latest")  # of partitions with nothing since then
    value = f.from_json(f.col("value").cast("string"), SCHEMA)
    flights = source.load().select(value.alias("flight")).select("flight.*")
    return flights.withColumn("scheduled", f.timestamp_millis("scheduled_ms"))


def daily(flights: DataFrame, watermark: str) -> DataFrame:
    """By day, airport and destination: flights, and those that left late; each row once, when its day is closed."""
    day = f.window("scheduled", "1 day", startTime=DAY_BEGINS)
    late = f.count_if(f.col("dep_delay") >= LATE_FROM_MINUTES)
    groups = flights.withWatermark("scheduled", watermark).groupBy(day, "origin", "destination")
    counts = groups.agg(f.count("*").alias("flights"), late.alias("delayed"))
    return counts.withColumn("day", f.date_format("window.start", "yyyy-MM-dd")).drop("window")


def ranked(days: DataFrame, top: int) -> DataFrame:
    """One record for each day and airport: its first destinations with their share of late departures."""
    airport = Window.partitionBy("day", "origin")
    order = airport.orderBy(f.desc("flights"), "destination")
    rows = days.withColumn("rank", f.row_number().over(order)).withColumn("all", f.sum("flights").over(airport))
    late_share = (f.col("delayed") / f.col("flights")).alias("late_share")
    entry = f.struct("rank", "destination", "flights", "delayed", late_share)
    first = rows.where(f.col("rank") <= top).groupBy("day", "origin")
    rankings = first.agg(f.first("all").alias("flights"), f.sort_array(f.collect_list(entry)).alias("top"))
    value = f.to_json(f.struct("day", "origin", "flights", "top"))
    return rankings.select(f.concat_ws("/", "day", "origin").alias("key"), value.alias("value"))


def start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Starts the query on what the topic holds beyond the checkpoint; it ends by itself."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # of days and hours in the result

    def write(closed: DataFrame, _: int) -> None:
        rankings = ranked(closed, options.top).write.format("kafka")
        rankings.options(**options.kafka).option("topic", options.rankings).save()

    query = daily(read(spark, options), options.watermark).writeStream.queryName("ranking").foreachBatch(write)
    query = query.outputMode("append").option("checkpointLocation", options.checkpoint)
    return query.trigger(availableNow=True).start()


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--topic", default=Options.topic, help="topic of departures as JSON: " + SCHEMA)
    parser.add_argument("--rankings", default=Options.rankings, help="topic of the result")
    parser.add_argument("--checkpoint", default=Options.checkpoint)
    parser.add_argument("--since-ms", type=int, help="timestamp of the first record to read, if there is no checkpoint")
    parser.add_argument("--rows-per-batch", type=int, default=Options.rows_per_batch)
    parser.add_argument("--top", type=int, default=Options.top, help="ranks of each day and airport")
    parser.add_argument("--watermark", default=Options.watermark, help="how late a departure may come")
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    session = SparkSession.builder.appName("ranking").getOrCreate()
    start(session, parsed()).awaitTermination()
