import os
import random
import subprocess
import sys

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.records import compression
from kafkapy.records.compression import CODEC_NAMES, compress, compress_stream, decompress
from kafkapy.records.errors import CorruptRecordError, RecordTooLargeError, UnsupportedCompressionTypeError
from kafkapy.records.lz4_frame import xxhash32_of_few

CODECS = range(5)
COMPRESSED = range(1, 5)
MEGABYTE = 1 << 20


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def test_codecs_have_the_names_of_compression_type() -> None:
    assert CODEC_NAMES[compression.GZIP] == "gzip"
    assert CODEC_NAMES[compression.ZSTD] == "zstd"


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary())
def test_decompressing_returns_the_compressed_data(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [32768, 32769, 65536, 65537, 300_000])
def test_data_of_several_blocks_comes_back_whole(codec: int, size: int) -> None:
    for data in (noise(size), b"ab" * (size // 2), noise(size // 2) + bytes(size)):
        for given_as in (data, bytearray(data), memoryview(data)):
            assert decompress(codec, memoryview(compress(codec, given_as)), size * 2) == data


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: int) -> None:
    data = b"x" * 100_000
    packed = compress(codec, data)
    assert decompress(codec, packed, 100_000) == data
    with pytest.raises(RecordTooLargeError):
        decompress(codec, packed, 99_999)


PEAK_OF_A_BOMB = """
import resource, sys
from kafkapy.records.compression import decompress
from kafkapy.records.errors import RecordTooLargeError
packed = sys.stdin.buffer.read()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
try:
    decompress(int(sys.argv[1]), packed, 1 << 20)
except RecordTooLargeError:
    print(peak() - before)
"""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_of_100_megabytes_is_refused_in_bounded_memory(codec: int) -> None:
    packed = compress(codec, bytes(100 * MEGABYTE))
    child = subprocess.run(
        [sys.executable, "-c", PEAK_OF_A_BOMB, str(codec)], input=packed, capture_output=True, check=True
    )
    assert int(child.stdout) < 16, "megabytes of resident memory"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_truncated_or_changed_data_is_corrupt_never_wrong(codec: int) -> None:
    data = b"some text, " * 20
    packed = compress(codec, data)
    for cut in range(len(packed)):
        try:
            assert data.startswith(decompress(codec, packed[:cut], 1000))
        except (CorruptRecordError, RecordTooLargeError):
            continue
    for garbage in (b"", b"\x00", b"\xff" * 40, b"\x82SNAPPY\x00" + bytes(8) + b"\x00\x00", packed[1:]):
        try:
            decompress(codec, garbage, 1000)
        except (CorruptRecordError, RecordTooLargeError):
            continue


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionTypeError):
        compress(codec, b"")
    with pytest.raises(UnsupportedCompressionTypeError):
        decompress(codec, b"", 1)


def test_bare_snappy_is_read() -> None:
    data = b"snappy " * 100
    assert decompress(compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data)), 1000) == data


def test_snappy_streams_that_were_joined_are_read() -> None:
    assert decompress(compression.SNAPPY, compress(2, b"one ") + compress(2, b"two"), 100) == b"one two"


@pytest.mark.parametrize("tail", [bytes(4), b"\x00\x00\x00\x09abc", b"\x00\x00\x00\x01\xff"])
def test_broken_snappy_blocks_are_corrupt(tail: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(compression.SNAPPY, compress(2, b"one") + tail, 1000)


@pytest.mark.parametrize(("codec", "tail"), [(1, bytes(9)), (1, b"\x1f\x8b"), (2, bytes(3)), (3, bytes(9)), (3, b"x")])
def test_bytes_after_compressed_data_are_ignored(codec: int, tail: bytes) -> None:
    assert decompress(codec, compress(codec, b"one " * 100) + tail, 400) == b"one " * 100
    with pytest.raises(RecordTooLargeError):
        decompress(codec, compress(codec, b"one " * 100) + tail, 399)


@pytest.mark.parametrize(
    "data", [compress(1, b"one")[:-1], compress(1, b"one") + b"\x1f\x8b\x08 no member", b"\x1f\x8b"]
)
def test_gzip_that_ends_early_or_continues_with_a_broken_member_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(compression.GZIP, data, 1000)


def test_gzip_followed_by_other_bytes_is_bounded_too() -> None:
    packed = compress(1, b"x" * 5000)
    member = packed[:-8] + b"\0" + packed[-8:]
    for data in (packed + bytes(9), member):
        with pytest.raises((RecordTooLargeError, CorruptRecordError)):
            decompress(compression.GZIP, data, 4000)
    with pytest.raises(CorruptRecordError):
        decompress(compression.GZIP, packed[:20] + b"\xff" * 9 + packed[29:], 10_000)


@pytest.mark.parametrize("codec", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 32768, 65536, 200_001])
def test_a_stream_has_the_output_of_compress(codec: int, size: int) -> None:
    data = os.urandom(size // 2) + bytes(size - size // 2)
    for step in (7_000, 65536, 1 << 20):
        stream = compress_stream(codec)
        for start in range(0, size, step):
            stream.add(bytearray(data[start : start + step]))
        assert stream.finish() == compress(codec, data)
    with pytest.raises(UnsupportedCompressionTypeError):
        compress_stream(compression.ZSTD)


def test_lz4_frames_are_those_of_java() -> None:
    packed = compress(compression.LZ4, b"a" * 100)
    assert packed[:7].hex() == "04224d18604082"
    assert packed.endswith(bytes(4))


def lz4_frame(flags: int, sizes: int, content: bytes = b"", end: bytes = bytes(4)) -> bytes:
    descriptor = bytes([flags, sizes]) + content
    checksum = bytes([xxhash32_of_few(descriptor) >> 8 & 0xFF])
    return b"\x04\x22\x4d\x18" + descriptor + checksum + b"\x03\x00\x00\x80one" + end


@pytest.mark.parametrize(
    "data",
    [
        b"\x04\x22\x4d\x18",
        b"\x04\x22\x4d",
        b"\x05" + lz4_frame(0x60, 0x40)[1:],
        lz4_frame(0x40, 0x40),  # blocks that depend on each other
        lz4_frame(0xA0, 0x40),  # another version
        lz4_frame(0x61, 0x40, bytes(4)),  # a dictionary
        lz4_frame(0x62, 0x40),  # a reserved bit
        lz4_frame(0x60, 0x30),  # a size of blocks that is not defined
        lz4_frame(0x60, 0xC0),
        lz4_frame(0x60, 0x41),
    ],
)
def test_lz4_that_kafkas_clients_cannot_read_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decompress(compression.LZ4, data, 1000)


def test_lz4_of_other_libraries_is_read() -> None:
    checksum_of_one = xxhash32_of_few(b"one").to_bytes(4, "little")
    for data in (
        lz4_frame(0x60, 0x70),
        lz4_frame(0x68, 0x40, (3).to_bytes(8, "little")),
        lz4_frame(0x70, 0x40, end=checksum_of_one + bytes(4)),
        lz4_frame(0x64, 0x40, end=bytes(4) + checksum_of_one),
        lz4_frame(0x74, 0x40, end=checksum_of_one + bytes(4) + checksum_of_one + b"more"),
    ):
        assert decompress(compression.LZ4, data, 1000) == b"one"


def test_frames_that_were_joined_are_read() -> None:
    for codec in (compression.GZIP, compression.ZSTD):
        assert decompress(codec, compress(codec, b"one ") + compress(codec, b"two"), 100) == b"one two"
