"""The controller's requests to brokers: gathered during an event, then one of a kind per broker, in Kafka's order.

First LeaderAndIsr to the replicas of a partition, then UpdateMetadata of the same partitions to every broker, then
StopReplica. Versions follow inter-broker protocol 2.7: LeaderAndIsr 4, UpdateMetadata 6, StopReplica 3; where topics
have ids (2.8, or no ZooKeeper) LeaderAndIsr 5 and UpdateMetadata 7.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from kafkapy.clock import Clock
from kafkapy.controller.context import ControllerContext, Replica
from kafkapy.metadata.image import SECURITY_PROTOCOL_IDS
from kafkapy.metadata.znodes import BrokerIdZNode
from kafkapy.network.peer import RETRY_MS, BrokerChannel, PeerUnreachableError
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from kafkapy.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from kafkapy.turns import Steps, pause
from kafkapy.types import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, NO_EPOCH, TopicPartition

logger = logging.getLogger(__name__)

LEADER_AND_ISR_VERSION: Final = 4
LEADER_AND_ISR_VERSION_WITH_IDS: Final = 5
UPDATE_METADATA_VERSION: Final = 6
UPDATE_METADATA_VERSION_WITH_IDS: Final = 7
STOP_REPLICA_VERSION: Final = 3


class Outgoing(NamedTuple):
    """A request to a broker, and its version."""

    broker: int
    request: Message
    version: int


def replica_errors(
    request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the error code of each partition; from version 5 on the response has ids, whose names the request has."""
    for found in response.partition_errors:
        yield TopicPartition(found.topic_name, found.partition_index), found.error_code
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    for topic in response.topics:
        if topic.topic_id in names:
            for found in topic.partition_errors:
                yield TopicPartition(names[topic.topic_id], found.partition_index), found.error_code


class RequestBatch:
    """Gathers the content of one event's requests; ``take`` empties it."""

    def __init__(self, context: ControllerContext, listener: str, *, with_topic_ids: bool = False) -> None:
        self._context = context
        self._leader_and_isr_version = LEADER_AND_ISR_VERSION_WITH_IDS if with_topic_ids else LEADER_AND_ISR_VERSION
        self._metadata_version = UPDATE_METADATA_VERSION_WITH_IDS if with_topic_ids else UPDATE_METADATA_VERSION
        self._listener = listener
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._metadata_brokers: set[int] = set()
        self._stop: dict[int, dict[TopicPartition, tuple[int, bool]]] = {}

    def add_leader_and_isr(self, brokers: Iterable[int], partition: TopicPartition, *, is_new: bool = False) -> None:
        """Send the partition's leader to these replicas, and its metadata to all brokers."""
        for broker in brokers:
            if broker in self._context.brokers:
                known = self._leader_and_isr.setdefault(broker, {})
                known[partition] = is_new or known.get(partition, False)
        self.add_update_metadata(self._context.brokers, [partition])

    def add_update_metadata(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Send the live brokers and these partitions to these brokers."""
        self._metadata_brokers.update(broker for broker in brokers if broker in self._context.brokers)
        leadership = self._context.leadership
        self._metadata_partitions.update((found, None) for found in partitions if found in leadership)

    def add_stop_replica(self, replica: Replica, *, delete: bool) -> None:
        """Request a broker to stop its replica, and with ``delete`` to remove the files.

        The request has the leader epoch of this moment, which the replica may know; later changes are not sent to it.
        """
        if replica.broker in self._context.brokers:
            wanted = self._stop.setdefault(replica.broker, {})
            _, known = wanted.get(replica.partition, (NO_EPOCH, False))
            wanted[replica.partition] = self._stop_epoch(replica.partition), delete or known

    def take(self) -> Steps[list[Outgoing]]:
        """Return the requests, in the order in which they must be queued; a step is a partition.

        The requests of a cancelled event are still here: brokers and partitions that were removed since are left out.
        """
        requests = []
        brokers_now = self._context.brokers
        for broker, partitions in self._leader_and_isr.items():
            if broker not in brokers_now:
                continue
            order = yield from self._leader_and_isr_request(broker, partitions)
            requests.append(Outgoing(broker, order, self._leader_and_isr_version))
        if self._metadata_brokers:
            topics, brokers = (yield from self._topic_states()), self._live_brokers()
            requests += [
                Outgoing(broker, self._update_metadata_request(broker, topics, brokers), self._metadata_version)
                for broker in sorted(self._metadata_brokers)
                if broker in brokers_now
            ]
        for broker, stopped in self._stop.items():
            if broker not in brokers_now:
                continue
            stop = yield from self._stop_replica_request(broker, stopped)
            requests.append(Outgoing(broker, stop, STOP_REPLICA_VERSION))
        for gathered in (self._leader_and_isr, self._metadata_partitions, self._metadata_brokers, self._stop):
            gathered.clear()
        return requests

    def _leader_and_isr_request(
        self, broker: int, partitions: dict[TopicPartition, bool]
    ) -> Steps[LeaderAndIsrRequest]:
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: dict[int, None] = {}
        for partition, is_new in partitions.items():
            yield
            if partition not in self._context.leadership:
                continue
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = LeaderAndIsrTopicState(name, self._context.topic_id(name))
            topic.partition_states.append(self._leader_and_isr_state(partition, is_new=is_new))
            leaders[self._context.leadership[partition].leader] = None
        return LeaderAndIsrRequest(
            controller_id=self._context.controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            topic_states=list(topics.values()),
            live_leaders=[self._live_leader(leader) for leader in leaders if leader in self._context.brokers],
        )

    def _leader_and_isr_state(self, partition: TopicPartition, *, is_new: bool) -> LeaderAndIsrPartitionState:
        state, assigned = self._context.leadership[partition], self._context.assignment(partition)
        return LeaderAndIsrPartitionState(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            partition_epoch=state.zk_version,
            replicas=list(assigned.replicas),
            adding_replicas=list(assigned.adding),
            removing_replicas=list(assigned.removing),
            is_new=is_new,
        )

    def _live_leader(self, broker: int) -> LeaderAndIsrLiveLeader:
        endpoint = self._context.brokers[broker].endpoint(self._listener)
        return LeaderAndIsrLiveLeader(broker_id=broker, host_name=endpoint.host, port=endpoint.port)

    def _topic_states(self) -> Steps[list[UpdateMetadataTopicState]]:
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in self._metadata_partitions:
            yield
            if partition not in self._context.leadership:
                continue
            name = partition.topic
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = UpdateMetadataTopicState(name, self._context.topic_id(name))
            topic.partition_states.append(self._metadata_state(partition))
        return list(topics.values())

    def _metadata_state(self, partition: TopicPartition) -> UpdateMetadataPartitionState:
        state = self._context.leadership[partition]
        deleting = partition.topic in self._context.topics_to_delete
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETE if deleting else state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.zk_version,
            replicas=list(self._context.assignment(partition).replicas),
            offline_replicas=self._context.offline_replicas(partition),
        )

    def _live_brokers(self) -> list[UpdateMetadataBroker]:
        return [_live_broker(broker.registration) for broker in self._context.brokers.values()]

    def _update_metadata_request(
        self, broker: int, topics: list[UpdateMetadataTopicState], brokers: list[UpdateMetadataBroker]
    ) -> UpdateMetadataRequest:
        return UpdateMetadataRequest(
            controller_id=self._context.controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            topic_states=topics,
            live_brokers=brokers,
        )

    def _stop_replica_request(
        self, broker: int, partitions: dict[TopicPartition, tuple[int, bool]]
    ) -> Steps[StopReplicaRequest]:
        topics: dict[str, StopReplicaTopicState] = {}
        for partition, (leader_epoch, delete) in partitions.items():
            yield
            topic = topics.setdefault(partition.topic, StopReplicaTopicState(topic_name=partition.topic))
            topic.partition_states.append(
                StopReplicaPartitionState(
                    partition_index=partition.partition,
                    leader_epoch=leader_epoch,
                    delete_partition=delete,
                )
            )
        return StopReplicaRequest(
            controller_id=self._context.controller_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker].epoch,
            topic_states=list(topics.values()),
        )

    def _stop_epoch(self, partition: TopicPartition) -> int:
        if partition.topic in self._context.topics_to_delete:
            return EPOCH_DURING_DELETE
        state = self._context.leadership.get(partition)
        return NO_EPOCH if state is None else state.leader_epoch


def _live_broker(broker: BrokerIdZNode) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener_name,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
    )


OnResponse = Callable[[Outgoing, Message], None]


class PeerQueues:
    """A queue of requests for each live broker; every response is passed to ``on_response(outgoing, response)``.

    If another broker does not answer, the same request is sent again without a limit: an attempt takes up to
    ``request.timeout.ms``, and the next one begins after ``RETRY_MS`` and the connection's back-off. A request to the
    controller's own broker is a call of the handler (``LocalChannel``), without a time limit. Later requests to the
    same broker wait; the queues of other brokers are not affected. A queue ends when the broker's registration is
    removed (``remove``) or the controller resigns (``remove_all``).
    """

    def __init__(self, channel: BrokerChannel, clock: Clock, on_response: OnResponse) -> None:
        self._channel = channel
        self._clock = clock
        self._on_response = on_response
        self._waiting: dict[int, deque[Outgoing]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}

    def send(self, outgoing: Outgoing) -> None:
        """Queue a request behind the earlier ones to the same broker."""
        broker = outgoing.broker
        self._waiting.setdefault(broker, deque()).append(outgoing)
        if broker not in self._senders:
            self._start(broker)

    def _start(self, broker: int, delay_ms: int = 0) -> None:
        sender = asyncio.create_task(self._drain(broker, delay_ms), name=f"controller-to-broker-{broker}")
        sender.add_done_callback(partial(self._ended, broker))
        self._senders[broker] = sender

    def _ended(self, broker: int, sender: "asyncio.Task[None]") -> None:
        """Continue after an unexpected exception, as Apache Kafka does.

        A request whose sending failed is sent again; one whose response could not be handled is not.
        """
        error = None if sender.cancelled() else sender.exception()
        if error is not None and self._senders.get(broker) is sender:
            logger.error("A request to broker %d, or its response, failed; the queue continues", broker, exc_info=error)
            self._start(broker, RETRY_MS)

    def remove(self, broker: int) -> None:
        """Drop the requests that a broker has not answered: it is no longer registered."""
        self._waiting.pop(broker, None)
        sender = self._senders.pop(broker, None)
        if sender is not None:
            sender.cancel()

    def remove_all(self) -> None:
        """Drop all requests, and send none any more."""
        for broker in list(self._senders):
            self.remove(broker)

    async def _drain(self, broker: int, delay_ms: int) -> None:
        if delay_ms:
            await self._clock.sleep(delay_ms)
        waiting = self._waiting[broker]
        while waiting:
            await pause()
            response = await self._deliver(waiting[0])
            self._on_response(waiting.popleft(), response)
        del self._senders[broker]

    async def _deliver(self, outgoing: Outgoing) -> Message:
        while True:
            try:
                return await self._channel.send(outgoing.broker, outgoing.request, outgoing.version)
            except (PeerUnreachableError, ProtocolError) as error:
                logger.warning("Broker %d did not answer the controller, trying again: %s", outgoing.broker, error)
                await self._clock.sleep(RETRY_MS)
