"""Joins ratings of films with a follower graph and with each other: a feed for each person, checked entry by entry.

The ratings are sent in slices of 90 days at most, each a transaction over all topics; every third slice is written
twice, and aborted the first time. The first half is processed by a query that ends when it has read it. A second query
continues from the checkpoint, and runs on while the second half is sent, and while a genre gets a topic of its own. The
result must be that of plain Python, with a dead letter for each broken line. With --resume nothing is sent, and the
query continues from its checkpoint.

The default of 4,000 events takes a minute on two cores, all 100,004 take three.
"""

import argparse
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from spark_examples.common import topics
from spark_examples.common.progress import Progress, Totals, catch_up, check_none_late
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
from spark_examples.data import movielens
from spark_examples.news_feed import chart, job
from spark_examples.news_feed.check import Entry, Feed, WrongFeedError, check, expected
from spark_examples.news_feed.sender import NEW_GENRE, Sender, create_topics, options_of, send_follows

PREFIX = "news"
EVENTS, MIN_EVENTS, ALL_EVENTS = 4000, 1000, 100_004
SLICE_ROWS, SLICE_DAYS = 500, 90
"""Of a transaction at most. A micro-batch may have it of one topic and not of another; the watermark allows for it."""
EVERY = "1 second"
Slice = list[movielens.Rating]


class LostCheckpointError(RuntimeError):
    """The result is there, but not the checkpoint that says of which records it was made."""


def require_topics(options: job.Options) -> None:
    """Raises RuntimeError if a topic is not there without which the query could not start."""
    for topic in (options.ratings, options.follows):
        if not topics.extents(options.bootstrap, topic):
            raise RuntimeError(
                f"The topic {topic} does not exist: run without --resume once, or give another --prefix."
            )


def require_checkpoint(options: job.Options) -> None:
    """Raises LostCheckpointError if the feed has entries, but the query would start without its checkpoint."""
    written = topics.held(options.bootstrap, options.feed)
    if written and not any(Path(options.checkpoint, "offsets").glob("*")):
        raise LostCheckpointError(
            f"The topic {options.feed} has {written:,} records, but the checkpoint {options.checkpoint} is gone: "
            "--starting-offsets, Spark's option startingOffsets, says where to begin: earliest reads all input again "
            "and writes its entries a second time, latest reads what comes from now on."
        )


class NewsFeed:
    """Runs the job in a session that lasts for the demonstration."""

    def __init__(self, options: job.Options, out: Path, master: str | None) -> None:
        self._options = options
        self.spark = open_session("news_feed", out / "spark.log", master=master)
        self._progress = Progress(self.spark)

    def process(self) -> Totals:
        """Processes what the topics hold beyond the checkpoint; raises LateRowsError."""
        (totals,) = self._progress.finish([job.start(self.spark, self._options)])
        check_none_late([totals], self._options.watermark)
        return totals

    def process_while_sent(self, sender: Sender, slices: list[Slice]) -> Totals:
        """Continues from the checkpoint while the slices are sent; after the first one the new genre gets its topic."""
        query = job.start(self.spark, replace(self._options, every=EVERY))
        sender.send(slices[:1])
        catch_up(query)
        sender.add_topic(NEW_GENRE)
        sender.send(slices[1:])
        totals = self._progress.stop(query)
        check_none_late([totals], self._options.watermark)
        return totals


def read_feed(options: job.Options) -> tuple[Feed, int]:
    """The feed, and how many records are repeated ones."""
    found: Feed = {}
    records = topics.read_all(options.bootstrap, options.feed)
    for record in records:
        headers = dict(record.headers)
        place = int(record.key), headers["kind"].decode(), headers["id"].decode()
        entry = json.loads(record.value)
        if found.setdefault(place, entry) != entry:
            raise WrongFeedError(f"The feed has two different entries for {place}.")
    return found, len(records) - len(found)


def count_letters(options: job.Options) -> int:
    """How many records were no events; one that was written twice counts once."""
    return len({record.key for record in topics.read_all(options.bootstrap, options.dead_letters)})


def run(options: job.Options, out: Path, summary: Summary, arguments: argparse.Namespace) -> None:
    """Sends the ratings, processes them in two halves, and checks the feed."""
    with summary.step("find who follows whom, create the topics") as remarks:
        ratings = movielens.load(ALL_EVENTS if arguments.all else arguments.events)
        create_topics(options, arguments.prefix)
        shutil.rmtree(options.checkpoint, ignore_errors=True)
        followed = send_follows(options, movielens.follows(ratings))
        remarks.append(f"{len(ratings):,} ratings, {len(followed)} people who follow others")
    with summary.step("send the first half") as remarks:
        slices = list(movielens.slices(ratings, SLICE_ROWS, SLICE_DAYS))
        first, second = slices[: len(slices) // 2], slices[len(slices) // 2 :]
        sender = Sender(options, arguments.prefix)
        sender.send(first)
        remarks.append(f"{sum(map(len, first)):,} events in {len(first)} transactions")
    with summary.step("start Spark") as remarks:
        feed = NewsFeed(options, out, arguments.master)
        remarks.append(f"Spark {feed.spark.version}")
    with summary.step("process the first half") as remarks:
        done = feed.process()
        remarks.append(f"{len(done.batches)} micro-batches")
    with summary.step("continue from the checkpoint, send the second half") as remarks:
        done = feed.process_while_sent(sender, second)
        sender.close()
        remarks.append(f"{sum(map(len, second)):,} events in {len(done.batches)} micro-batches, a new topic among them")
    feed.spark.stop()
    with summary.step("read the feed back, and check it") as remarks:
        found, repeated = read_feed(options)
        letters = count_letters(options)
        remarks.append(f"{len(found):,} entries, {repeated} repeated, {letters} dead letters")
        remarks.append(f"none of {sender.aborted:,} aborted records")
        check(found, expected(ratings, followed, options.reply_days), letters, sender.broken)
    begun = [each[0].time_ms for each in second]
    marks = chart.Marks(restart_ms=begun[0], new_topic_ms=begun[1] if len(begun) > 1 else None)
    chart.draw(list(found.values()), {each.movie: each.genre for each in ratings}, marks, out / "news_feed.png")
    show(found.values())


def resume(options: job.Options, out: Path, summary: Summary, arguments: argparse.Namespace) -> None:
    """Processes what the topics hold beyond the checkpoint; sends nothing, so there is no data set to check against."""
    require_topics(options)
    if arguments.starting_offsets is None:
        require_checkpoint(options)
    with summary.step("start Spark") as remarks:
        feed = NewsFeed(options, out, arguments.master)
        remarks.append(f"Spark {feed.spark.version}")
    with summary.step("continue from the checkpoint") as remarks:
        remarks.append(f"{len(feed.process().batches)} micro-batches")
    feed.spark.stop()
    with summary.step("read the feed back") as remarks:
        found, repeated = read_feed(options)
        remarks.append(f"{len(found):,} entries, {repeated} repeated, {count_letters(options)} dead letters")
    show(found.values())


def show(entries: Iterable[Entry]) -> None:
    """Prints who got most replies."""
    recommended: Counter[int] = Counter()
    replies: dict[int, list[int]] = defaultdict(list)
    for entry in entries:
        if entry["kind"] == "reply":
            replies[entry["to"]].append(entry["after_ms"])
        else:
            recommended[entry["author"]] += 1
    table = number_table("Those with most replies", "person", "recommendations to followers", "replies", "median days")
    for author, after in sorted(replies.items(), key=lambda item: (-len(item[1]), item[0]))[:10]:
        median = sorted(after)[len(after) // 2] / movielens.DAY_MS
        table.add_row(str(author), f"{recommended[author]:,}", str(len(after)), f"{median:.1f}")
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("news_feed", __doc__)
    parser.add_argument("--prefix", default=PREFIX, help=f"how the names of the topics begin (default: {PREFIX})")
    events = f"so many events, the first ones, {MIN_EVENTS} at least (default: {EVENTS})"
    parser.add_argument("--events", type=at_least(MIN_EVENTS), default=EVENTS, help=events)
    parser.add_argument("--all", action="store_true", help=f"all {ALL_EVENTS:,} events")
    watermark = f"how late an event may come (default: {job.Options.watermark})"
    parser.add_argument("--watermark", default=job.Options.watermark, help=watermark)
    starting = "with --resume, where a query whose checkpoint is gone begins"
    parser.add_argument("--starting-offsets", choices=("earliest", "latest"), help=starting)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    add_resume(parser, "send nothing, and continue from the checkpoint")
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    out: Path = arguments.out

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        own = replace(
            options_of(bootstrap, arguments.prefix),
            checkpoint=str(out / "checkpoints" / "news_feed"),
            starting_offsets=arguments.starting_offsets or job.Options.starting_offsets,
            fail_on_data_loss=arguments.fail_on_data_loss,
            watermark=arguments.watermark,
        )
        (resume if arguments.resume else run)(own, out, summary, arguments)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        drawn = "" if arguments.resume else f", {out}/news_feed.png"
        CONSOLE.print(f"Result: the topic {arguments.prefix}-feed{drawn}")
    return status
