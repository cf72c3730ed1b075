"""The pipelines are exact though Spark, the broker, or the leader of their topic is killed in the middle."""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.cluster.three_brokers import ThreeBrokers
from harness.kafkapy_process import KafkapyProcess

pytest.importorskip("pyspark", reason="comes with the spark extra")
pytest.importorskip("pyarrow", reason="comes with the spark extra")

from compat_tests.spark.oracles import check_exact, check_rankings, read_carriers, totals_of
from compat_tests.spark.runs import PipelineRun, pipeline
from compat_tests.spark.test_monitoring import check_monitoring
from compat_tests.spark.test_news_feed import EVENTS as RATINGS
from compat_tests.spark.test_news_feed import expected_feed, read_entries
from compat_tests.spark.test_news_feed import read_rows as read_ratings
from compat_tests.spark.test_news_feed import send as send_feed
from compat_tests.spark.test_security import check_exact as check_security
from compat_tests.spark.test_security import read_trace
from spark_examples.data import flights
from spark_examples.security import demonstration as security
from spark_examples.security import request_trace
from spark_examples.security.job import Options as SecurityOptions
from spark_examples.warehouse.demonstration import send_broken
from spark_examples.warehouse.job import ICEBERG, PARQUET

pytestmark = [
    pytest.mark.spark,
    pytest.mark.java,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.together,
    pytest.mark.timeout(2400),
]

DAYS, PARTS, BROKEN = 8, 4, 12
PARTITIONS = 3
RANKED_DAYS, ROWS_PER_BATCH, BATCHES = 31, 3000, 9
KILLS = 6
RECORDED_S = 8
SPARK, BROKER = "Spark", "the broker"
MOST_PAUSE_S = 1.0
TIMEOUT_S = 1000.0
Read = Callable[[Path], list[dict[str, Any]]]
FORMATS = pytest.mark.parametrize("table_format", [PARQUET, ICEBERG])
EVENTS = ("reading", "reading", "staged", "committed")
"""The warehouse's output for a load; a fault is worst while it reads."""


@pytest.fixture
def chance() -> random.Random:
    """Random numbers by a seed that is printed."""
    seed = random.SystemRandom().randrange(10_000)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreeBrokers]:
    """Three kafkapy on a ZooKeeper, three replicas of each partition."""
    with ThreeBrokers("kafkapy-cluster") as brokers:
        yield brokers


@pytest.fixture
def kafkapy() -> Iterator[KafkapyProcess]:
    with KafkapyProcess() as broker:
        yield broker


def fill_warehouse(bootstrap: str, topic: str) -> list[flights.Flight]:
    """Sends some days in parts, broken lines after each; the flights."""
    feed = flights.first_days(DAYS)
    flights.create_topics(bootstrap, {topic: PARTITIONS, f"{topic}-dead-letters": 1}, "--topic")
    size = -(-len(feed) // PARTS)
    for first in range(0, len(feed), size):
        assert flights.send(bootstrap, topic, feed[first : first + size]) == len(feed[first : first + size])
        send_broken(bootstrap, topic, BROKEN // PARTS)
    return feed


def fill_ranking(bootstrap: str, topic: str) -> list[flights.Flight]:
    """Sends a month, and the row that closes its days; the flights."""
    feed = flights.first_days(RANKED_DAYS)
    flights.create_topics(bootstrap, {topic: PARTITIONS, f"{topic}-top": 1}, "--topic")
    assert flights.send(bootstrap, topic, feed) == len(feed)
    flights.close_feed(bootstrap, topic, feed[-1].scheduled_ms)
    return feed


def has_offsets(checkpoint: Path) -> bool:
    """Whether some query with this checkpoint, or with one below it, has fixed the offsets of a micro-batch."""
    return any(path.name.isdigit() for path in checkpoint.glob("**/offsets/*"))


def has_begun(out: Path, batch: int) -> bool:
    """Whether the ranking's query has fixed the offsets of this micro-batch, or of a later one."""
    return any(
        path.name.isdigit() and int(path.name) >= batch for path in (out / "checkpoints/ranking").glob("offsets/*")
    )


def load(bootstrap: str, topic: str, out: Path, rows: int) -> tuple[str, ...]:
    """The arguments of a load of the topic's records."""
    return ("--resume", "--bootstrap", bootstrap, "--topic", topic, "--out", str(out), "--rows-per-load", str(rows))


@FORMATS
def test_the_warehouse_is_exact_though_the_leader_is_killed(
    cluster: ThreeBrokers, topic_name: str, table_format: str, read_rows: Read, tmp_path: Path
) -> None:
    feed = fill_warehouse(cluster.bootstrap, topic_name)
    with pipeline("warehouse", *load(cluster.bootstrap, topic_name, tmp_path, 1200), "--format", table_format) as run:
        run.wait_until(lambda: run.count("load 2: reading") > 0, "the third load")
        cluster.kill(cluster.leader_of([topic_name]))
        assert run.count("reconcile") == 0, "it was over before the leader was"
        assert "0 lost" in run.succeed(TIMEOUT_S)
    cluster.start()
    check_exact(cluster.bootstrap, topic_name, read_rows(tmp_path), feed, BROKEN)


def test_the_ranking_is_exact_though_the_leader_is_killed(
    cluster: ThreeBrokers, topic_name: str, tmp_path: Path
) -> None:
    options: tuple[str, ...] = ("--bootstrap", cluster.bootstrap, "--topic", topic_name, "--out", str(tmp_path))
    options += ("--days", str(RANKED_DAYS), "--rows-per-batch", "6000")
    with pipeline("ranking", *options) as run:
        run.wait_until(lambda: has_begun(tmp_path, 2), "the third micro-batch")
        cluster.kill(cluster.leader_of([topic_name]))
        assert run.count("read the result back, and check it") == 0, "it was over before the leader was"
        run.succeed(TIMEOUT_S)
    cluster.start()
    check_rankings(cluster.bootstrap, topic_name, flights.first_days(RANKED_DAYS))


def test_the_monitoring_is_exact_though_the_leader_is_killed(
    cluster: ThreeBrokers, topic_name: str, tmp_path: Path
) -> None:
    with pipeline("monitoring", "--bootstrap", cluster.bootstrap, "--topic", topic_name, "--out", str(tmp_path)) as run:
        run.wait_until(lambda: has_offsets(tmp_path / "checkpoints"), "the first micro-batch")
        cluster.kill(cluster.leader_of([topic_name]))
        assert run.count("read the results back") == 0, "it was over before the leader was"
        run.succeed(TIMEOUT_S)
    cluster.start()
    check_monitoring(tmp_path)


def test_the_feed_is_exact_though_the_leader_is_killed(cluster: ThreeBrokers, topic_name: str, tmp_path: Path) -> None:
    """Its topics are written before, as a producer is no part of the pipeline; a repeated entry has the same id."""
    send_feed(cluster.bootstrap, topic_name, RATINGS).close()
    options = ("--resume", "--bootstrap", cluster.bootstrap, "--prefix", topic_name, "--out", str(tmp_path))
    with pipeline("news_feed", *options) as run:
        run.wait_until(lambda: has_offsets(tmp_path / "checkpoints" / "news_feed"), "the first micro-batch")
        cluster.kill(cluster.leader_of([f"{topic_name}-ratings"]))
        assert run.count("read the feed back") == 0, "it was over before the leader was"
        run.succeed(TIMEOUT_S)
    cluster.start()
    assert set(read_entries(cluster.bootstrap, topic_name)) == set(expected_feed(read_ratings(RATINGS)))


def test_crawlers_are_found_though_the_leader_is_killed(cluster: ThreeBrokers, topic_name: str, tmp_path: Path) -> None:
    lines = request_trace.record(RECORDED_S, tmp_path / "traced.log")
    request_trace.write_trace(lines, tmp_path / "trace.jsonl")
    given = SecurityOptions(
        cluster.bootstrap,
        requests=f"{topic_name}-requests",
        rates=f"{topic_name}-rates",
        sessions=f"{topic_name}-sessions",
        block_list=f"{topic_name}-block-list",
        dead_letters=f"{topic_name}-dead-letters",
    )
    security.create_topics(given)
    security.send(given, [*lines, security.closing_line(lines)])
    options = ("--resume", "--bootstrap", cluster.bootstrap, "--prefix", topic_name, "--out", str(tmp_path))
    with pipeline("security", *options, "--rows-per-batch", "500") as run:
        run.wait_until(lambda: has_offsets(tmp_path / "checkpoints" / "security"), "the first micro-batch")
        cluster.kill(cluster.leader_of([given.requests]))
        assert run.count("read the results back") == 0, "it was over before the leader was"
        run.succeed(TIMEOUT_S)
    cluster.start()
    check_security(cluster.bootstrap, topic_name, read_trace(tmp_path / "trace.jsonl"), repeats=True)


def test_both_sides_of_a_mirror_are_the_same_though_the_leader_is_killed(
    cluster: ThreeBrokers, topic_name: str, tmp_path: Path
) -> None:
    options = ("--bootstrap", cluster.bootstrap, "--out", str(tmp_path), "--topic", topic_name, "--days", str(DAYS))
    with pipeline("mirror_then_analyse", *options) as run:
        run.wait_until(lambda: run.count("analyse the source") > 0, "the first half, mirrored")
        cluster.kill(cluster.leader_of([topic_name]))
        assert run.count("check both sides") == 0, "it was over before the leader was"
        run.succeed(TIMEOUT_S)
    cluster.start()
    expected = totals_of(flights.first_days(DAYS))
    assert read_carriers(tmp_path / "analysis-source") == read_carriers(tmp_path / "analysis-target") == expected


def await_event(run: PipelineRun, chance: random.Random) -> str | None:
    """Waits for a moment of one of the next loads; what it was, or None if the run ended by itself."""
    event, number = chance.choice(EVENTS), chance.randint(1, 2)
    seen = run.count(event)
    if not run.lasts_until(lambda: run.count(event) >= seen + number, event):
        return None
    pause = chance.uniform(0, MOST_PAUSE_S) if event == "reading" else 0
    time.sleep(pause)  # anywhere in the load
    return f"{pause:.2f} s after {event!r}"


def disturb(run: PipelineRun, kafkapy: KafkapyProcess, chance: random.Random, victims: list[str]) -> None:
    """Kills the broker, which restarts at once, as often as it is the next victim; then, or with the last, Spark.

    A load may end with an error because of the broker; the next one resumes it.
    """
    while victims:
        when = await_event(run, chance)
        if when is None:
            assert run.end() != 0, f"all was loaded before {victims} were killed:\n{run.told}"
            return
        victim = victims.pop()
        print(f"{victim} is killed {when}")
        if victim == SPARK:
            return
        kafkapy.kill()
        kafkapy.start()


@FORMATS
def test_the_warehouse_is_exact_though_spark_and_the_broker_are_killed_at_random(
    kafkapy: KafkapyProcess, topic_name: str, chance: random.Random, table_format: str, read_rows: Read, tmp_path: Path
) -> None:
    feed = fill_warehouse(kafkapy.bootstrap, topic_name)
    form = ("--format", table_format)
    victims = [SPARK, BROKER] * (KILLS // 2)
    chance.shuffle(victims)
    while victims:
        with pipeline("warehouse", *load(kafkapy.bootstrap, topic_name, tmp_path, 300), *form) as run:
            disturb(run, kafkapy, chance, victims)
    with pipeline("warehouse", *load(kafkapy.bootstrap, topic_name, tmp_path, 2500), *form) as run:
        assert "0 lost" in run.succeed(TIMEOUT_S)
    check_exact(kafkapy.bootstrap, topic_name, read_rows(tmp_path), feed, BROKEN)


def test_the_ranking_is_exact_though_spark_is_killed_in_micro_batches(
    kafkapy: KafkapyProcess, topic_name: str, chance: random.Random, tmp_path: Path
) -> None:
    feed = fill_ranking(kafkapy.bootstrap, topic_name)
    options: tuple[str, ...] = (
        "--resume",
        "--bootstrap",
        kafkapy.bootstrap,
        "--topic",
        topic_name,
        "--out",
        str(tmp_path),
    )
    options += ("--rows-per-batch", str(ROWS_PER_BATCH))
    for batch in sorted(chance.sample(range(1, BATCHES), KILLS // 2)):
        with pipeline("ranking", *options) as run:
            run.wait_until(lambda: has_begun(tmp_path, batch), f"micro-batch {batch}")  # noqa: B023
            pause = chance.uniform(0, MOST_PAUSE_S)
            time.sleep(pause)  # anywhere in the micro-batch
            print(f"Spark is killed {pause:.2f} s into micro-batch {batch}")
    with pipeline("ranking", *options) as run:
        code = run.end(TIMEOUT_S)
    if code:  # Spark 4.1 fails once after it has repeated a micro-batch
        assert "SPARK-55271" in run.told, run.told
        with pipeline("ranking", *options) as run:
            run.succeed(TIMEOUT_S)
    check_rankings(kafkapy.bootstrap, topic_name, feed, late=False)
