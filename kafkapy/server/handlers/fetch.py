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
from collections.abc import Callable
from typing import Final

from kafkapy.cluster.delayed import Delayed
from kafkapy.cluster.fetching import FetchLimits, FetchWish, PartitionRead, Reads, fetch
from kafkapy.cluster.partition import NO_EPOCH
from kafkapy.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.server import fetch_versions
from kafkapy.server.context import RequestContext
from kafkapy.server.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchSessionCache
from kafkapy.server.fetch_sessions import next_epoch as epoch_after
from kafkapy.types import TopicPartition

Chosen = tuple[Reads, int]
"""What is answered, and the session's id."""

READ_COMMITTED: Final = 1
ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
LAST_VERSION_WITH_HARD_LIMITS: Final = 2
"""Up to here a client's buffer may be as large as it said: not even the first batch may be larger."""

_UNKNOWN: Final = -1
_SESSION_NOT_FOUND: Final = 70
_INVALID_SESSION_EPOCH: Final = 71


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
    """See the card."""
    services = context.services
    max_bytes = min(request.max_bytes, services.config.integer("fetch.max.bytes"))
    limits = FetchLimits(
        request.max_wait_ms,
        min(request.min_bytes, max_bytes),
        max_bytes,
        request.isolation_level == READ_COMMITTED,
        request.replica_id,
        context.header.api_version <= LAST_VERSION_WITH_HARD_LIMITS,
    )
    sessions = services.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        wishes = _wishes(request)

        def choose_all(reads: Reads) -> Chosen:
            if request.session_epoch == FINAL_EPOCH:
                return reads, NO_SESSION
            return _open_session(sessions, wishes, reads, is_follower=limits.is_follower)

        return _fetch(context, request, wishes, limits, choose_all)
    session = sessions.get(request.session_id)
    if session is None:
        return FetchResponse(error_code=_SESSION_NOT_FOUND)
    if session.epoch != request.session_epoch:
        return FetchResponse(error_code=_INVALID_SESSION_EPOCH)
    session.update(_wishes(request), _forgotten(request))
    if not session.partitions:
        sessions.remove(session.session_id)
        return _response([])
    session.epoch = epoch_after(session.epoch)
    sessions.touch(session)
    known = {topic_partition: partition.wish for topic_partition, partition in session.partitions.items()}
    return _fetch(context, request, known, limits, lambda reads: _continue_session(session, reads))


def _fetch(
    context: RequestContext,
    request: FetchRequest,
    wishes: dict[TopicPartition, FetchWish],
    limits: FetchLimits,
    choose: Callable[[Reads], Chosen],
) -> FetchResponse | Delayed[FetchResponse]:
    """Answer with the reads that ``choose`` says: a session does not hear of what the client's version is refused."""
    replicas = context.services.replica_manager
    version = context.header.api_version
    if request.isolation_level not in ISOLATION_LEVELS and any(each in replicas.partitions for each in wishes):
        return _failed(request)
    if version >= fetch_versions.FIRST_VERSION_WITH_ALL:
        return fetch(replicas, tuple(wishes.items()), limits, lambda reads: _response(*choose(reads)))

    def build_fitted(reads: Reads) -> FetchResponse:
        chosen, session_id = choose(reads)
        return _response(fetch_versions.fit(replicas, version, chosen), session_id)

    if version >= fetch_versions.FIRST_VERSION_OF_FORMAT_2:
        return fetch(replicas, tuple(wishes.items()), limits, build_fitted)
    found = fetch(replicas, tuple(wishes.items()), limits, lambda reads: reads)  # too old for a session

    async def convert() -> FetchResponse:
        reads = fetch_versions.fit(replicas, version, await found if isinstance(found, Delayed) else found)
        is_follower = limits.is_follower
        return _response(await fetch_versions.convert_all(replicas, version, reads, wishes, is_follower=is_follower))

    return Delayed.of(asyncio.create_task(convert()), found)


def _failed(request: FetchRequest) -> FetchResponse:
    """Kafka finds out that there is no such isolation level when it is about to read."""
    response = _response([PartitionRead(each, error_code=_UNKNOWN) for each in _wishes(request)], request.session_id)
    response.error_code = _UNKNOWN
    return response


def _wishes(request: FetchRequest) -> dict[TopicPartition, FetchWish]:
    return {
        TopicPartition(topic.topic, partition.partition): FetchWish(
            partition.fetch_offset,
            partition.partition_max_bytes,
            max(
                partition.current_leader_epoch, NO_EPOCH
            ),  # any negative one is none: in Fetch alone, as in Apache Kafka
            partition.log_start_offset,
            partition.last_fetched_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def _forgotten(request: FetchRequest) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _open_session(
    sessions: FetchSessionCache, wishes: dict[TopicPartition, FetchWish], reads: Reads, *, is_follower: bool
) -> Chosen:
    session = sessions.create(wishes, is_follower=is_follower)
    if session is None:
        return reads, NO_SESSION
    for read in reads:
        _is_news(session, read)
    return reads, session.session_id


def _continue_session(session: FetchSession, reads: Reads) -> Chosen:
    news = [read for read in reads if _is_news(session, read)]
    for read in news:
        session.served(read.topic_partition)
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


def _response(reads: Reads, session_id: int = NO_SESSION) -> FetchResponse:
    """Lay the reads out by topic, in their order."""
    topics: list[FetchableTopicResponse] = []
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
    return FetchResponse(responses=topics, session_id=session_id)
