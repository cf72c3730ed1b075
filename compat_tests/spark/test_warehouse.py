"""The warehouse has each row of its topic once, also when its loads are killed; what it can't load it says."""

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from harness.process import Broker

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.oracles import check_exact, read_table
from compat_tests.spark.runs import TIMEOUT_S, kill, starter, submit, watched
from spark_examples.common import topics
from spark_examples.data import flights
from spark_examples.warehouse.demonstration import send_broken
from spark_examples.warehouse.job import ICEBERG, PARQUET, OffsetsGoneError, Options, Position, begin, plan

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

DAYS, BROKEN, PARTS = 8, 12, 4
ROWS_PER_LOAD = 2500
FULL = {0: (0, 100), 1: (50, 50), 2: (10, 1010)}
OPTIONS = Options("nowhere:1", "flights", rows_per_load=110)


def test_a_load_takes_a_share_of_each_partition_that_is_proportional_to_what_it_holds() -> None:
    after = plan(OPTIONS, Position("flights"), FULL)
    assert after == Position("flights", {0: 0, 1: 50, 2: 10}, {0: 10, 1: 50, 2: 110}, dict.fromkeys(FULL, 0), loads=1)
    before = Position("flights", first={0: 5}, next={0: 90, 1: 50, 2: 1000}, loads=7)
    after = plan(OPTIONS, before, FULL)
    assert (after.first[0], after.next, after.loads) == (5, {0: 100, 1: 50, 2: 1010}, 8)
    after = plan(OPTIONS, before, {0: FULL[0], 1: FULL[1]})  # the topic's metadata lack a partition for a moment
    assert after.next == {0: 100, 1: 50, 2: 1000}


@pytest.mark.parametrize(
    ("stored", "held", "told"),
    [
        ({2: 5}, FULL, "5 are gone .*failOnDataLoss decides"),
        ({0: 101}, FULL, "deleted and created again"),
        ({0: 1}, {}, "does not exist.*failOnDataLoss"),
    ],
)
def test_offsets_that_are_gone_are_told(stored: dict[int, int], held: dict[int, tuple[int, int]], told: str) -> None:
    with pytest.raises(OffsetsGoneError, match=told):
        begin(OPTIONS, Position("flights", next=stored), held)


def test_without_fail_on_data_loss_lost_offsets_are_counted() -> None:
    options = Options("nowhere:1", "flights", fail_on_data_loss=False)
    after = plan(options, Position("flights", next={0: 0, 1: 50, 2: 5}, lost={2: 3}), FULL)
    assert (after.next, after.lost) == ({0: 100, 1: 50, 2: 1010}, {0: 0, 1: 0, 2: 8})


def test_an_unknown_format_is_told() -> None:
    command = [sys.executable, "-m", "spark_examples", "warehouse", "--format", "orc"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 2
    assert re.search("argument --format: invalid choice: 'orc' .*parquet.*iceberg", told.stderr)


@pytest.mark.parametrize("name", ["warehouse", "ranking", "news_feed", "security", "sessions"])
def test_resume_wants_a_broker_that_has_the_topics(name: str) -> None:
    command = [sys.executable, "-m", "spark_examples", name, "--resume"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 2
    assert "--resume needs --bootstrap" in told.stderr


def send(bootstrap: str, topic: str, feed: list[flights.Flight]) -> None:
    """The feed in parts, after each of which come lines that are no flights."""
    size = -(-len(feed) // PARTS)
    flights.create_topics(bootstrap, {topic: 3, f"{topic}-dead-letters": 1}, "--topic")
    for first in range(0, len(feed), size):
        flights.send(bootstrap, topic, feed[first : first + size])
        send_broken(bootstrap, topic, BROKEN // PARTS)


Resume = Callable[..., subprocess.Popen[str]]
Read = Callable[[Path], list[dict[str, Any]]]


@pytest.fixture
def resume(broker: Broker, topic_name: str, table_format: str, tmp_path: Path) -> Iterator[Resume]:
    """Starts a load of the topic in a process group of its own."""
    given = ("--resume", "--bootstrap", broker.bootstrap, "--topic", topic_name, "--out", str(tmp_path))
    with starter("warehouse", *given, "--format", table_format) as start:

        def begin(rows_per_load: int = ROWS_PER_LOAD, *arguments: str) -> subprocess.Popen[str]:
            return start("--rows-per-load", str(rows_per_load), *arguments)

        yield begin


def kill_somewhere(process: subprocess.Popen[str], chance: random.Random) -> str:
    """Kills one of the first loads a moment after it has told something; what it told."""
    event, skipped = chance.choice(["reading", "reading", "staged", "committed"]), chance.randrange(3)
    assert process.stdout is not None
    told = ""
    for line in process.stdout:
        told += line
        if event in line and (skipped := skipped - 1) < 0:
            time.sleep(chance.uniform(0, 0.8) if event == "reading" else 0)
            kill(process)
            return f"killed: {line}"
    pytest.fail(f"it ended before it was killed:\n{told}")


@contextmanager
def finished(process: subprocess.Popen[str], code: int) -> Iterator[str]:
    told, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, told
    yield " ".join(told.split())


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("table_format", [PARQUET, pytest.param(ICEBERG, marks=pytest.mark.long_on_kafka)])
@pytest.mark.parametrize(("kills", "rows_per_load"), [(1, ROWS_PER_LOAD), pytest.param(3, 600, marks=pytest.mark.long)])
def test_a_load_that_is_killed_and_resumed_loads_each_row_once(
    broker: Broker,
    topic_name: str,
    resume: Resume,
    table_format: str,
    read_rows: Read,
    tmp_path: Path,
    kills: int,
    rows_per_load: int,
) -> None:
    feed = flights.first_days(DAYS)
    seed = random.SystemRandom().randrange(10_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    send(broker.bootstrap, topic_name, feed)
    for _ in range(kills):
        print(kill_somewhere(resume(rows_per_load), chance))
    with finished(resume(rows_per_load), 0) as told:
        assert "0 lost" in told
    check_exact(broker.bootstrap, topic_name, read_rows(tmp_path), feed, BROKEN)
    assert table_format == ICEBERG or "iceberg" not in (tmp_path / "spark.log").read_text(), (
        "it was fetched for nothing"
    )


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_alone_loads_each_row_once(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    feed = flights.first_days(DAYS)
    send(broker.bootstrap, topic_name, feed)
    options = ("--bootstrap", broker.bootstrap, "--topic", topic_name, "--dead-letters", f"{topic_name}-dead-letters")
    with watched(submit("warehouse", tmp_path / "job", *options, "--rows-per-load", "4000")) as run:
        run.succeed()
        assert run.count("committed") == 2
    check_exact(broker.bootstrap, topic_name, read_table(tmp_path / "job/warehouse"), feed, BROKEN)


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(30)


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("table_format", [PARQUET, ICEBERG])
def test_rows_that_are_deleted_before_they_are_loaded_are_told_and_counted(
    broker: Broker, topic_name: str, resume: Resume, read_rows: Read, tmp_path: Path
) -> None:
    feed = flights.first_days(DAYS)
    send(broker.bootstrap, topic_name, feed[:3000])
    with finished(resume(), 0):
        pass
    loaded = topics.extents(broker.bootstrap, topic_name)
    flights.send(broker.bootstrap, topic_name, feed[3000:6000])
    partition, extent = max(topics.extents(broker.bootstrap, topic_name).items(), key=lambda item: item[1].end)
    delete_records(broker.bootstrap, topic_name, partition, loaded[partition].end + 7)
    with finished(resume(), 1) as told:
        assert "7 are gone" in told
        assert "failOnDataLoss decides: with --no-fail-on-data-loss" in told
    with finished(resume(ROWS_PER_LOAD, "--no-fail-on-data-loss"), 0) as told:
        assert "7 lost" in told
    rows = read_rows(tmp_path)
    assert len(rows) == len({(row["partition"], row["offset"]) for row in rows}) == 6000 - 7
    assert max(row["offset"] for row in rows if row["partition"] == partition) == extent.end - 1
