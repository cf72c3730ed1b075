"""``kafkapy log dump``: prints rows while it reads them, in columns or as JSON lines, in bounded memory."""

import base64
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import typer

from kafkapy.cli.log_decoders import AUTO, NONE, OFFSETS, TRANSACTIONS, Decoder, decoder
from kafkapy.cli.output import bytes_progress, fail, fail_with, say
from kafkapy.errors import BrokerError
from kafkapy.platform.files import Files
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
from kafkapy.storage.inspection.log_scan import LogScan, ScannedBatch
from kafkapy.storage.log.segment import LOG_SUFFIX
from kafkapy.text import printable_json

# Columns have the same width in every row, and a terminal shows only those that fit.

GAP: Final = "  "
_WIDTHS: Final = {
    "position": 11, "size": 9, "base_offset": 12, "last_offset": 12, "timestamp": 14, "max_timestamp": 14,
    "offset": 12, "compression": 11, "timestamp_type": 14, "topic": 40, "producer_id": 11, "kind": 13,
    "key": 11, "value": 40,
}  # fmt: skip
_LAST_TO_GO: Final = (
    "base_offset", "last_offset", "count", "position", "size", "kind", "max_timestamp", "compression", "crc",
    "producer_id", "base_sequence", "leader_epoch",
)  # fmt: skip
"""Columns of a batch that are left out last when the terminal is too narrow, the last of them first."""


def width_of(name: str) -> int:
    """How many characters a column has."""
    return max(_WIDTHS.get(name, 6), len(name))


def terminal_width() -> int | None:
    """How many characters a line of the output may have; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitting(names: Sequence[str], width: int | None) -> tuple[str, ...]:
    """The columns of a batch that fit into ``width``, in their order; rows of other kinds keep all columns."""
    if width is None or _LAST_TO_GO[0] not in names:
        return tuple(names)
    left, kept = width + len(GAP), set()
    for name in sorted(names, key=_rank):
        left -= width_of(name) + len(GAP)
        if left < 0:
            break
        kept.add(name)
    return tuple(name for name in names if name in kept)


def _rank(name: str) -> int:
    return _LAST_TO_GO.index(name) if name in _LAST_TO_GO else len(_LAST_TO_GO)


def heading(names: Iterable[str]) -> str:
    """The line above the rows."""
    return _line((name, name.replace("_", " ")) for name in names)


def line(names: Iterable[str], row: Row) -> str:
    """One row."""
    return _line((name, row[name]) for name in names)


def _line(cells: Iterable[tuple[str, Any]]) -> str:
    return GAP.join(f"{value!s:>{width_of(name)}}" for name, value in cells)


DECODERS: Final = (AUTO, NONE, OFFSETS, TRANSACTIONS)
SHOWN_BYTES: Final = 100
"""Bytes of a key or value in a table; JSON has all of them."""


class DumpOptions(NamedTuple):
    """The options of ``kafkapy log dump``."""

    records: bool
    decoder: str
    from_offset: int
    limit: int | None
    as_json: bool


def run(paths: Sequence[str], options: DumpOptions) -> None:
    """Print the files' contents; ends with exit code 1 if a file can't be read to its end."""
    if options.decoder not in DECODERS:
        fail(f"decoder {options.decoder!r} does not exist: choose one of {', '.join(DECODERS)}")
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
    """Prints the contents of one file."""

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
        """Print the rows."""
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
        for row, scanned in batches(self._with_progress(scan), self._options.from_offset):
            if not scanned.crc_is_valid:
                self.problems.append(f"{self._path}: at position {scanned.position}: the batch's CRC is wrong")
            if not self._options.records:
                yield row
                continue
            yield {"batch": row} if self._options.as_json else row
            yield from self._record_rows(scanned, decode)

    def _with_progress(self, scan: LogScan) -> Iterator[ScannedBatch]:
        for scanned in scan:
            self._progress(scanned.header.size)
            yield scanned

    def _record_rows(self, scanned: ScannedBatch, decode: Decoder) -> Iterator[Row]:
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
                typer.echo(f"(no room for {', '.join(missing)}: use a wider terminal, a pipe or --json)")
        say(line(self._columns, row))


def _text(value: Any) -> str:
    """A value for a table: bytes as text if they are text, else in hexadecimal; a decoded value as JSON."""
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
    """Bytes as text, or in base64 if they are not UTF-8."""
    assert isinstance(value, bytes)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
