"""The base of the generated message classes, the protocol's errors, and the types that their fields use."""

from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from uuid import UUID

if TYPE_CHECKING:
    from kafkapy.protocol.reader import Reader
    from kafkapy.protocol.writer import Writer

MAX_STRING_SIZE: Final = 0x7FFF
"""Maximum bytes of a string's UTF-8 form; Kafka applies it to compact strings too."""

ZERO_UUID: Final = UUID(int=0)

EMPTY: Final[list[Any]] = []
"""As a default parameter it means a new empty list; it is never stored."""

TaggedFields = list[tuple[int, bytes]] | None
"""Tagged fields that the definitions don't have, as (tag, bytes) in the order received: kept and written again."""


class ProtocolError(Exception):
    """Bytes are no valid message, or a message can't be encoded in the given version."""


class Truncated(ProtocolError):  # noqa: N818  # the wire's nouns read better at the raise
    """The bytes end before the value does."""


class LimitExceeded(ProtocolError):  # noqa: N818
    """A count or size is larger than the remaining bytes or the decoding budget allow."""


class InvalidValue(ProtocolError):  # noqa: N818
    """A value that the protocol doesn't allow, such as a null in a field without null, or a varint that doesn't end."""


class UnsupportedVersion(ProtocolError):  # noqa: N818
    """The message, or a field that was set, doesn't exist in this version."""


class OpaqueBody(Protocol):
    """Record batches that pass through untouched, e.g. a slice of a file on its way to ``sendfile``."""

    def __len__(self) -> int: ...


Records = bytes | bytearray | memoryview | OpaqueBody
"""The value of a field of type ``records``; reading returns a memoryview into the frame, without a copy."""


class Message:
    """Base of the generated classes: the slots are the fields, which equality and repr use."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]  # messages are mutable; object declares a method here

    WEIGHT = 1
    """Value slots that one instance takes from the reader's budget."""

    unknown_tagged_fields: TaggedFields = None

    @classmethod
    def read(cls, reader: "Reader", version: int) -> Self:
        """Decode one message; raises ProtocolError."""
        raise NotImplementedError

    def write(self, writer: "Writer", version: int) -> None:
        """Encode the message; raises ProtocolError."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


def unsupported_version(message: type[Message], version: int) -> UnsupportedVersion:
    """The error for a message in a version that doesn't exist."""
    return UnsupportedVersion(f"{message.__name__} has no version {version}")


def unsupported_field(message: Message, field: str, version: int) -> UnsupportedVersion:
    """The error for a field that is set, that receivers need, and that the version doesn't have."""
    value = getattr(message, field)
    return UnsupportedVersion(f"{type(message).__name__} version {version} can't carry {field}={value!r}")


def unsupported_tagged_fields(message: Message, version: int) -> UnsupportedVersion:
    """The error for unknown tagged fields in a version without tagged fields."""
    return UnsupportedVersion(f"{type(message).__name__} version {version} can't carry tagged fields")
