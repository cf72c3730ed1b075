"""The monitoring (the main job) is exact: held against one computed without Kafka and without Spark."""

import json
import urllib.request
from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from compat_tests.spark.runs import pipeline, submit, watched
from harness.process import Broker, free_port
from spark_examples.common import topics
from spark_examples.data import flights

HOUR_MS = 3_600_000
DAYS = 20
parquet: Any = pytest.importorskip("pyarrow.parquet", reason="comes with the spark extra")
PNG_MAGIC = b"\x89PNG"


def _expected_hours(days: int = flights.DAYS) -> dict[tuple[str, int], dict[str, Any]]:
    """Every (airport, hour), in plain Python."""
    windows: dict[tuple[str, int], list[flights.Flight]] = defaultdict(list)
    for flight in flights.first_days(days):
        windows[flight.origin, flight.scheduled_ms // HOUR_MS].append(flight)
    hours = {}
    for place, rows in windows.items():
        left = [row.dep_delay for row in rows if row.dep_delay is not None]
        arrived = [row.arr_delay for row in rows if row.arr_delay is not None]
        hours[place] = {
            "flights": len(rows),
            "departed": len(left),
            "dep_delay_sum": sum(left) if left else None,
            "dep_delay_max": max(left) if left else None,
            "arrived": len(arrived),
            "arr_delay_sum": sum(arrived) if arrived else None,
            "mean_delay": sum(left) / len(left) if left else None,
            "cancelled": (len(rows) - len(left)) / len(rows),
        }
    return hours


def _expected_reason(row: dict[str, Any]) -> str | None:
    if row["flights"] >= 10 and row["cancelled"] >= 0.5:
        return "cancellations"
    if row["departed"] >= 10 and row["mean_delay"] >= 60:
        return "delays"
    return None


def _expected_silences(days: int = flights.DAYS) -> set[tuple[str, int]]:
    """Airport and last departure (ms) before at least nine hours without one; after the last of the year, too."""
    left: dict[str, list[int]] = defaultdict(list)
    for flight in flights.first_days(days):
        if flight.dep_delay is not None:
            left[flight.origin].append(flight.scheduled_ms)
    found = set()
    for origin, times in left.items():
        times.sort()
        found |= {(origin, one) for one, other in pairwise(times) if other - one >= 9 * HOUR_MS}
        found.add((origin, times[-1]))
    return found


def _ms_of(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def page_shows(port: int) -> bool:
    """Whether the page names both queries, and one of them has read rows."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
            text = answer.read().decode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/state.json", timeout=20) as answer:
            rows = json.load(answer)["queries"]
    except OSError:  # it is not there yet
        return False
    named = {row["query"] for row in rows} == {"history", "alerts"} and "<td>history</td>" in text
    return named and any(row["rows"] > 0 and row["offsets left"] is not None for row in rows)


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_monitoring_finds_exactly_what_plain_python_finds(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    page = free_port()
    options = ("--bootstrap", broker.bootstrap, "--topic", topic_name, "--out", str(tmp_path), "--page", str(page))
    with pipeline("monitoring", *options) as run:
        run.wait_until(lambda: page_shows(page), "rows on the live page", every_s=0.5)
        assert "336,776 acknowledged" in run.succeed()
    check_monitoring(tmp_path)


@pytest.mark.scenario("records", client="spark")
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_alone_finds_what_plain_python_finds(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    feed, alerts = flights.first_days(DAYS), f"{topic_name}-alerts"
    flights.create_topics(broker.bootstrap, {topic_name: 3, alerts: 1}, "--topic")
    flights.send(broker.bootstrap, topic_name, feed)
    flights.close_feed(broker.bootstrap, topic_name, feed[-1].scheduled_ms)
    options = ("--bootstrap", broker.bootstrap, "--topic", topic_name, "--alerts", alerts)
    with watched(submit("monitoring", tmp_path / "job", *options)) as run:
        run.succeed()
    found = [json.loads(record.value) for record in topics.read_all(broker.bootstrap, alerts)]
    _check(tmp_path / "job/history", found, DAYS)


def check_monitoring(out: Path) -> None:
    """The windows in the Parquet files and the alerts are those of plain Python."""
    history, raised = _check(out / "history", json.loads((out / "alerts.json").read_text()), flights.DAYS)
    assert (history, raised) == (19_486, 824)
    assert (out / "delays.png").read_bytes().startswith(PNG_MAGIC)


def _check(history: Path, alerts: list[dict[str, Any]], days: int) -> tuple[int, int]:
    """Compares both with plain Python; how many they are."""
    expected = _expected_hours(days)
    found = {}
    rows = parquet.read_table(history).to_pylist()
    for row in rows:
        hour = row.pop("hour").replace(tzinfo=UTC)
        found[row.pop("origin"), int(hour.timestamp() * 1000) // HOUR_MS] = row
    assert len(rows) == len(found)
    assert found == expected

    silences = {(alert["origin"], _ms_of(alert["since"])) for alert in alerts if alert["reason"] == "silence"}
    assert silences == _expected_silences(days)
    hourly = [alert for alert in alerts if alert["reason"] != "silence"]
    assert len(alerts) == len(hourly) + len(silences)
    assert {(alert["origin"], _ms_of(alert["hour"]) // HOUR_MS): alert["reason"] for alert in hourly} == {
        place: reason for place, row in expected.items() if (reason := _expected_reason(row))
    }
    return len(rows), len(alerts)
