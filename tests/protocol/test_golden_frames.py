"""Frames that Apache Kafka 2.7.2 sent: they are read, cut short, and written again as the same bytes."""

from pathlib import Path

import pytest

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.framing import FrameDecoder
from kafkapy.protocol.headers import read_request_header, write_request_header
from kafkapy.protocol.messages import request_class
from kafkapy.protocol.primitives import ProtocolError, Reader, Writer

FRAMES = [
    line.split()
    for line in (Path(__file__).parent.parent / "golden" / "request-frames-272.txt").read_text().splitlines()
    if not line.startswith("#")
]


def read_request(data: bytes | memoryview) -> bytes:
    """Read a frame and write the message again."""
    reader = Reader(data)
    header = read_request_header(reader)
    request = request_class(header.api_key).read(reader, header.api_version)
    reader.expect_end()
    writer = Writer()
    write_request_header(writer, header)
    request.write(writer, header.api_version)
    return writer.getvalue()


@pytest.mark.parametrize(("api", "version", "data"), FRAMES, ids=[f"{api}-{i}" for i, (api, *_) in enumerate(FRAMES)])
def test_frames_of_kafka_are_read_and_written_again(api: str, version: str, data: str) -> None:
    raw = bytes.fromhex(data)
    header = read_request_header(Reader(raw))
    assert (header.api_key, header.api_version) == (ApiKey[api], int(version))
    assert read_request(raw) == raw
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            read_request(raw[:size])
    with pytest.raises(ProtocolError):
        read_request(raw + b"\x00")


def test_all_frames_arrive_byte_by_byte() -> None:
    frames = [bytes.fromhex(data) for _, _, data in FRAMES]
    decoder = FrameDecoder(1 << 20)
    found = []
    for byte in b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames):
        decoder.get_buffer(-1)[0] = byte
        decoder.buffer_updated(1)
        if (view := decoder.next_frame()) is not None:
            found.append(read_request(view))
            decoder.release()
    assert found == frames
