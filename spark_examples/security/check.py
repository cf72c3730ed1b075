"""Rates, sessions and blocks of a trace in plain Python, without Kafka, Spark and the state of the stream."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from spark_examples.security.job import (
    BLOCK_MS,
    LOOKING_APIS,
    MOST_REQUESTS,
    MOST_TOPICS,
    NEEDED,
    SESSION_GAP_MS,
    WITHIN_MS,
)

LONGEST_DIFFERENCE = 2000


class WrongFindingsError(RuntimeError):
    """Spark found other rates, sessions, blocks or broken lines than plain Python."""


class Request(NamedTuple):
    """A line of the trace that is a request."""

    time_ms: int
    address: str
    topics: frozenset[str]


class Trace(NamedTuple):
    """The requests of a trace in their order, and how many of its lines are broken."""

    requests: list[Request]
    broken: int


class Block(NamedTuple):
    """An address is blocked; for good if it has no end."""

    address: str
    since_ms: int
    reason: str
    until_ms: int | None


Spans = dict[tuple[str, int], tuple[int, int, int]]
"""By address and start: requests, first and last time, ms."""


@dataclass
class Findings:
    """The result for a trace."""

    rates: Spans
    sessions: Spans
    blocks: list[Block]
    dead_letters: int


def parse_trace(lines: Iterable[bytes]) -> Trace:
    """The requests among the lines."""
    found: list[Request] = []
    broken = 0
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:
            told = {}
        if any(told.get(name) is None for name in NEEDED):
            broken += 1
        elif told["kind"] == "request":
            named = (told.get("body") or {}).get("topics") if told["api"] in LOOKING_APIS else None
            names = (str(each.get("name", each.get("topic"))) for each in named or () if isinstance(each, dict))
            found.append(Request(told["time_ms"], told["peer"].rpartition(":")[0], frozenset(names)))
    return Trace(found, broken)


def expected(trace: Trace) -> Findings:
    """What the stream must find in this trace."""
    seconds: dict[tuple[str, int], list[int]] = defaultdict(list)
    for each in trace.requests:
        seconds[each.address, each.time_ms // WITHIN_MS * WITHIN_MS].append(each.time_ms)
    rates = {place: (len(times), min(times), max(times)) for place, times in seconds.items()}
    sessions = {
        (address, session[0].time_ms): (len(session), session[0].time_ms, session[-1].time_ms)
        for address, rows in by_address(trace.requests).items()
        for session in _divided(rows, SESSION_GAP_MS + 1)
    }
    return Findings(rates, sessions, expected_blocks(trace.requests), trace.broken)


def by_address(requests: Iterable[Request]) -> dict[str, list[Request]]:
    """The requests of each address in the order of time."""
    found: dict[str, list[Request]] = defaultdict(list)
    for each in sorted(requests, key=lambda row: row.time_ms):
        found[each.address].append(each)
    return found


def expected_blocks(requests: Iterable[Request]) -> list[Block]:
    """All blocks: of each address, the first two times that it misuses the broker after it was quiet."""
    found = []
    for address, rows in by_address(requests).items():
        runs = _divided(rows, BLOCK_MS)
        offences = [(run, offence) for run in runs if (offence := _first_offence(run)) is not None]
        for number, (run, (since_ms, reason)) in enumerate(offences[:2]):
            found.append(Block(address, since_ms, reason, None if number else run[-1].time_ms + BLOCK_MS))
    return sorted(found)


def _divided(rows: list[Request], gap_ms: int) -> list[list[Request]]:
    """The requests of one address, divided where it was quiet for so long or longer."""
    gaps = (index for index, (a, b) in enumerate(pairwise(rows), 1) if b.time_ms - a.time_ms >= gap_ms)
    return [rows[begin:end] for begin, end in pairwise([0, *gaps, len(rows)])]


def _first_offence(run: list[Request]) -> tuple[int, str] | None:
    for session in _divided(run, SESSION_GAP_MS + 1):
        times = [row.time_ms for row in session]
        for number, row in enumerate(session):
            earlier = number - MOST_REQUESTS
            if earlier >= 0 and row.time_ms - times[earlier] < WITHIN_MS:
                return row.time_ms, "rate"
            if len(frozenset().union(*(each.topics for each in session[: number + 1]))) >= MOST_TOPICS:
                return row.time_ms, "topics"
    return None


def check(found: Findings, right: Findings) -> None:
    """Raises WrongFindingsError if the findings differ."""
    for name, value in vars(right).items():
        other = getattr(found, name)
        if other != value:
            text = f"The {name.replace('_', ' ')} are not those of plain Python: {other} instead of {value}"
            raise WrongFindingsError(text[:LONGEST_DIFFERENCE])
