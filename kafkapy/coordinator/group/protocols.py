"""The assignment protocols that the members of a group name, and which of them all can use.

Kafka counts how often its members name a protocol, and takes it for common when that is as often as there are members.
So one that a member names twice counts for one member too many: the next one that has only that is refused.
"""

from collections import Counter
from collections.abc import Sequence

from kafkapy.coordinator.group.hash_order import in_hash_order

Protocols = tuple[tuple[str, bytes], ...]
"""What one member names, the most wanted first, and what it says beside each."""


def names_of(protocols: Protocols) -> list[str]:
    """Each as often as it is named."""
    return [name for name, _ in protocols]


class CommonProtocols:
    """Counts of what the members name: ``_mentions`` as Kafka counts, ``_supporters`` each member once."""

    __slots__ = ("_members", "_mentions", "_supporters")

    def __init__(self) -> None:
        self._members = 0
        self._mentions: Counter[str] = Counter()
        self._supporters: Counter[str] = Counter()

    def add(self, protocols: Protocols) -> None:
        """Count what one more member names."""
        names = names_of(protocols)
        self._members += 1
        self._mentions.update(names)
        self._supporters.update(set(names))

    def remove(self, protocols: Protocols) -> None:
        """Take back what was counted for a member."""
        names = names_of(protocols)
        self._members -= 1
        self._mentions.subtract(names)
        self._supporters.subtract(set(names))

    def all_support(self, protocol: str) -> bool:
        """Whether every member names ``protocol``."""
        return self._supporters[protocol] == self._members

    def accept(self, protocols: Protocols) -> bool:
        """Whether a member with these fits in: one of them counts as common, and one is, so that all can meet."""
        names = names_of(protocols)
        return any(map(self._counts_as_common, names)) and any(map(self.all_support, names))

    def select(self, preferences: Sequence[Protocols]) -> str:
        """The common protocol with the most votes; each of the members votes for the first of its list that is common.

        Of equally many votes those win that come first in Kafka's map of them. Where Kafka counts none as common, or
        takes one that is not, it fails and its group is stuck for good. Here all that are common stand then.
        """
        common = set(filter(self.all_support, names_of(preferences[0])))
        candidates = set(filter(self._counts_as_common, common)) or common
        votes = Counter(next(name for name, _ in protocols if name in candidates) for protocols in preferences)
        return max(in_hash_order(votes), key=votes.__getitem__)

    def _counts_as_common(self, protocol: str) -> bool:
        return self._mentions[protocol] == self._members
