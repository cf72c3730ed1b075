"""The pipelines, unchanged, on a Spark cluster: a driver, a master, and executors of two workers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.kafkapy_process import KafkapyProcess

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.oracles import check_exact, check_rankings, read_carriers, totals_of
from compat_tests.spark.runs import pipeline
from compat_tests.spark.standalone import StandaloneCluster
from compat_tests.spark.test_monitoring import PNG_MAGIC, check_monitoring
from compat_tests.spark.test_news_feed import expected_feed, read_entries
from compat_tests.spark.test_news_feed import read_rows as read_ratings
from compat_tests.spark.test_security import check_exact as check_security
from compat_tests.spark.test_security import read_trace
from spark_examples.data import flights
from spark_examples.warehouse.job import ICEBERG, PARQUET

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.together,
    pytest.mark.timeout(1200),
]

DAYS, BROKEN = 8, 3
RANKED_DAYS = 31
EVENTS = 2600
TIMEOUT_S = 1000
WORKERS = 2


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("spark"), WORKERS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kafkapy() -> Iterator[KafkapyProcess]:
    with KafkapyProcess() as broker:
        yield broker


def run_pipeline(name: str, spark_cluster: StandaloneCluster, bootstrap: str, out: Path, *arguments: str) -> str:
    """Runs one of the pipelines to its end; what it printed, in one line."""
    options = ("--master", spark_cluster.url, "--bootstrap", bootstrap, "--out", str(out), *arguments)
    with pipeline(name, *options) as run:
        return run.succeed(TIMEOUT_S)


@pytest.mark.parametrize("table_format", [PARQUET, ICEBERG])
def test_the_warehouse_loads_each_row_once_on_a_cluster(
    spark_cluster: StandaloneCluster,
    kafkapy: KafkapyProcess,
    topic_name: str,
    table_format: str,
    read_rows: Callable[[Path], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    options = ("--topic", topic_name, "--days", str(DAYS), "--rows-per-load", "2500", "--format", table_format)
    run_pipeline("warehouse", spark_cluster, kafkapy.bootstrap, tmp_path, *options)
    feed = flights.first_days(DAYS)
    check_exact(kafkapy.bootstrap, topic_name, read_rows(tmp_path), feed, BROKEN)
    assert (tmp_path / "warehouse.png").read_bytes().startswith(PNG_MAGIC)
    assert spark_cluster.finished()["warehouse"] == WORKERS


def test_the_ranking_is_exact_on_a_cluster(
    spark_cluster: StandaloneCluster, kafkapy: KafkapyProcess, topic_name: str, tmp_path: Path
) -> None:
    options = ("--topic", topic_name, "--days", str(RANKED_DAYS), "--rows-per-batch", "9000")
    run_pipeline("ranking", spark_cluster, kafkapy.bootstrap, tmp_path, *options)
    check_rankings(kafkapy.bootstrap, topic_name, flights.first_days(RANKED_DAYS))
    assert spark_cluster.finished()["ranking"] == WORKERS


def test_both_sides_of_a_mirror_are_the_same_on_a_cluster(
    spark_cluster: StandaloneCluster, kafkapy: KafkapyProcess, topic_name: str, tmp_path: Path
) -> None:
    options = ("--topic", topic_name, "--days", str(DAYS))
    run_pipeline("mirror_then_analyse", spark_cluster, kafkapy.bootstrap, tmp_path, *options)
    expected = totals_of(flights.first_days(DAYS))
    assert read_carriers(tmp_path / "analysis-source") == read_carriers(tmp_path / "analysis-target") == expected
    assert (tmp_path / "mirror_then_analyse.png").read_bytes().startswith(PNG_MAGIC)
    assert spark_cluster.finished()["mirror_then_analyse"] == WORKERS


def test_the_monitoring_is_exact_on_a_cluster(
    spark_cluster: StandaloneCluster, kafkapy: KafkapyProcess, topic_name: str, tmp_path: Path
) -> None:
    run_pipeline("monitoring", spark_cluster, kafkapy.bootstrap, tmp_path, "--topic", topic_name)
    check_monitoring(tmp_path)
    assert spark_cluster.finished()["monitoring"] == WORKERS


def test_the_feed_is_exact_on_a_cluster(
    spark_cluster: StandaloneCluster, kafkapy: KafkapyProcess, topic_name: str, tmp_path: Path
) -> None:
    options = ("--prefix", topic_name, "--events", str(EVENTS))
    run_pipeline("news_feed", spark_cluster, kafkapy.bootstrap, tmp_path, *options)
    assert read_entries(kafkapy.bootstrap, topic_name) == expected_feed(read_ratings(EVENTS))
    assert spark_cluster.finished()["news_feed"] == WORKERS


def test_crawlers_are_found_on_a_cluster(
    spark_cluster: StandaloneCluster, kafkapy: KafkapyProcess, topic_name: str, tmp_path: Path
) -> None:
    """Its keyed state is in Python workers of the executors."""
    run_pipeline("security", spark_cluster, kafkapy.bootstrap, tmp_path, "--prefix", topic_name, "--seconds", "8")
    check_security(kafkapy.bootstrap, topic_name, read_trace(tmp_path / "trace.jsonl"), repeats=False)
    assert spark_cluster.finished()["security"] == WORKERS
