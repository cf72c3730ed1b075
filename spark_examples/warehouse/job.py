"""Loads a topic in batches into Parquet or Apache Iceberg, each row exactly once, with the offsets beside the data.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

It also needs kafka-python, which has settings of its own for TLS and SASL (function `held`). For `--format iceberg
--table lake.flights` add org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0 and the settings of your catalog. A
Parquet table may be a URL of Hadoop's, such as hdfs://.

A load reads a range of offsets that is fixed before. Its rows, and the position behind them, become part of the table
in one step: a rename of a directory, or the move of Iceberg's branch `main`. The next load begins at the position that
the table has, so there is no checkpoint that could be lost. A load that died before its commit left nothing that a
reader sees, and is repeated; of two loads that began at the same position, one commits, and the other fails.
A rename is atomic on local disks and on HDFS, not on object stores: use Iceberg there.

Records that are no flights go unchanged into a topic of their own, before the commit: a repeated load sends them again,
with the same key (topic/partition/offset), so that topic has them at least once.
"""

import argparse
import json
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = (
    "origin STRING, scheduled_ms LONG, dep_delay INT, arr_delay INT, carrier STRING, number INT, destination STRING"
)
NEEDED = ("origin", "scheduled_ms", "carrier", "number", "destination")
PARQUET, ICEBERG = "parquet", "iceberg"
POSITION = "_position.json"
"""Spark and other readers of Parquet ignore names that begin with an underscore."""
STAGING = "_staging"
PROPERTY = "kafka-position"
BRANCH = "load_"


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    bootstrap: str
    topic: str = "warehouse-flights"
    dead_letters: str = "warehouse-flights-dead-letters"
    table: str = "warehouse"
    format: str = PARQUET
    rows_per_load: int = 60_000
    min_tasks: int = 4
    fail_on_data_loss: bool = True
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


class OffsetsGoneError(RuntimeError):
    """The topic no longer holds the offsets at which the next load begins."""


class TableBusyError(RuntimeError):
    """Another load was committed since this one had begun."""


class ForeignRowsError(RuntimeError):
    """The table has rows of another topic, or of another program: nothing says which offsets of this topic it holds."""


@dataclass(frozen=True)
class Position:
    """What a table holds of a topic: by partition, its first and next offset, and how many between are lost."""

    topic: str
    first: dict[int, int] = field(default_factory=dict)
    next: dict[int, int] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    rows: int = 0
    broken: int = 0
    loads: int = 0

    def to_json(self) -> str:
        return json.dumps(self.__dict__)

    @staticmethod
    def of_json(text: str) -> "Position":
        fields = json.loads(text)
        offsets = {name: {int(k): v for k, v in fields[name].items()} for name in ("first", "next", "lost")}
        return Position(**{**fields, **offsets})


class ParquetTable:
    """A directory with a directory for each load, `load=00000` and on, each with its position in a file."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self.name = spark, path
        context: Any = spark.sparkContext
        self._hadoop = context._jvm.org.apache.hadoop.fs
        configuration = context._jsc.hadoopConfiguration()
        self._files = self._hadoop.Path(path).getFileSystem(configuration)
        self._context = self._hadoop.FileContext.getFileContext(self._files.getUri(), configuration)
        self._fail_if_there = context._gateway.new_array(self._hadoop.Options.Rename, 0)

    def _path(self, name: str) -> Any:
        return self._files.makeQualified(self._hadoop.Path(f"{self.name}/{name}"))

    def position(self) -> Position | None:
        """The position after the last load; None before the first."""
        names = (each.getPath().getName() for each in self._files.globStatus(self._path("load=*")) or ())
        last = max((int(name.removeprefix("load=")) for name in names), default=None)
        if last is None:
            return None
        stream = self._files.open(self._path(f"load={last:05d}/{POSITION}"))
        text = bytes(stream.readAllBytes())
        stream.close()
        return Position.of_json(text.decode())

    def stage(self, rows: DataFrame, after: Position) -> str:
        """Writes a load where no reader sees it; its name for `commit`."""
        number = after.loads - 1
        for each in self._files.globStatus(self._path(f"{STAGING}/*")) or ():
            if int(each.getPath().getName().partition("_")[0]) < number:  # dead, or it can't be committed any more
                self._files.delete(each.getPath(), True)
        staged = f"{STAGING}/{number}_{uuid.uuid4().hex}"
        rows.write.partitionBy("month").parquet(f"{self.name}/{staged}")
        stream = self._files.create(self._path(f"{staged}/{POSITION}"))
        stream.write(after.to_json().encode())
        stream.close()
        return staged

    def commit(self, staged: str, after: Position) -> None:
        """Makes the load part of the table, with its position; raises TableBusyError if its number is taken."""
        target = self._path(f"load={after.loads - 1:05d}")
        if self._files.exists(target):
            raise TableBusyError(f"{self.name} was written to meanwhile: load {after.loads - 1} is taken.")
        self._context.rename(self._path(staged), target, self._fail_if_there)

    def rows(self) -> DataFrame:
        return self._spark.read.parquet(self.name)


class IcebergTable:
    """A table of Iceberg. A load is staged in a branch, whose snapshot has the position as a property.

    The last branch stays until the next commit, so that its snapshot does not expire.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self.name = spark, name
        self._catalog, _, self._table = name.partition(".")

    def _select(self, what: str) -> list[Any]:
        return self._spark.sql(f"SELECT {what}").collect()

    def position(self) -> Position | None:
        """The position after the last load; None before the first. Raises ForeignRowsError."""
        if not self._spark.catalog.tableExists(self.name):
            return None
        main = self._select(f"snapshot_id FROM {self.name}.refs WHERE name = 'main'")
        if not main:
            return None
        columns = f"snapshot_id, parent_id, operation, summary['{PROPERTY}'] AS position"
        snapshots = {row["snapshot_id"]: row for row in self._select(f"{columns} FROM {self.name}.snapshots")}
        snapshot = snapshots[main[0]["snapshot_id"]]
        while snapshot is not None and snapshot["position"] is None and snapshot["operation"] == "replace":
            snapshot = snapshots.get(snapshot["parent_id"])  # compaction replaces files and leaves the rows as they are
        if snapshot is None or snapshot["position"] is None:
            raise ForeignRowsError(
                f"The newest snapshot of {self.name} has no property {PROPERTY}: another program has written into the "
                "table. Roll it back to a snapshot that has it, or load into another table (--table)."
            )
        return Position.of_json(snapshot["position"])

    def stage(self, rows: DataFrame, after: Position) -> str:
        """Writes a load where no reader sees it; its name for `commit`. Raises TableBusyError."""
        columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in rows.schema)
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg PARTITIONED BY (month)")
        branch = f"{BRANCH}{after.loads - 1:05d}_{uuid.uuid4().hex}"
        self._spark.sql(f"ALTER TABLE {self.name} CREATE BRANCH {branch}")
        self._check_next(after)
        writer = rows.writeTo(f"{self.name}.branch_{branch}")
        writer.option(f"snapshot-property.{PROPERTY}", after.to_json()).append()
        return branch

    def commit(self, staged: str, after: Position) -> None:
        """Makes the load part of the table, with its position; raises TableBusyError if its number is taken."""
        self._check_next(after)  # Iceberg makes a branch again that another load has dropped, on top of that load
        try:
            self._spark.sql(f"CALL {self._catalog}.system.fast_forward('{self._table}', 'main', '{staged}')")
        except IllegalArgumentException as error:
            raise self._busy(after) from error
        for row in self._select(f"name FROM {self.name}.refs"):
            if row["name"].startswith(BRANCH) and int(row["name"].split("_")[1]) < after.loads - 1:
                self._spark.sql(f"ALTER TABLE {self.name} DROP BRANCH {row['name']}")

    def _check_next(self, after: Position) -> None:
        """Raises TableBusyError if another load has been committed."""
        before = self.position()
        if (before.loads if before else 0) != after.loads - 1:
            raise self._busy(after)

    def _busy(self, after: Position) -> TableBusyError:
        return TableBusyError(f"{self.name} was written to meanwhile: load {after.loads - 1} is taken.")

    def rows(self) -> DataFrame:
        return self._spark.table(self.name)


Table = ParquetTable | IcebergTable
Extents = Mapping[int, tuple[int, int]]
"""By partition, the first offset that it holds, and the one after its last."""


def open_table(spark: SparkSession, options: Options) -> Table:
    spark.conf.set("spark.sql.session.timeZone", "UTC")  # of the months
    return IcebergTable(spark, options.table) if options.format == ICEBERG else ParquetTable(spark, options.table)


def held(options: Options) -> Extents:
    """What the topic holds now; empty if there is no such topic."""
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap.split(","),
        isolation_level="read_committed",  # the end is that of the last transaction that has ended
        allow_auto_create_topics=False,
    )
    places = [TopicPartition(options.topic, index) for index in consumer.partitions_for_topic(options.topic) or ()]
    firsts, ends = consumer.beginning_offsets(places), consumer.end_offsets(places)
    consumer.close()
    return {place.partition: (firsts[place], ends[place]) for place in places}


def begin(options: Options, before: Position, extents: Extents) -> dict[int, int]:
    """By partition, the offset at which the next load begins; raises OffsetsGoneError, ForeignRowsError."""
    if before.topic != options.topic:
        raise ForeignRowsError(
            f"{options.table} has rows of the topic {before.topic}: name another --table for {options.topic}."
        )
    if not extents:
        raise OffsetsGoneError(
            f"The topic {options.topic} does not exist. If it was deleted, what the table lacks can't be loaded: "
            "neither value of Spark's option failOnDataLoss helps."
        )
    found = {}
    for partition, (first, end) in extents.items():
        position = before.next.get(partition, first)
        if position > end:
            raise OffsetsGoneError(
                f"Partition {partition} of {options.topic} ends at {end}, but the table has its offsets up to "
                f"{position}: the topic was deleted and created again. Load it into another --table."
            )
        if position < first and options.fail_on_data_loss:
            raise OffsetsGoneError(
                f"Partition {partition} of {options.topic} begins at offset {first}, but the next one to load is "
                f"{position}: {first - position} are gone (retention, or deleted records). Spark's option "
                "failOnDataLoss decides: with --no-fail-on-data-loss the load continues, and counts them as lost."
            )
        found[partition] = max(position, first)
    return found


def plan(options: Options, before: Position, extents: Extents) -> Position:
    """The position after the next load, but for its rows: the partitions get shares in proportion to what they hold."""
    first = begin(options, before, extents)
    left = {partition: extents[partition][1] - offset for partition, offset in first.items()}
    share = min(options.rows_per_load / max(sum(left.values()), 1), 1)
    lost = {partition: offset - before.next.get(partition, offset) for partition, offset in first.items()}
    return replace(
        before,
        first={**first, **before.first},
        next=before.next
        | {partition: offset + math.ceil(left[partition] * share) for partition, offset in first.items()},
        lost=before.lost | {partition: before.lost.get(partition, 0) + count for partition, count in lost.items()},
        loads=before.loads + 1,
    )


def read(spark: SparkSession, options: Options, begins: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """The records between these offsets, parsed, with the reason why one is no flight."""
    first, end = (json.dumps({options.topic: {str(p): each[p] for p in begins}}) for each in (begins, ends))
    records = (
        spark.read.format("kafka")
        .options(**options.kafka)
        .option("subscribe", options.topic)
        .option("startingOffsets", first)
        .option("endingOffsets", end)
        .option("kafka.isolation.level", "read_committed")
        .option("minPartitions", options.min_tasks)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
        .load()
    )
    broken = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed"}
    flight = f.from_json(f.col("value").cast("string"), f"{SCHEMA}, malformed STRING", broken)
    incomplete = f.greatest(*(f.col(f"flight.{name}").isNull() for name in NEEDED))
    malformed = f.col("flight").isNull() | f.col("flight.malformed").isNotNull()
    reason = f.when(malformed, "not JSON").when(incomplete, "incomplete")
    return records.select("topic", "partition", "offset", "value", flight.alias("flight")).withColumn("reason", reason)


def flights(records: DataFrame) -> DataFrame:
    """The rows of the table: the flights with their place in the topic; their month (UTC) is its partition."""
    rows = records.where("reason IS NULL").select("flight.*", "partition", "offset").drop("malformed")
    scheduled = f.timestamp_millis("scheduled_ms")
    return rows.withColumns({"scheduled": scheduled, "month": f.date_format(scheduled, "yyyy-MM")}).drop("scheduled_ms")


def send_broken(records: DataFrame, options: Options) -> None:
    """The other records, unchanged, into the topic of dead letters."""
    place = f.concat_ws("/", "topic", "partition", "offset")
    why = f.array(f.struct(f.lit("reason").alias("key"), f.col("reason").cast("binary").alias("value")))
    letters = records.where("reason IS NOT NULL").select(place.alias("key"), "value", why.alias("headers"))
    sink = letters.write.format("kafka").options(**options.kafka)
    sink.option("topic", options.dead_letters).save()


def load_next(spark: SparkSession, options: Options, table: Table) -> Position | None:
    """One load; the position after it, None if the table has all that the topic holds."""
    before = table.position() or Position(options.topic)
    extents = held(options)
    begins, after = begin(options, before, extents), plan(options, before, extents)
    if after.next == before.next | begins and sum(after.lost.values()) == sum(before.lost.values()):
        return None
    print(f"  load {before.loads}: reading", flush=True)
    records = read(spark, options, begins, after.next).persist()
    counted = records.agg(f.count("*").alias("all"), f.count("reason").alias("broken")).first()
    assert counted is not None
    rows, broken = counted["all"] - counted["broken"], counted["broken"]
    after = replace(after, rows=before.rows + rows, broken=before.broken + broken)
    staged = table.stage(flights(records), after)
    if broken:
        send_broken(records, options)
    records.unpersist()
    print(f"  load {before.loads}: staged", flush=True)
    table.commit(staged, after)
    print(f"  load {before.loads}: committed {rows:,} rows, {broken} broken", flush=True)
    return after


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--topic", default=Options.topic, help="topic of departures as JSON: " + SCHEMA)
    parser.add_argument("--dead-letters", default=Options.dead_letters, help="topic for what is no flight")
    parser.add_argument(
        "--table", default=Options.table, help="directory, or name of the Iceberg table with its catalog"
    )
    parser.add_argument("--format", choices=(PARQUET, ICEBERG), default=PARQUET)
    parser.add_argument("--rows-per-load", type=int, default=Options.rows_per_load)
    parser.add_argument("--min-tasks", type=int, default=Options.min_tasks, help="Spark's tasks of a load, at least")
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    options = Options(**vars(parser.parse_args()))
    if options.format == ICEBERG and "." not in options.table:
        parser.error("--format iceberg needs --table CATALOG.TABLE")
    if options.rows_per_load < 1:
        parser.error("--rows-per-load must be 1 at least")
    return options


if __name__ == "__main__":
    given = parsed()
    session = SparkSession.builder.appName("warehouse").getOrCreate()
    while load_next(session, given, open_table(session, given)) is not None:
        pass
