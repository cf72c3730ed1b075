"""Spark's part of the bench: one session, its reads and micro-batches timed; prints one line of JSON.

python -m bench.clients.spark OPTIONS
"""

import json
import statistics
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_examples.common.session import open_session

WARM_MICRO_BATCHES = 10
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Reads:
    """The options that `SparkReads` passes."""

    bootstrap: str
    topic: str
    pinged: str
    directory: Path
    records: int
    reads: int
    micro_batches: int


class WrongCountError(RuntimeError):
    """Spark read other than what is there."""


def source(reader: Any, options: Reads, topic: str, start: str) -> Any:
    """Spark's Kafka source, for a batch or a stream."""
    reader = reader.format("kafka").option("kafka.bootstrap.servers", options.bootstrap)
    return reader.option("subscribe", topic).option("startingOffsets", start)


def batch_s(spark: SparkSession, options: Reads) -> float:
    """Reads every value of the topic in one batch."""
    records = source(spark.read, options, options.topic, "earliest").load()
    started = time.monotonic()
    found = records.agg(f.count("*"), f.sum(f.length("value"))).collect()[0]
    taken = time.monotonic() - started
    if tuple(found) != (options.records, options.records * 100):
        raise WrongCountError(f"{tuple(found)} read, records and bytes, instead of {options.records:,} records")
    return taken


def parquet_s(spark: SparkSession, options: Reads, number: int) -> float:
    """Streams the topic into Parquet with `availableNow`, from its start to its end."""
    records = source(spark.readStream, options, options.topic, "earliest").load()
    table = str(options.directory / f"table-{number}")
    writer = records.select("partition", "offset", "value").writeStream.format("parquet").option("path", table)
    started = time.monotonic()
    query = writer.option("checkpointLocation", f"{table}-checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    taken = time.monotonic() - started
    if (found := spark.read.parquet(table).count()) != options.records:
        raise WrongCountError(f"{found:,} rows in Parquet instead of {options.records:,}")
    return taken


def micro_batches_s(spark: SparkSession, options: Reads) -> list[float]:
    """One record at a time: from its acknowledgement to the end of the `foreachBatch` that has got it."""
    seen = threading.Semaphore(0)

    def got(batch: DataFrame, _: int) -> None:
        for _ in range(batch.count()):
            seen.release()

    records = source(spark.readStream, options, options.pinged, "latest").load()
    query = (
        records.writeStream.foreachBatch(got)
        .option("checkpointLocation", str(options.directory / "pinged"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    producer = Producer({"bootstrap.servers": options.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    deadline = time.monotonic() + TIMEOUT_S
    while query.lastProgress is None:  # its offsets are fixed: a later record is new
        if time.monotonic() > deadline:
            raise WrongCountError("the query did not start")
        time.sleep(0.05)
    times = []
    for number in range(WARM_MICRO_BATCHES + options.micro_batches):
        producer.produce(options.pinged, b"ping %d" % number)
        producer.flush(TIMEOUT_S)
        started = time.monotonic()
        if not seen.acquire(timeout=TIMEOUT_S):
            raise WrongCountError(f"the micro-batch of record {number} did not come")
        times.append(time.monotonic() - started)
    query.stop()
    return times[WARM_MICRO_BATCHES:]


def main() -> None:
    fields = json.loads(sys.argv[1])
    options = Reads(**{**fields, "directory": Path(fields["directory"])})
    spark = open_session("bench", options.directory / "spark.log")
    batch_s(spark, options)
    batches = [batch_s(spark, options) for _ in range(options.reads)]
    parquet_s(spark, options, -1)
    parquets = [parquet_s(spark, options, number) for number in range(options.reads)]
    micro_batches = micro_batches_s(spark, options)
    spark.stop()
    parquet = statistics.median(parquets)
    metrics = {
        "batch_s": statistics.median(batches),
        "micro_batch_ms": 1000 * statistics.median(micro_batches),
        "parquet_s": parquet,
        "parquet_rows_per_s": options.records / parquet,
    }
    print(json.dumps(metrics))


if __name__ == "__main__":
    main()
