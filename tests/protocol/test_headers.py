"""Which header goes with which API and version, and how unknown ones are refused."""

import pytest

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import (
    RequestHeader,
    UnknownApi,
    UnsupportedRequestVersion,
    read_request_header,
    read_response_header,
    request_header_version,
    response_header_version,
    write_request_header,
    write_response_header,
)
from kafkapy.protocol.primitives import (
    InvalidValue,
    LimitExceeded,
    ProtocolError,
    Reader,
    Truncated,
    UnsupportedVersion,
    Writer,
)

HEADERS = [
    ("0012 0003 00000007 0002 6d65 00", RequestHeader(18, 3, 7, "me")),
    ("0012 0000 00000007 ffff", RequestHeader(18, 0, 7, None)),
    ("0000 0008 ffffffff 0000", RequestHeader(0, 8, -1, "")),
    ("0000 0009 00000001 0001 61 01 07 02 7879", RequestHeader(0, 9, 1, "a", [(7, b"xy")])),
    ("0007 0000 00000001", RequestHeader(7, 0, 1)),
    ("0011 0001 00000001 0001 61", RequestHeader(17, 1, 1, "a")),
]


@pytest.mark.parametrize(("data", "header"), HEADERS, ids=[header[0] for header in HEADERS])
def test_request_headers(data: str, header: RequestHeader) -> None:
    raw = bytes.fromhex(data)
    reader = Reader(raw + b"body")
    assert read_request_header(reader) == header
    assert reader.remaining == 4
    writer = Writer()
    write_request_header(writer, header)
    assert writer.getvalue() == raw
    reader = Reader(raw)
    assert read_request_header(reader) == header
    for size in range(len(raw)):
        with pytest.raises(ProtocolError):
            read_request_header(Reader(raw[:size]))


@pytest.mark.parametrize("tail", ["", "ffff"])
def test_unknown_api_and_version_carry_the_correlation_id(tail: str) -> None:
    with pytest.raises(UnknownApi) as unknown:
        read_request_header(Reader(bytes.fromhex("03e7 0000 0000002a" + tail)))
    assert (unknown.value.api_key, unknown.value.correlation_id) == (999, 42)
    with pytest.raises(UnsupportedRequestVersion, match="API_VERSIONS has no version 99") as version:
        read_request_header(Reader(bytes.fromhex("0012 0063 0000002a 0001 61 00" + tail)))
    assert (version.value.api_key, version.value.api_version, version.value.correlation_id) == (18, 99, 42)
    assert isinstance(version.value, UnsupportedVersion)


@pytest.mark.parametrize(("version", "rest"), [("0063", ""), ("0063", "0001 61"), ("0063", "0001 61 01"), ("ffff", "")])
def test_a_header_must_be_whole_to_be_answered_though_its_version_is_unknown(version: str, rest: str) -> None:
    with pytest.raises(Truncated):
        read_request_header(Reader(bytes.fromhex(f"0012 {version} 0000002a {rest}")))


@pytest.mark.parametrize(
    ("api_key", "version", "request_version", "response_version"),
    [
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 3, 2, 1),
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.OFFSET_DELETE, 0, 1, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
    ],
)
def test_header_versions(api_key: ApiKey, version: int, request_version: int, response_version: int) -> None:
    assert request_header_version(api_key, version) == request_version
    assert response_header_version(api_key, version) == response_version
    writer = Writer()
    write_response_header(writer, api_key, version, -5)
    assert len(writer.getvalue()) == 4 + response_version
    reader = Reader(writer.getvalue())
    assert read_response_header(reader, api_key, version) == -5
    assert reader.remaining == 0


def test_a_client_id_that_is_too_long_is_refused() -> None:
    with pytest.raises((LimitExceeded, InvalidValue)):
        write_request_header(Writer(), RequestHeader(0, 8, 1, "x" * 32768))
