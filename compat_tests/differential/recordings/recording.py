"""A recording: frames both ways, in the order in which they passed, as compressed text.

The first line is the port that Kafka told its clients; each further one ``connection``, ``>`` (the client) or ``<``,
and the frame without its size as hex digits.
"""

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

CLIENT, BROKER = ">", "<"
FOLDER = Path(__file__).parent


class Frame(NamedTuple):
    """One frame on one of a recording's connections."""

    connection: int
    direction: str
    data: bytes


@dataclass
class Recording:
    """All frames between one client program and the broker."""

    port: int
    frames: list[Frame] = field(default_factory=list)

    def write(self, path: Path) -> None:
        lines = [f"{frame.connection}{frame.direction}{frame.data.hex()}" for frame in self.frames]
        text = "\n".join([str(self.port), *lines]) + "\n"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))

    @classmethod
    def read(cls, path: Path) -> "Recording":
        port, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        return cls(int(port), [_frame(line) for line in lines])


def _frame(line: str) -> Frame:
    direction = CLIENT if CLIENT in line else BROKER
    connection, _, data = line.partition(direction)
    return Frame(int(connection), direction, bytes.fromhex(data))


def names() -> list[str]:
    """The clients that were recorded."""
    return sorted(path.name.removesuffix(".gz") for path in FOLDER.glob("*.gz"))


def path_of(name: str) -> Path:
    """The path of a client's recording."""
    return FOLDER / f"{name}.gz"
