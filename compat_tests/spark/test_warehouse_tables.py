"""The warehouse's tables: staged records are not seen, committed ones are, with their offsets, and none twice."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.conftest import Lake
from spark_examples.common import session
from spark_examples.warehouse.job import (
    ForeignRowsError,
    IcebergTable,
    Options,
    ParquetTable,
    Position,
    TableBusyError,
    begin,
)

FIRST = Position("flights", {0: 0, 1: 50}, {0: 100, 1: 50}, {0: 0, 1: 0}, rows=98, broken=2, loads=1)
SECOND = Position("flights", {0: 0, 1: 50, 2: 0}, {0: 130, 1: 60, 2: 5}, {0: 7, 1: 0, 2: 0}, 143, 2, loads=2)
THIRD = Position("flights", {0: 0, 1: 50, 2: 0}, {0: 140, 1: 60, 2: 5}, {0: 7, 1: 0, 2: 0}, 146, 2, loads=3)


def test_a_position_is_kept_as_json() -> None:
    assert [Position.of_json(each.to_json()) for each in (FIRST, SECOND)] == [FIRST, SECOND]


def test_a_table_of_another_topic_is_refused() -> None:
    """Offsets of one topic mean nothing in another."""
    with pytest.raises(ForeignRowsError, match="rows of the topic flights: name another --table for trains"):
        begin(Options("nowhere:1", "trains"), FIRST, {0: (0, 100)})


def test_without_a_network_the_jars_must_be_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session.OFFLINE_JARS, str(tmp_path))
    lacks = r"KAFKAPY_SPARK_JARS.*lacks the jar of "
    with pytest.raises(session.NoSessionError, match=f"{lacks}org.apache.spark:spark-sql-kafka"):
        session.open_session("none", tmp_path / "spark.log")
    (tmp_path / f"{'-'.join(session.connector().split(':')[1:])}.jar").touch()
    with pytest.raises(session.NoSessionError, match=f"{lacks}org.apache.iceberg:iceberg"):
        session.open_session("none", tmp_path / "spark.log", lake=tmp_path)


def stage(lake: Lake, table: ParquetTable | IcebergTable, after: Position, rows: int) -> str:
    """So many rows of two months."""
    month = "format_string('2013-%02d', 1 + id % 2) AS month"
    return table.stage(lake.spark.range(rows).selectExpr("id AS offset", "0 AS partition", month), after)


@pytest.fixture
def table(lake: Lake, tmp_path: Path) -> IcebergTable:
    return IcebergTable(lake.spark, f"lake.{tmp_path.name}")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_two_loads_that_begin_at_the_same_position_parquet_commits_one(lake: Lake, tmp_path: Path) -> None:
    table = ParquetTable(lake.spark, str(tmp_path / "table"))
    assert table.position() is None
    for after, rows, total in ((FIRST, 98, 98), (SECOND, 45, 143)):
        staged = stage(lake, table, after, rows)
        assert (table.position() or Position("flights")).loads == after.loads - 1
        other = stage(lake, table, after, rows)  # it leaves the files of the one that is under way
        table.commit(staged, after)
        with pytest.raises(TableBusyError, match="was written to meanwhile"):
            table.commit(other, after)
        assert table.position() == after
        assert table.rows().count() == total


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_two_loads_that_are_staged_at_the_same_time_iceberg_commits_one(lake: Lake, table: IcebergTable) -> None:
    for after, rows, total in ((FIRST, 98, 98), (SECOND, 45, 143)):
        before = table.position()
        both = [stage(lake, table, after, rows) for _ in range(2)]
        assert table.position() == before
        table.commit(both[0], after)
        with pytest.raises(TableBusyError, match="was written to meanwhile"):
            table.commit(both[1], after)
        with pytest.raises(TableBusyError, match="was written to meanwhile"):
            stage(lake, table, after, rows)
        assert table.position() == after
        assert table.rows().count() == total


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_load_that_writes_after_others_were_committed_is_not_committed(lake: Lake, table: IcebergTable) -> None:
    """Iceberg makes its branch, which the second of the others has dropped, again on top of them."""
    late = stage(lake, table, FIRST, 98)
    for after, rows in ((FIRST, 98), (SECOND, 45)):
        table.commit(stage(lake, table, after, rows), after)
    lake.spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH {late}")
    late_rows = lake.spark.range(98).selectExpr("id AS offset", "0 AS partition", "'2013-01' AS month")
    writer = late_rows.writeTo(f"{table.name}.branch_{late}")
    writer.option("snapshot-property.kafka-position", FIRST.to_json()).append()
    with pytest.raises(TableBusyError, match="was written to meanwhile"):
        table.commit(late, FIRST)
    assert table.position() == SECOND
    assert table.rows().count() == SECOND.rows


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compaction_and_expiry_keep_the_offsets_and_rows_of_others_are_told(lake: Lake, table: IcebergTable) -> None:
    for after, rows in ((FIRST, 98), (SECOND, 45)):
        table.commit(stage(lake, table, after, rows), after)
    options = f"table => '{table.name.removeprefix('lake.')}'"
    files = lake.spark.sql(f"CALL lake.system.rewrite_data_files({options}, options => map('min-input-files', '2'))")
    assert files.collect()[0]["rewritten_data_files_count"] == 4
    lake.spark.sql(f"CALL lake.system.expire_snapshots({options}, older_than => now(), retain_last => 1)")
    assert table.position() == SECOND
    table.commit(stage(lake, table, THIRD, 3), THIRD)
    assert table.position() == THIRD
    assert table.rows().count() == THIRD.rows
    lake.spark.sql(f"INSERT INTO {table.name} VALUES (1, 2, '2013-03')")
    with pytest.raises(ForeignRowsError, match=r"no property kafka-position: another .*another table \(--table\)\.$"):
        table.position()
