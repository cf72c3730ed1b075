"""How much memory the members of all groups may take: what they send with JoinGroup stays as long as they do.

A client chooses the size of its metadata, up to a whole request, and the number of its members; Apache Kafka keeps
them all. Each member, and each member id that was given out, also counts for a fixed size, so that the bound on bytes
bounds their number.
"""

from collections.abc import Iterable
from typing import Final

MEMBER_BYTES: Final = 512
"""What a member takes beside its metadata, about."""
PENDING_BYTES: Final = 256
"""What a member id takes that was given out and has not joined."""
DEFAULT_MAX_BYTES: Final = 104_857_600


class MetadataBudget:
    """Bytes in use of those that ``kafkapy.group.metadata.max.bytes`` allows to all groups of a broker."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def has_room(self, size: int) -> bool:
        """Whether ``size`` more bytes may be kept; less than before always may."""
        return size <= 0 or self.used_bytes + size <= self.max_bytes


def size_of(protocols: Iterable[tuple[str, bytes]]) -> int:
    """Return the bytes of a member with these protocols, without its assignment."""
    return MEMBER_BYTES + sum(len(name) + len(metadata) for name, metadata in protocols)
