"""A fetcher copies the partitions that this broker follows from one leader broker, over one connection.

**States** of a partition in its fetcher:

    truncating   the leader has to say where this log leaves its own; nothing is fetched before
    fetching     the log is a prefix of the leader's; batches are appended as they come
    fenced       the leader is in a later epoch: wait for the controller's LeaderAndIsr

A partition of the first two states is *delayed* for ``replica.fetch.backoff.ms`` after an error; then it continues in
its state. With ``kafkapy.flush=ack`` it also waits until the appended records are on the disk: a fetch from an offset
means to the leader that this replica holds all records below it. Leader -1, StopReplica or a failed data directory take
a partition out of its fetcher. A partition that is throttled (``throttle.py``) and not in sync is delayed, too, while
the rate is above its limit.

**Order of events** when this broker becomes a follower:

1. LeaderAndIsr has a new leader or leader epoch. The partition leaves its fetcher; a response that is under way is not
   for it any more. ``Partition.make_follower``, then ``follow``: the partition is *truncating* at the new leader. Every
   new epoch does this, also when the leader stays.
2. A log without leader epochs is cut at its high watermark. For the others OffsetForLeaderEpoch asks where the latest
   epoch of this log ended, and ``truncation.py`` says what that means. If the leader does not have the epoch, the log
   is cut to the end of an earlier one and the request is sent again. Then the partition is *fetching*.
3. Fetch names the log's end, its start, and the epoch of its last record. A response has batches, or the epoch at which
   the logs diverge (then the log is cut, as in 2), or an error. Batches are checked (offsets, CRC) and appended as they
   are, with the leader's offsets and epochs.
   Both ways of truncation are needed. Followers of Apache Kafka 2.7 ask with OffsetForLeaderEpoch, and a Fetch before
   version 12 (an inter-broker protocol below 2.7-IV1) can't name a diverging epoch. Those of 3.9 don't ask: they wait
   for the epoch in the response to Fetch (KIP-595).
4. The high watermark becomes the leader's, as far as the log reaches, and the log start follows the leader's.
5. The next Fetch confirms to the leader that this replica has the appended records. Only that moves the leader's high
   watermark, so the follower's is one round trip behind.
6. A log that stays below the leader's high watermark for ``replica.fetch.backoff.ms`` may have reached a *gap*:
   compaction may have removed all batches from there on (``copying.fill_gap``). A follower's fetch without records
   proves nothing, since the leader may be throttled. So the fetcher asks as a consumer, who gets at least one batch if
   there is one below the high watermark. If there is none, the log continues at the high watermark. One partition is
   queried at a time; an answer with records ends the queries for ``replica.fetch.backoff.ms``.

OFFSET_OUT_OF_RANGE means that the log's end is not in the leader's log. If the leader's log ends before (an unclean
election), the log is cut to that end. If it starts after (the leader has deleted what this broker missed), all records
are dropped and the log begins again at the leader's start. FENCED_LEADER_EPOCH ends fetching until the next
LeaderAndIsr. After every other error, and when the leader can't be reached, the fetcher tries again after the back-off.

**What a crash leaves.**

- Before 2, or within it: a log that may hold records which the leader does not have. They are above the high watermark
  unless the election was unclean. The next start begins with 1.
- After an append and before 5: records that the leader does not count. The follower fetches from its log's end.
- Before the high watermark's checkpoint: a high watermark that is too low. Truncation goes by epochs, so this matters
  only for a log without epochs, which is cut at that lower offset and fetches the rest again.
- A truncation lowers the checkpoints before it cuts files (``Log``), so a start never trusts an offset that is gone.
"""

import asyncio
import logging
from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.keys import is_at_least
from kafkapy.errors import BrokerError
from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.replication.copying import steps_of
from kafkapy.replication.fetching import FetchLimits, FetchWish
from kafkapy.replication.follower_session import FollowerSession
from kafkapy.replication.partition import Partition
from kafkapy.replication.quiet import LOOKED_AT_IN_TURN, TURN_MS
from kafkapy.replication.throttle import ReplicationThrottle
from kafkapy.replication.truncation import truncation_of
from kafkapy.turns import pause, pieces, turns
from kafkapy.types import NO_EPOCH, TopicPartition

R = TypeVar("R", bound=Message)

LATEST: Final = -1
EARLIEST: Final = -2
LIST_OFFSETS_VERSION: Final = 5
OFFSET_FOR_LEADER_EPOCH_VERSION: Final = 3

logger = logging.getLogger(__name__)


class FetcherSettings(NamedTuple):
    """The objects that all fetchers of a broker share."""

    limits: FetchLimits
    partition_max_bytes: int
    backoff_ms: int
    fetch_version: int = 12

    @classmethod
    def of(cls, config: BrokerConfig) -> "FetcherSettings":
        """The settings of ``config``: Fetch v12 from inter-broker protocol 2.7-IV1 on, v11 before."""
        return cls(
            FetchLimits(
                max_wait_ms=config.integer("replica.fetch.wait.max.ms"),
                min_bytes=config.integer("replica.fetch.min.bytes"),
                max_bytes=config.integer("replica.fetch.response.max.bytes"),
                replica_id=config.broker_id,
            ),
            config.integer("replica.fetch.max.bytes"),
            config.integer("replica.fetch.backoff.ms"),
            12 if is_at_least(config.text("inter.broker.protocol.version"), "2.7-IV1") else 11,
        )


class _State(Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"
    FENCED = "fenced"


class _Followed:
    """A partition that is followed in one leader epoch; another LeaderAndIsr makes another object of it."""

    __slots__ = ("partition", "state", "is_in_sync", "not_before_s", "last_problem")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.state = _State.TRUNCATING
        self.is_in_sync = False
        """Whether the log reached the leader's high watermark with the last response."""
        self.not_before_s = 0.0
        self.last_problem = ""
        """The last problem in the broker's log, where it is not repeated."""


class HighWatermarkListener(Protocol):
    """The part of ``replica_manager.ReplicaManager`` that fetchers use."""

    def high_watermark_moved(self, topic_partition: TopicPartition, /) -> None:
        """Handle the new high watermark of a partition that this broker follows."""
        ...


class FetcherContext(NamedTuple):
    """The parts of the broker that its fetchers use."""

    clock: Clock
    settings: FetcherSettings
    listener: HighWatermarkListener
    throttle: ReplicationThrottle


class ReplicaFetcher:
    """Fetches from ``leader``; ``channel`` has connections for this fetcher alone."""

    def __init__(self, leader: int, channel: BrokerChannel, context: FetcherContext) -> None:
        self._leader = leader
        self._channel = channel
        self._clock, self._settings, self._listener, self._throttle = context
        self._session = FollowerSession()
        self._followed: dict[TopicPartition, _Followed] = {}
        self._fetched: dict[TopicPartition, _Followed] = {}
        """The partitions of the session, whose wishes the leader knows."""
        self._changed: dict[TopicPartition, None] = {}
        """The partitions to look at before the next request; most of them all have not changed since the last one."""
        self._behind: dict[TopicPartition, float] = {}
        """The partitions that are not in sync, and since when nothing came for them: the longest first."""
        self._no_gap_s = 0.0
        """When records last came in answer to the question for a gap."""
        self._turn_s = 0.0
        """The time of the next check of the other partitions."""
        self._looked_s = 0.0
        """When the last look at the changed partitions began."""
        self._task: asyncio.Task[None] | None = None
        self._is_due = asyncio.Event()
        """Something may be done at once: a partition was added, or a delay is over."""
        self._is_unreachable = False

    def follow(self, partition: Partition) -> None:
        """Copy a partition that this broker has just started to follow."""
        self._followed[partition.topic_partition] = _Followed(partition)
        self._changed[partition.topic_partition] = None
        self._is_due.set()
        if self._task is None:
            self._start()

    def stop(self, topic_partition: TopicPartition) -> None:
        """Stop copying a partition; a response that is under way is dropped."""
        self._followed.pop(topic_partition, None)
        self._changed[topic_partition] = None

    def wake(self) -> None:
        """Check again which partitions may be fetched: appended records are on the disk, or the flush has failed."""
        self._is_due.set()

    def close(self) -> None:
        """Fetch nothing more."""
        self._followed.clear()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    # the loop

    def _start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"fetcher-from-broker-{self._leader}")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Continue after an unexpected failure: a partition must not silently stop being replicated."""
        if self._task is not task:
            return
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("Fetching from broker %d failed, trying again", self._leader, exc_info=error)
            self._session.failed()
            self._delay(tuple(self._followed.values()))
        if self._followed:
            self._start()

    async def _run(self) -> None:
        while self._followed:
            self._is_due.clear()
            truncating = await self._look_at_changed()
            if truncating:
                await self._truncate(truncating)
            elif self._fetched:
                await self._fetch()
                await self._look_for_gap()
            else:
                await self._wait()

    async def _look_at_changed(self) -> dict[TopicPartition, _Followed]:
        """Fetch the partitions that can be fetched, and no longer those that can not; return the partitions to
        truncate.

        Partitions that have to wait are checked each time. Some others are too, in turn: retention may have moved the
        start of a log.
        """
        truncating: dict[TopicPartition, _Followed] = {}
        self._looked_s = self._clock.monotonic_s()
        if self._looked_s >= self._turn_s:
            self._turn_s = self._looked_s + TURN_MS / 1000
            for topic_partition in tuple(islice(self._fetched, LOOKED_AT_IN_TURN)):
                self._fetched[topic_partition] = self._fetched.pop(topic_partition)
                self._changed[topic_partition] = None
        if self._throttle.quota.is_limited:  # the rate may have come above its limit
            self._changed.update(dict.fromkeys(each for each, found in self._fetched.items() if not found.is_in_sync))
        for piece in pieces(tuple(self._changed)):
            now_s = self._clock.monotonic_s()
            for topic_partition in piece:
                followed = self._followed.get(topic_partition)
                if followed is None or followed.state is _State.FENCED:
                    del self._changed[topic_partition]
                elif followed.not_before_s <= now_s and self._is_settled(followed):
                    if followed.state is _State.TRUNCATING:
                        truncating[topic_partition] = followed
                    elif self._is_throttled(followed):
                        self._delay([followed])
                    else:
                        del self._changed[topic_partition]
                        self._fetched[topic_partition] = followed
                        self._session.fetch(topic_partition, self._wish(followed.partition))
                        continue
                self._session.leave_out(topic_partition)
                self._fetched.pop(topic_partition, None)
            await pause()
        return truncating

    def _is_throttled(self, followed: _Followed) -> bool:
        return not followed.is_in_sync and self._throttle.is_exceeded_for(followed.partition)

    def _is_settled(self, followed: _Followed) -> bool:
        """Tell whether the appended records are on the disk, if the topic's acknowledgements wait for that."""
        log = followed.partition.log
        if not log.durability.is_owing:
            return True
        try:
            is_settled = log.durability.is_settled(log.log_end_offset)
        except BrokerError as error:
            log.durability.resume()
            self._postpone(followed, str(error))
            return False
        if not is_settled:
            log.durability.resume_owed()  # usually it runs; a truncation that failed half-way has not started one
        return is_settled

    async def _wait(self) -> None:
        """Wait until a delay is over or ``_is_due`` is set.

        A delay that has ended since the look counts too: the look has left its partition out, and nothing else would
        end the waiting.
        """
        ends_s = [each.not_before_s for each in self._followed.values() if each.not_before_s > self._looked_s]
        timer = None
        if ends_s:
            timer = self._clock.call_later((min(ends_s) - self._clock.monotonic_s()) * 1000, self._is_due.set)
        try:
            await self._is_due.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # delays and problems

    def _delay(self, followed: Iterable[_Followed]) -> None:
        not_before_s = self._clock.monotonic_s() + self._settings.backoff_ms / 1000
        for each in followed:
            each.not_before_s = not_before_s
            self._changed[each.partition.topic_partition] = None

    def _postpone(self, followed: _Followed, problem: str) -> None:
        """Try a partition again after the back-off; a problem that stays has one line in the log."""
        self._delay([followed])
        if problem != followed.last_problem:
            followed.last_problem = problem
            logger.warning(
                "%s: fetching from broker %d is tried again: %s",
                followed.partition.topic_partition, self._leader, problem,
            )  # fmt: skip

    def _refused(self, followed: _Followed, error_code: int) -> None:
        """Take in an error of the leader that concerns one partition."""
        partition = followed.partition
        if error_code == ErrorCode.FENCED_LEADER_EPOCH:
            followed.state = _State.FENCED
            logger.info(
                "%s: broker %d is past leader epoch %d; fetching goes on when the controller has told of the next one",
                partition.topic_partition, self._leader, partition.leader_epoch,
            )  # fmt: skip
            return
        if error_code == ErrorCode.UNKNOWN_LEADER_EPOCH:  # in each move: the controller tells followers sooner
            self._delay([followed])
            logger.debug("%s: broker %d is not told of the epoch yet", partition.topic_partition, self._leader)
            return
        self._postpone(followed, f"the leader answers error {error_code}")

    async def _ask(self, request: Message, version: int, kind: type[R]) -> R | None:
        """Return the leader's response; None if there is none, with one line in the log until it answers again."""
        try:
            response = await self._channel.send(self._leader, request, version)
        except (PeerUnreachableError, ProtocolError) as error:
            if not self._is_unreachable:
                logger.warning("Fetching from broker %d fails and is tried again: %s", self._leader, error)
            self._is_unreachable = True
            return None
        assert isinstance(response, kind), "a response is of the class of its request"
        turns().begin()  # as for a request: most responses are handled, and the next request is sent, within it
        if self._is_unreachable:
            logger.info("Broker %d answers again: its partitions are fetched", self._leader)
        self._is_unreachable = False
        return response

    def _is_current(self, followed: _Followed) -> bool:
        return self._followed.get(followed.partition.topic_partition) is followed

    # truncating

    async def _truncate(self, due: dict[TopicPartition, _Followed]) -> None:
        """Cut the logs where they leave the leader's."""
        asked: dict[TopicPartition, _Followed] = {}
        for topic_partition, followed in due.items():
            if not self._is_current(followed):
                continue  # followed no more since the look: the log may be a leader's by now
            if followed.partition.log.leader_epochs.latest == NO_EPOCH:
                self._cut(followed, followed.partition.log.high_watermark, is_final=True)
            else:
                asked[topic_partition] = followed
        if not asked:
            return
        request = OffsetForLeaderEpochRequest(self._settings.limits.replica_id, _epochs_asked_for(asked))
        response = await self._ask(request, OFFSET_FOR_LEADER_EPOCH_VERSION, OffsetForLeaderEpochResponse)
        if response is None:
            self._delay(asked.values())
            return
        answers = {
            TopicPartition(topic.topic, answer.partition): answer
            for topic in response.topics
            for answer in topic.partitions
        }
        for topic_partition, followed in asked.items():
            await pause()
            if self._is_current(followed):
                self._take_epoch(followed, answers.get(topic_partition))

    def _take_epoch(self, followed: _Followed, answer: EpochEndOffset | None) -> None:
        if answer is None:
            self._postpone(followed, "the leader's response does not name the partition")
        elif answer.error_code:
            self._refused(followed, answer.error_code)
        else:
            found = truncation_of(followed.partition.log, answer.leader_epoch, answer.end_offset)
            self._cut(followed, found.offset, is_final=found.is_final)

    def _cut(self, followed: _Followed, offset: int, *, is_final: bool) -> None:
        """Truncate the log; then fetch, or ask the leader about an earlier epoch."""
        try:
            followed.partition.truncate_to(offset)
        except BrokerError as error:
            self._postpone(followed, str(error))
            return
        followed.state = _State.FETCHING if is_final else _State.TRUNCATING

    # fetching

    async def _fetch(self) -> None:
        request, is_full = self._session.request(self._settings.limits)
        try:
            response = await self._ask(request, self._settings.fetch_version, FetchResponse)
        except asyncio.CancelledError:
            self._session.failed()
            raise
        if response is None:
            self._session.failed()
            self._delay(self._fetched.values())
        elif response.error_code:
            self._session.failed(is_unknown=response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if is_full:
                logger.warning("Broker %d refuses a Fetch with error %d", self._leader, response.error_code)
                self._delay(self._fetched.values())
        else:
            self._session.answered(response)
            for topic in response.responses:
                for data in topic.partitions:
                    await pause()
                    topic_partition = TopicPartition(topic.topic, data.partition_index)
                    named = self._fetched.get(topic_partition)
                    if named is not None and self._is_current(named):
                        self._changed[topic_partition] = None
                        await self._take(named, data)
                    if named is not None and not self._is_current(named):
                        self._session.failed()  # the leader will not tell the high watermark again in this session

    def _wish(self, partition: Partition) -> FetchWish:
        log = partition.log
        has_epoch = self._settings.fetch_version >= 12
        return FetchWish(
            log.log_end_offset,
            self._settings.partition_max_bytes,
            partition.leader_epoch,
            log.log_start_offset,
            log.leader_epochs.latest if has_epoch else NO_EPOCH,
        )

    async def _take(self, followed: _Followed, data: PartitionData) -> None:
        """Take in what the leader says of one partition."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._find_place(followed)
        elif data.error_code:
            self._refused(followed, data.error_code)
        elif data.diverging_epoch is not None:
            log, diverging = followed.partition.log, data.diverging_epoch
            found = truncation_of(log, diverging.epoch, diverging.end_offset)
            if found.offset < log.log_end_offset:
                self._cut(followed, found.offset, is_final=found.is_final)
            else:
                self._postpone(followed, f"no record lies beyond the diverging epoch {diverging.epoch} of the leader")
        else:
            await self._append(followed, data)

    async def _append(self, followed: _Followed, data: PartitionData) -> None:
        partition = followed.partition
        try:
            if data.records:
                assert isinstance(data.records, bytes | bytearray | memoryview), "a response that came has bytes"
                if self._throttle.covers(partition):
                    self._throttle.quota.record(len(data.records))
                self._behind.pop(partition.topic_partition, None)
                for piece in steps_of(data.records):
                    partition.append_as_follower(piece)
                    await pause()
                    if not self._is_current(followed):
                        return
            has_moved = partition.take_leader_offsets(data.high_watermark, data.log_start_offset)
        except BrokerError as error:
            self._postpone(followed, f"what came at offset {partition.log.log_end_offset} is refused: {error}")
            return
        self._appended(followed, data.high_watermark, has_moved=has_moved)

    def _appended(self, followed: _Followed, leader_high_watermark: int, *, has_moved: bool) -> None:
        """Note how far the log is after a response, and whether its high watermark has moved."""
        topic_partition = followed.partition.topic_partition
        followed.last_problem = ""
        followed.is_in_sync = followed.partition.log.log_end_offset >= leader_high_watermark
        if followed.is_in_sync:
            self._behind.pop(topic_partition, None)
        else:
            self._behind.setdefault(topic_partition, self._clock.monotonic_s())
        if has_moved:
            self._listener.high_watermark_moved(topic_partition)

    # gaps

    async def _look_for_gap(self) -> None:
        """Fill the gap at the log's end of the partition that is behind for the longest time, if there is one."""
        followed = self._longest_behind()
        if followed is None:
            return
        data = await self._read_as_consumer(followed)
        if data is None:
            return
        if data.error_code:
            self._refused(followed, data.error_code)
            return
        partition = followed.partition
        self._changed[partition.topic_partition] = None
        if data.records:
            self._no_gap_s = self._behind[partition.topic_partition] = self._clock.monotonic_s()
            return
        try:
            if partition.log.log_end_offset < data.high_watermark:
                partition.fill_gap(data.high_watermark)
            has_moved = partition.take_leader_offsets(data.high_watermark, data.log_start_offset)
        except BrokerError as error:
            self._postpone(followed, str(error))
            return
        self._appended(followed, data.high_watermark, has_moved=has_moved)

    def _longest_behind(self) -> _Followed | None:
        """Return the partition to ask about, which leaves ``_behind``; None if none is due."""
        while self._behind:
            now_s = self._clock.monotonic_s()
            topic_partition, since_s = next(iter(self._behind.items()))
            followed = self._fetched.get(topic_partition)
            is_due = followed is not None and self._is_current(followed) and followed.state is _State.FETCHING
            if is_due and now_s < max(since_s, self._no_gap_s) + self._settings.backoff_ms / 1000:
                return None
            del self._behind[topic_partition]  # a later response may name a partition that is not fetched now
            if is_due:
                return followed
        return None

    async def _read_as_consumer(self, followed: _Followed) -> PartitionData | None:
        """Return what a consumer gets at the log's end; None, after which the partition waits, without an answer."""
        partition = followed.partition
        topic, index = partition.topic_partition
        asked = FetchPartition(
            index, partition.leader_epoch, partition.log.log_end_offset, partition_max_bytes=1
        )  # fmt: skip
        request = FetchRequest(max_bytes=1, session_epoch=NO_EPOCH, topics=[FetchTopic(topic, partitions=[asked])])
        response = await self._ask(request, self._settings.fetch_version, FetchResponse)
        if not self._is_current(followed):
            return None
        answers = [each for found in response.responses for each in found.partitions] if response else []
        if not answers:
            self._delay([followed])
            return None
        return answers[0]

    async def _find_place(self, followed: _Followed) -> None:
        """The log's end is not in the leader's log: cut this log to the leader's end, or begin again at its start."""
        partition = followed.partition
        leader_end_offset = await self._offset_of_leader(followed, LATEST)
        if leader_end_offset is None:
            return
        if leader_end_offset < partition.log.log_end_offset:
            self._cut(followed, leader_end_offset, is_final=True)
            return
        leader_start_offset = await self._offset_of_leader(followed, EARLIEST)
        if leader_start_offset is None:
            return
        if leader_start_offset <= partition.log.log_end_offset:
            self._postpone(followed, f"offset {partition.log.log_end_offset} was out of the leader's range")
            return
        try:
            partition.restart_at(leader_start_offset)
        except BrokerError as error:
            self._postpone(followed, str(error))

    async def _offset_of_leader(self, followed: _Followed, which: int) -> int | None:
        """Return the end or the start of the leader's log; None, after which the partition waits, without an answer."""
        partition = followed.partition
        topic, index = partition.topic_partition
        asked = ListOffsetsPartition(index, partition.leader_epoch, which)
        request = ListOffsetsRequest(self._settings.limits.replica_id, topics=[ListOffsetsTopic(topic, [asked])])
        response = await self._ask(request, LIST_OFFSETS_VERSION, ListOffsetsResponse)
        if not self._is_current(followed):
            return None
        answers = [each for found in response.topics for each in found.partitions] if response else []
        if not answers:
            self._delay([followed])
            return None
        if answers[0].error_code:
            self._refused(followed, answers[0].error_code)
            return None
        return answers[0].offset


def _epochs_asked_for(asked: dict[TopicPartition, _Followed]) -> list[OffsetForLeaderTopic]:
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, index), followed in asked.items():
        partition = followed.partition
        topics.setdefault(topic, OffsetForLeaderTopic(topic)).partitions.append(
            OffsetForLeaderPartition(index, partition.leader_epoch, partition.log.leader_epochs.latest)
        )
    return list(topics.values())
