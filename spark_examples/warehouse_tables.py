"""The two tables that the warehouse can be: directories of Parquet files, or a table of Apache Iceberg.

Both take a load in two steps. `stage` writes its rows, and the ranges of offsets that they came from, where no reader
sees them; `commit` makes both part of the table at once. A load has a number, which is how many were committed when its
ranges were fixed: if another one has taken it since, the load fails. A load that dies leaves nothing that counts; the
table itself says where the next one begins.
"""

import fcntl
import json
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from spark_examples.session import LAKE
from spark_examples.topics import Extent

PARQUET, ICEBERG = "parquet", "iceberg"
STAGING, OFFSETS, LOCK = "_staging", "_offsets.json", "_lock"
"""Spark and pyarrow leave out names that begin with an underscore."""
SNAPSHOT_PROPERTY = "kafka-loads"
BRANCH = "load_"
"""How the names of the branches begin in which loads are staged."""


class OtherTopicError(RuntimeError):
    """The table was loaded from another topic, whose offsets mean nothing in this one."""


class ForeignRowsError(RuntimeError):
    """Somebody else has written into the table: nothing says which offsets it holds."""


class TableBusyError(RuntimeError):
    """Another process loads into the table."""


@dataclass(frozen=True)
class Load:
    """What one load has read, or several in a row; stored with the rows."""

    topic: str
    ranges: dict[int, Extent]
    rows: int
    broken: int
    lost: int
    loads: int = 1

    @property
    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return self.__dict__

    @staticmethod
    def of(fields: dict[str, Any]) -> "Load":
        """The reverse of `fields`."""
        ranges = {int(partition): Extent(*extent) for partition, extent in fields["ranges"].items()}
        return Load(**{**fields, "ranges": ranges})

    def continues(self, before: "Load") -> bool:
        """Whether it began, in each partition, where the one before ended."""
        both = self.ranges.keys() & before.ranges.keys()
        return self.topic == before.topic and all(self.ranges[each].first == before.ranges[each].end for each in both)

    def after(self, before: "Load") -> "Load":
        """Both as one."""
        ranges = before.ranges | {
            partition: Extent(before.ranges.get(partition, extent).first, extent.end)
            for partition, extent in self.ranges.items()
        }
        sums = (getattr(before, name) + getattr(self, name) for name in ("rows", "broken", "lost", "loads"))
        return Load(self.topic, ranges, *sums)


def joined(loads: Iterable[Load]) -> list[Load]:
    """The same in few entries: a new one only where offsets were lost."""
    entries: list[Load] = []
    for load in loads:
        if entries and load.continues(entries[-1]):
            entries[-1] = load.after(entries[-1])
        else:
            entries.append(load)
    return entries


class WarehouseTable(ABC):
    """A table, partitioned by month, that knows which offsets it holds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def loads(self) -> list[Load]:
        """What is committed, oldest first."""

    @abstractmethod
    def stage(self, rows: DataFrame, load: Load, number: int) -> str:
        """Writes a load where no reader sees it; its name for `commit`. May raise TableBusyError as `commit` does."""

    @abstractmethod
    def commit(self, staged: str) -> None:
        """Makes it part of the table, with its offsets, in one step. Raises TableBusyError if its number is taken."""

    @abstractmethod
    def rows(self, spark: SparkSession) -> DataFrame:
        """What a reader finds."""

    def next_number(self) -> int:
        """How many loads are committed."""
        return sum(load.loads for load in self.loads())

    def stored(self, topic: str) -> dict[int, int]:
        """By partition, the offset at which the next load begins. Raises OtherTopicError for rows of another topic."""
        loads = self.loads()
        for load in loads:
            if load.topic != topic:
                raise OtherTopicError(
                    f"{self.path} has rows of the topic {load.topic}: name another --out for {topic}, or this --topic."
                )
        return {partition: extent.end for load in loads for partition, extent in load.ranges.items()}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process loads meanwhile; the lock ends with the process, however that ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise TableBusyError(f"Another process loads into {self.path}.") from error
            yield


def _taken(table: object, load: str) -> TableBusyError:
    return TableBusyError(f"{table} was written to meanwhile: {load} is not the next load.")


class ParquetTable(WarehouseTable):
    """A directory with a directory for each committed load, `load=00000` and on; its ranges are in a file there.

    A load is staged under `_staging`, and committed by a rename.
    """

    def loads(self) -> list[Load]:
        return [Load.of(json.loads((path / OFFSETS).read_text())) for path in sorted(self.path.glob("load=*"))]

    def stage(self, rows: DataFrame, load: Load, number: int) -> str:
        shutil.rmtree(self.path / STAGING, ignore_errors=True)  # what a dead load has left
        name = f"{uuid.uuid4().hex}/load={number:05d}"
        staging = self.path / STAGING / name
        rows.write.partitionBy("month").parquet(str(staging))
        (staging / OFFSETS).write_text(json.dumps(load.fields))
        return name

    def commit(self, staged: str) -> None:
        staging = self.path / STAGING / staged
        try:
            staging.rename(self.path / staging.name)
        except OSError as error:
            raise _taken(self.path, staging.name) from error

    def rows(self, spark: SparkSession) -> DataFrame:
        return spark.read.parquet(str(self.path))


class IcebergTable(WarehouseTable):
    """A table of the session's catalog LAKE, named as its folder.

    A load is staged in a branch of its own, whose snapshot has the ranges in its summary, and committed by letting the
    branch `main` point to that snapshot. The property sums up all loads up to its own, so that older snapshots may
    expire; the last branch stays until the next commit, so that its snapshot does not.
    """

    def __init__(self, path: Path, spark: SparkSession) -> None:
        super().__init__(path)
        self._spark = spark
        self.name = f"{LAKE}.{path.name}"

    def loads(self) -> list[Load]:
        """Return the committed loads, oldest first; raises ForeignRowsError."""
        if not self._spark.catalog.tableExists(self.name):
            return []
        main = self._select(f"snapshot_id FROM {self.name}.refs WHERE name = 'main'")
        if not main:
            return []
        columns = f"snapshot_id, parent_id, operation, summary['{SNAPSHOT_PROPERTY}'] AS loads"
        snapshots = {row["snapshot_id"]: row for row in self._select(f"{columns} FROM {self.name}.snapshots")}
        snapshot = snapshots[main[0]["snapshot_id"]]
        # Compaction replaces files and leaves the rows as they are.
        while snapshot is not None and snapshot["loads"] is None and snapshot["operation"] == "replace":
            snapshot = snapshots.get(snapshot["parent_id"])
        if snapshot is None or snapshot["loads"] is None:
            raise ForeignRowsError(
                f"The newest snapshot of {self.name} in {self.path.parent} has no property {SNAPSHOT_PROPERTY}: "
                "somebody else has written into the table, so its Kafka offsets are not known. Roll it back to a "
                "snapshot that has them, or load into another table (--out)."
            )
        return [Load.of(fields) for fields in json.loads(snapshot["loads"])]

    def _select(self, what: str) -> list[Any]:
        return self._spark.sql(f"SELECT {what}").collect()

    def stage(self, rows: DataFrame, load: Load, number: int) -> str:
        columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in rows.schema)
        self._spark.sql(f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg PARTITIONED BY (month)")
        branch = f"{BRANCH}{number:05d}_{uuid.uuid4().hex}"
        self._spark.sql(f"ALTER TABLE {self.name} CREATE BRANCH {branch}")
        before = self.loads()  # read after the branch has begun: what is committed later can't be its parent
        if sum(each.loads for each in before) != number:
            raise _taken(self.name, branch)
        ranges = json.dumps([each.fields for each in joined([*before, load])])
        rows.writeTo(f"{self.name}.branch_{branch}").option(f"snapshot-property.{SNAPSHOT_PROPERTY}", ranges).append()
        return branch

    def commit(self, staged: str) -> None:
        try:
            self._spark.sql(f"CALL {LAKE}.system.fast_forward('{self.path.name}', 'main', '{staged}')")
        except IllegalArgumentException as error:
            raise _taken(self.name, staged) from error
        for row in self._select(f"name FROM {self.name}.refs"):
            if row["name"].startswith(BRANCH) and row["name"] != staged:  # of the load before, and of dead ones
                self._spark.sql(f"ALTER TABLE {self.name} DROP BRANCH {row['name']}")

    def rows(self, spark: SparkSession) -> DataFrame:
        return spark.table(self.name)


def place(table_format: str, out: Path) -> Path:
    """Where the table of this format is in the directory of results."""
    return out / LAKE / "flights" if table_format == ICEBERG else out / "warehouse"


def open_table(table_format: str, out: Path, spark: SparkSession) -> WarehouseTable:
    """The table of this format; for Iceberg the session must have it as its lake."""
    path = place(table_format, out)
    return IcebergTable(path, spark) if table_format == ICEBERG else ParquetTable(path)
