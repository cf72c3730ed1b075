"""A stock client that writes the ratings into the topics, in transactions of which some are aborted."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import KafkaProducer

from spark_examples.common import topics
from spark_examples.data.movielens import Rating
from spark_examples.news_feed.job import FIELDS, Options

GENRES, NEW_GENRE, OTHER = ("action", "comedy", "drama"), "adventure", "other"
RATINGS_PARTITIONS, FEED_PARTITIONS = 3, 2
ABORT_EVERY = 3
LEAVE_EVERY = 20
"""Every so many-th person leaves: the last record of their key is a tombstone."""
BROKEN_LINES = (b"no event at all", b'{"user":7,"movie":13', b'{"user":7,"movie":1357}')
FOR_EVER = {"retention_ms": "-1"}
"""The ratings' timestamps are of the last century: by the brokers' default they would be deleted."""


def options_of(bootstrap: str, prefix: str) -> Options:
    """The job's options for topics whose names begin so; all others have their defaults."""
    return Options(
        bootstrap,
        posts=f"{re.escape(prefix)}-posts-.*",
        ratings=f"{prefix}-ratings",
        follows=f"{prefix}-follows",
        feed=f"{prefix}-feed",
        dead_letters=f"{prefix}-dead-letters",
    )


def posts(prefix: str, genre: str) -> str:
    """The topic with the recommendations of a genre."""
    return f"{prefix}-posts-{genre}"


def create_topics(options: Options, prefix: str) -> None:
    """All topics but that of the new genre. Raises TopicExistsError."""
    bootstrap = options.bootstrap
    topics.create(bootstrap, {options.ratings: RATINGS_PARTITIONS}, "--prefix", **FOR_EVER)
    topics.create(bootstrap, {posts(prefix, genre): 1 for genre in (*GENRES, OTHER)}, "--prefix", **FOR_EVER)
    topics.create(bootstrap, {options.feed: FEED_PARTITIONS, options.dead_letters: 1}, "--prefix", **FOR_EVER)
    topics.create(bootstrap, {options.follows: 1}, "--prefix", cleanup_policy="compact")


def send_follows(options: Options, followed: Mapping[int, list[int]]) -> dict[int, list[int]]:
    """Sends whom each person follows, and tombstones for those who leave; whom the others follow.

    Each key has a record before its last one, as in a topic that is not compacted yet.
    """
    leavers = set(list(followed)[LEAVE_EVERY - 1 :: LEAVE_EVERY])
    producer = KafkaProducer(bootstrap_servers=options.bootstrap, acks="all")
    for user, authors in followed.items():
        producer.send(options.follows, _to_json(authors[:1]), str(user).encode())
        producer.send(options.follows, None if user in leavers else _to_json(authors), str(user).encode())
    producer.flush()
    producer.close()
    return {user: authors for user, authors in followed.items() if user not in leavers}


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class Sender:
    """Writes slices of the ratings, each in one transaction over all topics, with some broken lines at its end.

    Every so many-th slice is written twice, and aborted the first time.
    """

    def __init__(self, options: Options, prefix: str) -> None:
        self._bootstrap, self._prefix, self._ratings = options.bootstrap, prefix, options.ratings
        self._posts = {genre: posts(prefix, genre) for genre in (*GENRES, OTHER)}
        self._slices = 0
        self.broken = 0
        self.aborted = 0
        self._producer: Any = KafkaProducer(
            bootstrap_servers=options.bootstrap,
            transactional_id=f"{prefix}-sender",
            compression_type="gzip",
            linger_ms=20,
        )
        self._producer.init_transactions()

    def add_topic(self, genre: str) -> None:
        """Creates a topic for the genre, which gets its recommendations from now on."""
        name = posts(self._prefix, genre)
        topics.create(self._bootstrap, {name: 1}, "--prefix", **FOR_EVER)
        self._posts[genre] = name

    def send(self, slices: Iterable[list[Rating]]) -> None:
        """Writes the slices, and waits until they can be read."""
        for ratings in slices:
            self._slices += 1
            if self._slices % ABORT_EVERY == 0:
                self._producer.begin_transaction()
                self.aborted += self._write(ratings)
                self._producer.abort_transaction()
            self._producer.begin_transaction()
            self._write(ratings)
            for line in BROKEN_LINES:
                self._producer.send(self._posts[OTHER] if self._slices % 2 else self._ratings, line)
            self.broken += len(BROKEN_LINES)
            self._producer.commit_transaction()
        topics.wait_until_committed(self._bootstrap, (*self._posts.values(), self._ratings))

    def close(self) -> None:
        """Ends the producer."""
        self._producer.close()

    def _write(self, ratings: list[Rating]) -> int:
        """Sends a rating into the topic of all ratings and, if the film is recommended, into that of its genre."""
        records = 0
        for each in ratings:
            value = _to_json({name: getattr(each, name) for name in FIELDS})
            if each.is_liked:
                topic = self._posts.get(each.genre, self._posts[OTHER])
                self._producer.send(topic, value, str(each.user).encode(), timestamp_ms=each.time_ms)
            self._producer.send(self._ratings, value, str(each.movie).encode(), timestamp_ms=each.time_ms)
            records += 1 + each.is_liked
        self._producer.flush()
        return records
