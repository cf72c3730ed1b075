"""The main job: a broker, a year of real flights, a PySpark pipeline; ends by itself with its results under out/.

`python -m spark_examples.main_job [--bootstrap HOST:PORT] [--out DIRECTORY]`; without an address it starts kafkapy.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from spark_examples import chart, flights, monitoring, topics
from spark_examples.live_page import SHOWN_ALERTS, LiveState, live_page, query_rows
from spark_examples.report import CONSOLE, Summary, number_table, run_on_broker
from spark_examples.session import open_session

TOPIC, ALERTS = "flights", "alerts"
PARTITIONS = 3


def stream_in(bootstrap: str, feed: list[flights.Flight], places: monitoring.Places) -> int:
    """Creates the topics and sends the feed, with a progress bar."""
    flights.create_topics(bootstrap, {places.flights_topic: PARTITIONS, places.alerts_topic: 1})
    columns = (TextColumn("  flights"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE, transient=True) as progress:
        task = progress.add_task("", total=len(feed))
        return flights.send(bootstrap, places.flights_topic, feed, lambda done: progress.update(task, completed=done))


def read_alerts(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The alerts topic from its first record to its last, read by a stock client."""
    found = [json.loads(record.value) for record in topics.read_all(bootstrap, topic)]
    return sorted(found, key=lambda alert: (alert["hour"], alert["origin"]))


def show(history: list[dict[str, Any]], alerts: list[dict[str, Any]]) -> None:
    """Prints the result: the year per airport, and its worst hours."""
    year = number_table(
        "Departures from New York, 2013", "airport", "flights", "cancelled", "mean", "worst", "hours", "alerts"
    )
    for origin, name in flights.AIRPORTS.items():
        rows = [row for row in history if row["origin"] == origin]
        count, departed = sum(row["flights"] for row in rows), sum(row["departed"] for row in rows)
        mean = sum(row["dep_delay_sum"] or 0 for row in rows) / max(departed, 1)
        worst = max((row["dep_delay_max"] or 0 for row in rows), default=0)
        raised = sum(1 for alert in alerts if alert["origin"] == origin)
        cancelled = f"{(count - departed) / max(count, 1):.1%}"
        year.add_row(name, f"{count:,}", cancelled, f"{mean:.1f}", f"{worst:,}", f"{len(rows):,}", f"{raised}")
    year.caption = "delays in minutes"
    CONSOLE.print(year)
    hours = number_table("The ten worst hours", "airport", "flights", "departed", "mean delay", "hour (UTC)")
    late = [alert for alert in alerts if alert["reason"] == "delays"]
    for alert in sorted(late, key=lambda alert: -float(alert["mean_delay"]))[:10]:
        counts = (str(alert["flights"]), str(alert["departed"]), f"{alert['mean_delay']:.0f}")
        hours.add_row(flights.AIRPORTS[alert["origin"]], *counts, alert["hour"][:16].replace("T", " "))
    CONSOLE.print(hours)


@contextmanager
def shown(spark: SparkSession, places: monitoring.Places, page: int | None) -> Iterator[None]:
    """The queries are on a live page at this port meanwhile, if there is one."""
    if page is None:
        yield
        return

    def state() -> LiveState:
        alerts = read_alerts(places.bootstrap, places.alerts_topic)
        return LiveState(query_rows(spark), alerts[: -SHOWN_ALERTS - 1 : -1])

    with live_page("Departures from New York", page, state) as address:
        CONSOLE.print(f"  live: {address}")
        yield


def run(bootstrap: str, out: Path, summary: Summary, page: int | None = None, master: str | None = None) -> None:
    """The whole job against a running broker."""
    places = monitoring.Places(bootstrap, TOPIC, ALERTS, out / "history", out / "checkpoints")
    with summary.step("read the data set") as remarks:
        feed = flights.load()
        remarks.append(f"{len(feed):,} flights")
    with summary.step("stream it in") as remarks:
        acknowledged = stream_in(bootstrap, feed, places)
        remarks.append(f"{acknowledged:,} acknowledged")
    with summary.step("start Spark") as remarks:
        spark = open_session("monitoring", out / "spark.log", master=master)
        remarks.append(f"Spark {spark.version}")
    with summary.step("aggregate the stream") as remarks, shown(spark, places, page):
        processed = monitoring.process_available(spark, places)
        remarks.append(f"{processed.rows:,} rows in {processed.batches} micro-batches")
    with summary.step("close the feed and resume"), shown(spark, places, page):
        flights.close_feed(bootstrap, places.flights_topic, feed[-1].scheduled_ms)
        monitoring.process_available(spark, places)
    with summary.step("read the results back") as remarks:
        history = [row.asDict() for row in spark.read.parquet(str(places.history)).orderBy("hour", "origin").collect()]
        alerts = read_alerts(bootstrap, places.alerts_topic)
        remarks.append(f"{len(history):,} windows, {len(alerts):,} alerts")
    spark.stop()
    with summary.step("draw the chart"):
        chart.draw(history, alerts, out / "delays.png")
    (out / "alerts.json").write_text(json.dumps(alerts, indent=1))
    show(history, alerts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this broker instead of starting kafkapy")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where results go (default: out)")
    parser.add_argument("--page", metavar="PORT", type=int, help="show the queries at http://127.0.0.1:PORT meanwhile")
    parser.add_argument("--master", metavar="URL", help="run on this Spark cluster, spark://HOST:PORT")
    arguments = parser.parse_args()
    out: Path = arguments.out
    for folder in ("history", "checkpoints"):
        shutil.rmtree(out / folder, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    status = run_on_broker(
        arguments.bootstrap, lambda bootstrap, summary: run(bootstrap, out, summary, arguments.page, arguments.master)
    )
    if status == 0:
        CONSOLE.print(f"Results: {out}/history (Parquet), {out}/alerts.json, {out}/delays.png")
    return status


if __name__ == "__main__":
    sys.exit(main())
