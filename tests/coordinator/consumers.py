"""Small consumers that react to the coordinator's answers as clients do, one step at each call of ``step``.

A consumer knows only the answers that it got; it owns the partitions of its last SyncGroup. The assignor is as simple
as possible. ``Record`` checks the laws that must hold for all consumers.
"""

from collections.abc import Iterable
from typing import Any

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.calls import JoinResult, LeavingMember, SyncResult
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import World

PARTITIONS = 5
MEMBER_ID_REQUIRED = 79
LOST = (22, 25, 82)
"""Errors after which a consumer gives up its membership; after other errors it joins again with its member id."""


class Record:
    """All assignments so far: the partitions of each consumer in each generation."""

    def __init__(self) -> None:
        self.granted: dict[int, dict[int, str]] = {}
        self.newest_generation = 0
        self._handed_in: dict[int, set[bytes]] = {}
        self._joins: dict[str, list[Answer[JoinResult]]] = {}

    def ask(self, member_id: str, answer: Answer[JoinResult]) -> Answer[JoinResult]:
        """A JoinGroup was sent under ``member_id``."""
        self._joins.setdefault(member_id, []).append(answer)
        return answer

    def lead(self, answer: JoinResult) -> None:
        """A leader got its members: law 3, each has joined this generation; only static ones may be away."""
        for each in answer.members:
            if each.instance_id is None:
                joins = [join.value.generation_id for join in self._joins[each.member_id] if join.is_set]
                assert answer.generation_id in joins, f"{each.member_id} did not join {answer.generation_id}"

    def hand_in(self, generation: int, parts: Iterable[bytes]) -> None:
        """A leader sends the assignments of a generation."""
        self._handed_in.setdefault(generation, set()).update(parts)

    def grant(self, generation: int, name: str, partitions: bytes) -> None:
        """A SyncGroup succeeded: law 1, no other consumer has any of the partitions in this generation.

        Law 4: a leader has sent this assignment for this generation.
        """
        assert partitions in self._handed_in.get(generation, ()), f"{name} got {partitions!r} in {generation}"
        owners = self.granted.setdefault(generation, {})
        for partition in partitions:
            assert owners.setdefault(partition, name) == name, (generation, partition, owners[partition], name)
        self.newest_generation = max(self.newest_generation, generation)

    def accept_commit(self, generation: int) -> None:
        """A commit succeeded: law 2, its generation is the newest in which a consumer has an assignment."""
        assert generation >= self.newest_generation, f"a commit of generation {generation} succeeded"


class Consumer:
    """One client. The ``name`` of a static member stays the same over its restarts."""

    def __init__(self, name: str, world: World, record: Record, instance_id: str | None = None) -> None:
        self.name = name
        self.instance_id = instance_id
        self.rebalance_timeout_ms = 60_000
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()
        self.is_settled = False
        self._world = world
        self._record = record
        self._joining: Answer[JoinResult] | None = None
        self._syncing: Answer[SyncResult] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the consumer waits for an answer."""
        waiting = self._joining or self._syncing
        return waiting is not None and not waiting.is_set

    def step(self) -> None:
        """Take an answer that has come, or send the next request."""
        if self._joining is not None:
            if self._joining.is_set:
                answer, self._joining = self._joining.value, None
                self._take_join(answer)
        elif self._syncing is not None:
            if self._syncing.is_set:
                answered, self._syncing = self._syncing.value, None
                self._take_sync(answered)
        elif not self.is_settled:
            self._join()

    def _join(self) -> None:
        self.owned.clear()
        answer = self._world.join(
            self.member_id,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            requires_known_member_id=self.instance_id is None,
        )
        self._joining = self._record.ask(self.member_id, answer)

    def _take_join(self, answer: JoinResult) -> None:
        if answer.error_code == MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code:
            self._refused(answer.error_code)
        else:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            leads = answer.leader_id == answer.member_id
            parts: dict[str, bytes] = {each.member_id: b"" for each in answer.members} if leads else {}
            for partition in range(PARTITIONS if parts else 0):
                parts[list(parts)[partition % len(parts)]] += bytes([partition])
            if leads:
                self._record.lead(answer)
                self._record.hand_in(self.generation, parts.values())
            self._syncing = self._world.sync(
                self.member_id, self.generation, instance_id=self.instance_id, assignments=parts
            )

    def _take_sync(self, answer: SyncResult) -> None:
        if answer.error_code:
            self._refused(answer.error_code)
            return
        self.owned = set(answer.assignment)
        self.is_settled = True
        self._record.grant(self.generation, self.name, answer.assignment)

    def _refused(self, error_code: int) -> None:
        self.owned.clear()
        self.is_settled = False
        if error_code in LOST:
            self.member_id = ""

    def heartbeat(self) -> None:
        """Send a heartbeat, and react to its error code."""
        if self.is_settled:
            error_code = self._world.heartbeat(self.member_id, self.generation, self.instance_id)
            if error_code:
                self._refused(error_code)

    def commit(self, partition: int, offset: int) -> Any:
        """Commit an offset of a partition that the consumer owns or owned; returns the answer and the commit."""
        tp = TopicPartition("t", partition)
        generation = max(self.generation, 0)
        answer = self._world.commit(offset, self.member_id or "gone", generation, tp=tp, instance_id=self.instance_id)
        if not answer.is_set or answer.value[tp] == 0:
            self._record.accept_commit(generation)
        return answer, tp, offset

    def leave(self) -> None:
        """Leave the group, as a consumer does that is closed."""
        finish(self._world.coordinator.classic.leave("g", [LeavingMember(self.member_id, self.instance_id)]))
        self.member_id = ""
        self._refused(0)
        self._joining = self._syncing = None

    def crash(self) -> None:
        """Forget everything without a request to the coordinator."""
        self.member_id, self.generation = "", -1
        self._refused(0)
        self._joining = self._syncing = None
