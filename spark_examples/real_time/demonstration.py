"""Measures how long flights take through a job, from topic to topic: in micro-batches, and in Spark's real-time mode.

Real flights are sent at a steady rate. The time of a record is from when it is sent until the broker appends its result
to the result topic. Each flight must be in the result at least once, and exactly as plain Python flags it. Real-time
mode needs PySpark 4.2: `make spark NAME=real_time` sets up an environment that has it, and runs this there.
"""

import argparse
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import pyspark
from kafka import KafkaProducer
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_examples.common import topics
from spark_examples.common.progress import explained
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
from spark_examples.real_time import chart, job
from spark_examples.real_time.check import Written, check_dead_letters, check_flagged

PREFIX = "real-time"
PARTITIONS = 2
"""As many as the session has cores: in real-time mode each partition takes one."""
SECONDS, RATE = 20, 100
SHORTEST_BATCH_S = 5
"""Spark's spark.sql.streaming.realTimeMode.minBatchDuration."""
WARM_UP = 100
"""Flights that are sent before, and not measured: the first records wait for Spark to compile and to connect."""
BROKEN = b"no flight"
WAIT_S = 90


@dataclass
class Feed:
    """What was sent: by place, the flights and what is no flight, and when, in ms since the epoch."""

    by_place: dict[str, flights.Flight] = field(default_factory=dict)
    broken: dict[str, bytes] = field(default_factory=dict)
    sent_ms: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.by_place) + len(self.broken)


class Latency(NamedTuple):
    """When a flight was sent, in seconds since the first, and how many ms later its result was there."""

    at_s: float
    ms: int


class Sender:
    """Sends to the job's topic, and remembers what it has sent."""

    def __init__(self, options: job.Options) -> None:
        self._topic = options.topic
        self._producer = KafkaProducer(bootstrap_servers=options.bootstrap, acks="all", linger_ms=0)

    def send(self, feed: Feed, rows: list[flights.Flight], rate: int) -> None:
        """Sends flights, so many a second, and waits until the broker has them."""
        began, sent = time.monotonic(), []
        for number, flight in enumerate(rows):
            time.sleep(max(began + number / rate - time.monotonic(), 0))
            now_ms = time.time_ns() // 1_000_000
            future = self._producer.send(self._topic, flight.to_json(), flight.origin.encode(), timestamp_ms=now_ms)
            sent.append((flight, now_ms, future))
        for flight, now_ms, future in sent:
            at = future.get(WAIT_S)
            place = f"{self._topic}/{at.partition}/{at.offset}"
            feed.by_place[place], feed.sent_ms[place] = flight, now_ms

    def send_broken(self, feed: Feed) -> None:
        """Sends a record that is no flight."""
        at = self._producer.send(self._topic, BROKEN).get(WAIT_S)
        feed.broken[f"{self._topic}/{at.partition}/{at.offset}"] = BROKEN

    def close(self) -> None:
        self._producer.close()


def wait_for_results(query: StreamingQuery, options: job.Options, count: int) -> None:
    """Waits until the job has written so many records. Raises RuntimeError if it fails, or writes too few in time."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            query.awaitTermination(1)
        except StreamingQueryException as error:
            raise explained(error) from error
        written = sum(topics.held(options.bootstrap, topic) for topic in (options.flagged, options.dead_letters))
        if written >= count:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"The job has written {written:,} of {count:,} records within {WAIT_S} seconds. In real-time mode it "
                f"needs a free core for each of the {PARTITIONS} partitions of {options.topic} (--master)."
            )


def measure(spark: SparkSession, options: job.Options, rows: Iterator[flights.Flight], seconds: int, rate: int) -> Feed:
    """Runs the job while the feed goes through it; what was sent. The flights of the warm-up have no `sent_ms`."""
    query, sender = job.start(spark, options), Sender(options)
    try:
        warm_up, feed = Feed(), Feed()
        sender.send_broken(warm_up)
        sender.send(warm_up, list(islice(rows, WARM_UP)), RATE)
        wait_for_results(query, options, len(warm_up))
        sender.send(feed, list(islice(rows, seconds * rate)), rate)
        wait_for_results(query, options, len(warm_up) + len(feed))
    finally:
        sender.close()
        query.stop()
    return Feed(warm_up.by_place | feed.by_place, warm_up.broken, feed.sent_ms)


def checked_latencies(options: job.Options, feed: Feed) -> tuple[list[Latency], int]:
    """How long each flight took, and how many records are repetitions. Raises WrongRecordsError."""
    found: dict[str, list[Written]] = defaultdict(list)
    appended_ms: dict[str, int] = {}
    for record in topics.read_all(options.bootstrap, options.flagged):
        place = dict(record.headers)["place"].decode()
        found[place].append(Written(record.key, record.value))
        appended_ms.setdefault(place, record.timestamp)
    repetitions = check_flagged(found, feed.by_place)
    letters = topics.read_all(options.bootstrap, options.dead_letters)
    check_dead_letters((Written(letter.key, letter.value) for letter in letters), feed.broken)
    first_ms = min(feed.sent_ms.values())
    latencies = [
        Latency((sent_ms - first_ms) / 1000, appended_ms[place] - sent_ms) for place, sent_ms in feed.sent_ms.items()
    ]
    return latencies, repetitions


def create_topics(options: job.Options) -> None:
    """The job's topics; the broker stamps the results with the time when it appends them. Raises TopicExistsError."""
    topics.create(options.bootstrap, {options.topic: PARTITIONS}, "--prefix")
    results = {options.flagged: 1, options.dead_letters: 1}
    topics.create(options.bootstrap, results, "--prefix", message_timestamp_type="LogAppendTime")


def run(runs: list[job.Options], out: Path, summary: Summary, seconds: int, rate: int, master: str | None) -> None:
    """Runs the job once with each trigger on the same flights."""
    with summary.step("create the topics") as remarks:
        for options in runs:
            create_topics(options)
            shutil.rmtree(options.checkpoint, ignore_errors=True)
        feed = flights.load()
        remarks.append(f"{len(feed):,} flights in the data set")
    with summary.step("start Spark") as remarks:
        spark = open_session("real_time", out / "spark.log", cores=PARTITIONS, master=master)
        remarks.append(f"Spark {spark.version}")
    latencies: dict[str, list[Latency]] = {}
    for options in runs:
        with summary.step(f"send, {options.trigger}") as remarks:
            sent = measure(spark, options, cycle(feed), seconds, rate)
            latencies[options.trigger], repetitions = checked_latencies(options, sent)
            remarks.append(f"{len(sent.by_place):,} flights, each as it must be, {repetitions} repetitions")
    spark.stop()
    chart.draw(latencies, out / "real_time.png")
    show(latencies, rate)


def show(latencies: dict[str, list[Latency]], rate: int) -> None:
    """Prints how long the flights took with each trigger."""
    table = number_table("From sent to flagged, ms", "trigger", "flights", "least", "p50", "p99", "most")
    for trigger, found in latencies.items():
        order = sorted(latency.ms for latency in found)
        shown = (order[0], order[len(order) // 2], order[len(order) * 99 // 100], order[-1])
        table.add_row(trigger, f"{len(order):,}", *(f"{ms:,}" for ms in shown))
    table.caption = f"{rate} flights a second; the clocks are this machine's (sent) and the broker's (flagged)"
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("real_time", __doc__)
    parser.add_argument("--prefix", default=PREFIX, help=f"how the names of the topics begin (default: {PREFIX})")
    seconds = f"how long flights are sent with each trigger (default: {SECONDS})"
    parser.add_argument("--seconds", type=at_least(1), default=SECONDS, help=seconds)
    parser.add_argument("--rate", type=at_least(1), default=RATE, help=f"flights a second (default: {RATE})")
    batch = f"time between two commits in real-time mode, which hold records back (default: {SHORTEST_BATCH_S})"
    parser.add_argument(
        "--batch", type=at_least(SHORTEST_BATCH_S), metavar="SECONDS", default=SHORTEST_BATCH_S, help=batch
    )
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    if not job.has_real_time():
        CONSOLE.print(
            f"[red]Real-time mode needs PySpark 4.2, and this is {pyspark.__version__}: `make spark NAME=real_time` "
            "sets up an environment with PySpark 4.2 in .venv-spark-4.2, and runs this there.",
            soft_wrap=True,
        )
        return 1
    out: Path = arguments.out

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        runs = [
            job.Options(
                bootstrap,
                topic=f"{arguments.prefix}-{trigger}-flights",
                flagged=f"{arguments.prefix}-{trigger}-flagged",
                dead_letters=f"{arguments.prefix}-{trigger}-dead-letters",
                checkpoint=str(out / "checkpoints" / "real_time" / trigger),
                trigger=trigger,
                batch=f"{arguments.batch} seconds",
            )
            for trigger in job.TRIGGERS
        ]
        run(runs, out, summary, arguments.seconds, arguments.rate, arguments.master)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        names = " and ".join(f"{arguments.prefix}-{trigger}-flagged" for trigger in job.TRIGGERS)
        CONSOLE.print(f"Result: {out}/real_time.png, and the topics {names}")
    return status
