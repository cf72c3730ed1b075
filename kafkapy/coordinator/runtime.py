"""The base of both coordinators: partitions of an internal topic, each with a state machine whose memory is its log.

A coordinator serves the groups, or the transactional ids, that hash to the partitions of ``__consumer_offsets``, or of
``__transaction_state``, that this broker leads. The life of a request:

    find      ``Runtime.find``: the shard that keeps the name, or the error (not running, not the coordinator, loading)
    decide    the request's function (``group/offset_requests``, ``transaction/decisions``) returns an error, or records
              with the response. It changes no state that must survive a restart
    append    ``Runtime.write`` (``decision.py``): the records go to the partition's log
    replay    once the replicas of ``required_acks`` have the records, the shard applies them (``Shard``)
    answer    the request's ``Answer`` is set; a handler turns it into a response (``answer.respond``)

The life of a shard:

    load      this broker becomes the leader: ``loading`` reads the log from its start and replays every record. Replay
              is the same code as above, so a restarted coordinator has the state that clients have seen. A load that
              fails is tried again later; meanwhile requests get NOT_COORDINATOR
    serve     requests are decided; before that they get COORDINATOR_LOAD_IN_PROGRESS
    unload    another broker becomes the leader, or this one stops: the shard is dropped, waiting requests get
              NOT_COORDINATOR. An append that is acknowledged afterwards is not replayed: the next load reads it

A crash before the append loses the decision, which no client has seen. A crash after the append keeps it, though the
client may get no response; it repeats its request and the loaded state answers.

One thread owns all of this, so a decision, its append and its replay need no locks. Other requests run in between only
while other brokers acknowledge an append or a large partition is loaded.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.decision import BrokerLog, DecisionWriter
from kafkapy.coordinator.loading import BATCHES_IN_A_STEP, LoadProgress, read_partition
from kafkapy.java_hashing import partition_for
from kafkapy.metrics import Counters
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.batch import BatchHeader, iterate_headers
from kafkapy.replication.partition import ALL_IN_SYNC
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition

FIRST_RETRY_MS: Final = 1000
"""The pause after a load that failed; each further one is twice as long."""
LONGEST_RETRY_MS: Final = 60_000

logger = logging.getLogger(__name__)

# The parts of the broker that a coordinator uses


class Config(Protocol):
    """The broker's configuration: typed values by key (``BrokerConfig``)."""

    def __getitem__(self, key: str, /) -> Any: ...


class LeadershipSource(BrokerLog, Protocol):
    """The partitions of the broker, and changes of their leadership (``ReplicaManager``)."""

    def add_leadership_listener(self, listener: Any, /) -> None:
        """Call ``on_leader`` and ``on_follower_or_stopped`` of ``listener`` at each change."""
        ...


class Metadata(Protocol):
    """The cluster's metadata (``MetadataCache``)."""

    @property
    def image(self) -> Any:
        """The present image; ``topics`` by name, each with its ``partitions``."""
        ...

    def lacks(self, topic: str, partition: int, /) -> bool:
        """Whether the cluster does not have the partition: never true while the image is partial."""
        ...

    def when_counted(self, topic: str, on_count: Callable[[int], None], /) -> None:
        """Call ``on_count`` with the topic's number of partitions: now, or as soon as the topic exists."""
        ...

    def add_listener(self, listener: Callable[..., Any], /) -> None:
        """Call ``listener(image, deleted partitions)`` after each change."""
        ...


Run = Callable[[Steps[None]], object]
"""Runs work that no request waits for: to its end, or a first slice of it now and the rest in turns."""

Soon = Callable[[Callable[[], None]], object]
"""Calls a function now, or as soon as the current request is answered."""


def at_once(step: Callable[[], None]) -> None:
    """Call ``step`` now."""
    step()


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """The broker's services for a coordinator's work outside of requests; the defaults need no event loop.

    ``soon`` calls the function that writes the markers of an EndTxn, whose response does not wait for them.
    """

    run: Run = finish
    soon: Soon = at_once
    counters: Counters = field(default_factory=Counters)


@dataclass(frozen=True, slots=True, eq=False)
class TopicSettings:
    """The name of an internal topic, and the settings with which its partitions are read and written.

    ``partition_count`` is the configured one, with which the topic is created. ``append_timeout_ms`` bounds the wait
    for other replicas; ``required_acks`` is the number of replicas that must have a record (-1: all in sync).
    """

    topic: str
    partition_count: int
    load_buffer_size: int
    append_timeout_ms: int
    required_acks: int = ALL_IN_SYNC


# State


class Shard(ABC):
    """The state that results from the records of one partition; only replay changes it.

    ``leader_epoch`` is that of the partition. While ``is_loading`` no request is served. ``is_current`` is false from
    the unload on; long work checks it again after each step.
    """

    __slots__ = ("partition", "topic_partition", "leader_epoch", "is_loading", "is_current")

    def __init__(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        self.topic_partition = topic_partition
        self.partition = topic_partition.partition
        self.leader_epoch = leader_epoch
        self.is_loading = True
        self.is_current = True

    @property
    @abstractmethod
    def entry_count(self) -> int:
        """The number of groups, or of transactional ids."""

    @abstractmethod
    def replay_batch(self, content: bytes, header: BatchHeader, position: int, progress: LoadProgress) -> Steps[None]:
        """Replay the batch at ``position`` of ``content``; records that can't be decoded are skipped and counted."""

    def replay_batches(self, content: bytes, progress: LoadProgress) -> Steps[int | None]:
        """Replay the whole batches of one read; returns the offset behind the last one, None if there is none.

        Raises ``CorruptRecordError`` for bytes that are not an undamaged batch.
        """
        begin = progress.offset
        for count, (position, header) in enumerate(iterate_headers(content), 1):
            progress.check(content, position, header)
            yield from self.replay_batch(content, header, position, progress)
            progress.offset = header.next_offset
            if count % BATCHES_IN_A_STEP == 0:
                yield
        return None if progress.offset == begin else progress.offset


S = TypeVar("S", bound=Shard)


class Runtime(DecisionWriter, ABC, Generic[S]):
    """The partitions of one internal topic that this broker leads."""

    entries: ClassVar[str]
    """The plural noun for the shards' entries in log lines."""
    stopped_error: ClassVar[int] = ErrorCode.COORDINATOR_NOT_AVAILABLE
    """The error of requests before ``startup`` and after ``shutdown``."""

    def __init__(
        self,
        settings: TopicSettings,
        clock: Clock,
        replica_manager: LeadershipSource,
        metadata: Metadata,
        background: Background,
    ) -> None:
        super().__init__(replica_manager, settings.append_timeout_ms, settings.required_acks)
        self.shards: dict[int, S] = {}
        self.loading: dict[int, Steps[None]] = {}
        """By partition, the loads that have not ended."""
        self.is_running = False
        self._settings: Final = settings
        self._topic: Final = settings.topic
        self._clock = clock
        self._leadership: LeadershipSource = replica_manager
        self._metadata = metadata
        self._background = background
        self._partition_count: int | None = None
        self._timers: dict[Callable[[], Steps[None]], TimerHandle] = {}
        self._retries: dict[int, tuple[int, TimerHandle]] = {}
        """By partition, the leader epoch of a load that failed, and the timer of the next one."""

    # Start and stop

    def startup(self) -> None:
        """Serve requests; call it before the broker learns which partitions it leads."""
        self._leadership.add_leadership_listener(self)
        self._metadata.when_counted(self._topic, self._set_partition_count)
        self.is_running = True

    def shutdown(self) -> None:
        """Stop the timers and unload every shard; the log has everything that was acknowledged."""
        self.is_running = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for partition in [*self.shards, *self._retries]:
            self.unload(partition, None)

    def repeat(self, work: Callable[[], Steps[None]], interval_ms: int) -> None:
        """Run ``work`` in the background every ``interval_ms`` until ``shutdown``."""

        def due() -> None:
            self.repeat(work, interval_ms)
            self._background.run(work())

        self._timers[work] = self._clock.call_later(interval_ms, due)

    # Find

    def partition_for(self, name: str) -> int:
        """The partition that keeps a group or a transactional id; by the configured number before the topic exists."""
        count = self._partition_count
        return partition_for(name, self._settings.partition_count if count is None else count)

    def _set_partition_count(self, count: int) -> None:
        self._partition_count = count

    def find(self, name: str) -> S | int:
        """The shard that keeps ``name``, or the error code that says why this broker can't serve it."""
        if not self.is_running:
            return self.stopped_error
        count = self._partition_count
        shard = None if count is None else self.shards.get(partition_for(name, count))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if shard.is_loading else shard

    def loaded_shards(self) -> Iterator[S]:
        """The shards that serve requests."""
        return (shard for shard in list(self.shards.values()) if not shard.is_loading)

    def is_loading(self) -> bool:
        """Whether any partition is still being loaded."""
        return any(shard.is_loading for shard in self.shards.values())

    # Load and unload

    def on_leader(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """This broker leads ``topic_partition``: load it. A short load has ended when this returns."""
        if topic_partition.topic != self._topic:
            return
        partition = topic_partition.partition
        known = self.shards.get(partition)
        if known is not None:
            known.leader_epoch = max(known.leader_epoch, leader_epoch)
            return
        self._begin_loading(topic_partition, leader_epoch, FIRST_RETRY_MS)

    def on_follower_or_stopped(self, topic_partition: TopicPartition, leader_epoch: int | None) -> None:
        """This broker no longer leads ``topic_partition``: unload it."""
        if topic_partition.topic == self._topic:
            self.unload(topic_partition.partition, leader_epoch)

    def unload(self, partition: int, leader_epoch: int | None) -> None:
        """Drop the partition's shard, unless it is of a later epoch; None is later than all."""
        self._give_up_retry(partition, leader_epoch)
        shard = self.shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch < shard.leader_epoch):
            return
        load = self.loading.pop(partition, None)
        if load is not None:
            load.close()
        self._drop(shard)
        logger.debug("Unloaded %s", shard.topic_partition)

    def _drop(self, shard: S) -> None:
        del self.shards[shard.partition]
        shard.is_current = False
        self.shard_unloaded(shard)

    def _begin_loading(self, topic_partition: TopicPartition, leader_epoch: int, retry_ms: int) -> None:
        partition = topic_partition.partition
        self._give_up_retry(partition, None)
        shard = self.shards[partition] = self.new_shard(topic_partition, leader_epoch)
        load = self.loading[partition] = self._load(shard, retry_ms)
        self._background.run(load)

    def _give_up_retry(self, partition: int, leader_epoch: int | None) -> None:
        """Cancel the next try of a load that failed, unless it is of a later epoch; None is later than all."""
        failed = self._retries.get(partition)
        if failed is not None and (leader_epoch is None or leader_epoch >= failed[0]):
            del self._retries[partition]
            failed[1].cancel()

    def _load(self, shard: S, retry_ms: int) -> Steps[None]:
        """Load the shard; after a failure, which may pass (no descriptors), begin again later with a new shard."""
        started_s = self._clock.monotonic_s()
        progress = LoadProgress(shard.topic_partition, self._background.counters)
        is_complete = yield from read_partition(
            self._log, progress, self._settings.load_buffer_size, shard.replay_batches
        )
        duration_ms = (self._clock.monotonic_s() - started_s) * 1000
        if is_complete:
            yield from self.finish_loading(shard)
            level = logging.INFO if shard.entry_count else logging.DEBUG
            text = "Loaded %d %s from %s in %.0f ms"
            logger.log(level, text, shard.entry_count, self.entries, shard.topic_partition, duration_ms)
        else:
            self._drop(shard)
            again = shard.topic_partition, shard.leader_epoch, min(2 * retry_ms, LONGEST_RETRY_MS)
            timer = self._clock.call_later(retry_ms, self._begin_loading, *again)
            self._retries[shard.partition] = shard.leader_epoch, timer
        del self.loading[shard.partition]

    @abstractmethod
    def new_shard(self, topic_partition: TopicPartition, leader_epoch: int) -> S:
        """A shard without entries."""

    @abstractmethod
    def finish_loading(self, shard: S) -> Steps[None]:
        """The shard has replayed its whole log: serve its requests, and continue the work that was in progress."""

    @abstractmethod
    def shard_unloaded(self, shard: S) -> None:
        """The shard was dropped: answer the requests that wait in it, and stop its timers."""
