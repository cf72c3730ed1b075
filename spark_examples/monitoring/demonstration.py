"""The main job: a broker, a year of real flights, the job, and its result compared with plain Python.

The query runs in two parts. After the first one the feed is closed: its last row, dated a year later, moves the
watermark past every window, so that append mode has written each of them.
"""

import argparse
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from spark_examples.common import topics
from spark_examples.common.progress import Progress as QueryProgress
from spark_examples.common.progress import Totals, check_none_late
from spark_examples.common.report import (
    CONSOLE,
    Summary,
    at_least,
    demonstration_options,
    number_table,
    parsed,
    run_on_broker,
)
from spark_examples.common.session import open_session
from spark_examples.data import flights
from spark_examples.monitoring import chart, job
from spark_examples.monitoring.check import check
from spark_examples.monitoring.live_page import SHOWN_ALERTS, LiveState, live_page, query_rows

PARTITIONS = 3


def stream_in(options: job.Options, feed: list[flights.Flight]) -> int:
    """Creates the topics and sends the feed, with a progress bar."""
    flights.create_topics(options.bootstrap, {options.topic: PARTITIONS, options.alerts: 1}, "--topic")
    columns = (TextColumn("  flights"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE, transient=True) as progress:
        task = progress.add_task("", total=len(feed))
        return flights.send(options.bootstrap, options.topic, feed, lambda done: progress.update(task, completed=done))


def read_alerts(options: job.Options) -> list[dict[str, Any]]:
    """The alerts in the topic, the last value of each key."""
    found = {record.key: json.loads(record.value) for record in topics.read_all(options.bootstrap, options.alerts)}
    return sorted(found.values(), key=lambda alert: (alert["hour"], alert["origin"]))


def show(history: list[dict[str, Any]], alerts: list[dict[str, Any]]) -> None:
    """Prints the result: the year by airport, and its worst hours."""
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
def shown(spark: SparkSession, options: job.Options, page: int | None) -> Iterator[None]:
    """The queries are on a live page at this port meanwhile, if there is one."""
    if page is None:
        yield
        return

    def state() -> LiveState:
        return LiveState(query_rows(spark), read_alerts(options)[: -SHOWN_ALERTS - 1 : -1])

    with live_page("Departures from New York", page, state) as address:
        CONSOLE.print(f"  live: {address}")
        yield


def process(spark: SparkSession, progress: QueryProgress, options: job.Options) -> Totals:
    """Processes what the topic holds beyond the checkpoints; the totals of the history. Raises LateRowsError."""
    totals = progress.finish(job.start(spark, options))
    check_none_late(totals, options.watermark)
    return totals[0]


def run(options: job.Options, out: Path, summary: Summary, arguments: Any) -> None:
    """Sends the flights, runs the job in two parts, and checks its result."""
    with summary.step("read the data set") as remarks:
        feed = flights.first_days(arguments.days)
        remarks.append(f"{len(feed):,} flights")
    with summary.step("stream it in") as remarks:
        acknowledged = stream_in(options, feed)
        for directory in (options.history, options.checkpoints):
            shutil.rmtree(directory, ignore_errors=True)
        remarks.append(f"{acknowledged:,} acknowledged")
    with summary.step("start Spark") as remarks:
        spark = open_session("monitoring", out / "spark.log", master=arguments.master)
        progress = QueryProgress(spark)
        remarks.append(f"Spark {spark.version}")
    with summary.step("aggregate the stream") as remarks, shown(spark, options, arguments.page):
        done = process(spark, progress, options)
        remarks.append(f"{done.rows:,} rows in {len(done.batches)} micro-batches")
    with summary.step("close the feed and resume"), shown(spark, options, arguments.page):
        flights.close_feed(options.bootstrap, options.topic, feed[-1].scheduled_ms)
        process(spark, progress, options)
    with summary.step("read the results back, and check them") as remarks:
        history = [row.asDict() for row in spark.read.parquet(options.history).orderBy("hour", "origin").collect()]
        alerts = read_alerts(options)
        check(feed, history, alerts)
        remarks.append(f"{len(history):,} windows, {len(alerts):,} alerts, as plain Python finds them")
    spark.stop()
    with summary.step("draw the chart"):
        chart.draw(history, alerts, out / "delays.png")
    (out / "alerts.json").write_text(json.dumps(alerts, indent=1))
    show(history, alerts)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("monitoring", __doc__)
    topic = f"topic of the flights (default: {job.Options.topic}); the alerts go into TOPIC-alerts"
    parser.add_argument("--topic", default=job.Options.topic, help=topic)
    parser.add_argument("--days", type=at_least(1), default=flights.DAYS, help="days of the year (default: all)")
    parser.add_argument("--page", metavar="PORT", type=int, help="show the queries at http://127.0.0.1:PORT meanwhile")
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    out: Path = arguments.out

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        own = job.Options(
            bootstrap,
            topic=arguments.topic,
            alerts=f"{arguments.topic}-alerts",
            history=str(out / "history"),
            checkpoints=str(out / "checkpoints" / "monitoring"),
        )
        run(own, out, summary, arguments)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        CONSOLE.print(f"Results: {out}/history (Parquet), {out}/alerts.json, {out}/delays.png")
    return status
