"""The totals by carrier in plain Python, without Kafka and without Spark."""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spark_examples.data.flights import Flight


class CarrierTotals(NamedTuple):
    """A carrier's flights. Delays are in minutes; the checksum is the sum of the CRC-32 of each record's value."""

    flights: int
    departed: int
    dep_delay: int
    worst: int | None
    checksum: int


Analysis = dict[str, CarrierTotals]


class SidesDifferError(RuntimeError):
    """A side's totals or lag are other than they must be."""


def expected(feed: Iterable[Flight]) -> Analysis:
    """The totals of these flights by carrier."""
    by_carrier: dict[str, list[Flight]] = defaultdict(list)
    for flight in feed:
        by_carrier[flight.carrier].append(flight)
    return {carrier: _totals(flights) for carrier, flights in by_carrier.items()}


def _totals(flights: list[Flight]) -> CarrierTotals:
    delays = [flight.dep_delay for flight in flights if flight.dep_delay is not None]
    checksum = sum(zlib.crc32(flight.to_json()) for flight in flights)
    return CarrierTotals(len(flights), len(delays), sum(delays), max(delays, default=None), checksum)


def check(side: str, found: Analysis, right: Analysis) -> None:
    """Raises SidesDifferError if the totals of a side differ."""
    different = [carrier for carrier in sorted(found | right) if found.get(carrier) != right.get(carrier)]
    if different:
        first = different[0]
        raise SidesDifferError(
            f"{len(different)} carriers of the {side} are wrong. {first} has {found.get(first)} there, and "
            f"{right.get(first)} by the data set."
        )


def check_lag(side: str, shown: Mapping[int, int], reached: Mapping[int, int], ends: Mapping[int, int]) -> int:
    """The lag that the broker shows, of all partitions; raises SidesDifferError unless it is from reached to end."""
    right = {partition: ends[partition] - offset for partition, offset in reached.items()}
    if shown != right:
        raise SidesDifferError(
            f"kafkapy groups describe shows the lag {dict(shown)} for the {side}, other than {right}."
        )
    return sum(shown.values())
