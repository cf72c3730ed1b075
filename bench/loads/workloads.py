"""The workloads: sizes, batches, codecs, and a payload that compresses like real data."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

PAYLOAD_LINES = 2000
CARRIERS = ["UA", "AA", "B6", "DL", "EV", "MQ", "US", "WN"]
PLACES = ["EWR", "LGA", "JFK", "IAH", "MIA", "BQN", "ATL", "ORD", "FLL", "IAD"]


@dataclass(frozen=True)
class Workload:
    """Records of one size in batches of one size; `records` is the number that one run produces.

    Without a codec a record's bytes are random letters; with one they are lines of JSON, so that the codec has work.
    """

    records: int
    record_size: int
    batch_size: int
    linger_ms: int
    codec: str = "none"

    @property
    def name(self) -> str:
        """Short and unique among the rows; part of a topic's name."""
        size = "1kB" if self.record_size == 1000 else f"{self.record_size}B"
        return size if self.codec == "none" else f"{size}-{self.codec}"

    def gigabytes(self, records: int) -> float:
        """Uncompressed size of so many values, in GB (10**9 bytes)."""
        return records * self.record_size / 1e9


def payload_lines(size: int, count: int = PAYLOAD_LINES) -> list[str]:
    """Lines of JSON, each exactly `size` ASCII characters; the same ones every time."""
    source = random.Random(20130101)
    return [_line(source, size) for _ in range(count)]


def _line(source: random.Random, size: int) -> str:
    flights: list[dict[str, object]] = []
    text = "[]"
    while len(text) <= size:
        flights.append(_flight(source))
        text = json.dumps(flights)
    return text[:size]


def _flight(source: random.Random) -> dict[str, object]:
    return {
        "time": f"2013-{source.randint(1, 12):02}-{source.randint(1, 28):02}T{source.randint(5, 23):02}:00:00Z",
        "carrier": source.choice(CARRIERS),
        "flight": source.randint(1, 6000),
        "origin": source.choice(PLACES),
        "destination": source.choice(PLACES),
        "departure_delay": source.randint(-20, 180),
        "distance": source.randint(80, 4983),
    }


def write_payload(path: Path, size: int) -> Path:
    """Writes the lines to `path` unless they are there; returns it."""
    if not path.exists():
        path.write_text("\n".join(payload_lines(size)))
    return path
