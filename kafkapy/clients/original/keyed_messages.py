"""The messages of the original producer: their keys, encoders and partitioners."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafkapy.clients.errors import ClientError

Encoder = Callable[[Any], bytes]
"""Makes the bytes of a message or key; None is sent as null and not encoded.

It raises ClientError, ValueError or TypeError for what it can't encode.
"""
Partitioner = Callable[[Any, int], int]
"""``partitioner(key, partitions)`` returns a partition from 0 to ``partitions`` - 1; it raises as an encoder does."""

_INT32: Final = 1 << 32
_SIGN: Final = 1 << 31


class KeyedMessage(NamedTuple):
    """A message for a topic; without a key it goes to any partition.

    ``partition_key`` chooses the partition in place of the key, and is not sent.
    """

    topic: str
    message: Any
    key: Any = None
    partition_key: Any = None

    @property
    def chooses_by(self) -> Any:
        """The key for the partitioner; None: any partition."""
        return self.key if self.partition_key is None else self.partition_key


def default_encoder(data: Any) -> bytes:
    """Bytes as they are; raises ClientError for anything else (``kafka.serializer.DefaultEncoder``)."""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise ClientError(f"{data!r} is not bytes: pass an encoder, for example string_encoder")


def string_encoder(text: str) -> bytes:
    """A text in UTF-8; raises ClientError for anything else (``kafka.serializer.StringEncoder``)."""
    if isinstance(text, str):
        return text.encode()
    raise ClientError(f"{text!r} is not a text: pass another encoder")


def default_partitioner(key: Any, partitions: int) -> int:
    """The absolute value of the key's hash in Java, modulo ``partitions``: the choice of the Java producer of 0.8.2.

    For a ``str`` as ``DefaultPartitioner``, for ``bytes`` as ``ByteArrayPartitioner``; raises ClientError for others.
    """
    value = java_hash(key)
    return (0 if value == -_SIGN else abs(value)) % partitions


def java_hash(key: Any) -> int:
    """``String.hashCode`` of a text, ``Arrays.hashCode`` of bytes, from -2147483648 to 2147483647."""
    value = 0
    if isinstance(key, str):
        units = key.encode("utf-16-be", "surrogatepass")
        for place in range(0, len(units), 2):
            value = (31 * value + (units[place] << 8 | units[place + 1])) % _INT32
    elif isinstance(key, bytes):
        value = 1
        for byte in key:
            value = (31 * value + (byte - 256 if byte > 127 else byte)) % _INT32
    else:
        raise ClientError(f"the default partitioner takes texts and bytes as keys, not {key!r}: pass a partitioner")
    return value - _INT32 if value >= _SIGN else value
