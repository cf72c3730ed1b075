"""What streaming pipelines share: options, dead letters, their checkpoint, and what they say when records are gone."""

import argparse
import json
import shutil
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from spark_examples import topics

PROGRESS_KEPT = "spark.sql.streaming.numRecentProgressUpdates"
DATA_LOSS_MARKS = ("KAFKA_DATA_LOSS", "failOnDataLoss", "UnknownTopicOrPartition", "OffsetOutOfRange")
"""What Spark's message, or the cause in it, contains when offsets that the checkpoint names are not in the topic."""
LONGEST_CAUSE = 400


class DataLossError(RuntimeError):
    """Offsets that the query should have read are gone; the message names the option that decides."""


class CheckpointLostError(RuntimeError):
    """The result is there, but not the checkpoint that says which records it was made of."""


class LateRowsDroppedError(RuntimeError):
    """Rows were behind the watermark, so the result is not exact."""


def options(description: str | None, prefix: str, watermark: str) -> argparse.ArgumentParser:
    """The options that they have in common; the prefix and the watermark are defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this broker instead of starting kafkapy")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results go (default: out)")
    parser.add_argument("--prefix", default=prefix, help=f"how the names of the topics begin (default: {prefix})")
    parser.add_argument("--watermark", default=watermark, help=f"how late a row may be (default: {watermark})")
    parser.add_argument("--resume", action="store_true", help="send nothing, and go on from the checkpoint")
    starting = "where a query without a checkpoint begins (default: earliest)"
    parser.add_argument("--starting-offsets", choices=("earliest", "latest"), help=starting)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--master", metavar="URL", help="run on this Spark cluster, spark://HOST:PORT")
    return parser


def begin_anew(bootstrap: str, first: str, checkpoints: Path) -> None:
    """Removes what an earlier run knew. Raises RuntimeError if the first of the run's topics is there already."""
    if topics.extents(bootstrap, first):
        raise RuntimeError(f"The topic {first} exists already: use --resume, or --prefix with another name.")
    shutil.rmtree(checkpoints, ignore_errors=True)


def keep_progress(spark: SparkSession) -> None:
    """Keeps the progress of more micro-batches than Spark's 100: late rows are summed up over all of them."""
    spark.conf.set(PROGRESS_KEPT, 10_000)


def require_checkpoint(checkpoint: Path, result: str, records: int) -> None:
    """Raises CheckpointLostError if the result topic has records, but the query would start without a checkpoint."""
    offsets = checkpoint / "offsets"
    if records and not (offsets.is_dir() and any(offsets.iterdir())):
        raise CheckpointLostError(
            f"The topic {result} has {records} records, but the checkpoint {checkpoint} is gone. Without it, Spark's "
            "option startingOffsets decides where a query begins: with --starting-offsets earliest all of the input "
            "is read again, and what it gives is written a second time; with latest, only what comes from now on."
        )


def catch_up(query: StreamingQuery) -> None:
    """Waits until the query has processed what its topics hold; raises DataLossError if it can't."""
    try:
        query.processAllAvailable()
    except StreamingQueryException as error:
        raise explained(error) from error


def await_end(query: StreamingQuery) -> None:
    """Waits until a query that ends by itself has ended; raises DataLossError if it can't."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise explained(error) from error


def explained(error: StreamingQueryException) -> RuntimeError:
    """The error with the option that decides, if it tells of lost records; else as it is."""
    text = str(error)
    if not any(mark in text for mark in DATA_LOSS_MARKS):
        return RuntimeError(f"The query failed: {shortened(text)}")
    return DataLossError(
        "Records that the checkpoint expects are not in Kafka: a topic was deleted (or deleted and created again), or "
        "its records were (retention, DeleteRecords). Spark's option failOnDataLoss decides: with "
        f"--no-fail-on-data-loss the query goes on with what is there. Spark says: {shortened(text)}"
    )


def shortened(text: str) -> str:
    """The beginning of Spark's message, without its stack and its plan."""
    line = " ".join(text.split("\n\tat ", maxsplit=1)[0].split("=== Streaming Query ===", maxsplit=1)[0].split())
    return line if len(line) <= LONGEST_CAUSE else f"{line[:LONGEST_CAUSE]}…"


def check_none_late(query: StreamingQuery, watermark: str) -> None:
    """Raises LateRowsDroppedError if any row was dropped; a window's count is what partial aggregation has left."""
    late = sum(
        operator["numRowsDroppedByWatermark"] for each in query.recentProgress for operator in each["stateOperators"]
    )
    if late:
        raise LateRowsDroppedError(
            f"{late} rows were more than {watermark} late and were dropped. --watermark decides how late a row may be."
        )


def header(key: str, value: Column) -> Column:
    """One header as the Kafka sink takes it."""
    return f.struct(f.lit(key).alias("key"), value.cast("binary").alias("value"))


def letters(records: DataFrame, topic: str) -> DataFrame:
    """Records with a `reason`, unchanged, for the dead-letter topic: their key says where they lay, a header why."""
    place = f.concat_ws("/", "topic", "partition", "offset").cast("binary")
    broken = records.where("reason IS NOT NULL")
    why = f.array(header("reason", f.col("reason")))
    return broken.select(f.lit(topic).alias("topic"), place.alias("key"), "value", why.alias("headers"))


def parsed(source: DataFrame, schema: str, needed: tuple[str, ...]) -> DataFrame:
    """Kafka's rows with their JSON as `row`, and `reason`: why a record is none of these, null if it is one."""
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed"}
    row = f.from_json(f.col("value").cast("string"), f"{schema}, malformed STRING", options)
    malformed = f.col("row").isNull() | f.col("row.malformed").isNotNull()
    incomplete = f.greatest(*(f.col(f"row.{name}").isNull() for name in needed))
    reason = f.when(malformed, "not JSON").when(incomplete, "incomplete")
    return source.withColumn("row", row).withColumn("reason", reason)


def batches(query: StreamingQuery) -> int:
    """Micro-batches that read something."""
    return sum(1 for each in query.recentProgress if each["numInputRows"])


def to_json(value: object) -> bytes:
    """A record's value."""
    return json.dumps(value, separators=(",", ":")).encode()
