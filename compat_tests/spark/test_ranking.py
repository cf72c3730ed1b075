"""The ranking is exact: held against one computed without Kafka and without Spark."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from compat_tests.process import Broker

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.oracles import day_of, expected_rankings
from spark_examples import flights, topics

ROOT = Path(__file__).resolve().parents[2]
DAYS, SINCE, HELD_BACK_UNTIL = 31, "2013-01-05", "2013-01-15"
LATE = 50
"""Of the flights of the first ten days, every 50th is held back until its day is closed."""


@pytest.mark.scenario("records", client="spark-4.0.0")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_ranking_is_that_of_plain_python(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spark_examples.ranking", "--bootstrap", broker.bootstrap, "--out", str(tmp_path)]
    command += ["--topic", topic_name, "--days", str(DAYS), "--since", SINCE, "--rows-per-batch", "9000"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr

    feed = [flight for flight in flights.first_days(DAYS) if day_of(flight) >= SINCE]
    late = [flight for flight in feed if day_of(flight) < HELD_BACK_UNTIL][::LATE]
    assert f"{len(late)} late flights" in " ".join(run.stdout.split())
    punctual = list((Counter(feed) - Counter(late)).elements())
    records = topics.read_all(broker.bootstrap, f"{topic_name}-top")
    found = {record.key.decode(): json.loads(record.value) for record in records}
    assert len(found) == len(records)
    assert found == expected_rankings(punctual)
    assert json.loads((tmp_path / "rankings.json").read_text()) == [json.loads(record.value) for record in records]
