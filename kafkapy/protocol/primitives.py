"""The primitive types of Kafka's wire protocol, in one import.

Grammar (Kafka protocol guide; KIP-482 for the compact forms and tagged fields):

    int8 … int64, uint16, float64   big endian
    unsigned varint                 7 bits a byte, low bits first, at most 5 bytes
    string                          int16 length (-1: null), UTF-8
    bytes, records                  int32 length (-1: null)
    array                           int32 count (-1: null), the elements
    compact string, bytes, array    unsigned varint of length + 1 (0: null)
    uuid                            16 bytes
    tagged fields                   count, then per field: tag, size (unsigned varints), bytes; tags ascend

Every length is compared with the remaining bytes before memory is allocated, and every array is charged to the reader's
budget, since two bytes of a message can become an object of some hundred bytes.
"""

import struct

from kafkapy.protocol.message import (
    EMPTY,
    MAX_STRING_SIZE,
    ZERO_UUID,
    InvalidValue,
    LimitExceeded,
    Message,
    OpaqueBody,
    ProtocolError,
    Records,
    TaggedFields,
    Truncated,
    UnsupportedVersion,
)
from kafkapy.protocol.reader import DEFAULT_BUDGET, M, Reader
from kafkapy.protocol.writer import Part, Writer

__all__ = [
    "DEFAULT_BUDGET",
    "EMPTY",
    "MAX_STRING_SIZE",
    "ZERO_UUID",
    "InvalidValue",
    "LimitExceeded",
    "Message",
    "OpaqueBody",
    "Part",
    "ProtocolError",
    "Reader",
    "Records",
    "TaggedFields",
    "Truncated",
    "UnsupportedVersion",
    "Writer",
    "decode",
    "encode",
    "write_message",
]


def decode(message: type[M], data: bytes | bytearray | memoryview, version: int) -> M:
    """Read the message that fills ``data``; raises ProtocolError, also if bytes are left over."""
    reader = Reader(data)
    decoded = message.read(reader, version)
    reader.expect_end()
    return decoded


def write_message(message: Message, writer: Writer, version: int) -> None:
    """Write a message; a number that doesn't fit its field raises InvalidValue instead of struct.error."""
    try:
        message.write(writer, version)
    except struct.error as error:
        raise InvalidValue(f"{type(message).__name__} version {version}: {error}") from error


def encode(message: Message, version: int) -> bytes:
    """The message's bytes in one piece; raises ProtocolError."""
    writer = Writer()
    write_message(message, writer, version)
    return writer.getvalue()
