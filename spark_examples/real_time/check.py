"""The flagged flights in plain Python, and the comparison with what the job has written."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from spark_examples.data.flights import Flight
from spark_examples.real_time.job import VERY_LATE_MINUTES


class WrongRecordsError(RuntimeError):
    """Records are missing, or are other than plain Python makes them."""


class Written(NamedTuple):
    """A record of a topic that the job writes."""

    key: bytes
    value: bytes


def flagged(flight: Flight) -> dict[str, Any]:
    """The value for a flight; what is unknown is not in it."""
    late = flight.dep_delay is not None and flight.dep_delay >= VERY_LATE_MINUTES
    names = ("origin", "scheduled_ms", "dep_delay", "number", "destination")
    known = {name: getattr(flight, name) for name in names if getattr(flight, name) is not None}
    return known | {"late": late}


def check_flagged(found: Mapping[str, list[Written]], sent: Mapping[str, Flight]) -> int:
    """How many records are repetitions; by place, what was found and the flights that were sent.

    Raises WrongRecordsError unless each flight is there at least once, and each time as it must be.
    """
    if found.keys() != sent.keys():
        lost, foreign = len(sent.keys() - found.keys()), len(found.keys() - sent.keys())
        raise WrongRecordsError(f"{lost} flights are not in the result, and {foreign} of its records are of no flight")
    for place, flight in sent.items():
        right = flight.origin.encode(), flagged(flight)
        for written in found[place]:
            if (written.key, json.loads(written.value)) != right:
                raise WrongRecordsError(f"The record of {place} is {written}, other than {right}")
    return sum(map(len, found.values())) - len(sent)


def check_dead_letters(found: Iterable[Written], sent: Mapping[str, bytes]) -> None:
    """Raises WrongRecordsError unless what is no flight is there, unchanged, with its place as key."""
    right = {Written(place.encode(), value) for place, value in sent.items()}
    if set(found) != right:
        raise WrongRecordsError(f"The dead letters are {sorted(set(found))}, other than {sorted(right)}")
