"""Ranks the destinations of each airport and day over a year of real flights, and checks the result.

The run is in two parts with a restart from the checkpoint between. Some flights are held back and sent in the second
part, when their days are closed: they must not change a ranking, and are counted as late. Spark's own number of dropped
rows counts what its partial aggregation has left of them, so flights are also counted through: read = ranked + late.
With --resume nothing is sent, and the query continues from its checkpoint.
"""

import argparse
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from spark_examples.common import topics
from spark_examples.common.progress import Progress, Totals
from spark_examples.common.report import (
    CONSOLE,
    Summary,
    add_resume,
    at_least,
    demonstration_options,
    number_table,
    parsed,
    run_on_broker,
)
from spark_examples.common.session import open_session
from spark_examples.data import flights
from spark_examples.ranking import chart, job
from spark_examples.ranking.check import DAY_BEGINS_MS, MiscountError, Rankings, check, expected

PARTITIONS = 3
HELD_BACK_DAYS, HELD_BACK_SHARE = 10, 50
"""Of the first days that are ranked, every so many-th flight is held back."""
MIN_DAYS = HELD_BACK_DAYS + 15
"""So that the watermark has passed the days of what is held back."""


class Feed(NamedTuple):
    """The flights in time, and those that are held back until their days are closed."""

    punctual: list[flights.Flight]
    held_back: list[flights.Flight]


def split(feed: list[flights.Flight], since_ms: int | None) -> Feed:
    """Holds back some flights of the first days from `since_ms` on."""
    first = feed[0].scheduled_ms if since_ms is None else since_ms
    early = [flight for flight in feed if first <= flight.scheduled_ms < first + HELD_BACK_DAYS * flights.DAY_MS]
    held = set(map(id, early[::HELD_BACK_SHARE]))
    return Feed([flight for flight in feed if id(flight) not in held], early[::HELD_BACK_SHARE])


def read_rankings(options: job.Options) -> Rankings:
    """By day and airport; of a key that was written twice, the last value."""
    values = (json.loads(record.value) for record in topics.read_all(options.bootstrap, options.rankings))
    return {(value["day"], value["origin"]): value for value in values}


class Ranker:
    """Runs the job in a session that lasts for the demonstration."""

    def __init__(self, options: job.Options, out: Path, master: str | None) -> None:
        self._options = options
        self.spark = open_session("ranking", out / "spark.log", master=master)
        self._progress = Progress(self.spark)

    def rank(self) -> Totals:
        """Ranks what the topic holds beyond the checkpoint."""
        (totals,) = self._progress.finish([job.start(self.spark, self._options)])
        return totals


def run(options: job.Options, out: Path, summary: Summary, days: int, master: str | None) -> None:
    """Sends the flights, ranks them in two parts, and checks the rankings."""
    with summary.step("stream the flights in") as remarks:
        feed = split(flights.first_days(days), options.since_ms)
        flights.create_topics(options.bootstrap, {options.topic: PARTITIONS, options.rankings: 1}, "--topic")
        shutil.rmtree(options.checkpoint, ignore_errors=True)
        remarks.append(f"{flights.send(options.bootstrap, options.topic, feed.punctual):,} acknowledged")
    with summary.step("start Spark") as remarks:
        ranker = Ranker(options, out, master)
        remarks.append(f"Spark {ranker.spark.version}")
    with summary.step("rank the stream") as remarks:
        first = ranker.rank()
        remarks.append(f"{first.rows:,} rows in {len(first.batches)} micro-batches")
    with summary.step("send what was held back, and resume") as remarks:
        flights.send(options.bootstrap, options.topic, feed.held_back)
        flights.close_feed(options.bootstrap, options.topic, feed.punctual[-1].scheduled_ms)
        second = ranker.rank()
        remarks.append(f"{second.rows:,} rows, {second.late} groups of rows dropped as late")
    ranker.spark.stop()
    with summary.step("read the result back, and check it") as remarks:
        rankings = read_rankings(options)
        read = first.rows + second.rows - 1  # the closing row
        late = read - sum(ranking["flights"] for ranking in rankings.values())
        remarks.append(f"{len(rankings):,} rankings, {late} late flights")
        since_ms = options.since_ms or 0
        check(rankings, expected([each for each in feed.punctual if each.scheduled_ms >= since_ms], options.top))
        if late != len(feed.held_back):
            raise MiscountError(f"{late} flights were late, other than the {len(feed.held_back)} that were held back")
    write(rankings, out)
    chart.draw(list(rankings.values()), out / "rankings.png")
    show(rankings)


def resume(options: job.Options, out: Path, summary: Summary, master: str | None) -> None:
    """Ranks what the topic holds beyond the checkpoint; sends nothing, so there is no data set to check it against."""
    if not topics.extents(options.bootstrap, options.topic):
        raise RuntimeError(
            f"The topic {options.topic} does not exist: run it without --resume once, or name another --topic."
        )
    with summary.step("start Spark") as remarks:
        ranker = Ranker(options, out, master)
        remarks.append(f"Spark {ranker.spark.version}")
    with summary.step("rank what is new") as remarks:
        done = ranker.rank()
        remarks.append(f"{done.rows:,} rows in {len(done.batches)} micro-batches")
        remarks.append(f"{done.late} groups of rows dropped as late")
    ranker.spark.stop()
    with summary.step("read the result back") as remarks:
        rankings = read_rankings(options)
        remarks.append(f"{len(rankings):,} rankings")
    write(rankings, out)
    show(rankings)


def write(rankings: Rankings, out: Path) -> None:
    (out / "rankings.json").write_text(json.dumps(list(rankings.values()), indent=1))


def show(rankings: Rankings) -> None:
    """Prints on how many days each destination was among the first, and how late its flights left then."""
    table = number_table(
        "Destinations among the first of their day", "airport", "destination", "days", "flights", "left late"
    )
    totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (_, origin), ranking in rankings.items():
        for entry in ranking["top"]:
            sums = totals[origin, entry["destination"]]
            sums[:] = sums[0] + 1, sums[1] + entry["flights"], sums[2] + entry["delayed"]
    for origin, name in flights.AIRPORTS.items():
        own = [(place, sums) for place, sums in totals.items() if place[0] == origin]
        for (_, destination), (count, flown, late) in sorted(own, key=lambda item: -item[1][0])[: job.Options.top]:
            table.add_row(name, destination, str(count), f"{flown:,}", f"{late / flown:.1%}")
    table.caption = f"late: {job.LATE_FROM_MINUTES} minutes or more"
    CONSOLE.print(table)


def day_begins(day: str) -> int:
    """The first moment (ms) of a day in New York, written YYYY-MM-DD."""
    try:
        return flights.midnight_ms(day) + DAY_BEGINS_MS
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{day} is no day written YYYY-MM-DD") from error


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("ranking", __doc__)
    parser.add_argument("--topic", default=job.Options.topic, help=f"topic (default: {job.Options.topic})")
    days = f"so many days of the year, {MIN_DAYS} at least from the first that is ranked on (default: all)"
    parser.add_argument("--days", type=at_least(MIN_DAYS), default=flights.DAYS, help=days)
    parser.add_argument("--since", metavar="YYYY-MM-DD", type=day_begins, help="rank from this day on")
    parser.add_argument("--rows-per-batch", type=at_least(1), default=job.Options.rows_per_batch)
    kept = "send nothing, keep the checkpoint, and rank what is new; only days that are closed are ranked"
    add_resume(parser, kept)
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    parser = options()
    arguments = parsed(parser, words)
    if arguments.since and arguments.since + MIN_DAYS * flights.DAY_MS > flights.end_ms(arguments.days):
        parser.error(f"--since and --days leave fewer than {MIN_DAYS} days")
    out: Path = arguments.out

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        own = job.Options(
            bootstrap,
            topic=arguments.topic,
            rankings=f"{arguments.topic}-top",
            checkpoint=str(out / "checkpoints" / "ranking"),
            since_ms=arguments.since,
            rows_per_batch=arguments.rows_per_batch,
        )
        if arguments.resume:
            resume(own, out, summary, arguments.master)
        else:
            run(own, out, summary, arguments.days, arguments.master)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        drawn = "" if arguments.resume else f" {out}/rankings.png,"
        CONSOLE.print(f"Result: {out}/rankings.json,{drawn} and the topic {arguments.topic}-top")
    return status
