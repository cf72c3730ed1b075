"""The bound on the memory for the members of all groups: their metadata, protocols and assignments.

A client chooses the size of its metadata, up to a whole request, and the number of its members; Apache Kafka has no
bound. Each member, each of its protocols, each topic that a group reads and each member id that was handed out also
counts for a fixed size, so that the bound on bytes is a bound on their number too. Ids count as well: clients choose
most of their text, up to 32 kB each.

A join that exceeds the bound is refused with GROUP_MAX_SIZE_REACHED, after which clients do not retry. An assignment is
refused with COORDINATOR_NOT_AVAILABLE: its group exists, all clients retry until there is room, meanwhile the members
stay. An assignment that no record can hold gets Apache Kafka's error.
"""

from collections.abc import Iterable
from typing import Final

from kafkapy.text import text_size

MEMBER_BYTES: Final = 512
"""The approximate size of a member without its metadata and ids."""
PROTOCOL_BYTES: Final = 128
"""The approximate size of a protocol without its name and metadata."""
MOST_PROTOCOLS: Final = 1_000
"""The bound on a member's protocols: each rebalance reads all of them, and Kafka's clients name up to five."""
GROUP_MAX_BYTES: Final = 16_777_216
"""The bound on the members of one group, which one record in the log holds: 16 times Kafka's default of
``max.message.bytes``."""
TOPIC_BYTES: Final = 128
"""The approximate size of a topic in the known subscriptions of a group."""
PENDING_BYTES: Final = 256
"""The approximate size of a member id that was handed out and has not joined, without its text."""
DEFAULT_MAX_BYTES: Final = 104_857_600


class MetadataBudget:
    """The bytes that all groups of a broker use; ``kafkapy.group.metadata.max.bytes`` is the bound."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0

    def has_room(self, size: int) -> bool:
        """Whether ``size`` more bytes are within the bound; a reduction always is."""
        return size <= 0 or self.used_bytes + size <= self.max_bytes


def size_of(protocols: Iterable[tuple[str, bytes]]) -> int:
    """Return the bytes of a member with these protocols, without its ids and its assignment."""
    size = MEMBER_BYTES
    for name, metadata in protocols:  # a generator costs a call for each
        size += PROTOCOL_BYTES + text_size(name) + len(metadata)
    return size
