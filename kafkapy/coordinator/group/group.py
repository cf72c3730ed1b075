"""The interface of the group protocols: the state and methods that all types of groups share.

Types differ in how the members share partitions. ``classic/`` is the protocol of JoinGroup and SyncGroup, ``consumer/``
that of ConsumerGroupHeartbeat. A further type, with its own requests and records, is a package beside it:

    its ``Group``       the decisions on offsets and deletion, the lines of ListGroups and DescribeGroups
    its ``GroupType``   makes the groups and replays the records about them; it has its requests as methods, and is
                        entered in ``GroupRuntime.types`` for each kind of its records
    its keys            added to ``records.KEYS``
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kafkapy.coordinator.group.calls import CommitCall, GroupDescription, GroupListing
from kafkapy.coordinator.group.metadata_budget import MetadataBudget
from kafkapy.coordinator.group.offsets import Offsets
from kafkapy.coordinator.group.records import RecordKey
from kafkapy.records.record import Record
from kafkapy.text import text_size
from kafkapy.turns import Steps

if TYPE_CHECKING:
    from kafkapy.coordinator.group.shard import GroupShard


class Group(ABC):
    """The id, the offsets and the share of the memory budget of one group."""

    __slots__ = ("group_id", "offsets", "budget", "_name_size", "_waiting")

    def __init__(self, group_id: str, budget: MetadataBudget) -> None:
        self.group_id = group_id
        self.offsets = Offsets()
        self.budget = budget
        self._name_size = 0
        self._waiting: deque[Callable[[], None]] | None = None
        """The decisions that wait while records are being appended; else None: most groups only have offsets."""

    def charge_name(self) -> None:
        """Count the group id, from the first member on: groups that only have offsets are in the log."""
        if not self._name_size:
            self._name_size = text_size(self.group_id)
            self.budget.used_bytes += self._name_size

    def release_name(self) -> None:
        """Release the group id's bytes from the budget; the group is removed."""
        self.budget.used_bytes -= self._name_size
        self._name_size = 0

    def take_offsets(self, group: "Group") -> None:
        """Keep the offsets of a group of another type, which this one replaces."""
        self.offsets = group.offsets

    # Decisions that wait

    def when_idle(self, decide: Callable[[], None]) -> None:
        """Call ``decide`` now, or when the records that wait for other replicas are acknowledged or refused."""
        if self._waiting is None:
            decide()
        else:
            self._waiting.append(decide)

    @property
    def is_writing(self) -> bool:
        """Whether records are being appended on which all further decisions on the group depend."""
        return self._waiting is not None

    def write_started(self) -> None:
        """Such records are being appended."""
        self._waiting = deque()

    def write_ended(self) -> None:
        """The log has the records, or refused them: make the decisions that wait, up to the next append."""
        waiting, self._waiting = self._waiting or deque(), None
        while waiting and not self.is_writing:
            waiting.popleft()()
        for decide in waiting:
            self.when_idle(decide)

    # State

    @property
    @abstractmethod
    def is_dead(self) -> bool:
        """Whether the group was deleted or unloaded: requests that still hold the object must find the group again."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members, and is not dead."""

    @property
    @abstractmethod
    def has_record(self) -> bool:
        """Whether the log has a record of the group: one that only keeps offsets has none."""

    @abstractmethod
    def loaded(self) -> Steps[None]:
        """The whole log was replayed: start the sessions of the members."""

    @abstractmethod
    def kill(self, error_code: int) -> None:
        """The group was deleted or unloaded: stop its timers, answer waiting requests with ``error_code``."""

    @abstractmethod
    def tombstones(self, timestamp_ms: int) -> list[Record]:
        """The records that delete the group, without its offsets."""

    # Offsets

    @abstractmethod
    def commit_error(self, call: CommitCall) -> int:
        """The error code for a whole OffsetCommit; 0 if it may be written."""

    @abstractmethod
    def transaction_commit_error(self, call: CommitCall) -> int:
        """The error code for a whole TxnOffsetCommit; member and generation are optional (KIP-447)."""

    @abstractmethod
    def touch_member(self, member_id: str) -> None:
        """A commit starts the session of its member again, if there is one, as a heartbeat does."""

    @abstractmethod
    def retained_since_ms(self, topic: str, committed_ms: int) -> int | None:
        """The time from which the retention of an offset counts, None if the offset is in use.

        ``committed_ms`` is the time of the commit.
        """

    # Administration

    @abstractmethod
    def listing(self) -> GroupListing:
        """The group's line in ListGroups."""

    @abstractmethod
    def describe(self) -> Steps[GroupDescription]:
        """The group in DescribeGroups; state and members are those at the start of the steps."""

    @abstractmethod
    def delete_error(self) -> int:
        """The error code of DeleteGroups; 0 if the group may be deleted."""

    @abstractmethod
    def delete_offsets_error(self) -> int:
        """The error code of a whole OffsetDelete; 0 if offsets of topics without a subscriber may be deleted."""

    @abstractmethod
    def is_read(self, topic: str) -> bool:
        """Whether a member consumes the topic, so that OffsetDelete refuses it."""


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
