"""Fetch v0-12.

Done: min and max bytes, max wait, partition limits; incremental sessions (KIP-227); isolation level with the aborted
transactions; the epoch that the client knows (KIP-320); followers' fetches with diverging epochs (KIP-595). Records
leave as they lie in the file, but below v4 what is newer than the client's format is converted on its way, a few
milliseconds at a time.
Not done: rack-aware reading (the preferred read replica is always -1).
Errors: UNKNOWN_SERVER_ERROR -1 (no such isolation level), CORRUPT_MESSAGE 2, OFFSET_OUT_OF_RANGE 1,
UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, UNSUPPORTED_VERSION 35 (conversion is switched off),
KAFKA_STORAGE_ERROR 56, FETCH_SESSION_ID_NOT_FOUND 70, INVALID_FETCH_SESSION_EPOCH 71, FENCED_LEADER_EPOCH 74,
UNKNOWN_LEADER_EPOCH 75, UNSUPPORTED_COMPRESSION_TYPE 76 (zstd before v10).
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from kafkapy.cluster.delayed import Delayed
from kafkapy.cluster.fetching import FetchLimits, FetchWish, Haste, PartitionRead, Reads, fetch, fetch_many
from kafkapy.cluster.partition import NO_EPOCH
from kafkapy.cluster.replica_manager import ReplicaManager
from kafkapy.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.server import fetch_versions
from kafkapy.server.budget import Held
from kafkapy.server.context import RequestContext
from kafkapy.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchSessionCache
from kafkapy.server.fetch_sessions import next_epoch as epoch_after
from kafkapy.turns import Steps, finish, in_turns
from kafkapy.types import TopicPartition

Choose = Callable[[Reads], Steps[tuple[Reads, int]]]
"""From what was read to what is answered, and the session's id."""

Begun = tuple[dict[TopicPartition, FetchWish], Choose]
"""A request that was understood: the partitions to read, and what to answer of them."""

READ_COMMITTED: Final = 1
MANY: Final = 100
"""Partitions that one request is answered for at once; for more it is in slices."""

WAITING_PARTITION_SIZE: Final = 1_000
"""Bytes that a partition takes in a fetch that waits."""

ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
LAST_VERSION_WITH_HARD_LIMITS: Final = 2
"""Up to here a client's buffer may be as large as it said: not even the first batch may be larger."""

_UNKNOWN: Final = -1
_SESSION_NOT_FOUND: Final = 70
_INVALID_SESSION_EPOCH: Final = 71


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
    """See the card."""
    limits = _limits(context, request)
    if _count(context, request) > MANY:
        haste = Haste()
        response = Delayed.of(asyncio.create_task(_fetch_many(context, request, limits, haste)), None)
        response.hurry = haste
        return response
    asked = {
        TopicPartition(topic.topic, partition.partition): _wish(partition)
        for topic in request.topics
        for partition in topic.partitions
    }
    begun = finish(_begin(context, request, limits, asked))
    if isinstance(begun, FetchResponse):
        return begun
    wishes, choose = begun
    replicas, version = context.services.replica_manager, context.header.api_version

    def build(reads: Reads) -> FetchResponse:
        chosen, session_id = finish(choose(reads))
        if version < fetch_versions.FIRST_VERSION_WITH_ALL:
            chosen = fetch_versions.fit(replicas, version, chosen)
        topics: list[FetchableTopicResponse] = []
        _add_rows(topics, chosen)
        return FetchResponse(responses=topics, session_id=session_id)

    if version >= fetch_versions.FIRST_VERSION_OF_FORMAT_2:
        return fetch(replicas, tuple(wishes.items()), limits, build)
    found = fetch(replicas, tuple(wishes.items()), limits, lambda reads: reads)

    async def convert() -> FetchResponse:
        reads = await found if isinstance(found, Delayed) else found
        return await _converted(context, limits, begun, reads)

    return Delayed.of(asyncio.create_task(convert()), found)


async def _fetch_many(
    context: RequestContext, request: FetchRequest, limits: FetchLimits, haste: Haste
) -> FetchResponse:
    """Answer a request for so many partitions that other requests must be served between them."""
    with Held(context.services.memory, haste) as held:
        await _count_session(context, request, held)
        asked = await in_turns(_wishes(request))
        begun = await in_turns(_begin(context, request, limits, asked))
        if isinstance(begun, FetchResponse):
            return begun
        del request, asked  # which may be large, while this waits
        wishes, choose = begun
        replicas, version = context.services.replica_manager, context.header.api_version
        reads = await fetch_many(replicas, wishes, limits, haste)
    if version >= fetch_versions.FIRST_VERSION_OF_FORMAT_2:
        return await in_turns(_response(replicas, version, choose, reads))
    return await _converted(context, limits, begun, reads)


async def _count_session(context: RequestContext, request: FetchRequest, held: Held) -> None:
    """Count what a request that names few partitions takes for those of its session, once there is memory for it."""
    session = context.services.fetch_sessions.get(request.session_id)
    if session is not None and sum(len(topic.partitions) for topic in request.topics) <= MANY:
        await held.admission()
        held.charge(len(session.partitions) * WAITING_PARTITION_SIZE)


async def _converted(context: RequestContext, limits: FetchLimits, begun: Begun, reads: Reads) -> FetchResponse:
    """Answer a client that knows older formats only."""
    replicas, version = context.services.replica_manager, context.header.api_version
    wishes, choose = begun
    fitted = fetch_versions.fit(replicas, version, reads)
    converted = await fetch_versions.convert_all(
        replicas, version, fitted, wishes, is_follower=limits.is_follower, compute=context.services.compute.run
    )
    return await in_turns(_response(replicas, fetch_versions.FIRST_VERSION_WITH_ALL, choose, converted))


def _count(context: RequestContext, request: FetchRequest) -> int:
    """Return how many partitions the request is about, or some number above ``MANY``."""
    count = 0
    if request.session_id != NO_SESSION:
        session = context.services.fetch_sessions.get(request.session_id)
        count = 0 if session is None else len(session.partitions)
    for topic in request.topics:
        count += len(topic.partitions)
        if count > MANY:
            return count
    for forgotten in request.forgotten_topics_data:
        count += len(forgotten.partitions)
        if count > MANY:
            return count
    return count


def _limits(context: RequestContext, request: FetchRequest) -> FetchLimits:
    max_bytes = min(request.max_bytes, context.services.config.integer("fetch.max.bytes"))
    return FetchLimits(
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.isolation_level == READ_COMMITTED,
        request.replica_id,
        context.header.api_version <= LAST_VERSION_WITH_HARD_LIMITS,
    )


def _begin(
    context: RequestContext, request: FetchRequest, limits: FetchLimits, wishes: dict[TopicPartition, FetchWish]
) -> Steps[FetchResponse | Begun]:
    """Continue the request's session, or take the request by itself; ``wishes`` are those that it names."""
    sessions = context.services.fetch_sessions
    choose: Choose
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            choose = _without_session
        else:
            choose = partial(_open_session, sessions, wishes, is_follower=limits.is_follower)
    else:
        session = sessions.get(request.session_id)
        if session is None:
            return FetchResponse(error_code=_SESSION_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return FetchResponse(error_code=_INVALID_SESSION_EPOCH)
        session.epoch = epoch_after(session.epoch)  # before the first pause, so that no other request continues it
        sessions.touch(session)
        if not (yield from sessions.update(session, wishes, _forgotten(request))):
            return FetchResponse(error_code=_SESSION_NOT_FOUND)
        if not session.partitions:
            sessions.remove(session.session_id)
            return FetchResponse()
        wishes = yield from session.wishes()
        choose = partial(_continue_session, session)
    if request.isolation_level not in ISOLATION_LEVELS:
        partitions = context.services.replica_manager.partitions
        if any(each in partitions for each in wishes):
            return (yield from _failed(request))
    return wishes, choose


def _failed(request: FetchRequest) -> Steps[FetchResponse]:
    """Kafka finds out that there is no such isolation level when it is about to read."""
    asked = yield from _wishes(request)
    response = yield from _by_topic([PartitionRead(each, error_code=_UNKNOWN) for each in asked], request.session_id)
    response.error_code = _UNKNOWN
    return response


def _wishes(request: FetchRequest) -> Steps[dict[TopicPartition, FetchWish]]:
    wishes = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wishes[TopicPartition(topic.topic, partition.partition)] = _wish(partition)
            yield
    return wishes


def _wish(partition: FetchPartition) -> FetchWish:
    return FetchWish(
        partition.fetch_offset,
        partition.partition_max_bytes,
        # any negative epoch is none: in Fetch alone, as in Apache Kafka
        max(partition.current_leader_epoch, NO_EPOCH),
        partition.log_start_offset,
        partition.last_fetched_epoch,
    )


def _forgotten(request: FetchRequest) -> Iterator[TopicPartition]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition)


def _without_session(reads: Reads) -> Steps[tuple[Reads, int]]:
    yield
    return reads, NO_SESSION


def _open_session(
    sessions: FetchSessionCache, wishes: dict[TopicPartition, FetchWish], reads: Reads, *, is_follower: bool
) -> Steps[tuple[Reads, int]]:
    session = yield from sessions.create(wishes, is_follower=is_follower)
    if session is None:
        return reads, NO_SESSION
    for read in reads:
        _is_news(session, read)
        yield
    return reads, session.session_id


def _continue_session(session: FetchSession, reads: Reads) -> Steps[tuple[Reads, int]]:
    news = []
    for read in reads:
        if _is_news(session, read):
            news.append(read)
            session.served(read.topic_partition)
        yield
    return news, session.session_id


def _is_news(session: FetchSession, read: PartitionRead) -> bool:
    partition = session.partitions.get(read.topic_partition)
    if partition is None:
        return False  # forgotten by another request of the session while this one waited
    news = partition.is_news(
        size=len(read.records),
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        log_start_offset=read.log_start_offset,
    )
    return news or read.diverging is not None


def _response(replicas: ReplicaManager, version: int, choose: Choose, reads: Reads) -> Steps[FetchResponse]:
    """Answer what ``choose`` says: a session does not hear of what the client's version is refused."""
    chosen, session_id = yield from choose(reads)
    if version < fetch_versions.FIRST_VERSION_WITH_ALL:
        chosen = fetch_versions.fit(replicas, version, chosen)
    return (yield from _by_topic(chosen, session_id))


def _by_topic(reads: Reads, session_id: int) -> Steps[FetchResponse]:
    """Lay the reads out by topic, in their order."""
    topics: list[FetchableTopicResponse] = []
    for start in range(0, len(reads), MANY):
        _add_rows(topics, reads[start : start + MANY])
        yield
    return FetchResponse(responses=topics, session_id=session_id)


def _add_rows(topics: list[FetchableTopicResponse], reads: Reads) -> None:
    for read in reads:
        name, index = read.topic_partition
        if not topics or topics[-1].topic != name:
            topics.append(FetchableTopicResponse(name, partitions=[]))
        topics[-1].partitions.append(
            PartitionData(
                index,
                read.error_code,
                read.high_watermark,
                read.last_stable_offset,
                read.log_start_offset,
                None if read.diverging is None else EpochEndOffset(*read.diverging),
                aborted_transactions=(
                    None if read.aborted is None else [AbortedTransaction(*aborted) for aborted in read.aborted]
                ),
                records=read.records,
            )
        )
