import pytest

from kafkapy.records.compression import LZ4, compress, decompress
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.lz4_frame import with_old_checksum, with_right_checksum, xxhash32_of_few


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF), (b"abcd", 0xA3643705), (b"hello world", 0xCEBB6622)],
)
def test_the_hash_is_xxhash32(data: bytes, value: int) -> None:
    assert xxhash32_of_few(data) == value


def test_the_hash_refuses_longer_input() -> None:
    with pytest.raises(ValueError, match="15 bytes"):
        xxhash32_of_few(bytes(16))


def test_frames_of_the_first_format_have_the_byte_that_kafka_wrote() -> None:
    frame = compress(LZ4, b"some text" * 9)
    old = with_old_checksum(frame)
    assert (frame[6], old[6]) == (0x82, 0x1A)
    assert (old[:6], old[7:]) == (frame[:6], frame[7:])
    with pytest.raises(CorruptRecordError):
        decompress(LZ4, old, 1000)
    assert with_right_checksum(old) == frame


def test_a_right_frame_is_not_copied() -> None:
    frame = compress(LZ4, b"some text")
    assert with_right_checksum(frame) is frame


@pytest.mark.parametrize(
    ("flags", "more"), [("68", "0900000000000000"), ("61", "07000000"), ("69", "090000000000000007000000")]
)
def test_longer_descriptors_are_hashed_whole(flags: str, more: str) -> None:
    descriptor = bytes.fromhex(flags + "40" + more)
    found = with_right_checksum(b"\x04\x22\x4d\x18" + descriptor + b"?rest")
    assert found[4:] == descriptor + bytes([xxhash32_of_few(descriptor) >> 8 & 0xFF]) + b"rest"


@pytest.mark.parametrize("frame", ["", "04224d18", "04224d186040", "04224d18684082", "04224d18684000000000000000"])
def test_a_frame_that_ends_within_its_header_is_corrupt(frame: str) -> None:
    with pytest.raises(CorruptRecordError):
        with_right_checksum(bytes.fromhex(frame))
