"""The work of the active controller: loading the cluster's state after its election, and handling each event."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.controller.context import ControllerContext, ControllerWriter, LiveBroker, Replica
from kafkapy.controller.leader_elections import LeaderElections
from kafkapy.controller.partition_machine import PartitionMachine, decoded_state
from kafkapy.controller.reassignment import Reassignments
from kafkapy.controller.replica_machine import ReplicaMachine
from kafkapy.controller.requests import Outgoing, PeerQueues, RequestBatch, replica_errors
from kafkapy.controller.states import PartitionState
from kafkapy.controller.topic_deletion import TOPICS_TOGETHER, TopicDeletion
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    FencedLeaderEpochError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownTopicOrPartitionError,
)
from kafkapy.metadata.store import Delete, MetadataStore, SetData, StoreError, Watch, WatchEvent
from kafkapy.metadata.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    DeleteTopicsZNode,
    DeleteTopicZNode,
    ForeignDataError,
    IsrChangeNotificationZNode,
    LeaderIsr,
    LogDirEventNotificationZNode,
    PartitionStateZNode,
    PreferredElectionZNode,
    ReassignPartitionsZNode,
    TopicsZNode,
    TopicZNode,
    decoded,
    new_topic_id,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ZERO_UUID, Message
from kafkapy.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kafkapy.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from kafkapy.turns import OneByOne, in_turns
from kafkapy.types import TopicPartition

_Note = TypeVar("_Note")

logger = logging.getLogger(__name__)


class Watchers:
    """The controller's watches; each callable puts an event into its queue."""

    def __init__(self, enqueue: Callable[[str, str], None]) -> None:
        def watcher(kind: str) -> Watch:
            def watch(event: WatchEvent) -> None:
                enqueue(kind, event.path)

            return watch

        self.brokers = watcher("brokers")
        self.topics = watcher("topics")
        self.partitions = watcher("partitions")
        self.deletions = watcher("deletions")
        self.log_dir_events = watcher("log directories")
        self.preferred_elections = watcher("preferred leaders")
        self.reassignments = watcher("reassignments")
        self.isr_changes = watcher("in-sync replicas")


class ActiveController:
    """The handlers of events. Made at election, dropped at resignation; one event at a time calls one method.

    All of them raise ControllerMovedError when another broker has taken over.
    """

    def __init__(
        self,
        context: ControllerContext,
        store: MetadataStore,
        peers: PeerQueues,
        watchers: Watchers,
        config: BrokerConfig,
    ) -> None:
        self.context = context
        self._store = store
        self._peers = peers
        self._watchers = watchers
        self._config = config
        writer = self._writer = ControllerWriter(store, context)
        batch = self._batch = RequestBatch(context, config.controller_listener, with_topic_ids=config.has_topic_ids)
        unclean = config.flag("unclean.leader.election.enable")
        self._partitions = PartitionMachine(context, writer, batch, unclean_default=unclean)
        self._replicas = ReplicaMachine(context, self._partitions, batch)
        self._deletion = TopicDeletion(context, writer, self._replicas, batch, self._flush)
        self.elections = LeaderElections(context, writer, self._partitions, self._replicas, batch, self._flush)
        self.reassignments = Reassignments(context, writer, self._partitions, self._replicas, batch, self._flush)

    async def start_as_controller(self) -> None:
        """Load the cluster's state, tell all brokers who is alive, elect missing leaders, then send all states.

        At the end take the replicas of dead brokers out of the in-sync sets, and continue moves and deletions.
        """
        await self._delete_notifications()
        await self._store.children(LogDirEventNotificationZNode.PATH, self._watchers.log_dir_events)
        await self._store.children(IsrChangeNotificationZNode.PATH, self._watchers.isr_changes)
        self.context.brokers = await self._read_brokers()
        restarted = await self._load_topics(await self._store.children(TopicsZNode.PATH, self._watchers.topics))
        deletions = await self._store.children(DeleteTopicsZNode.PATH, self._watchers.deletions)
        self.context.topics_to_delete.update(topic for topic in deletions if topic in self.context.assignments)
        await self._send_metadata(self.context.brokers, ())  # no partitions yet
        online, offline = await self._replicas.set_initial_states()
        await self._partitions.set_initial_states()
        # These leaders have restarted while there was no controller. A leader that has lost unflushed records in a
        # power failure must not write others in the same epoch: its followers would take them for those that they have.
        # 2.7.2 keeps the epoch.
        await self._partitions.next_epoch(restarted)
        # Elections come first, since clients wait for them. 2.7.2 first writes leader -1 for these partitions.
        await self._partitions.give_missing_leaders()
        await self._flush()
        await self._replicas.bring_online(online)
        await self._flush()
        await self._replicas.take_offline([found for found in offline if not self._is_going(found)])
        await self._flush()
        await self.reassignments.resume()
        await self.reassignments_requested()
        await self.deletions_changed()
        await self.preferred_leaders_requested()

    async def brokers_changed(self) -> None:
        """Brokers have registered, disappeared, or come back under a new epoch."""
        before, now = self.context.brokers, await self._read_brokers()
        joined = [broker for broker in now if broker not in before]
        gone = [broker for broker in before if broker not in now]
        bounced = [broker for broker in now if broker in before and now[broker].epoch != before[broker].epoch]
        moved = [
            broker
            for broker in now
            if broker in before
            and broker not in bounced
            and now[broker].registration.endpoints != before[broker].registration.endpoints
        ]
        for broker in gone + bounced:
            self._peers.remove(broker)
        self.context.brokers = {**before, **{broker: now[broker] for broker in joined + moved}}
        if joined:
            await self._brokers_started(joined)
        if bounced:
            await self._brokers_failed(bounced)
            self.context.brokers |= {broker: now[broker] for broker in bounced}
            await self._brokers_started(bounced)
        if gone:
            await self._brokers_failed(gone)
        if moved:
            await self._send_metadata(self.context.brokers, ())

    async def topics_changed(self) -> None:
        """Topics have been created or deleted."""
        names = await self._store.children(TopicsZNode.PATH, self._watchers.topics)
        async for topic in OneByOne(self.context.assignments.keys() - set(names)):
            self.context.forget_topic(topic)
        created = [name for name in names if name not in self.context.assignments]
        for start in range(0, len(created), TOPICS_TOGETHER):
            topics = await self._read_topics(created[start : start + TOPICS_TOGETHER])
            for topic, znode in topics.items():
                self.context.take_topic(topic, znode)
            await self._start_partitions(list(self.context.partitions(topics)))

    async def partitions_changed(self, topic: str) -> None:
        """A topic has more partitions."""
        known = self.context.assignments.get(topic)
        read = await self._read_topics([topic])
        if known is None or topic not in read or topic in self.context.topics_to_delete:
            return
        if read[topic].topic_id != ZERO_UUID:
            self.context.topic_ids[topic] = read[topic].topic_id
        added = {index: found for index, found in read[topic].partitions.items() if index not in known}
        self.context.assign(topic, {**known, **added})
        await self._start_partitions([TopicPartition(topic, index) for index in added])

    async def deletions_changed(self) -> None:
        """The deletion of topics has been requested."""
        topics = await self._store.children(DeleteTopicsZNode.PATH, self._watchers.deletions)
        unknown = [topic for topic in topics if topic not in self.context.assignments]
        if not self._config.flag("delete.topic.enable"):
            unknown = topics
        await self._writer.write([Delete(DeleteTopicZNode.path(topic)) for topic in unknown])
        await self._deletion.enqueue(topic for topic in topics if topic not in unknown)
        await self.reassignments.topics_are_going()

    async def preferred_leaders_requested(self) -> None:
        """The znode of the legacy tool for preferred leaders has been written or deleted; elect if it is there."""
        path = PreferredElectionZNode.PATH
        if await self._store.exists(path, self._watchers.preferred_elections) is not None:
            await self.elections.elect_requested()

    async def reassignments_requested(self) -> None:
        """The znode of the legacy tool for reassignments has been written or deleted; serve it if it is there."""
        path = ReassignPartitionsZNode.PATH
        if await self._store.exists(path, self._watchers.reassignments) is not None:
            await self.reassignments.serve_requests()

    async def log_directories_failed(self) -> None:
        """Data directories of brokers have failed: the brokers' LeaderAndIsr responses show the lost replicas."""
        parent, decode = LogDirEventNotificationZNode.PATH, LogDirEventNotificationZNode.decode
        notes = await self._read_notes(parent, self._watchers.log_dir_events, decode)
        brokers = {note.broker_id for note in notes.values()}
        replicas = self.context.replicas_on(brokers & self.context.brokers.keys())
        await self._replicas.bring_online([found for found in replicas if not self._is_going(found)])
        await self._flush()
        await self._writer.write([Delete(path) for path in notes])

    async def isr_changed(self) -> None:
        """Tell all brokers of states that leaders have written themselves (inter-broker protocol below 2.7-IV2)."""
        parent, decode = IsrChangeNotificationZNode.PATH, IsrChangeNotificationZNode.decode
        notes = await self._read_notes(parent, self._watchers.isr_changes, decode)
        changed = dict.fromkeys(chain.from_iterable(notes.values()))
        known = [found for found in changed if found in self.context.leadership]
        if known:
            self.context.leadership.update(await self._partitions.read_states(known))
            await self._send_metadata(self.context.brokers, known)
            await self.reassignments.complete(known)
        await self._writer.write([Delete(path) for path in notes])

    async def _read_notes(self, parent: str, watch: Watch, decode: Callable[[bytes | None], _Note]) -> dict[str, _Note]:
        """Path → note of each child of ``parent``; one that can't be read is left alone, with an error in the log."""
        paths = [f"{parent}/{name}" for name in sorted(await self._store.children(parent, watch))]
        notes = {}
        async for path, node in OneByOne(zip(paths, await self._store.get_many(paths), strict=True)):
            if node is not None:
                try:
                    notes[path] = decoded(path, node.data, decode)
                except ForeignDataError as error:
                    logger.error("A note to the controller is left out: %s", error)
        return notes

    async def alter_isr(
        self, broker: int, broker_epoch: int, proposals: Mapping[TopicPartition, LeaderIsr]
    ) -> dict[TopicPartition, LeaderIsr | BrokerError]:
        """Write the in-sync replicas that a leader proposes; return each partition's state, or why it is unchanged.

        Raises ``StaleBrokerEpochError`` unless ``broker_epoch`` is that of the broker's registration, as Kafka does.
        """
        live = self.context.brokers.get(broker)
        if live is None or live.epoch != broker_epoch:
            raise StaleBrokerEpochError(f"broker {broker} is not registered with epoch {broker_epoch}")
        answers: dict[TopicPartition, LeaderIsr | BrokerError] = {}
        changes: dict[TopicPartition, LeaderIsr] = {}
        async for partition, proposed in OneByOne(proposals.items()):
            known = self.context.leadership.get(partition)
            refusal = self._isr_refusal(partition, proposed, known)
            if refusal is not None:
                answers[partition] = refusal
            elif known is not None and proposed.isr == known.isr:
                answers[partition] = known
            else:
                changes[partition] = proposed._replace(controller_epoch=self.context.epoch)

        def written(partition: TopicPartition, state: LeaderIsr) -> None:
            self.context.leadership[partition] = answers[partition] = state

        for partition in await self._partitions.write_states(changes, written):
            answers[partition] = InvalidUpdateVersionError(f"{partition} was changed meanwhile")
        if changes:
            await self._send_metadata(self.context.brokers, changes)
        return answers

    def _isr_refusal(
        self, partition: TopicPartition, proposed: LeaderIsr, known: LeaderIsr | None
    ) -> BrokerError | None:
        if known is None:
            return UnknownTopicOrPartitionError(f"there is no {partition}")
        if proposed.leader_epoch < known.leader_epoch:
            return FencedLeaderEpochError(f"{partition} is at leader epoch {known.leader_epoch}")
        if proposed.leader_epoch > known.leader_epoch:
            return NotControllerError(f"{partition} is at leader epoch {known.leader_epoch} as far as is known here")
        if proposed.leader != known.leader or proposed.leader not in proposed.isr:
            return InvalidRequestError(f"{partition} is led by broker {known.leader}")
        if not set(proposed.isr) <= set(self.context.assignment(partition).replicas):
            return InvalidRequestError(f"{list(proposed.isr)} are not all replicas of {partition}")
        if proposed.isr != known.isr and proposed.zk_version != known.zk_version:
            return InvalidUpdateVersionError(f"the state of {partition} has version {known.zk_version}")
        return None

    async def answered(self, outgoing: Outgoing, response: Message) -> None:
        """A broker has answered a StopReplica that deletes, or a LeaderAndIsr."""
        if isinstance(response, LeaderAndIsrResponse):
            assert isinstance(outgoing.request, LeaderAndIsrRequest), "the response is that of LeaderAndIsr"
            await self._replicas_answered(outgoing.broker, dict(replica_errors(outgoing.request, response)))
            return
        assert isinstance(outgoing.request, StopReplicaRequest), "the controller waits for no other request"
        assert isinstance(response, StopReplicaResponse), "the response is that of StopReplica"
        errors = {(found.topic_name, found.partition_index): found.error_code for found in response.partition_errors}
        done: list[Replica] = []
        failed: list[Replica] = []
        async for topic in OneByOne(outgoing.request.topic_states):
            async for state in OneByOne(topic.partition_states):
                replica = Replica(TopicPartition(topic.topic_name, state.partition_index), outgoing.broker)
                code = response.error_code or errors.get(replica.partition, 0)
                if self._is_going(replica):  # nothing waits for the response after a reassignment
                    (failed if code else done).append(replica)
        if failed:
            await self._deletion.failed(failed)
        await self._deletion.deleted(done)

    def concerns_log_directories(self, broker: int, response: LeaderAndIsrResponse) -> bool:
        """Tell whether ``response`` may change the known state of the broker's data directories."""
        errors = chain(response.partition_errors, *(topic.partition_errors for topic in response.topics))
        return bool(self.context.on_offline_directories.get(broker)) or any(
            found.error_code == ErrorCode.KAFKA_STORAGE_ERROR for found in errors
        )

    async def _replicas_answered(self, broker: int, answers: Mapping[TopicPartition, int]) -> None:
        if broker not in self.context.brokers:
            return
        before = self.context.on_offline_directories.get(broker, set())
        offline = {found for found, code in answers.items() if code == ErrorCode.KAFKA_STORAGE_ERROR}
        # A broker that has this epoch already has the replica too: the request was sent twice, since an answer was
        # lost.
        present = (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
        online = {found for found, code in answers.items() if code in present}
        self.context.on_offline_directories[broker] = now = (before - online) | offline
        lost = [Replica(found, broker) for found in sorted(now - before)]
        if lost:
            logger.warning("Broker %d has lost %d replicas with a data directory", broker, len(lost))
            await self._replicas_failed(lost)
        back = sorted(found for found in before - now if found.topic not in self.context.topics_to_delete)
        if back:  # a disk that was full has space again; Apache Kafka waits for a restart of the broker
            logger.info("Broker %d has %d replicas again", broker, len(back))
            await self._partitions.give_leaders(back)
            await self._send_metadata(self.context.brokers, back)

    async def _brokers_started(self, brokers: Sequence[int]) -> None:
        await self._send_metadata([broker for broker in self.context.brokers if broker not in brokers], ())
        await self._send_metadata(brokers, self.context.partitions())
        await self._replicas.bring_online(
            [found for found in self.context.replicas_on(brokers) if not self._is_going(found)]
        )
        await self._flush()
        await self._partitions.give_missing_leaders()
        await self._flush()
        await self.reassignments.resume(brokers)
        await self._deletion.broker_is_back(brokers)

    async def _brokers_failed(self, brokers: Sequence[int]) -> None:
        self.context.brokers = {id_: found for id_, found in self.context.brokers.items() if id_ not in brokers}
        self.context.stopping.difference_update(brokers)
        for broker in brokers:
            self.context.on_offline_directories.pop(broker, None)
        await self._replicas_failed(self.context.replicas_on(brokers))

    async def _replicas_failed(self, replicas: Sequence[Replica]) -> None:
        gone = set(replicas)
        leaderless = [
            partition
            for partition, state in self.context.leadership.items()
            if Replica(partition, state.leader) in gone and partition.topic not in self.context.topics_to_delete
        ]
        async for partition in OneByOne(leaderless):
            self.context.move_partition(partition, PartitionState.OFFLINE)
        await self._partitions.give_missing_leaders()
        await self._flush()
        await self._replicas.take_offline([found for found in replicas if not self._is_going(found)])
        await self._flush()
        if not leaderless:
            await self._send_metadata(self.context.brokers, ())
        await self._deletion.broker_is_gone(found for found in replicas if self._is_going(found))

    async def _start_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        replicas = self.context.replicas(partitions)
        async for partition in OneByOne(partitions):
            self.context.move_partition(partition, PartitionState.NEW)
        await self._replicas.start_new(replicas)
        await self._partitions.give_leaders(partitions)
        await self._replicas.finish_new(replicas)
        await self._flush()

    async def _load_topics(self, topics: Sequence[str]) -> list[TopicPartition]:
        """Load topics; return the partitions with followers whose leader has registered again since it was elected."""
        restarted = []
        for topic, znode in (await self._read_topics(topics)).items():
            self.context.take_topic(topic, znode)
        partitions_ = list(self.context.partitions())
        nodes = await self._store.get_many([PartitionStateZNode.path(found) for found in partitions_])
        async for partition, node in OneByOne(zip(partitions_, nodes, strict=True)):
            state = decoded_state(partition, node)
            if node is None or state is None:
                continue
            self.context.leadership[partition] = state
            leader = self.context.brokers.get(state.leader)
            has_followers = len(self.context.assignment(partition).replicas) > 1
            if has_followers and leader is not None and leader.epoch > node.stat.mzxid:
                restarted.append(partition)
        return restarted

    async def _read_topics(self, topics: Sequence[str]) -> dict[str, TopicZNode]:
        """Read the assignments of topics; topics without an id get one, if the cluster has ids."""
        nodes = await self._store.get_many([TopicZNode.path(topic) for topic in topics], self._watchers.partitions)
        read: dict[str, TopicZNode] = {}
        without_id: dict[str, int] = {}
        async for topic, node in OneByOne(zip(topics, nodes, strict=True)):
            if node is None:
                continue
            try:
                read[topic] = decoded(TopicZNode.path(topic), node.data, TopicZNode.decode)
            except ForeignDataError as error:
                logger.error("The assignment of topic %s can't be read, the topic is left alone: %s", topic, error)
                continue
            if read[topic].topic_id == ZERO_UUID and self._config.has_topic_ids:
                without_id[topic] = node.stat.version
        if without_id:
            await self._give_ids(read, without_id)
        return read

    async def _give_ids(self, read: dict[str, TopicZNode], versions: Mapping[str, int]) -> None:
        """Write an id into the nodes of topics that have none: a broker or tool of an older release wrote them.

        A node that was changed meanwhile keeps its content: its watch brings the topic back.
        """
        known = self.context.topic_ids
        given = {topic: read[topic]._replace(topic_id=known.get(topic) or new_topic_id()) for topic in versions}
        writes = [SetData(TopicZNode.path(topic), znode.encode(), versions[topic]) for topic, znode in given.items()]
        outcomes = await self._writer.write(writes)
        read.update(
            each for each, outcome in zip(given.items(), outcomes, strict=True) if not isinstance(outcome, StoreError)
        )

    async def _read_brokers(self) -> dict[int, LiveBroker]:
        names = await self._store.children(BrokerIdsZNode.PATH, self._watchers.brokers)
        ids = sorted(int(name) for name in names if name.isdecimal())
        nodes = await self._store.get_many([BrokerIdZNode.path(id_) for id_ in ids], self._watchers.brokers)
        brokers = {}
        for id_, node in zip(ids, nodes, strict=True):
            if node is not None:
                try:
                    registration = decoded(BrokerIdZNode.path(id_), node.data, partial(BrokerIdZNode.decode, id_))
                except ForeignDataError as error:
                    logger.error("Broker %d is left out: %s", id_, error)
                else:
                    brokers[id_] = LiveBroker(registration, node.stat.czxid)
        return brokers

    async def _delete_notifications(self) -> None:
        paths = []
        for parent in (LogDirEventNotificationZNode.PATH, IsrChangeNotificationZNode.PATH):
            paths += [f"{parent}/{name}" for name in await self._store.children(parent)]
        await self._writer.write([Delete(path) for path in paths])

    def _is_going(self, replica: Replica) -> bool:
        return replica.partition.topic in self.context.topics_to_delete

    async def _send_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        self._batch.add_update_metadata(brokers, partitions)
        await self._flush()

    async def _flush(self) -> None:
        for outgoing in await in_turns(self._batch.take()):
            self._peers.send(outgoing)
