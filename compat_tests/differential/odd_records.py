"""Records for Produce, valid and invalid ones, drawn at random, the same for a seed."""

import gzip
import random
import struct
from zlib import crc32

from kafkapy.records.batch import crc_of
from kafkapy.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from kafkapy.records.lz4_frame import xxhash32_of_few
from kafkapy.records.record import Record, encode_batch, encode_legacy

MAGICS = (0, 1, 1, 2, 2)
CODECS = (NONE, NONE, GZIP, SNAPPY, LZ4)
OLD_MS = 1_000_000
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
PRODUCERS = ((-1, -1, -1), (-1, -1, -1), (-1, -1, -1), (5, 0, 0), (5, 0, 3), (5, 1, 0), (6, 0, 2**31 - 1), (7, -1, 0))
"""Producer ids with epoch and first sequence."""


class OddRecords:
    """Draws the records of one partition in one request."""

    def __init__(self, chance: random.Random, now_ms: int) -> None:
        self.chance = chance
        self.now_ms = now_ms

    def draw(self) -> bytes | None:
        """Most records are valid or nearly so, some are damaged, a few are empty or null."""
        kind = self.chance.random()
        if kind < 0.01:
            return self.chance.choice([None, b"", bytes(17), bytes(80)])
        data = self._set(self.chance.choice(MAGICS))
        if kind < 0.12:
            data += self._set(self.chance.choice(MAGICS))
        if kind > 0.95:
            data += self._set(self.chance.choice(MAGICS))[: self.chance.randrange(1, 40)]
        elif kind > 0.85:
            data = self._damaged(data)
        return data

    def _set(self, magic: int) -> bytes:
        listed = self._records(magic)
        if magic == 2:
            return self._batch(listed)
        codec = self.chance.choice(CODECS)
        if codec == NONE or self.chance.random() < 0.5:
            return encode_legacy(listed, magic, compression=codec)
        return self._wrapper(listed, magic, codec)

    def _records(self, magic: int) -> list[Record]:
        chance = self.chance
        fine = chance.random() < 0.6
        first = chance.choice([0, 0, 0, 0, 1, 7, 2**40])
        step = chance.choice([1, 1, 1, 1, 1, 0, 2, -1])
        return [
            Record(
                chance.choice([b"k", b"key", b""] if fine else [b"k", None]),
                chance.choice([None, b"", b"v", b"w" * 40, bytes(chance.choices(range(97, 110), k=300))]),
                self._timestamp(magic, fine),
                ((("h", b"x"), ("", None)) if magic == 2 and chance.random() < 0.1 else ()),
                first + step * place,
            )
            for place in range(chance.choice([1, 1, 2, 3, 5]))
        ]

    def _timestamp(self, magic: int, fine: bool) -> int:
        if magic == 0:
            return -1
        now = self.now_ms + self.chance.randrange(-1000, 1000)
        if fine:
            return now
        return self.chance.choice([now, now, -1, -2, 0, OLD_MS, self.now_ms + 10**9, MIN_INT64 // 4, MAX_INT64 // 4])

    def _batch(self, listed: list[Record]) -> bytes:
        chance = self.chance
        producer_id, epoch, sequence = chance.choice(PRODUCERS)
        data = encode_batch(
            listed,
            compression=chance.choice((*CODECS, ZSTD)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            partition_leader_epoch=chance.choice([-1, 0, 9]),
        )
        if chance.random() < 0.3:
            data = self._with_odd_header(data)
        return data

    def _with_odd_header(self, data: bytes) -> bytes:
        """Another value in one field of the header, with the matching CRC."""
        chance = self.chance
        at, layout, values = chance.choice(
            [
                (0, ">q", [1, -1, 2**40]),
                (8, ">i", [0, 13, 14, 49, len(data) - 13, len(data), -1]),
                (16, ">b", [0, 1, 3, 5, -1]),
                (21, ">h", [5, 6, 7, 0x08, 0x10, 0x18, 0x20, 0x30, 0x40, 0x4000, 1, 2, 3, 4]),
                (23, ">i", [-1, 0, 1, 2, 100, 2**31 - 1]),
                (27, ">q", [-1, 0, OLD_MS, MAX_INT64, MIN_INT64]),
                (35, ">q", [-1, -2, 0, OLD_MS, MAX_INT64]),
                (43, ">q", [-1, 0, 5, -2]),
                (51, ">h", [-1, 0, 1, -5]),
                (53, ">i", [-1, 0, 1, -5, 2**31 - 1]),
                (57, ">i", [-1, 0, 1, 2, 4, 2**31 - 1]),
            ]
        )
        return with_crc(changed(data, at, struct.pack(layout, chance.choice(values))))

    def _wrapper(self, listed: list[Record], magic: int, codec: int) -> bytes:
        """A wrapper with unusual or invalid fields."""
        chance = self.chance
        inner = encode_legacy(listed, chance.choice([magic] * 9 + [1 - magic]))
        odd = chance.random()
        if odd < 0.05:
            inner = encode_legacy(listed, magic, compression=codec)
        elif odd < 0.1:
            inner = inner[: -chance.randrange(1, len(inner))]
        elif odd < 0.15:
            inner += inner[: chance.randrange(1, 20)]
        elif odd < 0.2:
            inner = self._damaged(inner)
        elif odd < 0.22:
            inner = b""
        content = self._compressed(inner, codec)
        if magic == 0 and codec == LZ4 and chance.random() < 0.7:
            content = with_header_checksum(content, with_magic=True)
        attributes = chance.choice([codec] * 8 + [codec | 8, codec | 0x10, codec | 0x80, 4, 5, 7])
        offset = chance.choice([listed[-1].offset] * 3 + [0, 1, len(listed) - 1, 2**40])
        timestamp = chance.choice([max(each.timestamp for each in listed)] * 4 + [-1, -2, 0, OLD_MS, self.now_ms])
        key = chance.choice([None] * 6 + [b"k", b""])
        return entry(offset, magic, attributes, timestamp, key, chance.choice([content] * 15 + [None]))

    def _compressed(self, inner: bytes, codec: int) -> bytes:
        """Compressed data as other libraries than Java's write it, and data that no library can read."""
        chance = self.chance
        content = compress(codec, inner)
        odd = chance.random()
        if odd < 0.05:
            return content[: chance.randrange(len(content))]
        if odd < 0.1:
            return content + bytes(chance.randrange(1, 9))
        if odd < 0.3 and codec == GZIP:
            half = len(inner) // 2
            return chance.choice([zipped(inner), zipped(inner[:half]) + zipped(inner[half:])])
        if odd < 0.3 and codec == SNAPPY:
            return raw_snappy(inner)
        if odd < 0.5 and codec == LZ4:
            return lz4_frame(chance, inner)
        return content

    def _damaged(self, data: bytes) -> bytes:
        """Cut off, or with one changed byte, with or without a matching CRC."""
        chance = self.chance
        kind = chance.random()
        if kind < 0.2:
            return data[: chance.randrange(len(data))]
        at = chance.randrange(len(data))
        other = changed(data, at, bytes([chance.choice([0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1, data[at] ^ 0x80])]))
        return with_crc(other) if kind < 0.8 else other


def changed(data: bytes, position: int, new: bytes) -> bytes:
    """The data with other bytes at a position."""
    return data[:position] + new + data[position + len(new) :]


def zipped(data: bytes) -> bytes:
    """A gzip member without the time, which would make it another one each second."""
    return gzip.compress(data, mtime=0)


def with_crc(data: bytes) -> bytes:
    """Bytes that may be one batch or entry, with the CRC that they have."""
    if len(data) > 21 and data[16] == 2:
        return changed(data, 17, struct.pack(">I", crc_of(data, 0, len(data))))
    if len(data) <= 16:
        return data
    (length,) = struct.unpack_from(">i", data, 8)
    return changed(data, 12, struct.pack(">I", crc32(data[16 : length + 12]))) if length > 0 else data


def entry(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """One entry of a message set, with the CRC that it should have."""
    content = struct.pack(">bB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for each in (key, value):
        content += struct.pack(">i", -1 if each is None else len(each)) + (each or b"")
    return struct.pack(">qiI", offset, len(content) + 4, crc32(content)) + content


def raw_snappy(data: bytes) -> bytes:
    """One bare block of literals, as clients without snappy-java's framing send it."""
    size, head = len(data), bytearray()
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    if not data:
        return bytes(head)
    return bytes(head) + b"\xf4" + struct.pack("<H", len(data) - 1) + data  # a literal with a length of two bytes


def lz4_frame(chance: random.Random, data: bytes) -> bytes:
    """A frame of one stored block, with the flags that other libraries set."""
    flags, tail = 0x40, b""
    content = b""
    if chance.random() < 0.8:
        flags |= 0x20
    if chance.random() < 0.3:
        flags |= 0x08
        content = struct.pack("<Q", len(data))
    if chance.random() < 0.2:
        flags |= 0x01
        content += bytes(4)
    block = struct.pack("<I", len(data) | 1 << 31) + data
    if chance.random() < 0.2:
        flags |= 0x10
        block += struct.pack("<I", chance.randrange(2**32))
    if chance.random() < 0.2:
        flags |= 0x04
        tail = struct.pack("<I", chance.randrange(2**32))
    descriptor = bytes([flags, chance.choice([0x40, 0x50, 0x60, 0x70, 0x40, 0x30, 0xC0])]) + content
    checksum = bytes([xxhash32_of_few(descriptor) >> 8 & 0xFF])
    end = chance.choice([bytes(4), bytes(4), bytes(4), b""])
    return b"\x04\x22\x4d\x18" + descriptor + checksum + block + end + tail


def with_header_checksum(frame: bytes, *, with_magic: bool) -> bytes:
    """The usual frame with the checksum of either kind."""
    if len(frame) < 7:
        return frame
    hashed = frame[0 if with_magic else 4 : 6]
    return changed(frame, 6, bytes([xxhash32_of_few(hashed) >> 8 & 0xFF]))
