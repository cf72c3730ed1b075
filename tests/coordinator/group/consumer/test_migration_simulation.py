"""Random histories of a group whose clients change the protocol, crash, and see slow replicas and restarts.

The clients do what real ones do: a partition must not have two owners at once, and all have one in the end.
"""

from abc import ABC, abstractmethod
from collections import Counter
from random import Random
from typing import Any

import pytest

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.classic.calls import JoinedMember, JoinResult, LeavingMember, SyncResult
from kafkapy.coordinator.group.consumer.calls import HeartbeatResult
from kafkapy.coordinator.group.records import versioned
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.coordinator.group.consumer.world import MigrationWorld, T, metadata, part, partitions_of

PARTITIONS = range(7)
RETRIED = (14, 15, 16)
ROUNDS = 60
ROUNDS_TO_SETTLE = 100
SESSION_MS, REBALANCE_MS = 200_000, 300_000
"""Longer than the waits for slow replicas: only clients that have crashed are removed."""


class Client(ABC):
    """A consumer of the group."""

    def __init__(self, world: MigrationWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.owned: set[int] = set()

    @abstractmethod
    def step(self) -> None:
        """Take an answer, or send the next request."""

    @abstractmethod
    def leave(self) -> None:
        """The client is closed."""


class ConsumerClient(Client):
    """It uses the consumer protocol."""

    epoch = 0
    _waiting: Answer[HeartbeatResult] | None = None

    def step(self) -> None:
        if self._waiting is None:
            joining = {"topic_names": ("t",), "rebalance_timeout_ms": REBALANCE_MS} if self.epoch == 0 else {}
            self._waiting = self.world.send(
                self.name, self.epoch, owned={T: self.owned} if self.owned else {}, **joining
            )
        if self._waiting.is_set:
            result, self._waiting = self._waiting.value, None
            self._take(result)

    def _take(self, result: HeartbeatResult) -> None:
        if result.error_code in RETRIED:
            return
        if result.error_code:
            self.owned.clear()
            self.epoch = 0
            return
        self.epoch = result.member_epoch
        if result.assignment is not None:
            self.owned = set(result.assignment.get(T, ()))

    def leave(self) -> None:
        self.owned.clear()
        self.world.send(self.name, -1)


class ClassicClient(Client):
    """It uses the classic protocol, with a strategy that is eager, or keeps partitions over a rebalance."""

    def __init__(self, world: MigrationWorld, name: str, *, is_cooperative: bool) -> None:
        super().__init__(world, name)
        self.member_id = ""
        self.generation = -1
        self.is_settled = False
        self._is_cooperative = is_cooperative
        self._joining: Answer[JoinResult] | None = None
        self._syncing: Answer[SyncResult] | None = None

    def step(self) -> None:
        if self._joining is not None:
            if self._joining.is_set:
                joined, self._joining = self._joining.value, None
                self._take_join(joined)
        elif self._syncing is not None:
            if self._syncing.is_set:
                synced, self._syncing = self._syncing.value, None
                self._take_sync(synced)
        elif self.is_settled:
            self._refused(self.world.heartbeat(self.member_id, self.generation))
        else:
            self._join()

    def _join(self) -> None:
        if not self._is_cooperative:
            self.owned.clear()
        owned = {"t": sorted(self.owned)} if self.owned else None
        self._joining = self.world.join(
            self.member_id,
            protocols=(("cooperative" if self._is_cooperative else "eager", metadata("t", owned=owned)),),
            requires_known_member_id=not self.member_id,
            rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=SESSION_MS,
        )

    def _take_join(self, joined: JoinResult) -> None:
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
        elif joined.error_code:
            self._refused(joined.error_code)
        else:
            self.member_id, self.generation = joined.member_id, joined.generation_id
            parts = self._assign(joined.members) if joined.leader_id == joined.member_id else {}
            self._syncing = self.world.sync(self.member_id, self.generation, assignments=parts)

    @staticmethod
    def _assign(members: tuple[JoinedMember, ...]) -> dict[str, bytes]:
        """In turns; no member gets a partition that another one still has, until that one has joined again."""
        owners: dict[int, str] = {}
        for each in members:
            _, reader = versioned(each.metadata)
            for topic in ConsumerProtocolSubscription.read(reader, 3).owned_partitions:
                owners.update(dict.fromkeys(topic.partitions, each.member_id))
        parts: dict[str, list[int]] = {each.member_id: [] for each in members}
        ids = sorted(parts)
        for partition in PARTITIONS:
            wanted = ids[partition % len(ids)]
            if owners.get(partition, wanted) == wanted:
                parts[wanted].append(partition)
        return {member_id: part(t=partitions) for member_id, partitions in parts.items()}

    def _take_sync(self, synced: SyncResult) -> None:
        if synced.error_code:
            self._refused(synced.error_code)
            return
        assigned = set(partitions_of(synced.assignment).get("t", ()))
        has_revoked = bool(self.owned - assigned)
        self.owned = assigned
        self.is_settled = not (has_revoked and self._is_cooperative)

    def _refused(self, error_code: int) -> None:
        if error_code in (0, *RETRIED):
            return
        self.is_settled = False
        if error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            self.owned.clear()
        if error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def leave(self) -> None:
        self.owned.clear()
        if self.member_id and not (self.world.broker.is_slow or self.world.broker.unacknowledged):
            self.world.leave(LeavingMember(self.member_id))


class History:
    """One random history."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.is_cooperative = self.random.random() < 0.5
        self.world = MigrationWorld(
            group_initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
            group_consumer_session_timeout_ms=SESSION_MS,
        )
        self.world.set_topics(t=len(PARTITIONS), u=2)
        self.count = 0
        self.clients = [self.new_client() for _ in range(self.random.randint(1, 4))]

    def new_client(self) -> Client:
        self.count += 1
        name = f"client-{self.count}"
        if self.random.random() < 0.5:
            return ConsumerClient(self.world, name)
        return ClassicClient(self.world, name, is_cooperative=self.is_cooperative)

    def run(self) -> None:
        for _ in range(ROUNDS):
            self.disturb()
            self.round()
        self.world.broker.is_slow = False
        self.world.broker.acknowledge()
        for _ in range(ROUNDS_TO_SETTLE):
            self.round()
            self.world.clock.advance(5_000)
        assert Counter(each for client in self.clients for each in client.owned) == Counter(PARTITIONS)

    def round(self) -> None:
        self.random.shuffle(self.clients)
        for client in self.clients:
            client.step()
            owners = Counter(each for client in self.clients for each in client.owned)
            assert all(count == 1 for count in owners.values()), owners
        if self.random.random() < 0.7:
            self.world.broker.acknowledge()
        self.world.clock.advance(1_000)

    def disturb(self) -> None:
        event = self.random.random()
        client = self.random.choice(self.clients)
        if event < 0.08:
            client.leave()
            self.replace(client)
        elif event < 0.11:
            self.replace(client)  # it has crashed
        elif event < 0.16:
            self.world.broker.is_slow = not self.world.broker.is_slow
        elif event < 0.18:
            self.world.broker.acknowledge()
            self.world.restart()

    def replace(self, client: Client) -> None:
        self.clients.remove(client)
        self.clients.append(self.new_client())


@pytest.mark.parametrize("seed", range(60))
def test_no_partition_has_two_owners(seed: int) -> None:
    History(seed).run()


def test_the_histories_convert_groups() -> None:
    types: Counter[Any] = Counter()
    for seed in range(10):
        history = History(seed)
        for _ in range(ROUNDS):
            history.disturb()
            history.round()
            types.update(history.world.types())
    assert {kind for kind, _ in types} == {"classic", "consumer"}
