"""The values that a key allows, each kind a small object that can say what is wrong with a value."""

import re
from typing import Final, NamedTuple, Protocol

BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""What Java's ``String.trim`` takes off both ends; no-break spaces and the like are not among them."""

Value = str | int | float | bool | tuple[str, ...] | None
"""A parsed configuration value; lists are tuples, passwords and class names are strings."""


class Allowed(Protocol):
    """A restriction on a key's values."""

    def problem(self, value: Value) -> str | None:
        """What ``value`` violates, as the end of a sentence, or None."""
        ...


class AtLeast(NamedTuple):
    """Numbers from ``minimum`` up, and what is no number: Kafka asks whether a value is below."""

    minimum: int

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        ok = isinstance(value, int | float) and not value < self.minimum
        return None if ok else f"must be at least {self.minimum}"


class Between(NamedTuple):
    """Numbers from ``minimum`` to ``maximum``, both included, and what is no number."""

    minimum: int
    maximum: int

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        ok = isinstance(value, int | float) and not (value < self.minimum or value > self.maximum)
        return None if ok else f"must be between {self.minimum} and {self.maximum}"


class OneOf(NamedTuple):
    """One of some words; for a list: each of its items is one of them."""

    words: tuple[str, ...]

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        items = value if isinstance(value, tuple) else (value,)
        return None if all(item in self.words for item in items) else f"must be one of: {', '.join(self.words)}"


RELEASES: Final = (
    *("0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2"),
    *("0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1"),
    *("2.1-IV0", "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1"),
    *("2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2"),
)
"""The versions of the inter-broker protocol and message format that 2.7 knows, oldest first."""


FIRST_RELEASES_OF_FORMATS: Final = ("0.10.0-IV0", "0.11.0-IV0")


class Release(NamedTuple):
    """A version in ``RELEASES``, in full or its release alone, with anything behind a further dot (``2.7.2``)."""

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        if isinstance(value, str) and release_of(value) is not None:
            return None
        return f"must be one of: {', '.join(RELEASES)}"


def release_of(text: str) -> str | None:
    """What of ``RELEASES`` a text means, the newest of its release for a number such as ``2.7.2``; None if unknown."""
    words = 3 if text.startswith("0.") else 2
    prefix = ".".join(text.split(".")[:words])
    return next((each for each in reversed(RELEASES) if prefix in (each, each.partition("-")[0])), None)


def format_of(version: str) -> int:
    """The magic of the message format that a version stands for: 0 up to 0.9, 1 in 0.10, 2 since 0.11."""
    release = RELEASES.index(release_of(version) or RELEASES[-1])
    return sum(release >= RELEASES.index(first) for first in FIRST_RELEASES_OF_FORMATS)


def is_at_least(text: str, release: str) -> bool:
    """Whether a version that ``Release`` allows is ``release`` (one of ``RELEASES``) or newer."""
    version = release_of(text)
    return version is not None and RELEASES.index(version) >= RELEASES.index(release)


class ThrottledReplicas(NamedTuple):
    """A list of ``partition:broker``, items without either among them, or one that begins with ``*``."""

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        items = value if isinstance(value, tuple) else ()
        words = [item.strip(BLANKS) for item in items]
        if words[:1] == ["*"] or all(re.fullmatch(r"([0-9]+:[0-9]+)?", word) for word in words):
            return None
        return "must be * or a list of partition:broker pairs"
