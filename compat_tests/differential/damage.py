"""Frames that are no valid requests."""

import struct
from typing import Any, Final

from hypothesis import strategies as st

from kafkapy.protocol.headers import (
    RequestHeader,
    read_request_header,
    request_header_version,
    write_request_header,
)
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages import has_classes, request_class
from kafkapy.protocol.primitives import Reader, Writer

UNKNOWN_KEYS: Final = (-1, -32768, 100, 999, 32767)
PATCHES: Final = (
    "ff", "ffff", "ffffffff", "7fffffff", "80000000", "7fff", "8000", "00", "0000", "00000000", "01", "ff7f", "feffff",
    "ffffffff0f", "8080808080808080", "c328", "00ffffff",
)  # fmt: skip
_FIXED_HEADER_SIZE: Final = 8
MOST_PARTITIONS: Final = 20
TOPIC_RESOURCE: Final = 2


def damages(highest: int) -> st.SearchStrategy[dict[str, Any]]:
    """The kinds of damage to a frame of an API whose highest version is given."""
    place = st.integers(0, 999)
    return st.one_of(
        st.builds(lambda keep: {"keep": keep}, place),
        st.sampled_from(["00", "0000", "ffffffff", "00" * 40]).map(lambda tail: {"tail": tail}),
        st.builds(lambda at, patch: {"at": at, "patch": patch}, place, st.sampled_from(PATCHES)),
        st.builds(lambda at, patch: {"at": at, "insert": patch}, place, st.sampled_from(PATCHES)),
        st.builds(lambda at, patch: {"at": at, "patch": patch}, place, st.sampled_from(PATCHES)),
        st.sampled_from(UNKNOWN_KEYS).map(lambda key: {"key": key}),
        st.sampled_from([-1, highest + 1, 99, -32768]).map(lambda version: {"version": version}),
        st.just({"header": "other"}),
        st.sampled_from(["", "00", "0000", "000000", "0012000000", "00120000000000", "ff" * 20]).map(
            lambda raw: {"raw": raw}
        ),
        st.sampled_from([-1, -(2**31), 2**31 - 1, 104_857_601]).map(lambda size: {"size": size}),
    )


def frame_of(header: RequestHeader, body: bytes, damage: dict[str, Any] | None) -> bytes:
    """The frame without its size, damaged or not."""
    writer = Writer()
    write_request_header(writer, header)
    head = writer.getvalue()
    if damage is None:
        return head + body
    if "raw" in damage:
        return bytes.fromhex(damage["raw"])
    if "header" in damage:  # with tagged fields in a version without them, or the reverse
        head = head[:-1] if request_header_version(header.api_key, header.api_version) == 2 else head + b"\0"
    frame = head + body + bytes.fromhex(damage.get("tail", ""))
    if "keep" in damage:
        frame = frame[: _place(frame, damage["keep"])]
    if "at" in damage:
        frame = _patched(frame, _place(frame, damage["at"]), damage)
    for at, name in ((0, "key"), (2, "version")):
        if name in damage:
            frame = frame[:at] + struct.pack(">h", damage[name]) + frame[at + 2 :]
    return frame


def _place(frame: bytes, thousandths: int) -> int:
    return _FIXED_HEADER_SIZE + (len(frame) - _FIXED_HEADER_SIZE) * thousandths // 1000


def _patched(frame: bytes, at: int, damage: dict[str, Any]) -> bytes:
    if "insert" in damage:
        return frame[:at] + bytes.fromhex(damage["insert"]) + frame[at:]
    patch = bytes.fromhex(damage["patch"])
    return (frame[:at] + patch + frame[at + len(patch) :])[: len(frame)]


def would_harm(frame: bytes) -> bool:
    """Whether randomly changed bytes are a request that would break the brokers for later requests."""
    reader = Reader(frame)
    try:
        header = read_request_header(reader)
        if not has_classes(header.api_key):
            return False
        request: Any = request_class(header.api_key).read(reader, header.api_version)
    except ProtocolError:
        return False
    name = type(request).__name__
    if name == "CreateTopicsRequest":
        return any(each.num_partitions > MOST_PARTITIONS for each in request.topics)
    if name == "CreatePartitionsRequest":
        return any(each.count > MOST_PARTITIONS for each in request.topics)
    if name in ("AlterConfigsRequest", "IncrementalAlterConfigsRequest"):
        return any(each.resource_type != TOPIC_RESOURCE for each in request.resources)
    return False
