"""``kafkapy consume``: prints the records of a topic as they arrive."""

import base64
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any, Final, NamedTuple

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from kafkapy.cli.output import examples, fail, failures_in_one_line, progress, say, shows_progress
from kafkapy.clients import topics as client_topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.records import fetch
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import Record, read_records
from kafkapy.text import printable, printable_json

EXAMPLES: Final = examples(
    "kafkapy consume flights",
    "kafkapy consume flights --from-beginning --exit",
    "kafkapy consume flights --offset 1500 --partition 0 --max-records 10 --json",
    "kafkapy consume flights --offset -5 --exit",
)
WAIT_MS: Final = 500


class Consumed(NamedTuple):
    """A record with its topic and partition."""

    topic: str
    partition: int
    record: Record


class Consumer:
    """Reads the partitions of one topic, each from a given offset on."""

    def __init__(self, client: ClusterClient, topic: str, partition: int | None) -> None:
        self._client = client
        self.topic = topic
        found = client.topic(topic)
        self._found = found
        self._leaders = {
            each.partition_index: each.leader_id
            for each in found.partitions
            if partition in (None, each.partition_index)
        }
        if not self._leaders:
            fail(f"topic {topic} has no partition {partition}")
        self.positions: dict[int, int] = {}
        self.ends = self._offsets(LATEST)

    def _offsets(self, at: int) -> dict[int, int]:
        return client_topics.offsets(self._client, self._found, self._leaders, at)

    def seek(self, offset: int | None, *, from_beginning: bool) -> None:
        """Set the positions: the end, the beginning, the nearest to an offset, or (negative) so many before the end."""
        if from_beginning:
            self.positions = self._offsets(EARLIEST)
        elif offset is None:
            self.positions = dict(self.ends)
        else:
            first = self._offsets(EARLIEST)
            wanted = {index: end + offset if offset < 0 else offset for index, end in self.ends.items()}
            self.positions = {index: min(max(at, first[index]), self.ends[index]) for index, at in wanted.items()}

    @property
    def remaining(self) -> int:
        """How many offsets are left up to the end that the topic had when reading began."""
        return sum(max(self.ends[index] - at, 0) for index, at in self.positions.items())

    def poll(self, *, wait_ms: int) -> Iterator[Consumed]:
        """Send one fetch request to each leader, and yield the records."""
        for leader in sorted(set(self._leaders.values())):
            asked = {index: at for index, at in self.positions.items() if self._leaders[index] == leader}
            answer = fetch(self._client, self.topic, asked, leader=leader, max_wait_ms=wait_ms)
            for index, fetched in answer.items():
                yield from self.records(index, fetched.records)

    def records(self, partition: int, batches: bytes) -> Iterator[Consumed]:
        """The records in fetched batches, from the partition's position on; each record advances the position."""
        for position, header in iterate_headers(batches):
            for record in () if header.is_control else read_records(batches, header, position):
                if record.offset >= self.positions[partition]:
                    self.positions[partition] = record.offset + 1
                    yield Consumed(self.topic, partition, record)
            self.positions[partition] = max(self.positions[partition], header.next_offset)


def run(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")],
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", "-B", help="Begin with the first record, not with new ones.")
    ] = False,
    offset: Annotated[int | None, typer.Option("--offset", "-o", help="Start here; -5: five before the end.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Read only this partition.")] = None,
    max_records: Annotated[
        int | None, typer.Option("--max-records", "-n", min=1, help="Stop after this many records.")
    ] = None,
    exit_: Annotated[bool, typer.Option("--exit", "-e", help="Stop at the end instead of waiting for more.")] = False,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print key, tab, value.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per record.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Read the records of a topic and print them: new ones until Ctrl-C, unless options say otherwise.

    On a terminal control characters in keys and values are escaped; in a pipe or a file they are not.
    """
    show = _as_json if as_json else (_with_key if keys else _value)
    is_terminal = sys.stdout.isatty()
    with failures_in_one_line(), connect(bootstrap) as client:
        consumer = Consumer(client, topic, partition)
        consumer.seek(offset, from_beginning=from_beginning)
        if offset is not None and not from_beginning and offset > max(consumer.ends.values()):
            ends = ", ".join(f"partition {index} at {end}" for index, end in sorted(consumer.ends.items()))
            say(f"kafkapy: offset {offset} is after the end of topic {topic}: {ends}", to_error=True)
        try:
            for consumed in _consume(consumer, max_records, stop_at_end=exit_):
                line = show(consumed)
                sys.stdout.write((printable(line, kept="\n\t") if is_terminal else line) + "\n")
        except KeyboardInterrupt:
            return


def _consume(consumer: Consumer, limit: int | None, *, stop_at_end: bool) -> Iterator[Consumed]:
    count = 0
    with ExitStack() as stack:
        bar = task = None
        if stop_at_end and shows_progress() and not sys.stdout.isatty():
            bar = stack.enter_context(progress())
            task = bar.add_task("consuming", total=consumer.remaining)
        while not (stop_at_end and consumer.remaining == 0):
            for consumed in consumer.poll(wait_ms=WAIT_MS):
                yield consumed
                count += 1
                if bar is not None and task is not None:
                    bar.advance(task)
                if count == limit:
                    return
            sys.stdout.flush()


def _value(consumed: Consumed) -> str:
    return _text(consumed.record.value, "")


def _with_key(consumed: Consumed) -> str:
    return f"{_text(consumed.record.key, '')}\t{_text(consumed.record.value, '')}"


def _text(data: bytes | None, null: str) -> str:
    return null if data is None else data.decode("utf-8", "backslashreplace")


def _as_json(consumed: Consumed) -> str:
    record = consumed.record
    entry: dict[str, Any] = {
        "topic": consumed.topic,
        "partition": consumed.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_json_bytes("key", record.key),
        **_json_bytes("value", record.value),
    }
    if record.headers:
        entry["headers"] = [{"name": name, **_json_bytes("value", value)} for name, value in record.headers]
    return printable_json(entry)


def _json_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    """The text of ``data``, or, if it is not UTF-8, its base64 under another name, so that no bytes are lost."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}
