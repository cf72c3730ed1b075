"""A Spark with Iceberg in the tests' own process, and the rows of the warehouse's table in either format."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from compat_tests.spark.runs import quick_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake(NamedTuple):
    """A session whose catalog `lake` is this directory."""

    spark: "SparkSession"
    path: Path


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One for all tests of the process: it takes long to start."""
    from spark_examples.common.session import open_session

    path = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", quick_java()["JAVA_TOOL_OPTIONS"])
        spark = open_session("tests", path / "spark.log", lake=path)
    yield Lake(spark, path)
    spark.stop()


@pytest.fixture
def read_rows(request: pytest.FixtureRequest, table_format: str) -> Callable[[Path], list[dict[str, Any]]]:
    """The results of the warehouse for a reader that has no data about loads: pyarrow, or for Iceberg Spark."""
    from compat_tests.spark.oracles import read_table
    from spark_examples.warehouse.demonstration import place
    from spark_examples.warehouse.job import ICEBERG

    def read(out: Path) -> list[dict[str, Any]]:
        path = place(table_format, out)
        if table_format != ICEBERG:
            return read_table(path)
        spark = request.getfixturevalue("lake").spark
        rows: list[dict[str, Any]] = spark.read.format("iceberg").load(str(path)).toArrow().to_pylist()
        return rows

    return read
