"""A leader without a network: its replica manager answers what a fetcher asks, unless a test says something else."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.platform.files import FileSlice
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.fetch import (
    EpochEndOffset as DivergingEpoch,
)
from kafkapy.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from kafkapy.replication.fetcher import FetcherContext, FetcherSettings
from kafkapy.replication.fetchers import ReplicaFetchers
from kafkapy.replication.fetching import FetchLimits, FetchWish, read_one
from kafkapy.replication.throttle import ReplicationThrottles
from kafkapy.storage.log.log import Log
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.replication.logs import ME, TP, Node, batch, state

LEADER = 2
BACKOFF_MS = 1000
SETTINGS = FetcherSettings(FetchLimits(500, 1, 1 << 20, replica_id=ME), 1 << 20, BACKOFF_MS)

Answer = Callable[[Message], Message | Awaitable[Message] | None]


class Leader:
    """Answers a fetcher from the logs of ``node``, which leads ``t-0`` with broker 1 as its follower.

    ``answers`` are taken before that, one for each request; None for one that is answered from the logs.
    """

    def __init__(self, path: Path, clock: ManualClock, config: LogConfig | None = None) -> None:
        self.node = Node(path, config, broker_id=LEADER, clock=clock)
        self.requests: list[Message] = []
        self.answers: list[Answer] = []
        self.is_down = False
        self._waiting: list[asyncio.Future[None]] = []

    def lead(self, epoch: int = 0, isr: tuple[int, ...] = (LEADER, ME)) -> None:
        self.node.partition(leader=LEADER, epoch=epoch, isr=isr, replicas=(LEADER, ME))
        self.tell()

    def append(self, count: int = 1, **fields: int) -> None:
        self.node.replicas.append(TP, batch(count, **fields))
        self.tell()

    def tell(self) -> None:
        """Answer the fetches that wait for news."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    @property
    def log(self) -> Log:
        return self.node.replicas.partitions[TP].log

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """As ``BrokerChannel``."""
        self.requests.append(request)
        if self.is_down:
            raise PeerUnreachableError(f"broker {broker_id} is down")
        given = self.answers.pop(0)(request) if self.answers else None
        if given is not None:
            return given if isinstance(given, Message) else await given
        if not isinstance(request, FetchRequest):
            return answer_from(self.node, request)
        response = fetch_from(self.node, request)
        if request.max_wait_ms and not has_news(response):
            await self._news(request.max_wait_ms)
            response = fetch_from(self.node, request)
        return response

    async def _news(self, max_wait_ms: int) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        timer = self.node.clock.call_later(max_wait_ms, self.tell)
        try:
            await waiting
        finally:
            timer.cancel()
            self._waiting.remove(waiting)


def answer_from(node: Node, request: Message) -> Message:
    """A leader's answers to a fetcher, at once."""
    match request:
        case FetchRequest():
            return fetch_from(node, request)
        case OffsetForLeaderEpochRequest():
            return _epochs_of(node, request)
        case ListOffsetsRequest():
            return _offsets_of(node, request)
    raise AssertionError(f"a fetcher sent {request!r}")


def fetch_from(node: Node, request: FetchRequest) -> FetchResponse:
    return FetchResponse(
        responses=[
            FetchableTopicResponse(topic.topic, partitions=[_read(node, topic.topic, each, request.replica_id)])
            for topic in request.topics
            for each in topic.partitions
        ]
    )


def _read(node: Node, topic: str, asked: FetchPartition, replica_id: int) -> PartitionData:
    wish = FetchWish(
        asked.fetch_offset,
        asked.partition_max_bytes,
        asked.current_leader_epoch,
        asked.log_start_offset,
        asked.last_fetched_epoch,
    )
    limits = FetchLimits(0, 1, 1 << 20, replica_id=replica_id)
    read = read_one(node.replicas, TopicPartition(topic, asked.partition), wish, limits, wish.max_bytes)
    return PartitionData(
        asked.partition,
        read.error_code,
        read.high_watermark,
        read.last_stable_offset,
        read.log_start_offset,
        None if read.diverging is None else DivergingEpoch(*read.diverging),
        records=bytes_of(read.records),
    )


def _epochs_of(node: Node, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [_epoch_of(node, topic.topic, asked) for asked in topic.partitions])
            for topic in request.topics
        ]
    )


def _epoch_of(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = node.replicas.partition(TopicPartition(topic, asked.partition))
        partition.check_leader(asked.current_leader_epoch)
        epoch, end = partition.log.leader_epochs.end_offset_for(asked.leader_epoch)
        return EpochEndOffset(0, asked.partition, epoch, end)
    except BrokerError as error:
        return EpochEndOffset(error.error_code, asked.partition)


def _offsets_of(node: Node, request: ListOffsetsRequest) -> ListOffsetsResponse:
    (topic,) = request.topics
    (asked,) = topic.partitions
    try:
        partition = node.replicas.partition(TopicPartition(topic.name, asked.partition_index))
        partition.check_leader(asked.current_leader_epoch)
        log = partition.log
        offset = log.log_end_offset if asked.timestamp == -1 else log.log_start_offset
        answer = ListOffsetsPartitionResponse(asked.partition_index, offset=offset)
    except BrokerError as error:
        answer = ListOffsetsPartitionResponse(asked.partition_index, error.error_code)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(topic.name, [answer])])


def bytes_of(records: object) -> bytes:
    """The records that were read from a log."""
    if isinstance(records, FileSlice):
        return records.read()
    assert isinstance(records, bytes)
    return records


def has_news(response: FetchResponse) -> bool:
    """Whether a leader answers so at once."""
    return any(
        data.error_code or data.diverging_epoch or data.records
        for topic in response.responses
        for data in topic.partitions
    )


def throttles(broker_id: int, clock: ManualClock, **keys: str) -> ReplicationThrottles:
    """Those of a broker; keys with ``__`` for each dot."""
    properties = {name.replace("__", "."): value for name, value in keys.items()}
    return ReplicationThrottles(BrokerConfig.from_properties({"broker.id": str(broker_id), **properties}), clock)


def fetcher_context(node: Node, limits: ReplicationThrottles, settings: FetcherSettings) -> FetcherContext:
    return FetcherContext(node.clock, settings, node.replicas, limits.follower)


class Pair:
    """A leader and a follower (broker 1) of ``t-0``, each with its log below ``path``."""

    def __init__(self, path: Path, config: LogConfig | None = None, clock: ManualClock | None = None) -> None:
        self.node = Node(path / "follower", config, clock=clock)
        self.clock = self.node.clock
        self.leader = Leader(path / "leader", self.clock, config)
        self.throttles = throttles(ME, self.clock)
        self.fetchers = ReplicaFetchers(ME, self.context(), lambda _: self.leader)
        self.node.replicas.follow_by(lambda: self.fetchers)

    def context(self) -> FetcherContext:
        return fetcher_context(self.node, self.throttles, SETTINGS)

    def follow(self, epoch: int = 0, leader: int = LEADER) -> None:
        self.node.replicas.become_leader_or_follower(
            TP, state(leader=leader, epoch=epoch, isr=(LEADER, ME), replicas=(LEADER, ME))
        )

    async def settle(self) -> None:
        """Let the fetcher work until it waits for its leader or for the clock."""
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def ends(self) -> tuple[int, int, int]:
        """Start, high watermark and end of the follower's log."""
        return self.log.log_start_offset, self.log.high_watermark, self.log.log_end_offset

    @property
    def has_the_same(self) -> bool:
        """Whether the follower's log holds the bytes of the leader's."""
        mine, leaders = (log.read(log.log_start_offset, 1 << 20).records for log in (self.log, self.leader.log))
        return bool(mine) and bytes_of(mine) == bytes_of(leaders)

    @property
    def log(self) -> Log:
        return self.node.replicas.partitions[TP].log
