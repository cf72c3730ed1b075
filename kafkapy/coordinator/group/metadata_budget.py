"""How much memory the members of all groups may take: what they send with JoinGroup stays as long as they do.

A client chooses the size of its metadata, up to a whole request, and the number of its members; Apache Kafka keeps
them all. Each member, each of its protocols, each topic that a group reads and each member id that was given out also
counts for a fixed size, so that the bound on bytes bounds their number.

A join that there is no room for is refused with GROUP_MAX_SIZE_REACHED, which tells a client not to try again. An
assignment is refused with COORDINATOR_NOT_AVAILABLE: its group is there already, all clients try again until there is
room, and meanwhile the members stay. One that could never be stored gets what Apache Kafka answers then.
"""

from collections.abc import Iterable
from typing import Final

MEMBER_BYTES: Final = 512
"""What a member takes beside its metadata, about."""
PROTOCOL_BYTES: Final = 128
"""What a protocol takes beside its name and metadata, about."""
MOST_PROTOCOLS: Final = 1_000
"""Protocols that a member may name: each rebalance looks at all of them, and Kafka's clients name up to five."""
GROUP_MAX_BYTES: Final = 16_777_216
"""What the members of one group may take, as one record in the log holds them: 16 times what Kafka allows by default
for that (``max.message.bytes``)."""
TOPIC_BYTES: Final = 128
"""What a topic takes that is known to be subscribed to, about."""
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
    size = MEMBER_BYTES
    for name, metadata in protocols:  # a generator costs a call for each
        size += PROTOCOL_BYTES + len(name) + len(metadata)
    return size
