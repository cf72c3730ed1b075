"""The main job: a broker, a year of real flights, a PySpark pipeline; ends by itself with its results under out/.

`python -m spark_examples.main_job [--bootstrap HOST:PORT] [--out DIRECTORY]`; without an address it starts kafkapy.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from spark_examples import chart, flights, monitoring
from spark_examples.broker import running_broker
from spark_examples.session import open_session
from tools.java import NoJavaError

CONSOLE = Console()
TOPIC, ALERTS = "flights", "alerts"
PARTITIONS = 3


@dataclass
class Summary:
    """What ran and how long each part took."""

    steps: list[tuple[str, float, str]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Times a part of the job; what the part appends becomes its remark."""
        remarks: list[str] = []
        CONSOLE.print(f"[cyan]▸[/] {name} …")
        started = time.monotonic()
        yield remarks
        self.steps.append((name, time.monotonic() - started, ", ".join(remarks)))

    def print(self) -> None:
        """The closing table."""
        table = Table(title="What ran", title_justify="left")
        table.add_column("part")
        table.add_column("seconds", justify="right")
        table.add_column("result")
        for name, seconds, remark in self.steps:
            table.add_row(name, f"{seconds:.1f}", remark)
        table.add_section()
        table.add_row("[bold]together", f"[bold]{sum(seconds for _, seconds, _ in self.steps):.1f}", "")
        CONSOLE.print(table)


def stream_in(bootstrap: str, feed: list[flights.Flight], places: monitoring.Places) -> int:
    """Creates the topics and sends the feed, with a progress bar."""
    flights.create_topics(bootstrap, {places.flights_topic: PARTITIONS, places.alerts_topic: 1})
    columns = (TextColumn("  flights"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=CONSOLE, transient=True) as progress:
        task = progress.add_task("", total=len(feed))
        return flights.send(bootstrap, places.flights_topic, feed, lambda done: progress.update(task, completed=done))


def read_alerts(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """The alerts topic from its first record to its last, read by a stock client."""
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5000)
    while not consumer.assignment():
        consumer.poll(100, max_records=1, update_offsets=False)
    ends = consumer.end_offsets(consumer.assignment())
    found = []
    while any(consumer.position(place) < end for place, end in ends.items()):
        for records in consumer.poll(1000).values():
            found += [json.loads(record.value) for record in records]
    consumer.close()
    return sorted(found, key=lambda alert: (alert["hour"], alert["origin"]))


def show(history: list[dict[str, Any]], alerts: list[dict[str, Any]]) -> None:
    """Prints the result: the year per airport, and its worst hours."""
    year = _table(
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
    hours = _table("The ten worst hours", "airport", "flights", "departed", "mean delay", "hour (UTC)")
    late = [alert for alert in alerts if alert["reason"] == "delays"]
    for alert in sorted(late, key=lambda alert: -float(alert["mean_delay"]))[:10]:
        counts = (str(alert["flights"]), str(alert["departed"]), f"{alert['mean_delay']:.0f}")
        hours.add_row(flights.AIRPORTS[alert["origin"]], *counts, alert["hour"][:16].replace("T", " "))
    CONSOLE.print(hours)


def _table(title: str, first: str, *others: str) -> Table:
    """A table whose first column is text, the others numbers."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def run(bootstrap: str, out: Path, summary: Summary) -> None:
    """The whole job against a running broker."""
    places = monitoring.Places(bootstrap, TOPIC, ALERTS, out / "history", out / "checkpoints")
    with summary.step("read the data set") as remarks:
        feed = flights.load()
        remarks.append(f"{len(feed):,} flights")
    with summary.step("stream it in") as remarks:
        acknowledged = stream_in(bootstrap, feed, places)
        remarks.append(f"{acknowledged:,} acknowledged")
    with summary.step("start Spark") as remarks:
        spark = open_session("monitoring", out / "spark.log")
        remarks.append(f"Spark {spark.version}")
    with summary.step("aggregate the stream") as remarks:
        processed = monitoring.process_available(spark, places)
        remarks.append(f"{processed.rows:,} rows in {processed.batches} micro-batches")
    with summary.step("close the feed and resume"):
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
    arguments = parser.parse_args()
    out: Path = arguments.out
    for folder in ("history", "checkpoints"):
        shutil.rmtree(out / folder, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    summary = Summary()
    try:
        with ExitStack() as stack:
            with summary.step("start the broker") as remarks:
                bootstrap = stack.enter_context(running_broker(arguments.bootstrap))
                remarks.append(bootstrap)
            run(bootstrap, out, summary)
    except (NoJavaError, RuntimeError) as error:
        CONSOLE.print(f"[red]{error}")
        return 1
    summary.print()
    CONSOLE.print(f"Results: {out}/history (Parquet), {out}/alerts.json, {out}/delays.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
