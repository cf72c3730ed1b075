"""``kafkapy-metadata.journal``: the second copy of the cluster's metadata, a file of records with checksums.

The header, then records. All integers are big-endian.

    record  length u32 (of the body), checksum u32, body
    body    zxid i64, nodes
    node    path length u32, data length i32 (-1: no data, -2: the node was deleted), czxid i64, mzxid i64,
            version i32, created_ms i64, sequence i64, path (UTF-8), data

The file begins with all nodes, in records whose zxid is 0 but for the last one: a file that was cut within them has
the zxid 0. Each following record is one commit. The checksum is the CRC-32C of length and body and continues the one of
the record before (the first continues that of the header), so that a record counts only behind those before it.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from kafkapy.metadata.store import NodeStat, StoreDamagedError
from kafkapy.metadata.tree import TreeNode
from kafkapy.platform.disk_errors import is_passing
from kafkapy.platform.files import Descriptor, Files
from kafkapy.records.crc import crc32c

HEADER: Final = b"kafkapy metadata journal 1\n"
SPARE_BYTES: Final = 1024 * 1024
"""How much larger than twice its nodes the file may become before it is written again."""

_NODES_PER_RECORD: Final = 1000
_RECORD: Final = Struct(">II")
_ZXID: Final = Struct(">q")
_NODE: Final = Struct(">Iiqqiqq")
_NO_DATA: Final = -1
_DELETED: Final = -2

Row = tuple[str, bytes | None, int, int, int, int, int]
"""A node as it is stored: path, data, czxid, mzxid, version, created_ms, sequence."""


class Content(NamedTuple):
    """Every node by path, and the last number (zxid) that was given."""

    zxid: int
    rows: dict[str, Row]


def row_of(path: str, node: TreeNode) -> Row:
    """The stored form of a node."""
    return (path, node.data, node.czxid, node.mzxid, node.version, node.created_ms, node.sequence)


def node_of(row: Row) -> TreeNode:
    """The node of a stored form; it is not ephemeral."""
    _, data, czxid, mzxid, version, created_ms, sequence = row
    return TreeNode(data, NodeStat(czxid, mzxid, version, created_ms, 0), sequence)


def encode_row(row: Row) -> bytes:
    """The bytes of a node; the SQLite file keeps a checksum of them."""
    path, data, czxid, mzxid, version, created_ms, sequence = row
    name = path.encode()
    length = _NO_DATA if data is None else len(data)
    return _NODE.pack(len(name), length, czxid, mzxid, version, created_ms, sequence) + name + (data or b"")


def _encode_deleted(path: str) -> bytes:
    name = path.encode()
    return _NODE.pack(len(name), _DELETED, 0, 0, 0, 0, 0) + name


class MetadataJournal:
    """Opened by ``load``; blocks on the disk. ``is_stale``: it has to be written again before it can be continued."""

    def __init__(self, files: Files, path: str) -> None:
        self.path: Final = path
        self.is_stale = True
        self.problem: str | None = None
        """The damage that ``load`` found behind the last good record, as a sentence; None if there was none."""
        self._files = files
        self._size = 0
        self._replaced_size = 0
        self._checksum = 0
        self._descriptor: Descriptor | None = None
        """Stays open, so that a commit needs no descriptor when the process has no more."""

    @property
    def is_large(self) -> bool:
        """Whether the commits take more room than the nodes."""
        return self._size > 2 * self._replaced_size + SPARE_BYTES

    def load(self) -> Content | None:
        """Return what the good records say, up to the first damaged one; None when there is no file.

        Raises ``StoreDamagedError`` when not even the nodes at its beginning can be read, and ``OSError``.
        """
        if not self._files.exists(self.path):
            return None
        content = self._files.read(self.path)
        if not content.startswith(HEADER):
            raise StoreDamagedError(f"{self.path} does not begin with the header of a metadata journal")
        zxid, rows, self._replaced_size = 0, dict[str, Row](), 0
        for end, checksum, body in _records(content):
            self._size, self._checksum = end, checksum
            zxid = _apply(rows, body)
            if zxid and not self._replaced_size:
                self._replaced_size = end
        if not zxid:
            raise StoreDamagedError(f"{self.path} is damaged or cut off at byte {self._size or len(HEADER)}")
        if self._size < len(content):
            self.problem = f"{self.path} is damaged or cut off at byte {self._size}"
        else:
            self.is_stale = False
        self._open()
        return Content(zxid, rows)

    def _open(self) -> None:
        self._descriptor = None
        with suppress(OSError):  # the next commit tries again
            self._descriptor = self._files.open(self.path)

    def close(self) -> None:
        """Close the file; a later commit opens it again."""
        self._descriptor = None

    def append(self, zxid: int, rows: Iterable[Row], deleted: Iterable[str]) -> None:
        """Add a commit and wait until it is on the disk. Raises ``OSError``; the file is as before, or stale."""
        assert not self.is_stale, "a stale journal is replaced"
        body = b"".join([_ZXID.pack(zxid), *map(encode_row, rows), *map(_encode_deleted, deleted)])
        record, checksum = _record(body, self._checksum)
        self.is_stale = True
        try:
            descriptor = self._descriptor = self._descriptor or self._files.open(self.path)
            self._files.write_at(descriptor, record, self._size)
            self._files.sync(descriptor)
        except OSError as refusal:
            if is_passing(refusal):
                self._files.truncate(self.path, self._size)
                self.is_stale = False
            raise
        self.is_stale = False
        self._size += len(record)
        self._checksum = checksum

    def replace(self, zxid: int, rows: Iterable[Row]) -> None:
        """Write the file again with these nodes. Raises ``OSError``; the file is as before."""
        self._replaced_size = self._size  # after a refusal the next attempt is made when the file has doubled
        checksum = crc32c(HEADER)
        written = bytearray(HEADER)
        remaining = map(encode_row, rows)
        while len(nodes := list(islice(remaining, _NODES_PER_RECORD))) == _NODES_PER_RECORD:
            record, checksum = _record(b"".join([_ZXID.pack(0), *nodes]), checksum)
            written += record
        record, checksum = _record(b"".join([_ZXID.pack(zxid), *nodes]), checksum)
        written += record
        self._files.replace(self.path, bytes(written))
        self._open()
        self._size = self._replaced_size = len(written)
        self._checksum = checksum
        self.is_stale = False


def _record(body: bytes, checksum: int) -> tuple[bytes, int]:
    length = len(body).to_bytes(4, "big")
    checksum = crc32c(body, crc32c(length, checksum))
    return _RECORD.pack(len(body), checksum) + body, checksum


def _records(content: bytes) -> Iterator[tuple[int, int, memoryview]]:
    """Give (end, checksum, body) of each record up to the first that is damaged or not whole."""
    view = memoryview(content)
    position, checksum = len(HEADER), crc32c(HEADER)
    while position + _RECORD.size <= len(content):
        length, expected = _RECORD.unpack_from(content, position)
        start = position + _RECORD.size
        body = view[start : start + length]
        checksum = crc32c(body, crc32c(view[position : position + 4], checksum))
        if length < _ZXID.size or len(body) < length or checksum != expected:
            return
        position = start + length
        yield position, checksum, body


def _apply(rows: dict[str, Row], body: memoryview) -> int:
    """Bring ``rows`` to the state after a record; return its zxid."""
    zxid: int = _ZXID.unpack_from(body)[0]
    position = _ZXID.size
    while position < len(body):
        name_length, data_length, *numbers = _NODE.unpack_from(body, position)
        position += _NODE.size
        path = str(body[position : position + name_length], "utf-8")
        position += name_length
        if data_length == _DELETED:
            rows.pop(path, None)
            continue
        data = None if data_length == _NO_DATA else bytes(body[position : position + data_length])
        position += max(data_length, 0)
        czxid, mzxid, version, created_ms, sequence = numbers
        rows[path] = (path, data, czxid, mzxid, version, created_ms, sequence)
    return zxid
