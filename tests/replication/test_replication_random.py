"""Random histories of three replicas: brokers die and come back, links fail, leaders change, followers lag.

Some brokers learn of a new leader later: an old leader continues, and followers continue to fetch from it. Nothing that
was below a leader's high watermark is ever lost or changed, and in the end all replicas are the same.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkapy.config.log_config import LogConfig
from kafkapy.metadata.znodes import LeaderIsr
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.fetch import FetchRequest
from kafkapy.replication.fetcher import FetcherSettings
from kafkapy.replication.fetchers import ReplicaFetchers
from kafkapy.replication.fetching import FetchLimits
from kafkapy.replication.partition import LeaderAndIsrPartition, Partition
from kafkapy.testing.clock import ManualClock
from tests.replication.leader import answer_from, bytes_of, fetcher_context, has_news, throttles
from tests.replication.logs import TP, Node, batch

BROKERS = (1, 2, 3)
WAIT_MS = 100
LAG_MS = 1000
"""That of ``Node``."""

Event = tuple[str, int]
EVENTS = st.one_of(
    st.tuples(st.just("produce"), st.integers(1, 4)),
    st.tuples(st.just("run"), st.sampled_from((1, WAIT_MS, 3 * WAIT_MS, LAG_MS))),
    st.tuples(st.just("step"), st.integers(1, 8)),
    st.tuples(
        st.sampled_from(("kill", "restart", "cut", "heal", "deafen", "prefer", "answer", "hurry", "checkpoint")),
        st.sampled_from(BROKERS),
    ),
)  # fmt: skip


class Replica:
    """A broker: the node is made again at each start, its files stay."""

    def __init__(self, world: "World", broker_id: int) -> None:
        self.world = world
        self.id = broker_id
        self.node = self._start()

    def _start(self) -> Node:
        limits = FetchLimits(WAIT_MS, 1, 300, replica_id=self.id)
        settings = FetcherSettings(limits, 200, WAIT_MS)
        node = Node(
            self.world.path / str(self.id), LogConfig(segment_bytes=500), broker_id=self.id, clock=self.world.clock
        )
        context = fetcher_context(node, throttles(self.id, node.clock), settings)
        self.fetchers = ReplicaFetchers(self.id, context, lambda _: self)
        fetchers = self.fetchers
        node.replicas.follow_by(lambda: fetchers)
        node.replicas.change_isr_by(lambda: self)
        node.replicas.change_isr_by(lambda: self)
        self.is_alive = True
        return node

    def kill(self) -> None:
        self.is_alive = False
        self.fetchers.close()
        self.node.logs.abandon()

    def restart(self) -> None:
        self.node = self._start()

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """As ``BrokerChannel``."""
        await asyncio.sleep(0)
        leader = self._reached(broker_id)
        if isinstance(request, FetchRequest):
            response = answer_from(leader.node, request)
            if not has_news(response):  # type: ignore[arg-type]  # it is one of a Fetch
                await self.world.clock.sleep(WAIT_MS)
            else:
                await asyncio.sleep(0)
            return answer_from(self._reached(broker_id).node, request)
        return answer_from(leader.node, request)

    def _reached(self, broker_id: int) -> "Replica":
        leader = self.world.replicas[broker_id]
        if not (leader.is_alive and self.is_alive) or self.id in self.world.cut or broker_id in self.world.cut:
            raise PeerUnreachableError("the link is down")
        return leader

    def propose(self, partition: Partition, proposal: LeaderIsr) -> None:
        """As ``IsrWriter``: the controller answers at another time, or at once if it is in a hurry."""
        self.world.proposals.append((self, partition, proposal))
        if self.world.is_hurried:
            asyncio.get_running_loop().call_soon(self.world.answer)


class World:
    """The replicas and their controller, which is always right and knows at once who is alive."""

    def __init__(self, path: Path, *, unclean: bool) -> None:
        self.path = path
        self.unclean = unclean
        self.clock = ManualClock()
        self.cut: set[int] = set()
        self.deaf: set[int] = set()
        """Brokers that the controller does not reach."""
        self.proposals: list[tuple[Replica, Partition, LeaderIsr]] = []
        self.is_hurried = False
        self.lacking: list[int] = []
        """Replicas that lacked committed records when they joined the in-sync set."""
        self.state = LeaderIsr(1, 0, BROKERS, 1, 0)
        self.committed = b""
        self.produced = 0
        self.replicas = {broker_id: Replica(self, broker_id) for broker_id in BROKERS}
        self.tell(BROKERS)

    # the controller

    def tell(self, brokers: tuple[int, ...]) -> None:
        state = self.state
        for broker_id in brokers:
            replica = self.replicas[broker_id]
            known = replica.node.replicas.partitions.get(TP)
            if (
                replica.is_alive
                and broker_id not in self.deaf
                and (known is None or known.leader_epoch < state.leader_epoch)
            ):
                replica.node.replicas.become_leader_or_follower(
                    TP, LeaderAndIsrPartition(1, state.leader, state.leader_epoch, state.isr, state.zk_version, BROKERS)
                )

    def change(self, leader: int, isr: tuple[int, ...]) -> None:
        self.state = LeaderIsr(leader, self.state.leader_epoch + 1, isr, 1, self.state.zk_version + 1)
        self.tell(BROKERS)

    def elect(self) -> None:
        alive = tuple(each for each in BROKERS if self.replicas[each].is_alive)
        in_sync = tuple(each for each in self.state.isr if each in alive)
        if in_sync:
            self.change(in_sync[0], in_sync)
        elif alive and self.unclean:
            self.change(alive[0], alive[:1])
        else:
            self.change(-1, self.state.isr)

    def kill(self, broker_id: int) -> None:
        replica = self.replicas[broker_id]
        if not replica.is_alive:
            return
        replica.kill()
        if self.state.leader == broker_id:
            self.elect()
        elif self.state.leader >= 0 and broker_id in self.state.isr:
            self.change(self.state.leader, tuple(each for each in self.state.isr if each != broker_id))

    def restart(self, broker_id: int) -> None:
        replica = self.replicas[broker_id]
        if replica.is_alive:
            return
        replica.restart()
        self.deaf.discard(broker_id)
        self.tell((broker_id,))
        if self.state.leader < 0:
            self.elect()

    def prefer(self, broker_id: int) -> None:
        if self.replicas[broker_id].is_alive and broker_id in self.state.isr:
            self.change(broker_id, self.state.isr)

    def answer(self, _: int = 0) -> None:
        """The controller answers the leaders that have asked it."""
        proposals, self.proposals = self.proposals, []
        for replica, partition, proposal in proposals:
            current = self.state
            if not replica.is_alive or (proposal.leader_epoch, proposal.zk_version) != (
                current.leader_epoch,
                current.zk_version,
            ):
                continue
            self.state = current._replace(isr=proposal.isr, zk_version=current.zk_version + 1)
            self.lacking += [each for each in self.state.isr if self.lacks_committed(self.replicas[each])]
            replica.node.replicas.isr_written(partition, proposal, self.state)

    def hurry(self, broker_id: int) -> None:
        """Answer proposals at once from now on, or no longer."""
        self.is_hurried = broker_id != BROKERS[0]

    # the rest

    @property
    def leader(self) -> Partition | None:
        if self.state.leader < 0:
            return None
        return self.replicas[self.state.leader].node.replicas.partitions[TP]

    def leaders(self) -> list[Partition]:
        """All that take themselves for the leader."""
        known = [each.node.replicas.partitions.get(TP) for each in self.replicas.values() if each.is_alive]
        return [each for each in known if each is not None and each.is_leader]

    def produce(self, count: int) -> None:
        for leader in self.leaders():
            for _ in range(count):
                self.produced += 1
                leader.append(
                    batch(1 + self.produced % 3, producer_id=self.produced, producer_epoch=0, base_sequence=0)
                )

    def heal(self, broker_id: int) -> None:
        self.cut.discard(broker_id)
        self.deaf.discard(broker_id)
        self.tell((broker_id,))

    def checkpoint(self, broker_id: int) -> None:
        if self.replicas[broker_id].is_alive:
            self.replicas[broker_id].node.logs.checkpoint_high_watermarks()

    async def step(self, rounds: int) -> None:
        """Run some iterations of the event loop: a few messages arrive while the fetchers work."""
        for _ in range(rounds):
            await asyncio.sleep(0)

    async def run(self, duration_ms: int) -> None:
        for _ in range(5):
            for _ in range(30):
                await asyncio.sleep(0)
            self.clock.advance(duration_ms / 5)
        for replica in self.replicas.values():
            if replica.is_alive:
                for _ in replica.node.replicas.shrink_in_sync_sets():
                    ...

    def content(self, partition: Partition, up_to: int) -> bytes:
        log, found, offset = partition.log, b"", partition.log.log_start_offset
        while offset < up_to:
            part = bytes_of(log.read(offset, 1 << 20, up_to_offset=up_to).records)
            found += part
            last = log.segments.floor(offset)
            after = log.segments.starting_at(last + 1)
            offset = after[0].base_offset if after else up_to
        return found

    def check(self) -> None:
        """The records below a high watermark do not change."""
        for claimed in self.leaders():
            content = self.content(claimed, claimed.log.high_watermark)
            if len(content) > len(self.committed):
                assert content.startswith(self.committed), "two leaders have acknowledged different records"
                self.committed = content
        leader = self.leader
        if leader is not None:
            whole = self.content(leader, leader.log.log_end_offset)
            assert whole.startswith(self.committed), "a leader lacks what was committed"
        for replica in self.replicas.values():
            if replica.is_alive:
                partition = replica.node.replicas.partitions[TP]
                mine = self.content(partition, partition.log.high_watermark)
                assert self.committed.startswith(mine), "a follower shows what was never committed"
                if replica.id in self.state.isr:
                    assert not self.lacks_committed(replica), "a replica in sync lacks what was committed"
        assert not self.lacking, "a replica has joined the in-sync set without what was committed"

    def lacks_committed(self, replica: Replica) -> bool:
        """Whether a running replica has not all records that were below a leader's high watermark."""
        if not replica.is_alive or self.unclean:
            return False
        partition = replica.node.replicas.partitions[TP]
        leader = self.leader
        if leader is not None:
            self.committed = max(self.committed, self.content(leader, leader.log.high_watermark), key=len)
        return not self.content(partition, partition.log.log_end_offset).startswith(self.committed)

    async def end(self) -> None:
        """All is well again: every replica catches up and is in sync."""
        for broker_id in BROKERS:
            self.heal(broker_id)
            self.restart(broker_id)
        if self.state.leader < 0:
            self.elect()
        self.produce(1)
        for _ in range(40):
            await self.run(2 * WAIT_MS)
            self.answer()
            partitions = [each.node.replicas.partitions[TP] for each in self.replicas.values()]
            ends = {(each.log.log_end_offset, each.log.high_watermark) for each in partitions}
            if len(ends) == 1 and set(self.state.isr) == set(BROKERS):
                break
        contents = {self.content(each, each.log.log_end_offset) for each in partitions}
        assert len(ends) == 1, ends
        assert len(contents) == 1
        assert len({tuple(each.log.leader_epochs.entries) for each in partitions}) == 1
        assert set(self.state.isr) == set(BROKERS)


def play(events: list[Event], *, unclean: bool) -> None:
    async def scenario(path: Path) -> None:
        world = World(path, unclean=unclean)
        actions: dict[str, Callable[[int], None]] = {
            "produce": world.produce,
            "kill": world.kill,
            "restart": world.restart,
            "cut": world.cut.add,
            "heal": world.heal,
            "deafen": world.deaf.add,
            "prefer": world.prefer,
            "answer": world.answer,
            "hurry": world.hurry,
            "checkpoint": world.checkpoint,
        }
        for name, value in events:
            if name == "run":
                await world.run(value)
            elif name == "step":
                await world.step(value)
            else:
                actions[name](value)
            if not unclean:
                world.check()
        await world.end()
        if not unclean:
            world.check()
        for replica in world.replicas.values():
            replica.kill()
        await world.run(1)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(scenario(Path(directory)))


@pytest.mark.slow
@pytest.mark.parametrize("unclean", [False, True])
def test_random_histories(unclean: bool) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(EVENTS, max_size=40))
    def histories(events: list[Event]) -> None:
        play(events, unclean=unclean)

    histories()
