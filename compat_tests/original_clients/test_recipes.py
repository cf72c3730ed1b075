"""The recipes of docs/original_clients.md: their processes are killed while they work on a record, and start again."""

import json
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.brokers.topics import create_topic
from compat_tests.original_clients.conftest import BrokerOnZooKeeper
from compat_tests.pages import snippets

pytestmark = [pytest.mark.java, pytest.mark.together, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDS = 200
KILLS = [
    ((37, "before"), (20, "after")),
    pytest.param(((1, "before"), (1, "after"), (10, "after"), (11, "before"), (25, "after")), marks=pytest.mark.long),
]


@pytest.fixture
def topic(on_zookeeper: BrokerOnZooKeeper) -> str:
    """Three partitions with numbers."""
    name = f"recipe-{uuid.uuid4().hex[:8]}"
    create_topic(on_zookeeper.bootstrap, name, partitions=3)
    producer = Producer({"bootstrap.servers": on_zookeeper.bootstrap, "batch.num.messages": 7})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=number % 3)
    assert producer.flush(20) == 0
    return name


def run(recipe: str, given: dict[str, Any], done: Path, kill_at: int = 0, when: str = "before") -> None:
    """One run, which is killed at a record or comes to its end."""
    found = snippets.section("docs/original_clients.md", "At most once, at least once, exactly once").snippets
    (program,) = (each for each in found if each.file == f"{recipe}.py")
    path = str(snippets.write(program, done.parent))
    command = [sys.executable, "-m", "compat_tests.original_clients.killed", path, json.dumps(given), str(done)]
    ended = subprocess.run(
        [*command, str(kill_at), when], cwd=ROOT, timeout=90, capture_output=True, text=True, check=False
    )
    assert ended.returncode == (-signal.SIGKILL if kill_at else 0), ended.stderr


def with_connector(broker: BrokerOnZooKeeper, topic: str) -> dict[str, Any]:
    """The next process has to wait until the session of the killed one has expired."""
    properties = {
        "zookeeper.connect": broker.zookeeper_connect,
        "zookeeper.session.timeout.ms": "2000",
        "zookeeper.connection.timeout.ms": "30000",
        "group.id": topic,
        "auto.offset.reset": "smallest",
        "consumer.timeout.ms": "1000",
        "rebalance.max.retries": "300",
        "rebalance.backoff.ms": "100",
    }
    return {"properties": properties, "topic": topic}


def counted(done: Path) -> Counter[int]:
    """How often each record was done."""
    return Counter(map(int, done.read_text().split()))


@pytest.mark.parametrize("kills", KILLS, ids=["two-kills", "five-kills"])
def test_at_most_once_loses_what_was_in_work_and_repeats_nothing(
    on_zookeeper: BrokerOnZooKeeper, topic: str, tmp_path: Path, kills: tuple[tuple[int, str], ...]
) -> None:
    done = tmp_path / "done"
    given = with_connector(on_zookeeper, topic)
    for kill_at, when in kills:
        run("at_most_once", given, done, kill_at, when)
    run("at_most_once", given, done)
    found = counted(done)
    assert set(found.values()) == {1}
    assert len(found) == RECORDS - sum(when == "before" for _, when in kills)


@pytest.mark.parametrize("kills", KILLS, ids=["two-kills", "five-kills"])
def test_at_least_once_repeats_what_was_not_committed_and_loses_nothing(
    on_zookeeper: BrokerOnZooKeeper, topic: str, tmp_path: Path, kills: tuple[tuple[int, str], ...]
) -> None:
    done = tmp_path / "done"
    given = with_connector(on_zookeeper, topic)
    repeated = 0
    for kill_at, when in kills:
        run("at_least_once", given, done, kill_at, when)
        committed = (kill_at - 1) // 10 * 10
        repeated += (kill_at if when == "after" else kill_at - 1) - committed
    run("at_least_once", given, done)
    found = counted(done)
    assert sorted(found) == list(range(RECORDS))
    assert found.total() == RECORDS + repeated


@pytest.mark.parametrize("kills", [((37, "before"), (100, "after"), (1, "before"), (1, "after"), (30, "before"))])
def test_exactly_once_stores_each_result_once(
    on_zookeeper: BrokerOnZooKeeper, topic: str, tmp_path: Path, kills: tuple[tuple[int, str], ...]
) -> None:
    database = str(tmp_path / "results.sqlite")
    given = {"bootstrap": on_zookeeper.bootstrap, "topic": topic, "database": database}
    for kill_at, when in kills:
        run("exactly_once", given, tmp_path / "done", kill_at, when)
    run("exactly_once", given, tmp_path / "done")
    with closing(sqlite3.connect(database)) as connection:
        stored = connection.execute("SELECT partition, source_offset, result FROM results").fetchall()
    assert sorted(int(result) for *_, result in stored) == list(range(RECORDS))
    assert all(int(result) == 3 * offset + partition for partition, offset, result in stored)
    assert counted(tmp_path / "done").total() > RECORDS, "some work was done again after a kill"
