"""A difference with what is known about it, and what a rule about differences is."""

from collections.abc import Callable
from typing import Any, NamedTuple

from compat_tests.differential.neutral import Gap, at


class Facts(NamedTuple):
    """What is known of the conversation."""

    stamped: bool
    """The brokers give records their times."""
    compressed: bool
    """Something in its logs is."""
    waited: bool
    """The answer did not come at once."""
    damaged: bool


class Case(NamedTuple):
    """A request in which something differs: what was sent (by field), and both answers."""

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
