"""The assignment protocols of a group's members, the choice of a common one, and the subscriptions of the members.

Kafka counts how often the members of a group name a protocol, and takes it for common if the count is the number of
members. A protocol that a member names twice therefore counts for one member too many, and the next member that has
only that one is refused.
"""

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from kafkapy.coordinator.group.metadata_budget import TOPIC_BYTES, MetadataBudget
from kafkapy.java_hashing import in_hash_order
from kafkapy.protocol.primitives import ProtocolError, Reader
from kafkapy.turns import Steps, finish

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols of one member, in its order of preference, each with its metadata."""


def names_of(protocols: Protocols) -> list[str]:
    """Return the protocols' names, with repetitions."""
    return [name for name, _ in protocols]


class CommonProtocols:
    """Counts of the members' protocols: ``_mentions`` as Kafka counts, ``_supporters`` each member once."""

    __slots__ = ("_members", "_mentions", "_supporters")

    def __init__(self) -> None:
        self._members = 0
        self._mentions: Counter[str] = Counter()
        self._supporters: Counter[str] = Counter()

    def add(self, protocols: Protocols) -> None:
        """Count the protocols of one more member."""
        names = names_of(protocols)
        self._members += 1
        self._mentions.update(names)
        self._supporters.update(set(names))

    def remove(self, protocols: Protocols) -> None:
        """Subtract the protocols of a member."""
        names = names_of(protocols)
        self._members -= 1
        self._mentions.subtract(names)
        self._supporters.subtract(set(names))
        for name in names:  # counters keep names with count 0, of which a member can bring new ones with each join
            if not self._supporters[name]:
                self._mentions.pop(name, None)
                self._supporters.pop(name, None)

    def all_support(self, protocol: str) -> bool:
        """Whether every member names ``protocol``."""
        return self._supporters[protocol] == self._members

    def accept(self, protocols: Protocols) -> bool:
        """Whether a member with these may join: one of them counts as common, and all members support one."""
        names = names_of(protocols)
        return any(map(self._counts_as_common, names)) and any(map(self.all_support, names))

    def select(self, preferences: Sequence[Protocols]) -> str:
        """The common protocol with the most votes; each of the members votes for the first of its list that is common.

        If the votes are equal, the first one in Kafka's map of them wins. If Kafka counts none as common, or selects
        one that is not common, its JoinGroup fails and the group never becomes Stable. In these cases this function
        selects among all protocols that are common.
        """
        common = set(filter(self.all_support, names_of(preferences[0])))
        candidates = set(filter(self._counts_as_common, common)) or common
        votes = Counter(next(name for name, _ in protocols if name in candidates) for protocols in preferences)
        return max(in_hash_order(votes), key=votes.__getitem__)

    def _counts_as_common(self, protocol: str) -> bool:
        return self._mentions[protocol] == self._members


# Subscriptions
#
# The metadata of protocol type ``consumer`` is ConsumerProtocolSubscription: an int16 version, then the fields of that
# version, of which version 0 (an array of topics, then bytes) is the prefix of all. Only that prefix is read, so that
# clients of any future version are understood.

CONSUMER_PROTOCOL_TYPE = "consumer"
TOPICS_IN_A_STEP: Final = 512


def read_topics(metadata: bytes, topics: set[str]) -> Steps[None]:
    """Add the topics of one member's metadata to ``topics``; raise ``ProtocolError`` for metadata of another form."""
    reader = Reader(memoryview(metadata))
    reader.read_int16()  # any version, negative ones too
    remaining = reader.read_count()
    while remaining:
        count = min(remaining, TOPICS_IN_A_STEP)
        topics.update(reader.read_strings(count))
        remaining -= count
        yield
    reader.read_nullable_bytes()


def topics_of(metadata: bytes) -> set[str]:
    """Return the topics of one member's metadata; raise ``ProtocolError`` for metadata of another form."""
    topics: set[str] = set()
    finish(read_topics(metadata, topics))
    return topics


def subscribed_topics(
    protocol_type: str | None, protocol_name: str | None, subscriptions: Sequence[bytes], budget: MetadataBudget
) -> Steps[AbstractSet[str] | None]:
    """Return the topics of all ``subscriptions``, which are the members' metadata of the chosen protocol.

    None if the metadata can't be read, or if ``budget`` has no room for the topics.
    """
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    if protocol_name is not None:
        try:
            for metadata in subscriptions:
                for _ in read_topics(metadata, topics):
                    if not budget.has_room(TOPIC_BYTES * len(topics)):
                        return None
                    yield
        except ProtocolError:
            return None
    return topics
