"""The state machine of partitions: first leaders, elections, and their writes and requests.

**States** (``states.py`` has the table of transitions):

    NonExistent   the partition is not assigned, or its topic has been deleted
    New           it is assigned and has never had a leader: the store holds no state of it
    Online        the store names a leader that is alive
    Offline       it has had a leader, which is not alive any more, and has no other one yet: for the moment before
                  an election, or for longer if no live replica may lead

A partition that stays Offline can't be read or written. It is Online again after the next election that finds a
leader: when a broker joins or another one fails, or when an unclean election is requested.

**Order of events** when a partition gets its first leader:

1. ``TopicAdmin`` writes ``/config/topics/<topic>`` and ``/brokers/topics/<topic>``, the assignment, and waits.
2. The watch on ``/brokers/topics`` puts an event into the controller's queue. The event loads the assignment and
   enters the partitions as New, and their replicas too (``ReplicaMachine.start_new``).
3. ``_start_new`` creates ``…/partitions/<n>/state``: the first live replica leads, the live ones are in sync, its
   epoch is 0. The write checks the version of ``/controller_epoch``, as every write of the controller does.
4. Only when the store has confirmed the write is the partition Online, and LeaderAndIsr for its replicas and
   UpdateMetadata for all brokers are added to the batch. The event ends with sending the batch.

**An election** (``elect``) takes the state that this controller has read or written last, chooses a leader
(``elections.py``: pure functions), writes it with the next leader epoch and the version of that state, and sends the
same two requests. If the store has another version, because a leader with an older protocol has changed its in-sync
replicas itself, the state is read and the election repeated; the same if no leader can be elected by the known state.
A partition without an elected leader stays as it is.

**What a crash leaves.** The store is always ahead of the brokers, so the next controller loads it and continues:

- after 1: an assignment without states; the partitions start as New and get their leaders (``set_initial_states``,
  ``give_missing_leaders``);
- after 3, or between the write of an election and its requests: states that no broker has received. The new controller
  sends the state of every partition to every broker when it starts; brokers ignore leader epochs that they know
  already.
- A controller that has been replaced without noticing it cannot write: the check of ``/controller_epoch`` fails
  (ControllerMovedError), and brokers refuse its requests by their controller epoch.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.topic_keys import TOPIC_KEYS
from kafkapy.controller.context import ControllerContext, ControllerMovedError, ControllerWriter, Replica
from kafkapy.controller.elections import INITIAL_LEADER_EPOCH, Elected, elect_offline
from kafkapy.controller.requests import RequestBatch
from kafkapy.controller.states import PartitionState
from kafkapy.metadata.store import BadVersionError, Create, Node, NodeStat, SetData
from kafkapy.metadata.znodes import (
    ConfigEntity,
    ConfigZNode,
    ForeignDataError,
    LeaderIsr,
    PartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    decoded,
)
from kafkapy.turns import OneByOne
from kafkapy.types import TopicPartition

Election = Callable[[TopicPartition, LeaderIsr], Elected | None]
UNCLEAN_KEY: Final = "unclean.leader.election.enable"

logger = logging.getLogger(__name__)


class PartitionMachine:
    """Changes the state of partitions. ``unclean_default`` is the broker's ``unclean.leader.election.enable``."""

    def __init__(
        self, context: ControllerContext, writer: ControllerWriter, batch: RequestBatch, *, unclean_default: bool
    ) -> None:
        self._context = context
        self._writer = writer
        self._batch = batch
        self._unclean_default = unclean_default

    async def set_initial_states(self) -> None:
        """Set the states from the loaded leaders."""
        states = self._context.partition_states
        async for partition in OneByOne(self._context.partitions()):
            leadership = self._context.leadership.get(partition)
            if leadership is None:
                states[partition] = PartitionState.NEW
            elif self._context.is_online(Replica(partition, leadership.leader), include_stopping=True):
                states[partition] = PartitionState.ONLINE
            else:
                states[partition] = PartitionState.OFFLINE

    async def give_missing_leaders(self) -> None:
        """``give_leaders`` for every partition without one."""
        waiting = self._context.partitions_in(PartitionState.NEW) + self._context.partitions_in(PartitionState.OFFLINE)
        await self.give_leaders(waiting)

    async def give_leaders(self, partitions: Sequence[TopicPartition]) -> None:
        """Set first leaders for new partitions, elect leaders for those whose leader failed."""
        states = self._context.partition_states
        await self._start_new([found for found in partitions if states.get(found) is PartitionState.NEW])
        leaderless = [found for found in partitions if states.get(found) is PartitionState.OFFLINE]
        if leaderless:
            await self.elect(leaderless, await self._offline_election(leaderless))

    async def elect(self, partitions: Sequence[TopicPartition], election: Election) -> None:
        """Hold an election for each partition; one for which no leader is elected stays as it is, with a warning."""
        known = self._context.leadership
        remaining = await self._elect_from({found: known[found] for found in partitions if found in known}, election)
        remaining += [found for found in partitions if found not in known]
        while remaining:
            remaining = await self._elect_from(await self.read_states(remaining), election, are_current=True)

    async def next_epoch(self, partitions: Sequence[TopicPartition]) -> None:
        """Take the next leader epoch for each partition that has a state; leader and ISR stay. Sends nothing."""
        remaining = list(partitions)
        while remaining:
            following = {}
            async for partition, state in OneByOne((await self.read_states(remaining)).items()):
                epoch = state.leader_epoch + 1
                following[partition] = state._replace(leader_epoch=epoch, controller_epoch=self._context.epoch)
            remaining = await self.write_states(following, self._context.leadership.__setitem__)

    async def _start_new(self, partitions: Sequence[TopicPartition]) -> None:
        states: dict[TopicPartition, LeaderIsr] = {}
        async for partition in OneByOne(partitions):
            isr = tuple(self._context.online_replicas(partition))
            if isr:
                states[partition] = LeaderIsr(isr[0], INITIAL_LEADER_EPOCH, isr, self._context.epoch)
            else:
                logger.error("Partition %s has no leader: none of its replicas is alive", partition)
        parents = [Create(TopicPartitionsZNode.path(topic)) for topic in dict.fromkeys(found.topic for found in states)]
        partition_nodes, creates = [], []
        async for partition, state in OneByOne(states.items()):
            partition_nodes.append(Create(TopicPartitionZNode.path(partition)))
            creates.append(Create(PartitionStateZNode.path(partition), PartitionStateZNode.encode(state)))
        results = await self._writer.write([*parents, *partition_nodes, *creates])
        async for (partition, state), result in OneByOne(zip(states.items(), results[-len(states) :], strict=True)):
            if isinstance(result, str):
                self._lead(partition, state, is_new=True)
            else:
                logger.error("Partition %s could not be started: %r", partition, result)

    async def _elect_from(
        self, states: Mapping[TopicPartition, LeaderIsr], election: Election, *, are_current: bool = False
    ) -> list[TopicPartition]:
        """Elect by these states, which have just been read if they ``are_current``; return the partitions to read."""
        chosen: dict[TopicPartition, LeaderIsr] = {}
        unclear: list[TopicPartition] = []
        async for partition, state in OneByOne(states.items()):
            self._check_epoch(partition, state)
            elected = election(partition, state)
            if elected is not None:
                epoch = state.leader_epoch + 1
                chosen[partition] = LeaderIsr(elected.leader, epoch, elected.isr, self._context.epoch, state.zk_version)
            elif are_current:
                logger.warning("No new leader was elected for partition %s (in sync: %s)", partition, list(state.isr))
            else:
                unclear.append(partition)
        return unclear + await self.write_states(chosen, self._lead)

    async def read_states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderIsr]:
        """Return the states in the store, since leaders with older protocols may have changed them.

        A partition without a state that can be read is left out. Raises ControllerMovedError.
        """
        asked = list(partitions)
        nodes = await self._writer.store.get_many([PartitionStateZNode.path(found) for found in asked])
        states = {}
        async for partition, node in OneByOne(zip(asked, nodes, strict=True)):
            state = decoded_state(partition, node)
            if state is not None:
                self._check_epoch(partition, state)
                states[partition] = state
        return states

    def _check_epoch(self, partition: TopicPartition, state: LeaderIsr) -> None:
        if state.controller_epoch > self._context.epoch:
            raise ControllerMovedError(f"{partition} was written by controller epoch {state.controller_epoch}")

    async def write_states(
        self, states: dict[TopicPartition, LeaderIsr], written: Callable[[TopicPartition, LeaderIsr], None]
    ) -> list[TopicPartition]:
        """Write states at their ``zk_version``, call ``written`` for each; return those that had changed meanwhile."""
        writes = []
        async for partition, state in OneByOne(states.items()):
            path = PartitionStateZNode.path(partition)
            writes.append(SetData(path, PartitionStateZNode.encode(state), state.zk_version))
        results = await self._writer.write(writes)
        again = []
        async for (partition, state), result in OneByOne(zip(states.items(), results, strict=True)):
            if isinstance(result, NodeStat):
                written(partition, state._replace(zk_version=result.version))
            elif isinstance(result, BadVersionError):
                again.append(partition)
            else:
                logger.error("The state of partition %s could not be written: %r", partition, result)
        return again

    def _lead(self, partition: TopicPartition, state: LeaderIsr, *, is_new: bool = False) -> None:
        self._context.leadership[partition] = state
        self._context.move_partition(partition, PartitionState.ONLINE)
        replicas = self._context.assignment(partition).replicas
        recipients = state.isr if is_new else [broker for broker in replicas if broker in self._context.brokers]
        self._batch.add_leader_and_isr(recipients, partition, is_new=is_new)

    async def _offline_election(self, partitions: Sequence[TopicPartition]) -> Election:
        stuck = set()
        async for found in OneByOne(partitions):
            if not set(self._context.online_replicas(found)).intersection(self._context.leadership[found].isr):
                stuck.add(found.topic)
        unclean = await self._unclean_topics(sorted(stuck))

        def election(partition: TopicPartition, state: LeaderIsr) -> Elected | None:
            replicas = self._context.assignment(partition).replicas
            online = self._context.online_replicas(partition)
            return elect_offline(replicas, state.isr, online, unclean=partition.topic in unclean)

        return election

    async def _unclean_topics(self, topics: Sequence[str]) -> set[str]:
        paths = [ConfigZNode.path(ConfigEntity.topic(topic)) for topic in topics]
        allowed = set()
        for topic, path, node in zip(topics, paths, await self._writer.store.get_many(paths), strict=True):
            try:
                override = None if node is None else decoded(path, node.data, ConfigZNode.decode).get(UNCLEAN_KEY)
                is_allowed = self._unclean_default if override is None else TOPIC_KEYS[UNCLEAN_KEY].parse(override)
            except (ForeignDataError, InvalidConfigError) as error:
                logger.error("Topic %s has no unclean elections: %s", topic, error)
                continue
            if is_allowed:
                allowed.add(topic)
        return allowed


def decoded_state(partition: TopicPartition, node: Node | None) -> LeaderIsr | None:
    """Return the state in ``node``; None if there is no node or, with an error in the log, if it can't be read."""
    if node is None:
        return None
    path, version = PartitionStateZNode.path(partition), node.stat.version
    try:
        return decoded(path, node.data, lambda data: PartitionStateZNode.decode(data, version))
    except ForeignDataError as error:
        logger.error("The state of partition %s can't be read: %s", partition, error)
        return None
