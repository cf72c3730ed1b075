"""The owners of partitions, as DescribeGroups shows them: the one view for all client libraries."""

import threading
from types import TracebackType
from typing import Self

from compat_tests.clients.client import wait_until
from compat_tests.groups.wire import Wire
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.primitives import Reader

STABLE = "Stable"
LOOK_EVERY_S = 0.02


def assigned(data: bytes) -> list[tuple[str, int]]:
    """The partitions of a ConsumerProtocolAssignment, of any version."""
    if not data:
        return []
    reader = Reader(memoryview(data))
    reader.read_int16()
    parts = ConsumerProtocolAssignment.read(reader, 0).assigned_partitions
    return [(part.topic, partition) for part in parts for partition in part.partitions]


class Watch:
    """Describes a group repeatedly; each stable generation must assign every partition once."""

    def __init__(self, bootstrap: str, group: str, partitions: set[tuple[str, int]]) -> None:
        self._wire = Wire(bootstrap)
        self._group = group
        self._partitions = partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.failures: list[str] = []
        self.settled_members = 0
        self.looks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._wire.__exit__(kind, error, trace)

    def _look(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            (described,) = self._wire.ask(DescribeGroupsRequest([self._group]), 5).groups
            if described.group_state != STABLE:
                self.settled_members = 0
                continue
            granted = [owned for member in described.members for owned in assigned(member.member_assignment)]
            self.looks += 1
            self.settled_members = len(described.members)
            if len(granted) != len(set(granted)):
                self.failures.append(f"of {len(granted)} partitions some have two owners")
            if set(granted) != self._partitions:
                self.failures.append(f"{len(self._partitions - set(granted))} partitions have no owner")

    def wait_for(self, members: int, timeout_s: float) -> None:
        """Return when the group is settled with so many members."""
        wait_until(lambda: self.settled_members == members, f"{members} settled members", timeout_s)
        assert not self.failures, self.failures[:3]
