"""``kafkapy log dump``: rows as they are read, in columns or as JSON lines; a log of any size takes no memory."""

import base64
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import typer

from kafkapy.errors import BrokerError
from kafkapy.server.commands.log_columns import fitting, heading, line, terminal_width
from kafkapy.server.commands.log_decoders import AUTO, NONE, OFFSETS, TRANSACTIONS, Decoder, decoder
from kafkapy.server.commands.output import bytes_progress, fail, fail_with, say
from kafkapy.storage.files import Files
from kafkapy.storage.inspection.dump import (
    Row,
    UnknownFileError,
    base_of,
    batches,
    entries,
    kind_of,
    records,
    require_known,
)
from kafkapy.storage.inspection.log_scan import LogScan, Scanned
from kafkapy.storage.segment import LOG_SUFFIX
from kafkapy.text import printable_json

DECODERS: Final = (AUTO, NONE, OFFSETS, TRANSACTIONS)
SHOWN_BYTES: Final = 100
"""Of a key or value in a table; JSON has all of it."""


class DumpOptions(NamedTuple):
    """What the user wants to see."""

    records: bool
    decoder: str
    from_offset: int
    limit: int | None
    as_json: bool


def run(paths: Sequence[str], options: DumpOptions) -> None:
    """Show the files; ends with exit code 1 when one can't be read to its end."""
    if options.decoder not in DECODERS:
        fail(f"there is no decoder {options.decoder!r}: these are {', '.join(DECODERS)}")
    problems = []
    try:
        files = [file for named in paths for file in _files(named, options.from_offset)]
        with bytes_progress(is_wanted=not sys.stdout.isatty()) as bar:
            task = bar.add_task("reading", total=sum(map(os.path.getsize, files)))
            for path in files:
                dumper = Dumper(path, options, lambda count: bar.advance(task, count))
                dumper.run()
                problems += dumper.problems
                if dumper.is_full:
                    break
    except (UnknownFileError, BrokerError) as error:
        fail(str(error))
    except OSError as error:
        fail_with(error)
    for problem in problems:
        say(f"kafkapy: {problem}", to_error=True)
    if problems:
        raise typer.Exit(1)


def _files(path: str, from_offset: int) -> list[str]:
    """The file itself, or the segments of a partition's folder that may hold ``from_offset`` or later ones."""
    if not os.path.isdir(path):
        if not os.path.exists(path):
            fail(f"{path}: No such file or directory")
        require_known(path)
        return [path]
    names = [name for name, size in Files().list_directory(path) if size >= 0 and name.endswith(LOG_SUFFIX)]
    if not names:
        fail(f"{path} holds no segments: give a partition's folder, or a file")
    before = [name for name in names if base_of(name) <= from_offset]
    return [f"{path.rstrip('/')}/{name}" for name in names[max(len(before) - 1, 0) :]]


class Dumper:
    """Shows one file."""

    def __init__(self, path: str, options: DumpOptions, progress: Callable[[int], object]) -> None:
        self.problems: list[str] = []
        self.is_full = False
        self._path = path
        self._options = options
        self._progress = progress
        self._left = options.limit
        self._names: tuple[str, ...] = ()
        self._columns: tuple[str, ...] = ()

    def run(self) -> None:
        """Show it."""
        files = Files()
        if not self._options.as_json:
            say(self._path)
        if kind_of(self._path) == LOG_SUFFIX:
            scan = LogScan(files, self._path)
            self._show_all(self._log_rows(scan, decoder(self._options.decoder, os.path.abspath(self._path))))
            if scan.problem is not None:
                self.problems.append(f"{self._path}: at position {scan.position}: {scan.problem}")
        else:
            self._show_all(entries(files, self._path))

    def _show_all(self, rows: Iterator[Row]) -> None:
        for row in rows:
            if self._left is not None:
                if self._left <= 0:
                    self.is_full = True
                    return
                self._left -= 1
            if self._options.as_json:
                typer.echo(printable_json({"file": self._path, **row}, default=_json))
            else:
                self._show(row)

    def _log_rows(self, scan: LogScan, decode: Decoder) -> Iterator[Row]:
        for row, scanned in batches(self._told(scan), self._options.from_offset):
            if not scanned.crc_is_valid:
                self.problems.append(f"{self._path}: at position {scanned.position}: the batch's CRC is wrong")
            if not self._options.records:
                yield row
                continue
            yield {"batch": row} if self._options.as_json else row
            yield from self._record_rows(scanned, decode)

    def _told(self, scan: LogScan) -> Iterator[Scanned]:
        for scanned in scan:
            self._progress(scanned.header.size)
            yield scanned

    def _record_rows(self, scanned: Scanned, decode: Decoder) -> Iterator[Row]:
        try:
            listed = [] if scanned.header.is_control else records(scanned)
        except (BrokerError, UnknownFileError) as error:
            self.problems.append(f"{self._path}: at position {scanned.position}: {error}")
            return
        for record in listed:
            if record.offset >= self._options.from_offset:
                key, value = decode(record)
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": key,
                    "value": value,
                    "headers": [list(each) for each in record.headers],
                }

    def _show(self, row: Row) -> None:
        if "headers" in row:
            headers = " ".join(f"{name}={_text(value)}" for name, value in row["headers"])
            say(
                f"  | {row['offset']}  {row['timestamp']}  {_text(row['key'])}: {_text(row['value'])}"
                + (f"  [{headers}]" if headers else "")
            )
            return
        if tuple(row) != self._names:
            self._names = tuple(row)
            self._columns = fitting(self._names, terminal_width())
            typer.echo(heading(self._columns))
            if missing := [name.replace("_", " ") for name in row if name not in self._columns]:
                typer.echo(f"(no room for {', '.join(missing)}: a wider terminal, a pipe or --json has them)")
        say(line(self._columns, row))


def _text(value: Any) -> str:
    """A value for people: text where it is text, else hexadecimal; a decoded one as JSON."""
    if value is None:
        return "null"
    if not isinstance(value, bytes):
        return printable_json(value, default=_json)
    cut = value[:SHOWN_BYTES]
    try:
        text = cut.decode() if len(cut) == len(value) else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        text = "0x" + cut.hex()
    if not text.isprintable():
        text = "0x" + cut.hex()
    return text + (f"… ({len(value)} bytes)" if len(value) > SHOWN_BYTES else "")


def _json(value: Any) -> Any:
    """Bytes as text, or in base64 where they are none."""
    assert isinstance(value, bytes)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
