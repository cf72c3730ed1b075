"""The seam of the group protocols: a type of groups makes its groups and replays the records about them.

``classic/`` is the only type so far: the protocol of JoinGroup and SyncGroup. A further type, with its own requests and
records, is a package beside it:

    its ``GroupType``   entered in ``GroupRuntime.types`` for each kind of its records; it has its requests as methods
    its ``Group``       the decisions on offsets, deletion, ListGroups and DescribeGroups
    its keys            added to ``records.KEYS``
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.records import RecordKey

if TYPE_CHECKING:
    from kafkapy.coordinator.group.shard import GroupShard


class GroupType(ABC):
    """A protocol by which the members of a group share partitions."""

    @abstractmethod
    def new_group(self, group_id: str) -> Group:
        """A group without members."""

    @abstractmethod
    def replay(self, shard: "GroupShard", key: RecordKey, value: bytes | None) -> None:
        """Replay a record about a group, loaded or just appended; None is a tombstone.

        Raises one of ``UNDECODABLE`` if it is not as a broker writes it; nothing has changed then.
        """


GroupTypes = Mapping[type[RecordKey], GroupType]
"""The type of a group by the class of a record's key; ``OffsetKey`` has that of groups that only keep offsets."""
