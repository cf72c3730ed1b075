"""Reads a topic with Spark's Kafka source, as often as it is asked to, all in one Spark.

python -m compat_tests.spark.reader BOOTSTRAP TOPIC DIRECTORY

Each line of the standard input names a way, ``batch`` or ``stream``, and an isolation level; the answer is a line of
JSON, ``[[partition, offset, value], …]``. A stream goes on where the one of the same level before it ended, and answers
with all that they have read.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from spark_examples.common.session import open_session

OFFSETS_PER_BATCH = 190  # a stream's batches, and a batch's shares, end wherever that is in a transaction
SHARES = 5


class Reader:
    """Rows as Spark sees them."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, directory: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._topic = topic
        self._directory = directory

    def batch(self, isolation: str) -> DataFrame:
        """All records in the topic now."""
        return self._load(self._spark.read, isolation, minPartitions=SHARES)

    def stream(self, isolation: str) -> DataFrame:
        """All records in the topic now, and those that earlier calls have read."""
        rows, checkpoints = (str(self._directory / f"{what}-{isolation}") for what in ("rows", "checkpoints"))
        source = self._load(self._spark.readStream, isolation, maxOffsetsPerTrigger=OFFSETS_PER_BATCH)
        sink = source.writeStream.format("parquet").option("path", rows).option("checkpointLocation", checkpoints)
        sink.trigger(availableNow=True).start().awaitTermination()
        return self._spark.read.parquet(rows)

    def _load(self, reader: DataFrameReader | DataStreamReader, isolation: str, **options: int) -> DataFrame:
        source = reader.format("kafka").option("kafka.bootstrap.servers", self._bootstrap)
        source = source.option("subscribe", self._topic).option("startingOffsets", "earliest")
        source = source.option("kafka.isolation.level", isolation)
        for key, value in options.items():
            source = source.option(key, value)
        return source.load().selectExpr("partition", "offset", "CAST(value AS STRING) AS value")


def main() -> None:
    bootstrap, topic, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = open_session("reader", directory / "spark.log")
    reader = Reader(spark, bootstrap, topic, directory)
    for line in sys.stdin:
        way, isolation = line.split()
        rows = (reader.stream if way == "stream" else reader.batch)(isolation).collect()
        print(json.dumps(sorted([row.partition, row.offset, row.value] for row in rows)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
