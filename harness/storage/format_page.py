"""Reads the tables of ``kafkapy/storage/README.md`` and parses files only by these."""

import re
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any
from zlib import crc32

from crc32c import crc32c

PAGE = Path(__file__).resolve().parents[2] / "kafkapy" / "storage" / "README.md"

_NUMBERS = {"i8": Struct(">b"), "i16": Struct(">h"), "i32": Struct(">i"), "i64": Struct(">q"), "u32": Struct(">I")}
_CHECKSUM = re.compile(r"(CRC-32C?) of byte (\d+) to the end")
_PLACEHOLDERS = {
    r"<topic>": r"[a-zA-Z0-9._-]{1,249}", r"<partition>": r"\d+", r"<32 hex digits>": r"[0-9a-f]{32}",
    r"<offset>": r"\d{20}",
}  # fmt: skip

Fields = dict[str, Any]


class Page:
    """The page's tables: ``formats`` name → (field, type, meaning), ``texts`` file → fields of a line, ``names``."""

    def __init__(self, path: Path = PAGE) -> None:
        self.formats: dict[str, list[tuple[str, str, str]]] = {}
        self.texts: dict[str, list[str]] = {}
        self.names: dict[str, list[re.Pattern[str]]] = {}
        self.suffixes: list[str] = []
        for heading, header, rows in _tables(path.read_text()):
            if heading.startswith("Format: "):
                assert header == ["field", "type", "meaning"], heading
                self.formats[heading.removeprefix("Format: ")] = [(row[0], row[1], row[2]) for row in rows]
            elif header == ["file", "each line"]:
                self.texts = {_code(row[0]): _code(row[1]).split() for row in rows}
            elif header == ["name", "is"]:
                self.names[heading] = [_pattern(_code(row[0])) for row in rows]
            elif header[0] == "suffix":
                self.suffixes = [_code(row[0]) for row in rows]

    def parse(self, name: str, data: bytes, at: int = 0) -> tuple[Fields, int]:
        """One value of a format at a position, and the position behind it; checks its CRC."""
        fields: Fields = {}
        start, end = at, len(data)
        for field, kind, meaning in self.formats[name]:
            fields[field], at = self._value(kind, data, at, end, fields)
            if field == "length":
                end = at + fields[field]
                assert end <= len(data), f"{name} at {start} goes beyond the file"
            checksum = _CHECKSUM.search(meaning)
            if checksum is not None:
                function = crc32c if checksum[1] == "CRC-32C" else crc32
                assert fields[field] == function(data[start + int(checksum[2]) : end]), f"{name} at {start}: CRC"
        if "length" in fields:
            assert at == end, f"{name} at {start} has {end - at} bytes that the page does not explain"
        return fields, at

    def size(self, name: str) -> int:
        """The bytes of a value of a format that has a fixed size."""
        return sum(_NUMBERS[kind].size for _, kind, _ in self.formats[name])

    def all(self, name: str, data: bytes) -> list[Fields]:
        """The values of one format that fill ``data``."""
        found, at = [], 0
        while at < len(data):
            fields, at = self.parse(name, data, at)
            found.append(fields)
        return found

    def _value(self, kind: str, data: bytes, at: int, end: int, fields: Fields) -> tuple[Any, int]:
        if kind in _NUMBERS:
            return _NUMBERS[kind].unpack_from(data, at)[0], at + _NUMBERS[kind].size
        if kind in ("varint", "varlong"):
            return _varint(data, at)
        if kind == "rest":
            return data[at:end], end
        if kind.endswith(" bytes"):
            size, at = self._value(kind.removesuffix(" bytes"), data, at, end, fields)
            assert at + max(size, 0) <= end
            return (None, at) if size < 0 else (data[at : at + size], at + size)
        count, _, inner = kind.partition(" × ")
        assert inner in self.formats, f"the page has no type {kind!r}"
        values = []
        for _ in range(fields[count]):
            value, at = self.parse(inner, data, at)
            values.append(value)
        return values, at

    def lines(self, file: str, content: bytes) -> list[dict[str, str]]:
        """The lines of a text file; an empty file has none."""
        if not content:
            return []
        version, count, *lines = content.decode().splitlines()
        assert (version, int(count)) == ("0", len(lines)), file
        return [dict(zip(self.texts[file], line.split(" "), strict=True)) for line in lines]

    def explains(self, level: str, name: str) -> bool:
        """Whether the page has a name for this, plain or with one of the suffixes."""
        for suffix in self.suffixes:
            name = re.sub(rf"(\.\d+)?{re.escape(suffix)}$", "", name)
        return any(pattern.fullmatch(name) for pattern in self.names[level])


def _tables(text: str) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """(heading above, header, rows) of each table."""
    heading, table = "", []
    for line in (*text.splitlines(), ""):
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            yield heading, table[0], table[2:]
            table = []


def _code(cell: str) -> str:
    return cell.strip("`")


def _pattern(name: str) -> re.Pattern[str]:
    text = re.escape(name)
    for placeholder, pattern in _PLACEHOLDERS.items():
        text = text.replace(re.escape(placeholder), pattern)
    return re.compile(text)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def check_directory(page: Page, directory: Path) -> dict[str, int]:
    """Parse everything in a data directory by the page; return the number of values of each format."""
    counts: dict[str, int] = {}
    for path in sorted(directory.iterdir()):
        assert page.explains("Names in a data directory", path.name), path
        if path.is_dir():
            _check_partition(page, path, counts)
        elif path.name in page.texts:
            counts[path.name] = counts.get(path.name, 0) + len(page.lines(path.name, path.read_bytes()))
    return counts


def _check_partition(page: Page, folder: Path, counts: dict[str, int]) -> None:
    for path in sorted(folder.iterdir()):
        assert page.explains("Names in a partition", path.name), path
        content = path.read_bytes()
        if path.name in page.texts:
            epochs = [int(line["epoch"]) for line in page.lines(path.name, content)]
            assert epochs == sorted(epochs)
            continue
        kind = path.name[20:]
        if kind == ".log":
            _check_log(page, content, counts)
        elif kind in (".index", ".timeindex", ".txnindex"):
            size = page.size(kind)
            assert len(content) % size == 0, path
            used = -(-len(content.rstrip(b"\0")) // size) * size  # a crash leaves zeros behind the entries
            entries = page.all(kind, content[: max(used, min(len(content), size))])
            counts[kind] = counts.get(kind, 0) + len(entries)
            if kind == ".index":
                _check_index(page, entries, path.with_suffix(".log").read_bytes(), int(path.stem))
        elif kind == ".snapshot":
            snapshot, end = page.parse(kind, content)
            assert end == len(content)
            counts["producer"] = counts.get("producer", 0) + len(snapshot["producers"])


def _check_log(page: Page, content: bytes, counts: dict[str, int]) -> None:
    at = 0
    while at < len(content):
        magic = content[at + 16]
        name = "record batch" if magic == 2 else f"message set entry {magic}"
        entry, at = page.parse(name, content, at)
        assert entry["magic"] == magic
        codec = entry["attributes"] & 7
        label = f"{name}, codec {codec}"
        counts[label] = counts.get(label, 0) + 1
        if magic == 2 and codec == 0:
            _check_records(page, entry, counts)


def _check_records(page: Page, batch: Fields, counts: dict[str, int]) -> None:
    records = page.all("record", batch["records"])
    assert len(records) == batch["record_count"]
    assert [record["offset_delta"] for record in records] == sorted({record["offset_delta"] for record in records})
    if records and not batch["attributes"] & 8:
        assert max(record["timestamp_delta"] for record in records) <= batch["max_timestamp"] - batch["base_timestamp"]
    counts["header"] = counts.get("header", 0) + sum(record["header_count"] for record in records)
    if batch["attributes"] & 32:
        key, end = page.parse("control key", records[0]["key"])
        assert (key["type"] in (0, 1), end) == (True, len(records[0]["key"]))
        value, end = page.parse("control value", records[0]["value"])
        assert (value["version"], end) == (0, len(records[0]["value"]))
        label = ("abort", "commit")[key["type"]]
        counts[label] = counts.get(label, 0) + 1


def _check_index(page: Page, entries: list[Fields], log: bytes, base_offset: int) -> None:
    for entry in entries:
        if not any(entry.values()):
            continue
        magic = log[entry["position"] + 16]
        name = "record batch" if magic == 2 else f"message set entry {magic}"
        batch, _ = page.parse(name, log, entry["position"])
        last = batch["base_offset"] + batch["last_offset_delta"] if magic == 2 else batch["offset"]
        assert base_offset + entry["relative_offset"] == last
