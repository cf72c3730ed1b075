"""The feed of ratings in plain Python, without Kafka and without Spark."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from spark_examples.data.movielens import DAY_MS, Rating

Entry = dict[str, Any]
Feed = dict[tuple[int, str, str], Entry]
"""The entries by receiver, kind and id."""


class WrongFeedError(RuntimeError):
    """The feed or the dead letters differ from what plain Python computes."""


def expected(ratings: Iterable[Rating], followed: Mapping[int, list[int]], reply_days: int) -> Feed:
    """The feed of these ratings; `followed` has for each person whom they follow."""
    followers: dict[int, list[int]] = defaultdict(list)
    for user, authors in followed.items():
        for author in authors:
            followers[author].append(user)
    rated = {(each.user, each.movie): each for each in ratings}
    feed: Feed = {}
    for post in filter(lambda each: each.is_liked, rated.values()):
        for follower in followers[post.user]:
            feed[follower, "recommendation", f"{post.user}/{post.movie}"] = _entry("recommendation", follower, post)
            answer = rated.get((follower, post.movie))
            if answer is not None and 0 < answer.time_ms - post.time_ms <= reply_days * DAY_MS:
                entry = _entry("reply", post.user, answer) | {"after_ms": answer.time_ms - post.time_ms}
                feed[post.user, "reply", f"{follower}/{post.movie}"] = entry
    return feed


def _entry(kind: str, receiver: int, act: Rating) -> Entry:
    of_film = {"movie": act.movie, "title": act.title, "rating": act.rating, "time_ms": act.time_ms}
    return {"kind": kind, "to": receiver, "author": act.user, **of_film}


def check(found: Feed, right: Feed, letters: int, broken: int) -> None:
    """Raises WrongFeedError unless the feed is right and there is a dead letter for each broken line."""
    wrong = [place for place in sorted(found.keys() | right.keys()) if found.get(place) != right.get(place)]
    if wrong:
        raise WrongFeedError(f"{len(wrong):,} entries are wrong, the first of them {wrong[0]}.")
    if letters != broken:
        raise WrongFeedError(f"{letters} dead letters, other than the {broken} broken lines that were sent.")
