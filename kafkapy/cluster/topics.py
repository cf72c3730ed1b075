"""TopicAdmin: topics are created, deleted and extended by writing to the tree; the controller sees it and acts.

A request is answered when this broker's metadata shows the result, or with REQUEST_TIMED_OUT (7) when its time is
over; what was written stays and goes on.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import NamedTuple, Protocol

from kafkapy.clock import Clock
from kafkapy.cluster.assignment import Placement, assign_replicas
from kafkapy.cluster.config_znodes import ConfigEntity, ConfigZNode
from kafkapy.cluster.elections import NO_LEADER
from kafkapy.cluster.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    NotControllerError,
    ReassignmentInProgressError,
    RequestTimedOutError,
    TopicDeletionDisabledError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kafkapy.cluster.image import MetadataCache, MetadataImage
from kafkapy.cluster.store import (
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
    StoreClosedError,
    StoreError,
)
from kafkapy.cluster.topic_rules import (
    INTERNAL_TOPICS,
    check_added,
    check_assignment,
    check_collision,
    check_name,
    internal_topic_shape,
)
from kafkapy.cluster.topic_znodes import DeleteTopicZNode, ReplicaAssignment, TopicsZNode, TopicZNode
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import validate_topic_overrides
from kafkapy.errors import BrokerError

UNSET = -1
"""A number of partitions or replicas that is left to the broker's defaults, or given by an assignment."""

REMOVAL_MS = 500
"""How long the answer to a deletion waits for the last files; brokers that are away can make it take any time."""

Assignment = Mapping[int, ReplicaAssignment]


class NewTopic(NamedTuple):
    """A topic to create; ``assignments`` (partition → brokers) excludes the two numbers."""

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Mapping[int, Sequence[int]] = {}
    configs: Sequence[tuple[str, str | None]] = ()


class MorePartitions(NamedTuple):
    """A topic that shall have ``total`` partitions; ``assignments`` are the brokers of the new ones."""

    name: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicResult(NamedTuple):
    """What became of a topic: ``error`` None when it went well; the rest for those created."""

    name: str
    error: BrokerError | None = None
    partitions: int = UNSET
    replication_factor: int = UNSET
    configs: Mapping[str, str] = {}


class ControllerView(Protocol):
    """The controller's word."""

    @property
    def is_active(self) -> bool:
        """This broker is the controller."""
        ...

    def is_deleting(self, topic: str) -> bool:
        """The topic is on its way out."""
        ...


class TopicAdmin:
    """See above."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MetadataStore,
        metadata: MetadataCache,
        random: Random,
        controller: ControllerView,
    ) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._metadata = metadata
        self._random = random
        self._controller = controller

    async def create_topics(
        self, topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool = False
    ) -> list[TopicResult]:
        """Create what can be created; one result per name."""
        twice = {name for name, count in Counter(topic.name for topic in topics).items() if count > 1}
        results: dict[str, TopicResult] = {}
        writes: dict[str, list[Operation]] = {}
        for topic in topics:
            try:
                self._check_served(topic.name, twice)
                assignment = await self._plan(topic)
            except BrokerError as error:
                results[topic.name] = TopicResult(topic.name, error)
                continue
            overrides = {key: value for key, value in topic.configs if value is not None}
            factor = len(assignment[0].replicas)
            results[topic.name] = TopicResult(topic.name, None, len(assignment), factor, overrides)
            writes[topic.name] = await self._creation(topic.name, assignment, overrides)
        if not validate_only:
            results |= await self._create(writes, results)
            await self._wait_created([name for name in writes if results[name].error is None], timeout_ms, results)
        return list(results.values())

    async def delete_topics(self, names: Sequence[str], timeout_ms: int) -> list[TopicResult]:
        """Ask the controller to delete these; one result per name."""
        results = {name: TopicResult(name, self._why_not_deleted(name)) for name in names}
        wanted = [name for name in results if results[name].error is None]
        try:
            for outcome in await self._store.transactions([[Create(DeleteTopicZNode.path(name))] for name in wanted]):
                if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                    raise outcome
        except StoreClosedError as error:
            return [results[name] if name not in wanted else TopicResult(name, error) for name in results]
        started = self._clock.monotonic_s()
        for name in wanted:
            left_ms = timeout_ms - (self._clock.monotonic_s() - started) * 1000
            # who gives no time is told that it is over, whatever has come of it, as Kafka does
            gone = timeout_ms > 0 and await self._metadata.wait_until(_absent(name), left_ms, self._clock)
            if gone:
                await self._wait_removed(name, min(left_ms, REMOVAL_MS))
            else:
                results[name] = TopicResult(name, RequestTimedOutError())
        return list(results.values())

    async def create_partitions(
        self, topics: Sequence[MorePartitions], timeout_ms: int, *, validate_only: bool = False
    ) -> list[TopicResult]:
        """Add partitions; one result per name."""
        twice = {name for name, count in Counter(topic.name for topic in topics).items() if count > 1}
        results: dict[str, TopicResult] = {}
        added: list[str] = []
        for topic in topics:
            try:
                self._check_served(topic.name, twice)
                self._check_not_going(topic.name)
                znode = await self._extended(topic)
                if not validate_only:
                    await self._store.set(TopicZNode.path(topic.name), znode.encode())
                    added.append(topic.name)
            except BrokerError as error:
                results[topic.name] = TopicResult(topic.name, error)
                continue
            results[topic.name] = TopicResult(topic.name, None, topic.total)
        await self._wait_created(added, timeout_ms, results)
        return list(results.values())

    async def create_automatically(self, names: Sequence[str]) -> dict[str, BrokerError | None]:
        """Create topics that somebody asked for by name alone, internal ones in their own shape; any broker may.

        Does not wait: None means that the topic is on its way (or has just been created by somebody else).
        """
        outcomes: dict[str, BrokerError | None] = {}
        for name in names:
            try:
                outcomes[name] = await self._create_automatically(name)
            except BrokerError as error:
                outcomes[name] = error
        return outcomes

    async def _create_automatically(self, name: str) -> BrokerError | None:
        partitions = self._config.integer("num.partitions")
        factor = self._config.integer("default.replication.factor")
        overrides: dict[str, str] = {}
        if name in INTERNAL_TOPICS:
            partitions, factor, overrides = internal_topic_shape(name, self._config)
        assignment = assign_replicas(self._racks(), Placement(partitions, factor), self._random)
        check_name(name)
        existing = await self._store.children(TopicsZNode.PATH)
        if name in existing:
            return None
        check_collision(name, existing)
        outcome = (await self._store.transactions([await self._creation(name, assignment, overrides)]))[0]
        if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
            raise outcome
        return None

    def _check_served(self, name: str, twice: set[str]) -> None:
        if not self._controller.is_active:
            raise NotControllerError("Another broker is the controller now.")
        if name in twice:
            raise InvalidRequestError("The topic stands more than once in this request.")

    def _check_not_going(self, name: str) -> None:
        if self._controller.is_deleting(name):
            raise InvalidTopicError("The topic is being deleted.")

    async def _plan(self, topic: NewTopic) -> Assignment:
        if topic.name in self._metadata.image.topics:
            raise TopicExistsError(f"A topic '{topic.name}' already exists.")
        null = [key for key, value in topic.configs if value is None]
        if null:
            raise InvalidRequestError(f"Keys without a value: {','.join(null)}")
        numbers = (topic.partitions, topic.replication_factor)
        if topic.assignments and numbers != (UNSET, UNSET):
            raise InvalidRequestError(
                "Either numbers of partitions and replicas or an assignment can be given, not both."
            )
        assignment = self._placed(topic)
        check_name(topic.name)
        existing = await self._store.children(TopicsZNode.PATH)
        if topic.name in existing:
            raise TopicExistsError(f"A topic '{topic.name}' already exists.")
        check_collision(topic.name, existing)
        check_assignment({index: found.replicas for index, found in assignment.items()})
        validate_topic_overrides({key: value for key, value in topic.configs if value is not None})
        return assignment

    def _placed(self, topic: NewTopic) -> Assignment:
        if topic.assignments:
            return {index: ReplicaAssignment(tuple(brokers)) for index, brokers in topic.assignments.items()}
        partitions, factor = topic.partitions, topic.replication_factor
        if partitions == UNSET:
            partitions = self._config.integer("num.partitions")
        if factor == UNSET:
            factor = self._config.integer("default.replication.factor")
        return assign_replicas(self._racks(), Placement(partitions, factor), self._random)

    async def _creation(self, name: str, assignment: Assignment, overrides: Mapping[str, str]) -> list[Operation]:
        path, data = ConfigZNode.path(ConfigEntity.topic(name)), ConfigZNode.encode(overrides)
        left_over = await self._store.exists(path)
        config: Operation = Create(path, data) if left_over is None else SetData(path, data)
        return [config, Create(TopicZNode.path(name), TopicZNode(assignment).encode())]

    async def _create(
        self, writes: Mapping[str, list[Operation]], results: Mapping[str, TopicResult]
    ) -> dict[str, TopicResult]:
        try:
            outcomes = await self._store.transactions(writes.values())
        except StoreClosedError as error:
            return {name: TopicResult(name, error) for name in writes}
        changed = dict(results)
        for name, outcome in zip(writes, outcomes, strict=True):
            if isinstance(outcome, NodeExistsError):
                changed[name] = TopicResult(name, TopicExistsError(f"A topic '{name}' already exists."))
            elif isinstance(outcome, StoreError):
                raise outcome
        return changed

    async def _wait_created(self, names: Sequence[str], timeout_ms: int, results: dict[str, TopicResult]) -> None:
        started = self._clock.monotonic_s()
        for name in names:
            left_ms = timeout_ms - (self._clock.monotonic_s() - started) * 1000
            ready = _all_led(name, results[name].partitions)
            if timeout_ms <= 0 or not await self._metadata.wait_until(ready, left_ms, self._clock):
                results[name] = TopicResult(name, RequestTimedOutError())

    async def _wait_removed(self, name: str, timeout_ms: float) -> None:
        """Until the name is free again: Kafka answers earlier, and a topic of that name made at once is refused."""
        removed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(*_: object) -> None:
            if not removed.done():
                removed.set_result(None)

        if await self._store.exists(DeleteTopicZNode.path(name), finish):
            timer = self._clock.call_later(timeout_ms, finish)
            await removed
            timer.cancel()

    def _why_not_deleted(self, name: str) -> BrokerError | None:
        if not self._controller.is_active:
            return NotControllerError("Another broker is the controller now.")
        if not self._config.flag("delete.topic.enable"):
            return TopicDeletionDisabledError("Topic deletion is disabled (delete.topic.enable).")
        if name not in self._metadata.image.topics:
            return UnknownTopicOrPartitionError()
        return None

    async def _extended(self, topic: MorePartitions) -> TopicZNode:
        try:
            znode = TopicZNode.decode((await self._store.get(TopicZNode.path(topic.name))).data)
        except NoNodeError:
            raise UnknownTopicOrPartitionError(f"There is no topic '{topic.name}'.") from None
        if any(found.is_reassigning for found in znode.partitions.values()):
            raise ReassignmentInProgressError(f"Partitions of '{topic.name}' are being reassigned.")
        have = len(znode.partitions)
        if topic.total < have:
            raise InvalidPartitionsError(f"The topic has {have} partitions and can't go down to {topic.total}.")
        if topic.total == have:
            raise InvalidPartitionsError(f"The topic has {have} partitions already.")
        return TopicZNode({**znode.partitions, **self._added(topic, znode)}, znode.other)

    def _added(self, topic: MorePartitions, znode: TopicZNode) -> Assignment:
        have = len(znode.partitions)
        first, racks = znode.partitions[0].replicas, self._racks()
        if topic.assignments is None:
            brokers = sorted(racks)
            start = next((place for place, broker in enumerate(brokers) if broker >= first[0]), 0)
            placement = Placement(topic.total - have, len(first), start, have)
            return assign_replicas(racks, placement, self._random)
        if len(topic.assignments) != topic.total - have:
            raise InvalidReplicaAssignmentError(
                f"{topic.total - have} partitions are asked for, and replicas named for {len(topic.assignments)}."
            )
        added = dict(enumerate(topic.assignments, have))
        check_added(added, first, racks.keys())
        return {index: ReplicaAssignment(tuple(brokers)) for index, brokers in added.items()}

    def _racks(self) -> dict[int, str | None]:
        brokers = self._metadata.image.brokers
        return {id_: brokers[id_].rack for id_ in sorted(brokers)}


def _all_led(name: str, partitions: int) -> Callable[[MetadataImage], bool]:
    def ready(image: MetadataImage) -> bool:
        topic = image.topics.get(name)
        if topic is None or len(topic.partitions) < partitions:
            return False
        return all(found.leader != NO_LEADER for found in topic.partitions.values())

    return ready


def _absent(name: str) -> Callable[[MetadataImage], bool]:
    return lambda image: name not in image.topics
