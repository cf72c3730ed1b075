"""Totals of departures by carrier, kept up to date from a topic that is written in transactions.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

Each start reads what was committed since the last one (`read_committed`, `availableNow`). The totals are state, and
each micro-batch overwrites the table with all of them (complete mode). A micro-batch that is repeated after a crash
starts from the same state and the same offsets, and writes the same table: each committed record counts exactly once,
those of aborted transactions not at all. While a micro-batch writes, the table is without its file `_SUCCESS`.

A query of Spark commits no offsets to Kafka, so tools that show lag do not know of it. With --group, which needs the
package kafka-python, the end of each micro-batch is committed as offsets of that consumer group, when the table has it.
Nothing reads them back: the checkpoint decides where the query continues. The lag counts offsets, not rows: aborted
records and the markers of transactions are among them.
"""

import argparse
import importlib.util
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import listener
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = "carrier STRING, dep_delay INT"
LAST_EVENT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Options:
    """The options of the command line; without a group, no offsets are committed."""

    bootstrap: str
    topic: str = "mirrored-flights"
    table: str = "carriers"
    checkpoint: str = "checkpoints/carriers"
    group: str | None = None
    offsets_per_batch: int = 60_000
    fail_on_data_loss: bool = True
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


def read(spark: SparkSession, options: Options) -> DataFrame:
    """The committed flights of the topic as a stream, with the bytes that they were sent as."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.fetch.max.wait.ms", 50)  # a reader waits so long behind the last transaction of each partition
        .option("subscribe", options.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.offsets_per_batch)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    )
    flight = f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")
    return source.load().select("value", flight).select("value", "flight.*")


def totals(flights: DataFrame) -> DataFrame:
    """By carrier: flights, those that left, the sum and the maximum of their delays, and a checksum of the records."""
    return flights.groupBy("carrier").agg(
        f.count("*").alias("flights"),
        f.count("dep_delay").alias("departed"),
        f.coalesce(f.sum("dep_delay"), f.lit(0)).alias("dep_delay"),
        f.max("dep_delay").alias("worst"),
        f.sum(f.crc32("value")).alias("checksum"),
    )


def start(spark: SparkSession, options: Options) -> StreamingQuery:
    """Starts the query on what the topic holds beyond the checkpoint; it ends by itself."""

    def write(carriers: DataFrame, _: int) -> None:
        carriers.coalesce(1).write.mode("overwrite").parquet(options.table)

    query = totals(read(spark, options)).writeStream.queryName("carriers").foreachBatch(write).outputMode("complete")
    return query.option("checkpointLocation", options.checkpoint).trigger(availableNow=True).start()


class _Positions(listener.StreamingQueryListener):
    """Commits the end of each micro-batch; a commit that fails is logged by Spark, and the next one makes up for it."""

    def __init__(self, options: Options, group: str) -> None:
        self._bootstrap, self._group = options.bootstrap, group
        self.ended = threading.Event()

    def onQueryStarted(self, event: listener.QueryStartedEvent) -> None:
        """Nothing."""

    def onQueryIdle(self, event: listener.QueryIdleEvent) -> None:
        """Nothing."""

    def onQueryProgress(self, event: listener.QueryProgressEvent) -> None:
        """Commits where the micro-batch ended."""
        from kafka import KafkaConsumer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        ends = json.loads(event.progress.sources[0].endOffset or "{}")
        offsets = {
            TopicPartition(topic, int(partition)): OffsetAndMetadata(end, "", -1)
            for topic, partitions in ends.items()
            for partition, end in partitions.items()
        }
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=self._group, enable_auto_commit=False)
        consumer.assign(list(offsets))
        consumer.commit(offsets)
        consumer.close()

    def onQueryTerminated(self, event: listener.QueryTerminatedEvent) -> None:
        """No micro-batch comes after this."""
        self.ended.set()


@contextmanager
def positions_committed(spark: SparkSession, options: Options) -> Iterator[None]:
    """Commits the positions of the session's query, which must have ended at the end, to the group of the options."""
    if options.group is None:
        yield
        return
    positions = _Positions(options, options.group)
    spark.streams.addListener(positions)
    try:
        yield
        positions.ended.wait(LAST_EVENT_TIMEOUT_S)
    finally:
        spark.streams.removeListener(positions)


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--topic", default=Options.topic, help="topic of departures as JSON: " + SCHEMA)
    parser.add_argument("--table", default=Options.table, help="directory of the Parquet files, or a URL of Hadoop's")
    parser.add_argument("--checkpoint", default=Options.checkpoint)
    parser.add_argument("--group", help="consumer group for the query's position (needs kafka-python)")
    parser.add_argument("--offsets-per-batch", type=int, default=Options.offsets_per_batch)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    options = Options(**vars(parser.parse_args()))
    if options.group is not None and importlib.util.find_spec("kafka") is None:
        parser.error("--group needs the package kafka-python: pip install kafka-python")
    return options


if __name__ == "__main__":
    session, given = SparkSession.builder.appName("mirror_then_analyse").getOrCreate(), parsed()
    with positions_committed(session, given):
        start(session, given).awaitTermination()
