"""Joins the departures of each route into periods of service: runs of departures without a gap of over six hours.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

The input is read with `read_committed`: records of aborted transactions never enter a period. Open periods are state,
in RocksDB. The watermark closes them, and each closed period comes out of exactly one micro-batch. If Spark is killed,
it repeats the last micro-batch with the same records, the same state and the same number:

- Parquet: a micro-batch is a directory named after its number, and a repeated one overwrites it. So the table has each
  period exactly once. A directory without the file `_SUCCESS` is incomplete: readers must ignore it. A query
  with a new checkpoint begins with number 0 again, so it needs a new table.
- Kafka: the sink is at-least-once. A repeated record has the same key (route/begin) and the same value, in a compacted
  topic: a reader that takes the last value of each key has each period exactly once.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "origin STRING, destination STRING, scheduled_ms LONG, dep_delay INT"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    bootstrap: str
    topic: str = "sessions-flights"
    periods: str = "sessions-periods"
    table: str = "sessions"
    checkpoint: str = "checkpoints/sessions"
    gap: str = "6 hours"
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
    """The committed flights of the topic as a stream."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", 50)  # a reader waits so long behind the last transaction of each partition
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.rows_per_batch)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    )
    value = f.from_json(f.col("value").cast("string"), SCHEMA)
    flights = source.load().select(value.alias("flight")).select("flight.*")
    return flights.withColumn("scheduled", f.timestamp_millis("scheduled_ms"))


def periods(flights: DataFrame, options: Options) -> DataFrame:
    """One row for each closed period: route, begin, flights, those that left, and their delay in minutes."""
    route = f.concat_ws("-", "origin", "destination").alias("route")
    sessions = flights.withWatermark("scheduled", options.watermark).groupBy(
        f.session_window("scheduled", options.gap), route
    )
    rows = sessions.agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("delay"),
        f.max("scheduled_ms").alias("last_ms"),
    )
    return rows.withColumn("begin_ms", f.unix_millis("session_window.start")).drop("session_window")


def start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Starts the query on what the topic holds beyond the checkpoint; it ends by itself."""
    spark.conf.set(STATE_STORE, ROCKSDB)

    def write(closed: DataFrame, number: int) -> None:
        closed.persist()
        closed.write.mode("overwrite").parquet(f"{options.table}/batch={number}")
        key, value = f.concat_ws("/", "route", "begin_ms"), f.to_json(f.struct(*closed.columns))
        records = closed.select(key.alias("key"), value.alias("value")).write.format("kafka")
        records.options(**options.kafka).option("topic", options.periods).save()
        closed.unpersist()

    query = periods(read(spark, options), options).writeStream.queryName("sessions").foreachBatch(write)
    query = query.outputMode("append").option("checkpointLocation", options.checkpoint)
    return query.trigger(availableNow=True).start()


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--topic", default=Options.topic, help="topic of departures as JSON: " + SCHEMA)
    parser.add_argument("--periods", default=Options.periods, help="compacted topic of the result")
    parser.add_argument("--table", default=Options.table, help="directory of the Parquet files, or a URL of Hadoop's")
    parser.add_argument("--checkpoint", default=Options.checkpoint)
    parser.add_argument("--gap", default=Options.gap, help="a longer time without a departure ends a period")
    parser.add_argument("--watermark", default=Options.watermark, help="how late a departure may come")
    parser.add_argument("--rows-per-batch", type=int, default=Options.rows_per_batch)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    session = SparkSession.builder.appName("sessions").getOrCreate()
    start(session, parsed()).awaitTermination()
