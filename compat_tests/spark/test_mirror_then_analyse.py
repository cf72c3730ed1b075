"""The same analysis on both sides of a mirror, exact, with transactions that were aborted on the way."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker, ChildProcess
from harness.real_kafka import RealKafka

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from kafka import KafkaProducer

from compat_tests.spark.oracles import read_carriers, totals_of
from compat_tests.spark.runs import finished, pipeline, start, submit
from spark_examples.common import topics
from spark_examples.data import flights

DAYS, PER_TRANSACTION = 8, 5000
KAFKAPY, APACHE = "kafkapy", "kafka-2.7.2"
pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


def broker_of(kind: str) -> ChildProcess:
    """Not started."""
    return KafkapyProcess() if kind == KAFKAPY else RealKafka("2.7.2")


def aborted(flown: int) -> int:
    """Of each transaction every fifth flight is written before, and aborted."""
    return sum(-(-min(PER_TRANSACTION, flown - first) // 5) for first in range(0, flown, PER_TRANSACTION))


def lags(bootstrap: str, group: str = "mirror-then-analyse") -> set[int]:
    """The lags of the query's group by a command of its own."""
    words = ["groups", "describe", group, "--bootstrap", bootstrap, "--json"]
    run = subprocess.run([sys.executable, "-m", "kafkapy", *words], capture_output=True, text=True, check=True)
    return {row["lag"] for row in json.loads(run.stdout)["offsets"]}


@pytest.mark.parametrize(
    ("source", "target"),
    [(APACHE, KAFKAPY), pytest.param(KAFKAPY, APACHE, marks=pytest.mark.long)],
)
def test_the_analysis_is_the_same_on_both_sides_of_a_mirror(
    source: str, target: str, topic_name: str, tmp_path: Path
) -> None:
    feed = flights.first_days(DAYS)
    with broker_of(source) as first, broker_of(target) as second:
        options: tuple[str, ...] = ("--bootstrap", first.bootstrap, "--target", second.bootstrap, "--topic", topic_name)
        options += ("--out", str(tmp_path), "--days", str(DAYS), "--offsets-per-batch", "3000")
        with pipeline("mirror_then_analyse", *options) as run:
            run.succeed()
        held, copied = (
            sum(extent.end for extent in topics.extents(each.bootstrap, topic_name).values())
            for each in (first, second)
        )
        assert lags(first.bootstrap) == lags(second.bootstrap) == {0}
    half = len(feed) // 2
    assert held >= len(feed) + aborted(half) + aborted(len(feed) - half)  # the aborted ones are there
    assert copied >= len(feed)
    assert read_carriers(tmp_path / "analysis-source") == read_carriers(tmp_path / "analysis-target") == totals_of(feed)
    assert (tmp_path / "mirror_then_analyse.png").read_bytes().startswith(b"\x89PNG")


def test_too_few_days_are_refused() -> None:
    assert "--days: 6 is too small: 7 is the smallest value" in finished(start("mirror_then_analyse", "--days", "6"), 2)


@pytest.mark.scenario("transactions", client="spark")
@pytest.mark.long_on_clusters
@pytest.mark.long_on_kafka
def test_the_job_file_runs_by_itself(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    feed = flights.first_days(DAYS)
    topics.create(broker.bootstrap, {topic_name: 3}, "", retention_ms="-1")
    producer: Any = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic_name, linger_ms=20)
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number, flight in enumerate(feed):
            producer.send(topic_name, flight.to_json(), partition=number % 3)
        producer.flush()
        end()
    producer.close()
    topics.wait_until_committed(broker.bootstrap, [topic_name])

    options = ["--bootstrap", broker.bootstrap, "--topic", topic_name, "--group", f"{topic_name}-query"]
    finished(submit("mirror_then_analyse", tmp_path / "job", *options, "--offsets-per-batch", "5000"), 0)
    assert read_carriers(tmp_path / "job" / "carriers") == totals_of(feed)
    assert lags(broker.bootstrap, f"{topic_name}-query") == {0}
