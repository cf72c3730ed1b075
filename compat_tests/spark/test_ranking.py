"""The ranking is exact: held against one computed without Kafka and without Spark."""

import json
from collections import Counter
from pathlib import Path

import pytest

from harness.process import Broker

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.oracles import day_of, expected_rankings
from compat_tests.spark.runs import pipeline
from spark_examples.common import topics
from spark_examples.data import flights

DAYS, SINCE, HELD_BACK_UNTIL = 31, "2013-01-05", "2013-01-15"
LATE = 50
"""Of the flights of the first ten days, every 50th is held back until its day is closed."""


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_ranking_is_that_of_plain_python(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    options: tuple[str, ...] = ("--bootstrap", broker.bootstrap, "--out", str(tmp_path), "--topic", topic_name)
    options += ("--days", str(DAYS), "--since", SINCE, "--rows-per-batch", "9000")
    with pipeline("ranking", *options) as run:
        told = run.succeed()

    feed = [flight for flight in flights.first_days(DAYS) if day_of(flight) >= SINCE]
    late = [flight for flight in feed if day_of(flight) < HELD_BACK_UNTIL][::LATE]
    assert f"{len(late)} late flights" in told
    punctual = list((Counter(feed) - Counter(late)).elements())
    records = topics.read_all(broker.bootstrap, f"{topic_name}-top")
    found = {record.key.decode(): json.loads(record.value) for record in records}
    assert len(found) == len(records)
    assert found == expected_rankings(punctual)
    assert json.loads((tmp_path / "rankings.json").read_text()) == [json.loads(record.value) for record in records]
