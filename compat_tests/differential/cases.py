"""A difference with its context, and the rules about differences."""

from collections.abc import Callable
from typing import Any, NamedTuple

from compat_tests.differential.neutral import Gap, at


class Facts(NamedTuple):
    """The context of the conversation."""

    stamped: bool
    """The brokers give records their times."""
    compressed: bool
    """Something in its logs is."""
    waited: bool
    """Whether the answer did not come at once."""
    damaged: bool
    release: str
    """That of Apache Kafka."""


class Case(NamedTuple):
    """A request with a difference: the request by field, and both answers."""

    api: str
    version: int
    request: Any
    theirs: Any
    ours: Any
    gap: Gap
    facts: Facts


class Rule(NamedTuple):
    """``covers`` says whether a difference is this one; ``parts_ways``: from here on the two are not in one state."""

    reason: str
    covers: Callable[[Case], bool]
    parts_ways: bool = False


def codes_of(case: Case) -> tuple[int, int]:
    """The error codes beside the field that differs, theirs and ours."""
    place = case.gap.path[:-1] if isinstance(case.gap.path[-1], str) else case.gap.path
    try:
        return at(case.theirs, place)["error_code"], at(case.ours, place)["error_code"]
    except (KeyError, IndexError, TypeError):
        return 0, 0
