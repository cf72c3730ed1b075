"""Flags the flights that leave an hour late or more, each as soon as it is reported, from topic to topic.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 job.py --bootstrap localhost:9092 \
        --trigger real-time

Real-time mode needs Spark 4.2. Its tasks run all the time and write each record as soon as they have read it; a batch
is only the time between two commits of the checkpoint (`--batch`, five seconds at least). With `--trigger micro-batch`,
the default, the same job runs on Spark 4.1 too, and a record waits for its micro-batch.

What Spark 4.2 demands of a query in real-time mode:

- The source is Kafka, without `maxOffsetsPerTrigger` and `minPartitions`. Each partition of the topic needs a free
  core: without one it is not read, and no error says so.
- The sink is Kafka, `foreach` or the console, the output mode `update`. `foreachBatch`, files and tables are refused.
- No operator keeps rows back: `select`, `where`, `explode`, a join with a small static table, and a union of sources
  that are not the same. Python functions, aggregation, deduplication and all that shuffles are refused.

The result topic has each record at least once: after a crash, what was read since the last commit is written again,
with the same value. The header `place` (topic/partition/offset of the input) tells a reader which records are
repetitions. A record that is no flight goes unchanged into the dead-letter topic, with its place as key and the header
`reason`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "origin STRING, scheduled_ms LONG, dep_delay INT, number INT, destination STRING"
VERY_LATE_MINUTES = 60
MICRO_BATCH, REAL_TIME = TRIGGERS = ("micro-batch", "real-time")


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    bootstrap: str
    topic: str = "real-time-flights"
    flagged: str = "real-time-flagged"
    dead_letters: str = "real-time-dead-letters"
    checkpoint: str = "checkpoints/real_time"
    trigger: str = MICRO_BATCH
    batch: str = "5 seconds"
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


def read(spark: SparkSession, options: Options) -> DataFrame:
    """The topic's records with their JSON as `flight`, and `reason`: why a record is no flight, null if it is one."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("subscribe", options.topic)
        .option("startingOffsets", options.starting_offsets)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    )
    flight = f.from_json(f.col("value").cast("string"), SCHEMA)
    broken = f.col("flight.scheduled_ms").isNull()
    return source.load().withColumn("flight", flight).withColumn("reason", f.when(broken, "no flight"))


def header(key: str, value: Column) -> Column:
    """One header as the Kafka sink takes it."""
    return f.struct(f.lit(key).alias("key"), value.cast("binary").alias("value"))


def flagged(records: DataFrame, options: Options) -> DataFrame:
    """A record for each record; the column `topic` decides where it goes, since a union would read the topic twice."""
    place = f.concat_ws("/", "topic", "partition", "offset")
    is_flight = f.col("reason").isNull()
    late = f.coalesce(f.col("flight.dep_delay") >= VERY_LATE_MINUTES, f.lit(False)).alias("late")
    value = f.to_json(f.struct("flight.*", late)).cast("binary")
    # Evaluated for each row, other than current_timestamp(), which is the time when the batch began.
    now_ms = f.java_method(f.lit("java.lang.System"), f.lit("currentTimeMillis"))
    told = f.array(header("place", place), header("processed_ms", now_ms))
    why = f.array(header("reason", f.col("reason")), header("processed_ms", now_ms))
    return records.select(
        f.when(is_flight, options.flagged).otherwise(options.dead_letters).alias("topic"),
        f.when(is_flight, f.col("key")).otherwise(place.cast("binary")).alias("key"),
        f.when(is_flight, value).otherwise(f.col("value")).alias("value"),
        f.when(is_flight, told).otherwise(why).alias("headers"),
    )


def start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Starts the query; it runs until it is stopped."""
    records = flagged(read(spark, options), options)
    writer = records.writeStream.queryName(options.trigger).format("kafka").outputMode("update")
    writer = writer.options(**options.kafka)
    writer = writer.option("checkpointLocation", options.checkpoint)
    if options.trigger == REAL_TIME:
        trigger = {"realTime": options.batch}  # PySpark 4.1 knows no such argument
        writer = writer.trigger(**trigger)
    return writer.start()


def has_real_time() -> bool:
    """Whether the installed PySpark has real-time mode."""
    return tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--topic", default=Options.topic, help="topic of departures as JSON: " + SCHEMA)
    parser.add_argument("--flagged", default=Options.flagged, help="topic of the result")
    parser.add_argument("--dead-letters", default=Options.dead_letters, help="topic of what is no flight")
    parser.add_argument("--checkpoint", default=Options.checkpoint)
    parser.add_argument("--trigger", choices=TRIGGERS, default=Options.trigger)
    parser.add_argument("--batch", default=Options.batch, help="how long a batch of real-time mode lasts")
    starting = "where a query without a checkpoint starts"
    parser.add_argument("--starting-offsets", choices=("earliest", "latest"), default="earliest", help=starting)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    options = Options(**vars(parser.parse_args()))
    if options.trigger == REAL_TIME and not has_real_time():
        parser.error(f"--trigger {REAL_TIME} needs Spark 4.2, and this is {pyspark.__version__}")
    return options


if __name__ == "__main__":
    session = SparkSession.builder.appName("real_time").getOrCreate()
    start(session, parsed()).awaitTermination()
