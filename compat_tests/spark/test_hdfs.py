"""A job whose results and checkpoint are on HDFS is exact, also if Spark is killed in a micro-batch."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.spark.conftest import Lake
from compat_tests.spark.kills import expected
from compat_tests.spark.runs import submit, watched
from harness.jars import HDFS
from harness.java_programs import MissingToolchainError, java_command
from harness.kafkapy_process import KafkapyProcess
from spark_examples.common import topics
from spark_examples.data import flights

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]
SOURCE = Path(__file__).with_name("SmallDfs.java")
DAYS, ROWS_PER_BATCH = 20, 4000
TOPIC, PERIODS = "flights", "periods"
FIELDS = ("route", "begin_ms", "last_ms", "flights", "departed", "delay")


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[str]:
    """The URL of an HDFS with one data node."""
    try:
        command = [*java_command("SmallDfs", [SOURCE], HDFS, heap="512M"), str(tmp_path / "hdfs")]
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


def test_sessions_on_hdfs_are_exact_though_spark_is_killed(hdfs: str, lake: Lake, tmp_path: Path) -> None:
    assert hdfs.startswith("hdfs://")
    feed = flights.first_days(DAYS)
    directory = tmp_path / "job"
    jvm: Any = lake.spark.sparkContext._jvm
    offsets = jvm.org.apache.hadoop.fs.Path(f"{hdfs}/checkpoint/offsets/2")
    with KafkapyProcess() as broker:
        flights.create_topics(broker.bootstrap, {TOPIC: 3}, "--topic")
        topics.create(broker.bootstrap, {PERIODS: 1}, "--topic", cleanup_policy="compact")
        flights.send_in_transactions(broker.bootstrap, TOPIC, feed)
        flights.close_feed(broker.bootstrap, TOPIC, feed[-1].scheduled_ms)
        options = ["--bootstrap", broker.bootstrap, "--topic", TOPIC, "--periods", PERIODS]
        options += ["--table", f"{hdfs}/sessions", "--checkpoint", f"{hdfs}/checkpoint"]
        options += ["--rows-per-batch", str(ROWS_PER_BATCH)]
        files = offsets.getFileSystem(lake.spark.sparkContext._jsc.hadoopConfiguration())
        with watched(submit("sessions", directory, *options)) as run:
            run.wait_until(lambda: bool(files.exists(offsets)), "the third micro-batch", every_s=0.2)
            run.kill()
        for _ in range(2):  # Spark 4.1 fails once after it has repeated a micro-batch (SPARK-55271)
            with watched(submit("sessions", directory, *options)) as run:
                code = run.end()
        assert code == 0, run.told
        rows = [tuple(row[name] for name in FIELDS) for row in lake.spark.read.parquet(f"{hdfs}/sessions").collect()]
        assert len(rows) == len(set(rows))
        assert set(rows) == expected(feed)
