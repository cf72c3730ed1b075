"""The sessions are exact: those of a job that runs alone, and those of one that is killed again and again."""

import random
from pathlib import Path

import pytest

from harness.process import Broker

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.kills import campaign, check
from compat_tests.spark.runs import submit, watched
from spark_examples.common import topics
from spark_examples.data import flights

DAYS = 20


@pytest.mark.scenario("transactions", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long_on_kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_alone_forms_the_sessions_of_plain_python(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    feed, periods = flights.first_days(DAYS), f"{topic_name}-periods"
    flights.create_topics(broker.bootstrap, {topic_name: 3}, "--topic")
    topics.create(broker.bootstrap, {periods: 1}, "--topic", cleanup_policy="compact")
    assert flights.send_in_transactions(broker.bootstrap, topic_name, feed) > 0
    flights.close_feed(broker.bootstrap, topic_name, feed[-1].scheduled_ms)
    options = ("--bootstrap", broker.bootstrap, "--topic", topic_name, "--periods", periods)
    with watched(submit("sessions", tmp_path / "job", *options)) as run:
        run.succeed()
    check(broker.bootstrap, periods, tmp_path / "job/sessions", feed)


@pytest.mark.spark
@pytest.mark.java
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("target", ["kafkapy", "kafkapy-cluster"])
def test_the_sessions_are_exact_though_spark_and_brokers_are_killed(target: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10_000)
    print(f"seed {seed}")
    assert "3 kills" in campaign(target, 3, 40, random.Random(seed), tmp_path)
