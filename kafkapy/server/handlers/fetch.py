"""Fetch v0-12.

Done: min and max bytes, max wait, partition limits; incremental sessions (KIP-227); isolation level with the aborted
transactions; the epoch that the client knows (KIP-320); followers' fetches with diverging epochs (KIP-595) and
throttled rates (KIP-73); reading from a follower in the client's rack (KIP-392). Records are sent as they are in the
file, but below v4 batches of newer formats than the client's are converted while they are sent, a few milliseconds at
a time.
Errors: UNKNOWN_SERVER_ERROR -1 (no such isolation level), CORRUPT_MESSAGE 2, OFFSET_OUT_OF_RANGE 1,
UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, TOPIC_AUTHORIZATION_FAILED 29, UNSUPPORTED_VERSION 35
(conversion is switched off), KAFKA_STORAGE_ERROR 56, FETCH_SESSION_ID_NOT_FOUND 70, INVALID_FETCH_SESSION_EPOCH 71,
FENCED_LEADER_EPOCH 74, UNKNOWN_LEADER_EPOCH 75, UNSUPPORTED_COMPRESSION_TYPE 76 (zstd before v10).
"""

import asyncio
from collections.abc import Awaitable, Generator, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.delayed import Delayed
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ZERO_UUID, Message, Records
from kafkapy.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkapy.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessionCache,
    next_epoch,
)
from kafkapy.replication.fetching import MANY, FetchLimits, FetchWish, PartitionRead, Reads, fetch
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.dispatch.encoding import FilledWithRecords, RecordsTemplate
from kafkapy.server.dispatch.forms import Pattern, Vary
from kafkapy.server.handlers.shared import fetch_versions
from kafkapy.turns import PIECE, MaybeSteps, Steps, in_turns, pieces, turns
from kafkapy.types import NO_BROKER_ID, NO_EPOCH, READ_COMMITTED, TopicPartition, maker, topic_partition_of

if TYPE_CHECKING:
    from kafkapy.quotas.clients import ClientQuotas
    from kafkapy.server.dispatch.context import RequestContext


Wishes = dict[TopicPartition, FetchWish]

_limits_of: Final = maker(FetchLimits)
_wish_of: Final = maker(FetchWish)

FIRST_VERSION_WITH_LOG_START: Final = 5
FIRST_VERSION_WITH_SESSIONS: Final = 7
FIRST_VERSION_WITH_RACKS: Final = 11
"""From this version on consumers may read from followers."""

ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
LAST_VERSION_WITH_HARD_LIMITS: Final = 2
"""Up to this version the first batch, too, must fit the limits: the client's buffer may have just that size."""

LARGEST_RESPONSE: Final = 2**31 - 1

ROW_SIZE: Final = 64
"""What the row of a partition counts beside its records, for a quota: its fields, and a share of the topic's name."""

_KNOWN_ANSWERS: Final = 1024
_UNKNOWN: Final = ErrorCode.UNKNOWN_SERVER_ERROR
_SESSION_NOT_FOUND: Final = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
_INVALID_SESSION_EPOCH: Final = ErrorCode.INVALID_FETCH_SESSION_EPOCH

Answer = Message | Awaitable[Message]
Answered = Answer | Delayed[Answer]


def handle(context: "RequestContext", request: FetchRequest) -> MaybeSteps[Answered]:
    """See the card; a fetch of many partitions takes steps, of some each."""
    topics = request.topics
    if len(topics) > 1 or (topics and len(topics[0].partitions) > PIECE):
        return _handle_many(context, request)
    wishes: Wishes = {}
    for topic in topics:
        _add_wishes(wishes, topic.topic, topic.partitions)
    return _begin(context, request, wishes)


def _handle_many(context: "RequestContext", request: FetchRequest) -> Steps[Answered]:
    wishes: Wishes = {}
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            _add_wishes(wishes, topic.topic, piece)
            yield
    answered = _begin(context, request, wishes)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _add_wishes(wishes: Wishes, topic: str, partitions: Sequence[FetchPartition]) -> None:
    for partition in partitions:
        epoch = partition.current_leader_epoch
        wishes[topic_partition_of((topic, partition.partition))] = _wish_of(
            (
                partition.fetch_offset,
                partition.partition_max_bytes,
                epoch
                if epoch >= 0
                else NO_EPOCH,  # any negative one means none, but in Fetch alone, as in Apache Kafka
                partition.log_start_offset,
                partition.last_fetched_epoch,
            )
        )


def _begin(context: "RequestContext", request: FetchRequest, wishes: Wishes) -> MaybeSteps[Answered]:
    """Continue the request's session, or serve the partitions of the request itself."""
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return _continue(context, request, wishes)
    if request.session_id != NO_SESSION:
        context.services.fetch_sessions.remove(request.session_id)
    return _fetch(context, request, wishes, None)


def _continue(context: "RequestContext", request: FetchRequest, wishes: Wishes) -> MaybeSteps[Answered]:
    """Continue the request's session, which has partitions beside those that the request names."""
    sessions = context.services.fetch_sessions
    session = sessions.get(request.session_id)
    if session is None or session.epoch != request.session_epoch:
        return FetchResponse(error_code=_SESSION_NOT_FOUND if session is None else _INVALID_SESSION_EPOCH)
    session.epoch = next_epoch(session.epoch)  # before any pause, so that no other request continues it
    sessions.touch(session)
    if len(wishes) > PIECE or len(session.due) > PIECE or request.forgotten_topics_data:
        return _continue_many(context, request, wishes, session)
    if wishes and not sessions.remember(session, wishes.items()):
        return FetchResponse(error_code=_SESSION_NOT_FOUND)
    return _fetch_due(context, request, session.wishes(), session)


def _continue_many(
    context: "RequestContext", request: FetchRequest, wishes: Wishes, session: FetchSession
) -> Steps[Answered]:
    sessions = context.services.fetch_sessions
    if not (yield from _remember(sessions, session, wishes)):
        return FetchResponse(error_code=_SESSION_NOT_FOUND)
    for forgotten in _forgotten(request):
        sessions.forget(session, (forgotten,))
        yield
    due: Wishes = {}
    for piece in pieces(tuple(session.due)):
        if due:
            yield
        due.update(session.wishes(piece))
    answered = _fetch_due(context, request, due, session)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _fetch_due(
    context: "RequestContext", request: FetchRequest, due: Wishes, session: FetchSession
) -> MaybeSteps[Answered]:
    if not session.partitions:
        context.services.fetch_sessions.remove(session.session_id)
        return FetchResponse()
    return _fetch(context, request, due, session)


def _fetch(
    context: "RequestContext", request: FetchRequest, wishes: Wishes, session: FetchSession | None
) -> MaybeSteps[Answered]:
    """Read what a valid request asks for, and answer it; ``session`` is the one that it continues."""
    if context.services.access is not None:
        return _fetch_allowed(context, request, wishes, session)
    if len(wishes) > MANY:
        return _fetch_many(context, request, wishes, session)
    return _read(context, request, wishes, session)


def _fetch_many(
    context: "RequestContext",
    request: FetchRequest,
    wishes: Wishes,
    session: FetchSession | None,
    allowed: "_Allowed | None" = None,
) -> Steps[Answered]:
    turns().end_slice()
    yield
    answered = _read(context, request, wishes, session, allowed)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _fetch_allowed(
    context: "RequestContext", request: FetchRequest, wishes: Wishes, session: FetchSession | None
) -> Steps[Answered]:
    """``_fetch`` with an authorizer, which is asked about all partitions of a session at each of its fetches."""
    allowed = yield from _allowed(context, request, wishes)
    if len(wishes) > MANY:
        return (yield from _fetch_many(context, request, wishes, session, allowed))
    answered = _read(context, request, wishes, session, allowed)
    return (yield from answered) if isinstance(answered, Generator) else answered


class _Allowed(NamedTuple):
    """The wishes that the client may read, and the answers for the others."""

    wishes: Wishes
    refused: list[PartitionRead]


def _allowed(context: "RequestContext", request: FetchRequest, wishes: Wishes) -> Steps[_Allowed | None]:
    """Split the wishes by rights: a follower needs ClusterAction, others Read on the topic. None: all are allowed."""
    rights = context.rights()
    if rights is None:
        return None
    is_follower = request.replica_id >= 0
    may_follow = is_follower and rights.may_on_cluster(AclOperation.CLUSTER_ACTION)
    known: dict[str, bool] = {}
    split = _Allowed({}, [])
    for number, (topic_partition, wish) in enumerate(wishes.items(), start=1):
        topic = topic_partition.topic
        if topic not in known:
            known[topic] = may_follow if is_follower else rights.may(AclOperation.READ, AclResourceType.TOPIC, topic)
        if known[topic]:
            split.wishes[topic_partition] = wish
        else:
            split.refused.append(PartitionRead(topic_partition, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        if number % PIECE == 0:
            yield
    return split if split.refused else None


def _read(
    context: "RequestContext",
    request: FetchRequest,
    wishes: Wishes,
    session: FetchSession | None,
    allowed: "_Allowed | None" = None,
) -> MaybeSteps[Answered]:
    """Read all wishes or those that are ``allowed``; the response, and a new session, have all of them."""
    services, version, replica_id = context.services, context.header.api_version, request.replica_id
    replicas, isolation_level = services.replica_manager, request.isolation_level
    readable = wishes if allowed is None else allowed.wishes
    if isolation_level not in ISOLATION_LEVELS and not replicas.partitions.keys().isdisjoint(readable):
        return _refuse_level(request)  # Apache Kafka notices the level only when it reads a partition
    is_consumer = replica_id < 0
    max_bytes = min(request.max_bytes, services.config.integer("fetch.max.bytes"))
    if services.quotas is not None and is_consumer:
        max_bytes = min(max_bytes, _most_bytes(services.quotas, context))
    limits = _limits_of(
        (
            request.max_wait_ms,
            request.min_bytes if request.min_bytes < max_bytes else max_bytes,
            max_bytes,
            isolation_level == READ_COMMITTED,
            replica_id,
            version <= LAST_VERSION_WITH_HARD_LIMITS,
            version >= FIRST_VERSION_WITH_RACKS and is_consumer,
            request.rack_id if is_consumer else "",
            context.session.listener,
        )
    )
    opens_session = session is None and request.session_epoch == INITIAL_EPOCH
    if allowed is not None:
        return _read_allowed(context, limits, wishes, session, opens_session, allowed)
    return fetch(
        replicas,
        wishes,
        limits,
        lambda reads: _answer(context, limits, wishes, session, opens_session, reads),
        # a follower's session has partitions that are read only when something happens to them
        None if is_consumer else session,
    )


def _read_allowed(
    context: "RequestContext",
    limits: FetchLimits,
    wishes: Wishes,
    session: FetchSession | None,
    opens_session: bool,
    allowed: _Allowed,
) -> MaybeSteps[Answered]:
    def answer(reads: Reads) -> MaybeSteps[Answer]:
        return _answer(context, limits, wishes, session, opens_session, [*reads, *allowed.refused])

    if not allowed.wishes:
        return answer([])
    return fetch(context.services.replica_manager, allowed.wishes, limits, answer, None)


def _refuse_level(request: FetchRequest) -> Steps[FetchResponse]:
    named = dict.fromkeys(
        TopicPartition(topic.topic, each.partition) for topic in request.topics for each in topic.partitions
    )
    topics = yield from _by_topic([PartitionRead(each, error_code=_UNKNOWN) for each in named])
    return FetchResponse(error_code=_UNKNOWN, responses=topics, session_id=request.session_id)


def _remember(sessions: FetchSessionCache, session: FetchSession, wishes: Wishes) -> Steps[bool]:
    for number, piece in enumerate(pieces(tuple(wishes.items()))):
        if number:
            yield
        if not sessions.remember(session, piece):
            return False
    return True


def _forgotten(request: FetchRequest) -> Iterator[TopicPartition]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition)


def _answer(
    context: "RequestContext",
    limits: FetchLimits,
    wishes: Wishes,
    session: FetchSession | None,
    opens_session: bool,
    reads: Reads,
) -> MaybeSteps[Answer]:
    """Build the response. Errors because of an old client's version do not change its session."""
    quotas = context.services.quotas
    if quotas is not None and not limits.is_follower and (throttle_ms := _throttle_ms(quotas, context, reads)):
        # The records stay: the session does not change, and the client asks for them again.
        session_id = NO_SESSION if session is None else session.session_id
        return FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id)
    if context.header.api_version < fetch_versions.FIRST_VERSION_OF_FORMAT_2:
        return Delayed.of(asyncio.create_task(_converted(context, limits, wishes, reads)), None)
    if opens_session:
        return _answer_opening(context, limits, wishes, reads)
    if session is None:
        return _respond(context, limits, NO_SESSION, reads)
    if len(reads) > PIECE:
        return _answer_many(context, limits, session, reads)
    return _respond(context, limits, session.session_id, _news(context, limits, session, reads))


def _most_bytes(quotas: "ClientQuotas", context: "RequestContext") -> int:
    """What a client may read at once: else a small quota would never let it have a large response."""
    from kafkapy.quotas.limits import QuotaKind
    from kafkapy.server.dispatch.throttling import client_names

    most = quotas.most_in_windows(QuotaKind.FETCH, *client_names(context))
    return LARGEST_RESPONSE if most is None else int(min(most, LARGEST_RESPONSE))


def _throttle_ms(quotas: "ClientQuotas", context: "RequestContext", reads: Reads) -> int:
    """How long the client has to wait before it gets this; what it does not get does not count."""
    from kafkapy.quotas.limits import QuotaKind
    from kafkapy.server.dispatch.throttling import client_names

    size = sum(len(read.records) + ROW_SIZE for read in reads)
    client = client_names(context)
    throttle_ms = quotas.record(QuotaKind.FETCH, *client, size)
    if throttle_ms:
        quotas.take_back(QuotaKind.FETCH, *client, size)
    return throttle_ms


def _answer_opening(context: "RequestContext", limits: FetchLimits, wishes: Wishes, reads: Reads) -> Steps[Answer]:
    session = yield from _opened(context.services.fetch_sessions, limits, wishes, reads)
    session_id = NO_SESSION if session is None else session.session_id
    answered = _respond(context, limits, session_id, reads)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _answer_many(context: "RequestContext", limits: FetchLimits, session: FetchSession, reads: Reads) -> Steps[Answer]:
    news: list[PartitionRead] = []
    for piece in pieces(reads):
        news += _news(context, limits, session, piece)
        yield
    answered = _respond(context, limits, session.session_id, news)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _respond(context: "RequestContext", limits: FetchLimits, session_id: int, reads: Reads) -> MaybeSteps[Message]:
    version, replicas = context.header.api_version, context.services.replica_manager
    if version < fetch_versions.FIRST_VERSION_WITH_ALL:
        reads = fetch_versions.fit(replicas, version, reads)
    if limits.replica_id < 0 and len(reads) == 1 and version >= FIRST_VERSION_WITH_LOG_START:  # as most of them
        ((topic_partition, records, error_code, *offsets, aborted, diverging, preferred),) = reads
        if not error_code and aborted is None and diverging is None and preferred == NO_BROKER_ID:
            template = _of_one_partition(version, session_id, topic_partition)
            return FilledWithRecords(template, offsets, records)
    return _response_of_rows(replicas, limits, session_id, reads)


def _response_of_rows(
    replicas: ReplicaManager, limits: FetchLimits, session_id: int, reads: Reads
) -> Steps[FetchResponse]:
    if limits.is_follower:
        for piece in pieces(reads):
            replicas.count_throttled_bytes([(read.topic_partition, len(read.records)) for read in piece])
            yield
    return FetchResponse(responses=(yield from _by_topic(reads)), session_id=session_id)


@lru_cache(maxsize=_KNOWN_ANSWERS)
def _of_one_partition(version: int, session_id: int, topic_partition: TopicPartition) -> RecordsTemplate:
    """The response with the read of one partition, which has nothing unusual."""
    topic, index = topic_partition

    def make(
        high_watermark: int, last_stable_offset: int, log_start_offset: int, records: Records | None
    ) -> FetchResponse:
        row = PartitionData(index, 0, high_watermark, last_stable_offset, log_start_offset, None, records=records)
        row.aborted_transactions = None
        return FetchResponse(responses=[FetchableTopicResponse(topic, partitions=[row])], session_id=session_id)

    return RecordsTemplate(make, "qqq", version)


async def _converted(context: "RequestContext", limits: FetchLimits, wishes: Wishes, reads: Reads) -> FetchResponse:
    """Answer a client that supports older formats only; it has no session."""
    replicas, version = context.services.replica_manager, context.header.api_version
    converted = await fetch_versions.convert_all(
        replicas,
        version,
        fetch_versions.fit(replicas, version, reads),
        wishes,
        is_follower=limits.is_follower,
        compute=context.services.compute.run,
    )
    return FetchResponse(responses=await in_turns(_by_topic(converted)))


def _news(context: "RequestContext", limits: FetchLimits, session: FetchSession, reads: Reads) -> list[PartitionRead]:
    """Return the reads whose contents the client of a session does not know yet."""
    news: list[PartitionRead] = []
    for read in reads:
        if _is_news(session, read):
            session.move_to_end(read.topic_partition)
            news.append(read)
    if limits.replica_id >= 0:
        _leave_out_quiet(context, limits, session, reads)
    return news


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
    return news or read.diverging is not None or read.preferred_read_replica != NO_BROKER_ID


def _leave_out_quiet(
    context: "RequestContext", limits: FetchLimits, session: FetchSession, reads: Sequence[PartitionRead]
) -> None:
    """Leave quiet partitions out of a follower's next fetches: it has their records and knows their offsets."""
    nothing_new = [read.topic_partition for read in reads if not (read.records or read.error_code or read.diverging)]
    session.leave_out_quiet(context.services.replica_manager, limits.replica_id, nothing_new)


def _opened(
    sessions: FetchSessionCache, limits: FetchLimits, wishes: Wishes, reads: Reads
) -> Steps[FetchSession | None]:
    """Open a session with these partitions, if the cache has a place for it."""
    session = sessions.create(len(wishes), is_follower=limits.is_follower)
    if session is None or not (yield from _remember(sessions, session, wishes)):
        return None
    for piece in pieces(reads):
        for read in piece:
            _is_news(session, read)
        yield
    return session


def _by_topic(reads: Reads) -> Steps[list[FetchableTopicResponse]]:
    """Group the reads by topic, in their order."""
    topics: list[FetchableTopicResponse] = []
    for number, read in enumerate(reads, start=1):
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
                preferred_read_replica=read.preferred_read_replica,
                records=read.records,
            )
        )
        if number % PIECE == 0:
            yield
    return topics


def _formats(context: "RequestContext", request: FetchRequest) -> str | None:
    topics = request.topics
    if context.header.api_version < FIRST_VERSION_WITH_SESSIONS:
        return None
    if len(topics) != 1 or len(topics[0].partitions) != 1 or request.forgotten_topics_data or request.replica_id >= 0:
        return None
    return "iq"


def _varying(request: FetchRequest) -> Vary[FetchRequest]:
    (topic,) = request.topics
    (partition,) = topic.partitions
    name, index, leader_epoch = topic.topic, partition.partition, partition.current_leader_epoch
    end = partition.last_fetched_epoch, partition.log_start_offset, partition.partition_max_bytes
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    replica_id, session_id, rack_id = request.replica_id, request.session_id, request.rack_id

    def vary(integers: tuple[int, ...], _: Records | None) -> FetchRequest:
        session_epoch, fetch_offset = integers
        topics = [FetchTopic(name, ZERO_UUID, [FetchPartition(index, leader_epoch, fetch_offset, *end)])]
        return FetchRequest(None, replica_id, None, *limits, session_id, session_epoch, topics, [], rack_id)

    return vary


PATTERN: Final = Pattern(_formats, _varying)
"""A consumer reads a partition on: the epoch of its session and the offset vary."""
