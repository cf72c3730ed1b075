"""Whole messages in one piece."""

import pytest

from kafkapy.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkapy.protocol.primitives import InvalidValue, UnsupportedVersion, Writer, decode, encode, write_message


def test_decode_refuses_bytes_left_over() -> None:
    data = encode(HeartbeatRequest("g", 1, "m"), 0)
    assert decode(HeartbeatRequest, data, 0) == HeartbeatRequest("g", 1, "m")
    with pytest.raises(InvalidValue):
        decode(HeartbeatRequest, data + b"\x00", 0)


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidValue, match="HeartbeatResponse version 1"):
        encode(HeartbeatResponse(2**31, 0), 1)
    with pytest.raises(InvalidValue):
        write_message(HeartbeatResponse(0, 70_000), Writer(), 0)


@pytest.mark.parametrize("version", [-1, 5])
def test_versions_that_do_not_exist_are_refused(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        encode(HeartbeatResponse(), version)
    with pytest.raises(UnsupportedVersion):
        decode(HeartbeatResponse, bytes(20), version)
