"""The warehouse's tables: staged records are not seen, committed ones are, with their offsets, and none twice."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.conftest import Lake
from spark_examples import session
from spark_examples.topics import Extent
from spark_examples.warehouse_tables import (
    ForeignRowsError,
    IcebergTable,
    Load,
    OtherTopicError,
    ParquetTable,
    TableBusyError,
    joined,
)

FIRST = Load("flights", {0: Extent(0, 100), 1: Extent(50, 50)}, rows=98, broken=2, lost=0)
SECOND = Load("flights", {0: Extent(100, 130), 1: Extent(50, 60), 2: Extent(0, 5)}, rows=45, broken=0, lost=0)
AFTER_A_LOSS = Load("flights", {0: Extent(137, 140), 1: Extent(60, 60), 2: Extent(5, 5)}, rows=3, broken=0, lost=7)
BOTH = Load("flights", {0: Extent(0, 130), 1: Extent(50, 60), 2: Extent(0, 5)}, rows=143, broken=2, lost=0, loads=2)


def test_loads_that_follow_on_each_other_are_joined_but_not_over_a_loss() -> None:
    assert joined([FIRST, SECOND, AFTER_A_LOSS]) == [BOTH, AFTER_A_LOSS]
    assert [Load.of(json.loads(json.dumps(load.fields))) for load in (BOTH, AFTER_A_LOSS)] == [BOTH, AFTER_A_LOSS]


def staged(table: ParquetTable, name: str, load: Load) -> str:
    """A staged load, without rows."""
    staging = table.path / "_staging" / name / "load=00000"
    staging.mkdir(parents=True)
    (staging / "_offsets.json").write_text(json.dumps(load.fields))
    return f"{name}/load=00000"


def test_loads_at_the_same_time_commit_once(tmp_path: Path) -> None:
    """Both began when the table was empty, and the second to commit finds its number taken."""
    table = ParquetTable(tmp_path)
    both = [staged(table, name, FIRST) for name in ("one", "two")]
    table.commit(both[0])
    with pytest.raises(TableBusyError, match="load=00000 is not the next load"):
        table.commit(both[1])
    assert table.loads() == [FIRST]


def test_a_table_of_another_topic_is_refused(tmp_path: Path) -> None:
    """Offsets of one topic mean nothing in another."""
    table = ParquetTable(tmp_path)
    table.commit(staged(table, "one", FIRST))
    assert table.stored("flights") == {0: 100, 1: 50}
    with pytest.raises(OtherTopicError, match="rows of the topic flights: name another --out for trains"):
        table.stored("trains")


def test_one_process_at_a_time_loads(tmp_path: Path) -> None:
    with ParquetTable(tmp_path).alone():
        other = ParquetTable(tmp_path).alone()
        with pytest.raises(TableBusyError), other:
            pass
    with ParquetTable(tmp_path).alone():
        pass


def test_without_a_network_the_jar_of_iceberg_must_be_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(session.OFFLINE_JARS, str(tmp_path))
    with pytest.raises(
        session.NoSessionError, match=r"KAFKAPY_SPARK_JARS.*lacks the jar of org.apache.iceberg:iceberg"
    ):
        session.open_session("none", tmp_path / "spark.log", lake=tmp_path)


@pytest.fixture
def table(lake: Lake, tmp_path: Path) -> IcebergTable:
    return IcebergTable(lake.path / tmp_path.name, lake.spark)


def stage(lake: Lake, table: IcebergTable, load: Load, number: int) -> str:
    """As many rows as it says, of two months."""
    month = "format_string('2013-%02d', 1 + id % 2) AS month"
    return table.stage(lake.spark.range(load.rows).selectExpr("id AS offset", "0 AS partition", month), load, number)


def count(lake: Lake, table: IcebergTable) -> int:
    return table.rows(lake.spark).count()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_of_two_loads_that_are_staged_at_the_same_time_iceberg_commits_one(lake: Lake, table: IcebergTable) -> None:
    for number, (load, loads) in enumerate(((FIRST, [FIRST]), (SECOND, [BOTH]))):
        before = table.loads()
        both = [stage(lake, table, load, number) for _ in range(2)]
        assert table.loads() == before
        table.commit(both[0])
        with pytest.raises(TableBusyError, match="was written to meanwhile"):
            table.commit(both[1])
        with pytest.raises(TableBusyError, match="was written to meanwhile"):
            stage(lake, table, load, number)
        assert table.loads() == loads
        assert count(lake, table) == loads[-1].rows
    assert {path.name for path in (table.path / "data").iterdir()} == {"month=2013-01", "month=2013-02"}
    with pytest.raises(OtherTopicError, match="rows of the topic flights"):
        table.stored("trains")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compaction_and_expiry_keep_the_offsets_and_rows_of_others_are_told(lake: Lake, table: IcebergTable) -> None:
    for number, load in enumerate((FIRST, SECOND)):
        table.commit(stage(lake, table, load, number))
    options = f"table => '{table.path.name}'"
    files = lake.spark.sql(f"CALL lake.system.rewrite_data_files({options}, options => map('min-input-files', '2'))")
    assert files.collect()[0]["rewritten_data_files_count"] == 4
    lake.spark.sql(f"CALL lake.system.expire_snapshots({options}, older_than => now(), retain_last => 1)")
    assert table.stored("flights") == {0: 130, 1: 60, 2: 5}
    table.commit(stage(lake, table, AFTER_A_LOSS, table.next_number()))
    assert table.loads() == [BOTH, AFTER_A_LOSS]
    assert count(lake, table) == BOTH.rows + AFTER_A_LOSS.rows
    lake.spark.sql(f"INSERT INTO {table.name} VALUES (1, 2, '2013-03')")
    with pytest.raises(ForeignRowsError, match=r"no property kafka-loads: somebody else.*another table \(--out\)\.$"):
        table.stored("flights")
