"""A news feed: what people recommend, out to everybody who follows them, and what their followers think of it.

`python -m spark_examples.news_feed [--bootstrap HOST:PORT] [--out DIRECTORY]`; without an address it starts kafkapy.
With `--resume` it sends nothing, and processes what the topics hold beyond the checkpoint.

Events fan in from a topic per genre (`subscribePattern`; one of them is created halfway) and from a topic with all
ratings. Each recommendation is joined with the followers of its author, read from a compacted topic (stream-static
join), and these with the ratings that the followers give the same film within 30 days (stream-stream join).

Why the result is exact although it is streamed. The watermark decides when the state of the second join is dropped, not
when its rows are emitted, so it may be generous. Events are sent in slices of at most 90 days, each of which is read
before the next comes; partitions can't drift further apart than that. Rows that were late even so would fail the run.

Each slice is one transaction over all topics. Every third one is sent twice, and aborted the first time: what is read
with `read_committed` must not show it. The feed itself is written at least once, for Spark's sink has no transactions;
the header `id` tells repeated entries apart.
"""

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from spark_examples import flights, movielens, news_feed_chart, streams, topics
from spark_examples.movielens import DAY_MS, Rating
from spark_examples.report import CONSOLE, Summary, number_table, parsed_arguments, run_on_broker
from spark_examples.session import open_session

PREFIX = "news"
ALL_EVENTS = 100_004
GENRES, NEW_GENRE, OTHER = ("action", "comedy", "drama"), "documentary", "other"
RATINGS_PARTITIONS, FEED_PARTITIONS = 3, 2
SLICE_ROWS, SLICE_DAYS = 3000, 90
REPLY_DAYS = 30
WATERMARK = "180 days"
ABORT_EVERY = 3
LEAVE_EVERY = 20
"""Every so many-th person has left: their record in the compacted topic of followers is a tombstone."""
VISIBLE_TIMEOUT_S = 60
BROKEN_LINES = (b"no event at all", b'{"user":7,"movie":13', b'{"user":7,"movie":1357}')
SCHEMA = "user INT, movie INT, rating DOUBLE, time_ms LONG, title STRING"
NEEDED = ("user", "movie", "rating", "time_ms", "title")
Entry = dict[str, Any]
Feed = dict[tuple[int, str, str], Entry]
"""The entries by receiver, kind and id."""


class NotTheFeedError(RuntimeError):
    """The feed differs from what plain Python computes."""


@dataclass(frozen=True)
class NewsFeed:
    """Where a run reads and writes, and how."""

    bootstrap: str
    checkpoint: Path
    prefix: str = PREFIX
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True
    watermark: str = WATERMARK

    @property
    def ratings(self) -> str:
        """The topic with every rating."""
        return f"{self.prefix}-ratings"

    @property
    def follows(self) -> str:
        """The compacted topic: by person, whom they follow."""
        return f"{self.prefix}-follows"

    @property
    def feed(self) -> str:
        """The topic for the result, keyed by receiver."""
        return f"{self.prefix}-feed"

    @property
    def dead_letters(self) -> str:
        """The topic for what is no event."""
        return f"{self.prefix}-dead-letters"

    def posts(self, genre: str) -> str:
        """The topic with the recommendations of a genre."""
        return f"{self.prefix}-posts-{genre}"

    @property
    def pattern(self) -> str:
        """Java's regular expression for the topics of all genres."""
        return f"{re.escape(self.prefix)}-posts-.*"


def subscribe(spark: SparkSession, job: NewsFeed, how: str, what: str) -> DataFrame:
    """The committed records of the topics, as events or with the reason why they are none."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("kafka.isolation.level", "read_committed")
        .option(how, what)
        .option("startingOffsets", job.starting_offsets)
        .option("failOnDataLoss", str(job.fail_on_data_loss).lower())
    )
    return streams.parsed(source.load(), SCHEMA, NEEDED)


def events(records: DataFrame) -> DataFrame:
    """Those that are events, with their time."""
    return records.where("reason IS NULL").select("row.*", f.timestamp_millis("row.time_ms").alias("time"))


def read_follows(spark: SparkSession, job: NewsFeed) -> DataFrame:
    """Pairs of author and follower: the last record of each key counts, and a tombstone follows nobody."""
    source = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", job.bootstrap).option("subscribe", job.follows)
    )
    last = source.load().groupBy("key").agg(f.max_by("value", "offset").alias("value")).where("value IS NOT NULL")
    authors = f.explode(f.from_json(f.col("value").cast("string"), "ARRAY<INT>"))
    return last.select(authors.alias("author"), f.col("key").cast("string").cast("int").alias("follower"))


def entries(spark: SparkSession, job: NewsFeed, posts: DataFrame, ratings: DataFrame) -> DataFrame:
    """What goes into the feed: recommendations to followers, and replies to authors."""
    follows = f.broadcast(read_follows(spark, job).persist())
    aimed = posts.join(follows, posts["user"] == follows["author"]).drop("user")
    recommendations = aimed.select(
        f.lit("recommendation").alias("kind"), f.col("follower").alias("to"), "author", "movie", "title", "rating",
        "time_ms", f.lit(None).cast("long").alias("after_ms"),
    )  # fmt: skip
    answers = ratings.select(
        f.col("user").alias("answerer"), f.col("movie").alias("answered"), f.col("rating").alias("answer"),
        f.col("time_ms").alias("answer_ms"), f.col("time").alias("answer_time"),
    )  # fmt: skip
    joined = aimed.withWatermark("time", job.watermark).join(
        answers.withWatermark("answer_time", job.watermark),
        f.expr(
            "follower = answerer AND movie = answered AND answer_time > time"
            f" AND answer_time <= time + INTERVAL {REPLY_DAYS} DAYS"
        ),
    )
    replies = joined.select(
        f.lit("reply").alias("kind"), f.col("author").alias("to"), f.col("answerer").alias("author"), "movie", "title",
        f.col("answer").alias("rating"), f.col("answer_ms").alias("time_ms"),
        (f.col("answer_ms") - f.col("time_ms")).alias("after_ms"),
    )  # fmt: skip
    return recommendations.unionByName(replies)


def feed_records(rows: DataFrame, topic: str) -> DataFrame:
    """Entries as Kafka records, with their kind and id as headers."""
    identity = f.concat_ws("/", "author", "movie")
    return rows.select(
        f.lit(topic).alias("topic"),
        f.col("to").cast("string").cast("binary").alias("key"),
        f.to_json(f.struct(*rows.columns)).cast("binary").alias("value"),
        f.array(streams.header("kind", f.col("kind")), streams.header("id", identity)).alias("headers"),
    )


def start(spark: SparkSession, job: NewsFeed) -> StreamingQuery:
    """One query from all topics into feed and dead letters; it goes on where its checkpoint says."""
    posts, ratings = (
        subscribe(spark, job, "subscribePattern", job.pattern),
        subscribe(spark, job, "subscribe", job.ratings),
    )
    out = feed_records(entries(spark, job, events(posts), events(ratings)), job.feed)
    for records in (posts, ratings):
        out = out.unionByName(streams.letters(records, job.dead_letters))
    writer = out.writeStream.queryName("news_feed").format("kafka").option("kafka.bootstrap.servers", job.bootstrap)
    return writer.option("checkpointLocation", str(job.checkpoint)).outputMode("append").start()


class Sender:
    """A stock client that writes slices, each in one transaction."""

    def __init__(self, job: NewsFeed) -> None:
        self._job = job
        self._producer: Any = KafkaProducer(
            bootstrap_servers=job.bootstrap,
            transactional_id=f"{job.prefix}-sender",
            compression_type="gzip",
            linger_ms=20,
        )
        self._producer.init_transactions()
        self._slices = 0
        self.topics = {job.posts(genre) for genre in (*GENRES, OTHER)} | {job.ratings}
        self.broken = 0

    def add_topic(self, genre: str) -> None:
        """From now on the genre has a topic of its own."""
        flights.create_topics(self._job.bootstrap, {self._job.posts(genre): 1})
        self.topics.add(self._job.posts(genre))

    def send(self, ratings: list[Rating]) -> None:
        """Writes the slice, and waits until it can be read; some are aborted and written again."""
        self._slices += 1
        if self._slices % ABORT_EVERY == 0:
            self._producer.begin_transaction()
            self._write(ratings)
            self._producer.abort_transaction()
        self._producer.begin_transaction()
        self._write(ratings)
        for line in BROKEN_LINES:
            self._producer.send(self._job.posts(OTHER) if self._slices % 2 else self._job.ratings, line)
        self.broken += len(BROKEN_LINES)
        self._producer.commit_transaction()
        self._wait_until_visible()

    def close(self) -> None:
        """Ends the producer."""
        self._producer.close()

    def _write(self, ratings: list[Rating]) -> None:
        for each in ratings:
            value = streams.to_json({name: getattr(each, name) for name in NEEDED})
            if each.is_liked:
                own = self._job.posts(each.genre)
                topic = own if own in self.topics else self._job.posts(OTHER)
                self._producer.send(topic, value, str(each.user).encode(), timestamp_ms=each.time_ms)
            self._producer.send(self._job.ratings, value, str(each.movie).encode(), timestamp_ms=each.time_ms)
        self._producer.flush()

    def _wait_until_visible(self) -> None:
        """A broker answers EndTxn before its markers are in the partitions, and until then nothing is committed."""
        deadline = time.monotonic() + VISIBLE_TIMEOUT_S
        readers = [
            KafkaConsumer(bootstrap_servers=self._job.bootstrap, isolation_level=level, allow_auto_create_topics=False)
            for level in ("read_committed", "read_uncommitted")
        ]
        places = [
            TopicPartition(topic, part) for topic in self.topics for part in readers[0].partitions_for_topic(topic)
        ]
        while True:
            committed, written = (reader.end_offsets(places) for reader in readers)
            if committed == written:
                break
            if time.monotonic() > deadline:
                raise RuntimeError("A transaction on the topics is still open: another producer writes to them.")
        for reader in readers:
            reader.close()


def leaves(position: int) -> bool:
    """Whether the person at this place of the list has left."""
    return position % LEAVE_EVERY == LEAVE_EVERY - 1


def create_topics(job: NewsFeed) -> None:
    """All topics but that of the new genre."""
    streams.begin_anew(job.bootstrap, job.ratings, job.checkpoint)
    counts = {job.posts(genre): 1 for genre in (*GENRES, OTHER)} | {job.ratings: RATINGS_PARTITIONS}
    flights.create_topics(job.bootstrap, counts | {job.feed: FEED_PARTITIONS, job.dead_letters: 1})
    topics.create(job.bootstrap, {job.follows: 1}, cleanup_policy="compact")


def send_follows(job: NewsFeed, followed: dict[int, list[int]]) -> None:
    """Each person first follows one other, then all theirs; some leave, which their tombstone says."""
    producer = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all")
    for position, (user, authors) in enumerate(followed.items()):
        for value in (authors[:1], None if leaves(position) else authors):
            producer.send(job.follows, None if value is None else streams.to_json(value), str(user).encode())
    producer.flush()
    producer.close()


def read_feed(job: NewsFeed) -> tuple[Feed, int]:
    """The feed, and how many records are repeated ones."""
    found: Feed = {}
    records = topics.read_all(job.bootstrap, job.feed)
    for record in records:
        headers = dict(record.headers)
        place = int(record.key), headers["kind"].decode(), headers["id"].decode()
        entry = json.loads(record.value)
        if found.setdefault(place, entry) != entry:
            raise NotTheFeedError(f"The feed has two different entries for {place}.")
    return found, len(records) - len(found)


def feed_expected(ratings: list[Rating], followed: dict[int, list[int]]) -> Feed:
    """The same from the data set, without Kafka and without Spark."""
    followers: dict[int, list[int]] = defaultdict(list)
    for position, (user, authors) in enumerate(followed.items()):
        for author in () if leaves(position) else authors:
            followers[author].append(user)
    rated = {(each.user, each.movie): each for each in ratings}
    expected: Feed = {}
    for post in (each for each in ratings if each.is_liked):
        common = {"movie": post.movie, "title": post.title}
        for follower in followers[post.user]:
            entry = {"kind": "recommendation", "to": follower, "author": post.user, **common}
            entry |= {"rating": post.rating, "time_ms": post.time_ms}
            expected[follower, "recommendation", f"{post.user}/{post.movie}"] = entry
            answer = rated.get((follower, post.movie))
            if answer is not None and 0 < answer.time_ms - post.time_ms <= REPLY_DAYS * DAY_MS:
                entry = {"kind": "reply", "to": post.user, "author": follower, **common, "rating": answer.rating}
                entry |= {"time_ms": answer.time_ms, "after_ms": answer.time_ms - post.time_ms}
                expected[post.user, "reply", f"{follower}/{post.movie}"] = entry
    return expected


def check(found: Feed, expected: Feed) -> None:
    """Raises NotTheFeedError."""
    if found != expected:
        wrong = [place for place in sorted(found.keys() | expected.keys()) if found.get(place) != expected.get(place)]
        raise NotTheFeedError(f"{len(wrong)} entries are wrong, the first of them {wrong[0]}")


def read_letters(job: NewsFeed) -> int:
    """How many records were no events; one that was sent twice counts once."""
    return len({record.key for record in topics.read_all(job.bootstrap, job.dead_letters)})


def send_paced(sender: Sender, parts: Iterator[list[Rating]], speed: float | None) -> Iterator[int]:
    """Sends the slices, so that they come at so many events a second; yields the number sent so far."""
    began, sent = time.monotonic(), 0
    for part in parts:
        sender.send(part)
        sent += len(part)
        yield sent
        if speed is not None:
            time.sleep(max(began + sent / speed - time.monotonic(), 0))


@dataclass
class Streamed:
    """What a run has sent and processed."""

    sent: int = 0
    broken: int = 0
    batches: int = 0


def stream(spark: SparkSession, job: NewsFeed, ratings: list[Rating], slice_rows: int, speed: float | None) -> Streamed:
    """Sends slice by slice into the running query; halfway a genre gets its topic, and the query a restart."""
    parts = list(movielens.slices(ratings, slice_rows, SLICE_DAYS))
    sender, done = Sender(job), Streamed()
    remaining = iter(parts)
    for half in (len(parts) // 2, len(parts)):
        query = start(spark, job)
        for sent in send_paced(sender, islice(remaining, half), speed):
            streams.catch_up(query)
            CONSOLE.print(f"  {done.sent + sent:,} events")
        finish(job, query, done)
        done.sent = sum(map(len, parts[:half]))
        if half < len(parts):
            sender.add_topic(NEW_GENRE)
    sender.close()
    done.broken = sender.broken
    return done


def finish(job: NewsFeed, query: StreamingQuery, done: Streamed) -> None:
    """Ends a query that has caught up; raises LateRowsDroppedError."""
    streams.catch_up(query)
    query.stop()
    done.batches += streams.batches(query)
    streams.check_none_late(query, job.watermark)


def resume(spark: SparkSession, job: NewsFeed, summary: Summary) -> None:
    """Processes what came since the checkpoint."""
    with summary.step("go on from the checkpoint") as remarks:
        done = Streamed()
        finish(job, start(spark, job), done)
        remarks.append(f"{done.batches} micro-batches")


def run(job: NewsFeed, out: Path, summary: Summary, arguments: Any) -> None:
    """The whole job against a running broker."""
    if arguments.resume and not arguments.starting_offsets:
        streams.require_checkpoint(job.checkpoint, job.feed, topics.held(job.bootstrap, job.feed))
    ratings: list[Rating] = []
    if not arguments.resume:
        with summary.step("read the data set, find who follows whom") as remarks:
            ratings = movielens.load(arguments.events)
            followed = movielens.follows(ratings)
            create_topics(job)
            send_follows(job, followed)
            remarks.append(f"{len(ratings):,} ratings by {len(followed)} people")
    with summary.step("start Spark") as remarks:
        spark = open_session("news_feed", out / "spark.log", master=arguments.master)
        streams.keep_progress(spark)
        remarks.append(f"Spark {spark.version}")
    broken: int | None = None
    if arguments.resume:
        resume(spark, job, summary)
    else:
        with summary.step("send and stream") as remarks:
            done = stream(spark, job, ratings, arguments.rows_per_batch, arguments.speed)
            broken = done.broken
            remarks.append(f"{done.sent:,} events and {broken} broken lines in {done.batches} micro-batches")
    spark.stop()
    with summary.step("read the feed back") as remarks:
        found, repeated = read_feed(job)
        letters = read_letters(job)
        remarks.append(f"{len(found):,} entries, {repeated} repeated, {letters} dead letters")
    if not arguments.resume:
        check(found, feed_expected(ratings, followed))
        if letters != broken:
            raise NotTheFeedError(f"{letters} dead letters, other than the {broken} broken lines that were sent")
    news_feed_chart.draw(list(found.values()), out / "news_feed.png")
    show(found)


def show(found: Feed) -> None:
    """Prints who was recommended most, and how often followers answered."""
    table = number_table(
        "Those with the most replies", "person", "recommendations to followers", "replies", "median days"
    )
    recommended = Counter(entry["author"] for entry in found.values() if entry["kind"] == "recommendation")
    answers: dict[int, list[int]] = defaultdict(list)
    for entry in found.values():
        if entry["kind"] == "reply":
            answers[entry["to"]].append(entry["after_ms"])
    for author, after in sorted(answers.items(), key=lambda item: (-len(item[1]), item[0]))[:10]:
        median = sorted(after)[len(after) // 2] / DAY_MS
        table.add_row(str(author), f"{recommended[author]:,}", str(len(after)), f"{median:.1f}")
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = streams.options(__doc__, PREFIX, WATERMARK)
    parser.add_argument("--events", type=int, default=ALL_EVENTS, help="so many events, the first ones (default: all)")
    parser.add_argument("--speed", type=float, metavar="EVENTS/S", help="send no faster (default: as fast as possible)")
    parser.add_argument("--rows-per-batch", type=int, default=SLICE_ROWS, help="events sent in one transaction")
    return parser


def main() -> int:
    arguments = parsed_arguments(options())
    out: Path = arguments.out
    checkpoint = out / "checkpoints" / "news_feed"
    out.mkdir(parents=True, exist_ok=True)

    def job(bootstrap: str, summary: Summary) -> None:
        own = NewsFeed(
            bootstrap, checkpoint, arguments.prefix, arguments.starting_offsets or "earliest",
            arguments.fail_on_data_loss, arguments.watermark,
        )  # fmt: skip
        run(own, out, summary, arguments)

    status = run_on_broker(arguments.bootstrap, job)
    if status == 0:
        CONSOLE.print(f"Result: the topic {arguments.prefix}-feed, {out}/news_feed.png")
    return status


if __name__ == "__main__":
    sys.exit(main())
