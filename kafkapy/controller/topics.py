"""TopicAdmin creates, deletes and extends topics by writing to the tree; the controller reacts to the change.

A request is answered when this broker's metadata shows the result, or with REQUEST_TIMED_OUT (7) when its time is
over; the written change stays, and the controller completes it.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from random import Random
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from kafkapy import kafka_texts
from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import validate_topic_overrides
from kafkapy.controller.elections import Placement, assign_replicas, check_placement
from kafkapy.controller.limits import Admissions, CreationRate, ReplicaLimit
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    NotControllerError,
    ReassignmentInProgressError,
    RequestTimedOutError,
    ThrottlingQuotaExceededError,
    TopicDeletionDisabledError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from kafkapy.metadata.image import MetadataCache, MetadataImage
from kafkapy.metadata.store import (
    CLIENT_WAIT_MS,
    BadVersionError,
    Create,
    MetadataStore,
    Node,
    NodeExistsError,
    NoNodeError,
    Operation,
    SessionEndedError,
    SetData,
    StoreError,
    in_time,
)
from kafkapy.metadata.topic_rules import (
    INTERNAL_TOPICS,
    TopicNames,
    check_added,
    check_assignment,
    check_name,
    count_replicas,
    internal_topic_shape,
)
from kafkapy.metadata.znodes import (
    ConfigEntity,
    ConfigZNode,
    DeleteTopicZNode,
    ReplicaAssignment,
    TopicsZNode,
    TopicZNode,
    decoded,
    new_topic_id,
)
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.turns import OneByOne, in_turns
from kafkapy.types import NO_LEADER, TopicPartition

TOGETHER: Final = 500
"""The most topics that are written together: their plans are in memory until then."""

UNSET = -1
"""A number of partitions or replicas that is left to the broker's defaults, or given by an assignment."""

REMOVAL_MS = 500
"""The longest wait of a deletion's response for the last files, since a broker may never be live again."""

Assignment = Mapping[int, ReplicaAssignment]


class NewTopic(NamedTuple):
    """A topic to create; ``assignments`` (partition → brokers) excludes the two numbers."""

    name: str
    partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Mapping[int, Sequence[int]] = {}
    configs: Sequence[tuple[str, str | None]] = ()


class MorePartitions(NamedTuple):
    """A topic to extend to ``total`` partitions; ``assignments`` are the brokers of the new ones."""

    name: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicResult(NamedTuple):
    """The result for a topic: ``error`` is None after success; the other fields are set for created topics."""

    name: str
    error: BrokerError | None = None
    partitions: int = UNSET
    replication_factor: int = UNSET
    configs: Mapping[str, str] = {}


class ControllerView(Protocol):
    """The state of the controller that TopicAdmin needs."""

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller."""
        ...

    def is_deleting(self, topic: str) -> bool:
        """Whether the topic is being deleted."""
        ...


class Budget:
    """What a client may create and delete: everything, if no quota limits it."""

    throttle_ms = 0
    """How long the client has to wait afterwards, for the response."""

    def charge(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises ThrottlingQuotaExceededError if they are too many for the client's quota.
        """


UNLIMITED: Final = Budget()


class _Planned(NamedTuple):
    """A topic that can be created."""

    name: str
    topic_id: UUID
    assignment: Assignment
    overrides: Mapping[str, str]


class TopicAdmin:
    """Creates, deletes and extends topics. Requests with many topics let other work run between two of them."""

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
        self._names = TopicNames()
        self._being_written: set[str] = set()
        self._limit = ReplicaLimit(config)
        self._rate = CreationRate(config, clock)
        metadata.add_listener(self._image_changed)

    async def create_topics(
        self, topics: Sequence[NewTopic], timeout_ms: int, *, validate_only: bool = False, budget: Budget = UNLIMITED
    ) -> list[TopicResult]:
        """Create the topics that can be created; one result per name."""
        results: dict[str, TopicResult] = {}
        created: list[str] = []
        creation = self._create_topics(topics, results, created, budget, validate_only=validate_only)
        try:
            await in_time(self._store, self._clock, timeout_ms, creation)
        except RequestTimedOutError as error:
            return await _late((topic.name for topic in topics), results, error)
        await self._wait_created(created, timeout_ms, results)
        return list(results.values())

    async def _create_topics(
        self,
        topics: Sequence[NewTopic],
        results: dict[str, TopicResult],
        created: list[str],
        budget: Budget,
        *,
        validate_only: bool,
    ) -> None:
        """Add the results to ``results``, and the names of written topics to ``created``."""
        twice = await _named_twice(topic.name for topic in topics)
        await self._look_around()
        with self._limit.admissions() as admissions, ExitStack() as unfinished:
            unfinished.callback(self._being_written.difference_update, created)
            written = None if validate_only else created
            await self._check_and_create(topics, twice, results, admissions, written, budget)
            unfinished.pop_all()

    async def _check_and_create(
        self,
        topics: Sequence[NewTopic],
        twice: set[str],
        results: dict[str, TopicResult],
        admissions: Admissions,
        created: list[str] | None,
        budget: Budget,
    ) -> None:
        """Write the topics that can be created, and add their names to ``created``; None only checks."""
        checked_replicas = 0
        planned: list[_Planned] = []
        async for topic in OneByOne(topics):
            try:
                self._check_served(topic.name, twice)
                await self._check(topic)
                placement = self._placement(topic)
                if created is None:
                    self._limit.check(self._metadata.image, checked_replicas + placement.replicas)
                    checked_replicas += placement.replicas
                else:
                    budget.charge(placement.partitions)
                    admissions.admit(self._metadata.image, topic.name, placement.partitions, placement.replicas)
            except BrokerError as error:
                results[topic.name] = _refused(topic.name, error)
                continue
            results[topic.name] = _created(topic, placement)
            if created is not None:
                created.append(topic.name)
                planned.append(await self._plan(topic, placement))
            if len(planned) == TOGETHER:
                await self._create(planned, results, admissions)
                planned = []
        await self._create(planned, results, admissions)

    async def delete_topics(
        self, names: Sequence[str], timeout_ms: int, budget: Budget = UNLIMITED
    ) -> list[TopicResult]:
        """Request the controller to delete topics; one result per name."""
        results: dict[str, TopicResult] = {}
        wanted: list[str] = []
        async for name in OneByOne(names):
            if name not in results:
                results[name] = TopicResult(name, self._why_not_deleted(name, budget))
                if results[name].error is None:
                    wanted.append(name)
        if not wanted:
            return list(results.values())
        requests = self._store.transactions([Create(DeleteTopicZNode.path(name))] for name in wanted)
        try:
            for outcome in await in_time(self._store, self._clock, timeout_ms, requests):
                if isinstance(outcome, StoreError) and not isinstance(outcome, NodeExistsError):
                    raise outcome
        except (SessionEndedError, RequestTimedOutError) as error:
            return list((results | {name: TopicResult(name, error) for name in wanted}).values())
        started = self._clock.monotonic_s()
        async for name in OneByOne(wanted):
            left_ms = timeout_ms - (self._clock.monotonic_s() - started) * 1000
            # A request with no time-out is answered REQUEST_TIMED_OUT even if it succeeded, as in Kafka.
            gone = timeout_ms > 0 and await self._metadata.wait_until(_absent(name), left_ms, self._clock)
            if gone:
                await self._wait_removed(name, min(left_ms, REMOVAL_MS))
            else:
                started = -math.inf  # the time is over, or the waiting was ended: for the others too
                results[name] = TopicResult(name, RequestTimedOutError())
        return list(results.values())

    async def create_partitions(
        self,
        topics: Sequence[MorePartitions],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        budget: Budget = UNLIMITED,
    ) -> list[TopicResult]:
        """Add partitions; one result per name."""
        results: dict[str, TopicResult] = {}
        addition = self._add_partitions(topics, results, budget, validate_only=validate_only)
        try:
            added = await in_time(self._store, self._clock, timeout_ms, addition)
        except RequestTimedOutError as error:
            return await _late((topic.name for topic in topics), results, error)
        await self._wait_created(added, timeout_ms, results)
        return list(results.values())

    async def _add_partitions(
        self,
        topics: Sequence[MorePartitions],
        results: dict[str, TopicResult],
        budget: Budget,
        *,
        validate_only: bool,
    ) -> list[str]:
        """Add the results to ``results``; return the names of the topics that were extended."""
        twice = await _named_twice(topic.name for topic in topics)
        await in_turns(self._limit.settle(self._metadata.image))
        checked_replicas = 0
        wanted: list[MorePartitions] = []
        async for topic in OneByOne(topics):
            try:
                self._check_served(topic.name, twice)
                self._check_not_going(topic.name)
            except BrokerError as error:
                results[topic.name] = _refused(topic.name, error)
                continue
            results[topic.name] = TopicResult(topic.name, None, topic.total)
            wanted.append(topic)
        with self._limit.admissions() as admissions:
            for start in range(0, len(wanted), TOGETHER):
                together = wanted[start : start + TOGETHER]
                while together:
                    together, checked_replicas = await self._extend(
                        together, results, checked_replicas, None if validate_only else admissions, budget
                    )
        return [topic.name for topic in wanted if results[topic.name].error is None and not validate_only]

    async def create_automatically(self, names: Sequence[str]) -> dict[str, BrokerError | None]:
        """Create topics that were requested by name alone, internal ones with their own settings; any broker may.

        Does not wait: None means that the topic is being created, or has just been created by another request.
        LeaderNotAvailableError means that it can be created later (``CreationRate``), RequestTimedOutError that the
        store does not answer.
        """
        outcomes: dict[str, BrokerError | None] = {}
        creation = self._create_automatically(names, outcomes)
        try:
            await in_time(self._store, self._clock, CLIENT_WAIT_MS, creation)
        except RequestTimedOutError as error:
            async for name in OneByOne(names):
                outcomes[name] = outcomes.get(name) or error.with_traceback(None)
        return outcomes

    async def _create_automatically(self, names: Sequence[str], outcomes: dict[str, BrokerError | None]) -> None:
        await self._look_around()
        reserved: list[str] = []
        planned: list[_Planned] = []
        with self._limit.admissions() as admissions, ExitStack() as unfinished:
            unfinished.callback(self._being_written.difference_update, reserved)
            async for name in OneByOne(names):
                outcomes[name] = None
                try:
                    placement = self._admit_automatic(name, admissions)
                except BrokerError as error:
                    outcomes[name] = error.with_traceback(None)
                    continue
                if placement is not None:
                    reserved.append(name)
                    planned.append(await self._plan(NewTopic(name, configs=self._automatic_configs(name)), placement))
                if len(planned) == TOGETHER:
                    await self._create_planned(planned, outcomes, admissions)
                    planned = []
            await self._create_planned(planned, outcomes, admissions)
            unfinished.pop_all()

    async def _create_planned(
        self, planned: Sequence[_Planned], outcomes: dict[str, BrokerError | None], admissions: Admissions
    ) -> None:
        results: dict[str, TopicResult] = {}
        await self._create(planned, results, admissions)
        for name, result in results.items():
            if not isinstance(result.error, TopicExistsError):
                outcomes[name] = result.error

    def _admit_automatic(self, name: str, admissions: Admissions) -> Placement | None:
        """Return the placement of a new topic, None if it exists; raises an error if it can't be created."""
        partitions = self._config.integer("num.partitions")
        factor = self._config.integer("default.replication.factor")
        internal = name in INTERNAL_TOPICS
        if internal:
            partitions, factor, _ = internal_topic_shape(name, self._config)
        placement = Placement(partitions, factor)
        check_placement(self._racks(), placement)
        check_name(name)
        if name in self._names:
            return None
        self._names.check_collision(name)
        if not internal:  # the number of internal topics' partitions is configured, and coordinators need the topics
            self._check_space()
            self._limit.check(self._metadata.image, placement.replicas)
            if not self._rate.take():
                raise LeaderNotAvailableError("Topics are being created faster than this broker allows.")
            admissions.admit(self._metadata.image, name, partitions, placement.replicas)
        return placement

    def _automatic_configs(self, name: str) -> list[tuple[str, str | None]]:
        return list(internal_topic_shape(name, self._config)[2].items()) if name in INTERNAL_TOPICS else []

    async def _look_around(self) -> None:
        """Read the names of all topics."""
        await self._names.refresh(self._names_in_store)
        await in_turns(self._limit.settle(self._metadata.image, self._names))

    async def _names_in_store(self) -> list[str]:
        names = await self._store.children(TopicsZNode.PATH)
        names += self._being_written
        return names

    def _image_changed(self, image: MetadataImage, deleted: list[TopicPartition]) -> None:
        for name in {topic for topic, _ in deleted}:
            if name not in image.topics:
                self._limit.deleted(name)

    def _check_served(self, name: str, twice: set[str]) -> None:
        if not self._controller.is_active:
            raise NotControllerError()
        if name in twice:
            raise InvalidRequestError("The request names this topic more than once.")
        self._check_space()

    def _check_space(self) -> None:
        if not self._store.has_space:
            raise KafkaStorageError("The disk of the cluster's metadata is full: topics can only be deleted.")

    def _check_not_going(self, name: str) -> None:
        if self._controller.is_deleting(name):
            raise InvalidTopicError("The topic is being deleted.")

    async def _check(self, topic: NewTopic) -> None:
        """Check one topic, in Kafka's order, except that the number of replicas is checked before the replicas."""
        if topic.name in self._metadata.image.topics:
            raise TopicExistsError(kafka_texts.topic_exists(topic.name))
        null = [key for key, value in topic.configs if value is None]
        if null:
            raise InvalidRequestError(f"Configuration keys without a value: {', '.join(null)}")
        if topic.assignments and (topic.partitions, topic.replication_factor) != (UNSET, UNSET):
            raise InvalidRequestError(
                f"The request gives an assignment of {len(topic.assignments)} partitions and also a number of "
                f"partitions ({topic.partitions}) or a replication factor ({topic.replication_factor}); "
                "only one of both is possible."
            )
        if not topic.assignments:
            check_placement(self._racks(), self._placement(topic))
        check_name(topic.name)
        self._check_free(topic.name)
        if topic.assignments:
            self._limit.check(self._metadata.image, await in_turns(count_replicas(topic.assignments)))
            await in_turns(check_assignment(topic.assignments))
            self._check_free(topic.name)  # again: other requests ran between two steps
        validate_topic_overrides(_overrides(topic))

    def _check_free(self, name: str) -> None:
        if name in self._names:
            raise TopicExistsError(kafka_texts.topic_exists(name))
        self._names.check_collision(name)

    def _placement(self, topic: NewTopic) -> Placement:
        partitions, factor = topic.partitions, topic.replication_factor
        if topic.assignments:
            return Placement(len(topic.assignments), len(topic.assignments[0]))
        if partitions == UNSET:
            partitions = self._config.integer("num.partitions")
        if factor == UNSET:
            factor = self._config.integer("default.replication.factor")
        return Placement(partitions, factor)

    async def _plan(self, topic: NewTopic, placement: Placement) -> _Planned:
        """Assign the replicas of a topic; until it is written, other requests get TopicExistsError."""
        self._being_written.add(topic.name)
        self._names.add(topic.name)
        if topic.assignments:
            assignment = {}
            async for index, brokers in OneByOne(topic.assignments.items()):
                assignment[index] = ReplicaAssignment(tuple(brokers))
        else:
            assignment = await self._assigned(placement)
        topic_id = new_topic_id() if self._config.has_topic_ids else ZERO_UUID
        return _Planned(topic.name, topic_id, assignment, _overrides(topic))

    async def _assigned(self, placement: Placement) -> dict[int, ReplicaAssignment]:
        assigned = OneByOne(assign_replicas(self._racks(), placement, self._random))
        return {index: replicas async for index, replicas in assigned}

    async def _create(
        self, planned: Sequence[_Planned], results: dict[str, TopicResult], admissions: Admissions
    ) -> None:
        """Write the nodes of topics, and add to ``results`` an error for each that could not be created."""
        errors: dict[str, BrokerError] = {}
        try:
            configs = await self._store.get_many(
                [ConfigZNode.path(ConfigEntity.topic(topic.name)) for topic in planned]
            )
            writes: list[list[Operation]] = []
            async for topic, left_over in OneByOne(zip(planned, configs, strict=True)):
                path, data = ConfigZNode.path(ConfigEntity.topic(topic.name)), ConfigZNode.encode(topic.overrides)
                config: Operation = Create(path, data) if left_over is None else SetData(path, data)
                znode = TopicZNode(topic.assignment, topic.topic_id)
                writes.append([config, Create(TopicZNode.path(topic.name), znode.encode())])
            for topic, outcome in zip(planned, await self._store.transactions(writes), strict=True):
                if isinstance(outcome, NodeExistsError):
                    errors[topic.name] = TopicExistsError(kafka_texts.topic_exists(topic.name))
                elif isinstance(outcome, StoreError):
                    raise outcome
                else:
                    admissions.written(topic.name)
        except SessionEndedError as error:
            errors = {topic.name: error for topic in planned}
        finally:
            self._being_written.difference_update(topic.name for topic in planned)
        for name, refusal in errors.items():
            admissions.withdraw(name)
            results[name] = TopicResult(name, refusal)

    async def _wait_created(self, names: Sequence[str], timeout_ms: int, results: dict[str, TopicResult]) -> None:
        started = self._clock.monotonic_s()
        async for name in OneByOne(names):
            if results[name].error is not None:
                continue
            left_ms = timeout_ms - (self._clock.monotonic_s() - started) * 1000
            ready = _all_led(name, results[name].partitions)
            if timeout_ms > 0 and await self._metadata.wait_until(ready, left_ms, self._clock):
                self._limit.seen(self._metadata.image, name)
            else:
                started = -math.inf  # the time is over, or the waiting was ended: for the others too
                results[name] = TopicResult(name, RequestTimedOutError())

    def end_waits(self) -> None:
        """Answer the requests that wait for their topics, with RequestTimedOutError for topics that are not ready."""
        self._metadata.end_waits()

    def stop_waits(self) -> None:
        """End the waiting of all requests, of later ones too: the broker stops."""
        self._metadata.stop_waits()

    async def _wait_removed(self, name: str, timeout_ms: float) -> None:
        """Wait until the name is free again. Kafka answers earlier and refuses a topic that is created at once."""
        removed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(*_: object) -> None:
            if not removed.done():
                removed.set_result(None)

        exists = self._store.exists(DeleteTopicZNode.path(name), finish)
        with suppress(RequestTimedOutError):
            if await in_time(self._store, self._clock, timeout_ms, exists):
                timer = self._clock.call_later(timeout_ms, finish)
                await removed
                timer.cancel()

    def _why_not_deleted(self, name: str, budget: Budget) -> BrokerError | None:
        if not self._controller.is_active:
            return NotControllerError()
        if not self._config.flag("delete.topic.enable"):
            return TopicDeletionDisabledError("Topic deletion is disabled (delete.topic.enable).")
        if name not in self._metadata.image.topics:
            return UnknownTopicOrPartitionError()
        try:
            budget.charge(len(self._metadata.image.topics[name].partitions))
        except ThrottlingQuotaExceededError as error:
            return error.with_traceback(None)
        return None

    async def _extend(
        self,
        topics: Sequence[MorePartitions],
        results: dict[str, TopicResult],
        checked_replicas: int,
        admissions: Admissions | None,
        budget: Budget,
    ) -> tuple[list[MorePartitions], int]:
        """Write the assignments of topics with more partitions; without ``admissions`` only check them.

        Return the topics that other requests have changed meanwhile, and ``checked_replicas`` with what a request that
        is only validated would add.
        """
        extended: list[tuple[MorePartitions, SetData]] = []
        nodes = await self._store.get_many([TopicZNode.path(topic.name) for topic in topics])
        async for topic, node in OneByOne(zip(topics, nodes, strict=True)):
            try:
                znode, placement = await self._grown(topic, node)
                if admissions is None:
                    self._limit.check(self._metadata.image, checked_replicas + placement.replicas)
                    checked_replicas += placement.replicas
                    continue
                budget.charge(topic.total - placement.first_partition)
                admissions.admit(self._metadata.image, topic.name, topic.total, placement.replicas)
            except BrokerError as error:
                results[topic.name] = _refused(topic.name, error)
                continue
            if topic.assignments is None:
                added = await self._assigned(placement)
            else:
                first = placement.first_partition
                added = {index: ReplicaAssignment(tuple(ids)) for index, ids in enumerate(topic.assignments, first)}
            data = znode.with_partitions(added).encode()
            assert node is not None, "a topic without a node can't be extended"
            extended.append((topic, SetData(TopicZNode.path(topic.name), data, node.stat.version)))
        changed = [] if admissions is None else await self._write_extended(extended, results, admissions)
        return changed, checked_replicas

    async def _write_extended(
        self,
        extended: Sequence[tuple[MorePartitions, SetData]],
        results: dict[str, TopicResult],
        admissions: Admissions,
    ) -> list[MorePartitions]:
        """Write the topics; return those that other requests have changed meanwhile."""
        changed = []
        try:
            outcomes = await self._store.transactions([write] for _, write in extended)
        except SessionEndedError as error:
            outcomes = [error] * len(extended)
        for (topic, _), outcome in zip(extended, outcomes, strict=True):
            if isinstance(outcome, StoreError):
                admissions.withdraw(topic.name)
            else:
                admissions.written(topic.name)
            if isinstance(outcome, BrokerError):
                results[topic.name] = TopicResult(topic.name, outcome)
            elif isinstance(outcome, BadVersionError | NoNodeError):
                changed.append(topic)
            elif isinstance(outcome, StoreError):
                raise outcome
        return changed

    async def _grown(self, topic: MorePartitions, node: Node | None) -> tuple[TopicZNode, Placement]:
        """Return the present topic, and the placement of the partitions to add."""
        if node is None:
            raise UnknownTopicOrPartitionError(kafka_texts.topic_missing(topic.name))
        znode = decoded(TopicZNode.path(topic.name), node.data, TopicZNode.decode)
        if any(found.is_reassigning for found in znode.partitions.values()):
            raise ReassignmentInProgressError(kafka_texts.being_reassigned(topic.name))
        have = len(znode.partitions)
        if topic.total < have:
            raise InvalidPartitionsError(kafka_texts.fewer_partitions(have, topic.total))
        if topic.total == have:
            raise InvalidPartitionsError(kafka_texts.as_many_partitions(have))
        first, racks = znode.partitions[0].replicas, self._racks()
        if topic.assignments is None and not first:
            raise BrokerError(f"Partition 0 of '{topic.name}' has no replicas to go by.")  # unknown (-1), as in Kafka
        brokers = sorted(racks)
        start = next((place for place, broker in enumerate(brokers) if first and broker >= first[0]), 0)
        placement = Placement(topic.total - have, len(first), start, have)
        if topic.assignments is None:
            check_placement(racks, placement)
        elif len(topic.assignments) != placement.partitions:
            raise InvalidReplicaAssignmentError(
                f"The request adds {placement.partitions} partitions and names the replicas of "
                f"{len(topic.assignments)}."
            )
        else:
            self._limit.check(self._metadata.image, placement.replicas)
            await in_turns(check_added(dict(enumerate(topic.assignments, have)), first, racks.keys()))
        return znode, placement

    def _racks(self) -> dict[int, str | None]:
        brokers = self._metadata.image.brokers
        return {id_: brokers[id_].rack for id_ in sorted(brokers)}


async def _named_twice(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    twice: set[str] = set()
    async for name in OneByOne(names):
        (twice if name in seen else seen).add(name)
    return twice


async def _late(names: Iterable[str], results: dict[str, TopicResult], error: BrokerError) -> list[TopicResult]:
    """Return the results of a request whose time is over: ``error`` for each topic that is not refused already."""
    async for name in OneByOne(names):
        if name not in results or results[name].error is None:
            results[name] = _refused(name, error)
    return list(results.values())


def _refused(name: str, error: BrokerError) -> TopicResult:
    """Return the result for an error that was raised.

    The error loses its traceback: that refers to the frame which has the result, and so to the whole request. The cycle
    of references would stay in memory until the next full garbage collection.
    """
    return TopicResult(name, error.with_traceback(None))


def _overrides(topic: NewTopic) -> dict[str, str]:
    return {key: value for key, value in topic.configs if value is not None}


def _created(topic: NewTopic, placement: Placement) -> TopicResult:
    return TopicResult(topic.name, None, placement.partitions, placement.replication_factor, _overrides(topic))


def _all_led(name: str, partitions: int) -> Callable[[MetadataImage], bool]:
    def ready(image: MetadataImage) -> bool:
        topic = image.topics.get(name)
        if topic is None or len(topic.partitions) < partitions:
            return False
        return all(found.leader != NO_LEADER for found in topic.partitions.values())

    return ready


def _absent(name: str) -> Callable[[MetadataImage], bool]:
    return lambda image: name not in image.topics
