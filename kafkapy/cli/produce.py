"""``kafkapy produce``: sends lines of text as records."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from enum import StrEnum
from typing import Annotated, Final

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from kafkapy.cli.output import counted, done, examples, fail, failures_in_one_line, progress, shows_progress
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.records import partition_of, produce
from kafkapy.clock import SystemClock
from kafkapy.records.record import Record, encode_batch

EXAMPLES: Final = examples(
    "echo hello | kafkapy produce greetings",
    "kafkapy produce flights --file flights.csv --compression zstd",
    "kafkapy produce users --key-separator : < users.txt",
)
BATCH_BYTES: Final = 256 * 1024
BATCH_RECORDS: Final = 10_000
PRINTED_FIELDS: Final = frozenset({"topic", "partition", "offset", "timestamp"})
"""The fields of each record that ``kafkapy consume --json`` prints."""


class Codec(StrEnum):
    """How batches are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """Which replicas must have a batch before the next one is sent."""

    NOBODY = "0"
    LEADER = "1"
    ALL = "all"


class Sender:
    """Collects records by partition, and sends a partition's records as one batch when they are enough."""

    def __init__(self, client: ClusterClient, topic: str, *, codec: Codec, acks: Acks) -> None:
        self._client = client
        self._topic = topic
        self._codec = list(Codec).index(codec)
        self._acks = -1 if acks is Acks.ALL else int(acks)
        found = client.topic(topic, create=True)
        self._leaders = {partition.partition_index: partition.leader_id for partition in found.partitions}
        self._waiting: dict[int, list[Record]] = {index: [] for index in self._leaders}
        self._bytes = dict.fromkeys(self._leaders, 0)
        self._keyless = 0
        self.sent: dict[int, int] = {}

    def add(self, record: Record) -> int:
        """Add a record; return how many records were sent because of it."""
        count = len(self._leaders)
        partition = self._keyless if record.key is None else partition_of(record.key, count)
        waiting = self._waiting[partition]
        waiting.append(record)
        self._bytes[partition] += len(record.key or b"") + len(record.value or b"")
        if self._bytes[partition] < BATCH_BYTES and len(waiting) < BATCH_RECORDS:
            return 0
        # Records without a key fill one partition's batch, then the next one's.
        self._keyless = (self._keyless + 1) % count
        return self._flush(partition)

    def flush(self) -> int:
        """Send all waiting records; return their number."""
        return sum(self._flush(partition) for partition in self._waiting)

    def _flush(self, partition: int) -> int:
        records, self._waiting[partition] = self._waiting[partition], []
        self._bytes[partition] = 0
        if records:
            batch = bytes(encode_batch(records, compression=self._codec))
            leader = self._leaders[partition]
            produce(self._client, self._topic, partition, batch, acks=self._acks, leader=leader)
            self.sent[partition] = self.sent.get(partition, 0) + len(records)
        return len(records)


def run(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    file: Annotated[
        typer.FileBinaryRead | None, typer.Option("--file", "-f", help="Read this file instead of standard input.")
    ] = None,
    key_separator: Annotated[
        str, typer.Option("--key-separator", "-k", help="The text between a line's key and its value.")
    ] = "",
    codec: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.NONE,
    acks: Annotated[Acks, typer.Option("--acks", "-a")] = Acks.ALL,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Write one record for each line of text to a topic.

    --json is for the output; lines that "kafkapy consume --json" has printed are refused with it.
    """
    lines: Iterable[bytes] = file or sys.stdin.buffer
    if as_json:
        lines = _without_printed_records(lines)
    with failures_in_one_line(), connect(bootstrap) as client:
        sender = Sender(client, topic, codec=codec, acks=acks)
        _send_all(sender, _records(lines, key_separator.encode()))
    count = sum(sender.sent.values())
    message = f"produced {counted(count, 'record')} to {topic}"
    done(message, as_json=as_json, topic=topic, records=count, partitions=sender.sent)


def _send_all(sender: Sender, records: Iterable[Record]) -> None:
    with ExitStack() as stack:
        advance = None
        if shows_progress():
            bar = stack.enter_context(progress())
            advance = (bar, bar.add_task("producing", total=None))
        for record in records:
            sent = sender.add(record)
            if sent and advance:
                advance[0].advance(advance[1], sent)
        sender.flush()


def _without_printed_records(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines as they are; end the command at one that ``kafkapy consume --json`` has printed."""
    for number, line in enumerate(lines, 1):
        if _is_printed_record(line):
            fail(
                f"line {number} is a record as `kafkapy consume --json` prints it: produce would store the whole line"
                " as a value. Consume without --json to copy values, or produce without --json to store such lines"
            )
        yield line


def _is_printed_record(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() >= PRINTED_FIELDS


def _records(lines: Iterable[bytes], separator: bytes) -> Iterator[Record]:
    now_ms = SystemClock().now_ms
    for number, line in enumerate(lines, 1):
        text = line.rstrip(b"\r\n")
        if not separator:
            yield Record(None, text, timestamp=now_ms())
            continue
        key, found, value = text.partition(separator)
        if not found:
            fail(f"line {number} has no {separator.decode()!r} between key and value")
        yield Record(key, value, timestamp=now_ms())
