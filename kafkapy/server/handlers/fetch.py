"""Fetch v0-18.

Done: min and max bytes, max wait, partition limits; incremental sessions (KIP-227); isolation level with the aborted
transactions; the epoch that the client knows (KIP-320); followers' fetches with diverging epochs (KIP-595) and
throttled rates (KIP-73); reading from a follower in the client's rack (KIP-392); from v13 on topics by id (KIP-516);
from v16 on the leader beside NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951). Records are sent as they are in
the file, but below v4 batches of newer formats than the client's are converted while they are sent, a few milliseconds
at a time.
Errors: UNKNOWN_SERVER_ERROR -1 (no such isolation level), CORRUPT_MESSAGE 2, OFFSET_OUT_OF_RANGE 1,
UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, TOPIC_AUTHORIZATION_FAILED 29, UNSUPPORTED_VERSION 35
(conversion is switched off), KAFKA_STORAGE_ERROR 56, FETCH_SESSION_ID_NOT_FOUND 70, INVALID_FETCH_SESSION_EPOCH 71,
FENCED_LEADER_EPOCH 74, UNKNOWN_LEADER_EPOCH 75, UNSUPPORTED_COMPRESSION_TYPE 76 (zstd before v10); from v13 on
UNKNOWN_TOPIC_ID 100, INCONSISTENT_TOPIC_ID 103 (the topic was deleted and created again since the session, or the
fetch, began) and FETCH_SESSION_TOPIC_ID_ERROR 106 (a session is continued with names in place of ids, or the reverse).
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from uuid import UUID

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
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafkapy.replication.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSession,
    FetchSessionCache,
    PartitionKey,
    TopicNames,
    next_epoch,
)
from kafkapy.replication.fetching import (
    MANY,
    FetchLimits,
    FetchWish,
    FollowerWishes,
    PartitionRead,
    Reads,
    fetch,
    replica_id_of,
)
from kafkapy.server.dispatch.encoding import FilledWithRecords, RecordsTemplate
from kafkapy.server.dispatch.forms import Pattern, Vary
from kafkapy.server.handlers.shared import fetch_versions
from kafkapy.server.handlers.shared.endpoints import CurrentLeaders
from kafkapy.turns import PIECE, MaybeSteps, Steps, in_turns, pieces, turns
from kafkapy.types import (
    NO_BROKER_ID,
    NO_EPOCH,
    READ_COMMITTED,
    TopicIdPartition,
    TopicPartition,
    maker,
    topic_partition_of,
)

if TYPE_CHECKING:
    from kafkapy.metadata.image import MetadataImage
    from kafkapy.quotas.clients import ClientQuotas
    from kafkapy.server.dispatch.context import RequestContext


Wishes = dict[PartitionKey, FetchWish]

_limits_of: Final = maker(FetchLimits)
_wish_of: Final = maker(FetchWish)
_topic_id_partition_of: Final = maker(TopicIdPartition)
_error_code_of: Final = attrgetter("error_code")

FIRST_VERSION_WITH_LOG_START: Final = 5
FIRST_VERSION_WITH_SESSIONS: Final = 7
FIRST_VERSION_WITH_RACKS: Final = 11
"""From this version on consumers may read from followers."""
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
FIRST_VERSION_WITH_LEADERS: Final = 16

ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
LAST_VERSION_WITH_HARD_LIMITS: Final = 2
"""Up to this version the first batch, too, must fit the limits: the client's buffer may have just that size."""

LARGEST_RESPONSE: Final = 2**31 - 1

ROW_SIZE: Final = 64
"""What the row of a partition counts beside its records, for a quota: its fields, and a share of the topic's name."""

_KNOWN_ANSWERS: Final = 1024
_WITH_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_UNKNOWN: Final = ErrorCode.UNKNOWN_SERVER_ERROR
_SESSION_NOT_FOUND: Final = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
_INVALID_SESSION_EPOCH: Final = ErrorCode.INVALID_FETCH_SESSION_EPOCH
_OTHER_SESSION: Final = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

Answer = Message | Awaitable[Message]
Answered = Answer | Delayed[Answer]


def handle(context: "RequestContext", request: FetchRequest) -> MaybeSteps[Answered]:
    """See the card; a fetch of many partitions takes steps, of some each."""
    topics = request.topics
    if len(topics) > 1 or (topics and len(topics[0].partitions) > PIECE):
        return _handle_many(context, request)
    wishes: Wishes = {}
    by_id = context.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    for topic in topics:
        _add_wishes(wishes, topic, topic.partitions, by_id=by_id)
    return _begin(context, request, wishes)


def _handle_many(context: "RequestContext", request: FetchRequest) -> Steps[Answered]:
    wishes: Wishes = {}
    by_id = context.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    for topic in request.topics:
        for piece in pieces(topic.partitions):
            _add_wishes(wishes, topic, piece, by_id=by_id)
            yield
    answered = _begin(context, request, wishes)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _add_wishes(wishes: Wishes, topic: FetchTopic, partitions: Sequence[FetchPartition], *, by_id: bool) -> None:
    name: str | UUID = topic.topic
    topic_id: UUID | None = None
    key_of: Callable[[tuple[object, ...]], PartitionKey] = topic_partition_of
    if by_id:
        name = topic_id = topic.topic_id
        key_of = _topic_id_partition_of
    for partition in partitions:
        epoch = partition.current_leader_epoch
        wishes[key_of((name, partition.partition))] = _wish_of(
            (
                partition.fetch_offset,
                partition.partition_max_bytes,
                epoch
                if epoch >= 0
                else NO_EPOCH,  # any negative one means none, but in Fetch alone, as in Apache Kafka
                partition.log_start_offset,
                partition.last_fetched_epoch,
                topic_id,
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
    if session.uses_topic_ids != (context.header.api_version >= FIRST_VERSION_WITH_TOPIC_IDS):
        return FetchResponse(error_code=_OTHER_SESSION)
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
    for forgotten in _forgotten(request, by_id=session.uses_topic_ids):
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
    if context.header.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        asked = _asked_of((wishes, wishes, [], None))  # all have names
        return _fetch_named(context, request, asked, session)
    names = None if session is None else session.topic_names
    asked = _asked_of((wishes, {}, [], {} if names is None else names))
    if len(wishes) > PIECE:
        return _fetch_many_by_id(context, request, asked, session)
    _find_topics(context.services.metadata.image, asked, wishes.items())
    return _fetch_named(context, request, asked, session)


class _Asked(NamedTuple):
    """The partitions that a fetch is about."""

    wishes: Wishes
    """All of them, as the client names them."""
    readable: dict[TopicPartition, FetchWish]
    """Those that are read."""
    refused: list[PartitionRead]
    """The answers for the others."""
    topic_names: TopicNames | None
    """See ``FetchSession``."""


_asked_of: Final = maker(_Asked)


def _fetch_many_by_id(
    context: "RequestContext", request: FetchRequest, asked: _Asked, session: FetchSession | None
) -> Steps[Answered]:
    for piece in pieces(tuple(asked.wishes.items())):
        _find_topics(context.services.metadata.image, asked, piece)
        yield
    answered = _fetch_named(context, request, asked, session)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _find_topics(image: "MetadataImage", asked: _Asked, wishes: Iterable[tuple[PartitionKey, FetchWish]]) -> None:
    """Find the topics of partitions that are named by their topics' ids, and refuse ids that no topic has now."""
    names, readable = asked.topic_names, asked.readable
    assert names is not None, "the request has ids"
    topic_id: UUID | None = None
    name, is_current = "", False
    for (wanted, index), wish in wishes:
        if wanted is not topic_id:
            assert not isinstance(wanted, str), "the request has ids"
            topic_id, name = wanted, names.get(wanted, "")
            if name:
                is_current = image.topic_id(name) == topic_id
            elif is_current := topic_id in image.topic_names:
                name = names[topic_id] = image.topic_names[topic_id]
        topic_partition = topic_partition_of((name, index))
        if is_current:
            readable[topic_partition] = wish
            continue
        error_code = ErrorCode.UNKNOWN_TOPIC_ID
        if name:  # it was found before, and is gone, or replaced by another topic
            is_replaced = image.partition(name, index) is not None
            error_code = ErrorCode.INCONSISTENT_TOPIC_ID if is_replaced else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        asked.refused.append(PartitionRead(topic_partition, error_code=error_code, topic_id=topic_id))


def _fetch_named(
    context: "RequestContext", request: FetchRequest, asked: _Asked, session: FetchSession | None
) -> MaybeSteps[Answered]:
    """``_fetch`` of partitions whose topics have names."""
    if context.services.access is not None:
        return _fetch_allowed(context, request, asked, session)
    if len(asked.readable) > MANY:
        return _fetch_many(context, request, asked, session)
    return _read(context, request, asked, session)


def _fetch_many(
    context: "RequestContext", request: FetchRequest, asked: _Asked, session: FetchSession | None
) -> Steps[Answered]:
    turns().end_slice()
    yield
    answered = _read(context, request, asked, session)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _fetch_allowed(
    context: "RequestContext", request: FetchRequest, asked: _Asked, session: FetchSession | None
) -> Steps[Answered]:
    """``_fetch`` with an authorizer, which is asked about all partitions of a session at each of its fetches."""
    allowed = yield from _allowed(context, request, asked)
    if len(allowed.readable) > MANY:
        return (yield from _fetch_many(context, request, allowed, session))
    answered = _read(context, request, allowed, session)
    return (yield from answered) if isinstance(answered, Generator) else answered


def _allowed(context: "RequestContext", request: FetchRequest, asked: _Asked) -> Steps[_Asked]:
    """Refuse partitions by rights: a follower needs ClusterAction, others Read on the topic."""
    rights = context.rights()
    if rights is None:
        return asked
    is_follower = replica_id_of(request) >= 0
    may_follow = is_follower and rights.may_on_cluster(AclOperation.CLUSTER_ACTION)
    known: dict[str, bool] = {}
    readable: dict[TopicPartition, FetchWish] = {}
    for number, (topic_partition, wish) in enumerate(asked.readable.items(), start=1):
        topic = topic_partition.topic
        if topic not in known:
            known[topic] = may_follow if is_follower else rights.may(AclOperation.READ, AclResourceType.TOPIC, topic)
        if known[topic]:
            readable[topic_partition] = wish
        else:
            error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            asked.refused.append(PartitionRead(topic_partition, error_code=error_code, topic_id=wish.topic_id))
        if number % PIECE == 0:
            yield
    return asked._replace(readable=readable)


def _read(
    context: "RequestContext", request: FetchRequest, asked: _Asked, session: FetchSession | None
) -> MaybeSteps[Answered]:
    """Read the readable partitions; the response, and a new session, have the refused ones too."""
    services, version, replica_id = context.services, context.header.api_version, replica_id_of(request)
    replicas, isolation_level = services.replica_manager, request.isolation_level
    readable, refused = asked.readable, asked.refused
    if isolation_level not in ISOLATION_LEVELS and not replicas.partitions.keys().isdisjoint(readable):
        return _refuse_level(request, version)  # Apache Kafka notices the level only when it reads a partition
    is_consumer = replica_id < 0
    max_bytes = min(request.max_bytes, services.config.integer("fetch.max.bytes"))
    if services.quotas is not None and is_consumer:
        max_bytes = min(max_bytes, _most_bytes(services.quotas, context))
    # Apache Kafka refuses an unknown topic before it reads, which ends no wait, and a replaced one when it reads it
    is_urgent = refused and ErrorCode.INCONSISTENT_TOPIC_ID in map(_error_code_of, refused)
    limits = _limits_of(
        (
            0 if is_urgent else request.max_wait_ms,
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
    follower: FollowerWishes | None = None
    if not (is_consumer or refused or asked.topic_names is not None):
        # a follower's session has partitions that are read only when something happens to them
        follower = cast("FollowerWishes | None", session)  # all of its partitions have names
    return fetch(
        replicas,
        readable,
        limits,
        lambda reads: _answer(context, limits, asked, session, opens_session, [*reads, *refused] if refused else reads),
        follower,
    )


def _refuse_level(request: FetchRequest, version: int) -> MaybeSteps[FetchResponse]:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return FetchResponse(error_code=_UNKNOWN, session_id=request.session_id)
    return _refuse_level_of_each(request)


def _refuse_level_of_each(request: FetchRequest) -> Steps[FetchResponse]:
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


def _forgotten(request: FetchRequest, *, by_id: bool) -> Iterator[PartitionKey]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield TopicIdPartition(topic.topic_id, partition) if by_id else TopicPartition(topic.topic, partition)


def _answer(
    context: "RequestContext",
    limits: FetchLimits,
    asked: _Asked,
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
        return Delayed.of(asyncio.create_task(_converted(context, limits, asked.wishes, reads)), None)
    if opens_session:
        return _answer_opening(context, limits, asked, reads)
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


def _answer_opening(context: "RequestContext", limits: FetchLimits, asked: _Asked, reads: Reads) -> Steps[Answer]:
    session = yield from _opened(context.services.fetch_sessions, limits, asked, reads)
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
        ((topic_partition, records, error_code, *offsets, aborted, diverging, preferred, topic_id),) = reads
        if not error_code and aborted is None and diverging is None and preferred == NO_BROKER_ID:
            template = _of_one_partition(version, session_id, topic_partition, topic_id)
            return FilledWithRecords(template, offsets, records)
    return _response_of_rows(context, limits, session_id, reads)


def _response_of_rows(
    context: "RequestContext", limits: FetchLimits, session_id: int, reads: Reads
) -> Steps[FetchResponse]:
    if limits.is_follower:
        replicas = context.services.replica_manager
        for piece in pieces(reads):
            replicas.count_throttled_bytes([(read.topic_partition, len(read.records)) for read in piece])
            yield
    response = FetchResponse(responses=(yield from _by_topic(reads)), session_id=session_id)
    if context.header.api_version >= FIRST_VERSION_WITH_LEADERS:
        yield from _add_leaders(context, response)
    return response


def _add_leaders(context: "RequestContext", response: FetchResponse) -> Steps[None]:
    leaders = CurrentLeaders(context)
    for topic in response.responses:
        for piece in pieces(topic.partitions):
            for row in piece:
                if row.error_code in _WITH_LEADER:
                    leader = leaders.of(TopicPartition(topic.topic, row.partition_index))
                    row.current_leader = LeaderIdAndEpoch(*leader)
            yield
    response.node_endpoints = [NodeEndpoint(*each) for each in leaders.addresses.values()]


@lru_cache(maxsize=_KNOWN_ANSWERS)
def _of_one_partition(
    version: int, session_id: int, topic_partition: TopicPartition, topic_id: UUID | None
) -> RecordsTemplate:
    """The response with the read of one partition, which has nothing unusual."""
    topic, index = topic_partition

    def make(
        high_watermark: int, last_stable_offset: int, log_start_offset: int, records: Records | None
    ) -> FetchResponse:
        row = PartitionData(index, 0, high_watermark, last_stable_offset, log_start_offset, None, records=records)
        row.aborted_transactions = None
        answered = FetchableTopicResponse(topic, topic_id or ZERO_UUID, [row])
        return FetchResponse(responses=[answered], session_id=session_id)

    return RecordsTemplate(make, "qqq", version)


async def _converted(context: "RequestContext", limits: FetchLimits, wishes: Wishes, reads: Reads) -> FetchResponse:
    """Answer a client that supports older formats only; it has no session."""
    replicas, version = context.services.replica_manager, context.header.api_version
    converted = await fetch_versions.convert_all(
        replicas,
        version,
        fetch_versions.fit(replicas, version, reads),
        wishes,  # type: ignore[arg-type]  # all have names
        is_follower=limits.is_follower,
        compute=context.services.compute.run,
    )
    return FetchResponse(responses=await in_turns(_by_topic(converted)))


def _news(context: "RequestContext", limits: FetchLimits, session: FetchSession, reads: Reads) -> list[PartitionRead]:
    """Return the reads whose contents the client of a session does not know yet."""
    news: list[PartitionRead] = []
    for read in reads:
        if _is_news(session, read):
            session.move_to_end(_key_of(read))
            news.append(read)
    if limits.replica_id >= 0:
        _leave_out_quiet(context, limits, session, reads)
    return news


def _key_of(read: PartitionRead) -> PartitionKey:
    topic_id = read.topic_id
    return read.topic_partition if topic_id is None else TopicIdPartition(topic_id, read.topic_partition.partition)


def _is_news(session: FetchSession, read: PartitionRead) -> bool:
    partition = session.partitions.get(read.topic_partition if read.topic_id is None else _key_of(read))
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
    sessions: FetchSessionCache, limits: FetchLimits, asked: _Asked, reads: Reads
) -> Steps[FetchSession | None]:
    """Open a session with these partitions, if the cache has a place for it."""
    session = sessions.create(len(asked.wishes), is_follower=limits.is_follower, topic_names=asked.topic_names)
    if session is None or not (yield from _remember(sessions, session, asked.wishes)):
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
        (name, index), topic_id = read.topic_partition, read.topic_id
        is_same = topics and topics[-1].topic == name and (topic_id is None or topics[-1].topic_id == topic_id)
        if not is_same:
            topics.append(FetchableTopicResponse(name, topic_id or ZERO_UUID, []))
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
    if (
        len(topics) != 1
        or len(topics[0].partitions) != 1
        or request.forgotten_topics_data
        or replica_id_of(request) >= 0
    ):
        return None
    return "iq"


def _varying(request: FetchRequest) -> Vary[FetchRequest]:
    (topic,) = request.topics
    (partition,) = topic.partitions
    name, topic_id = topic.topic, topic.topic_id
    index, leader_epoch = partition.partition, partition.current_leader_epoch
    end = partition.last_fetched_epoch, partition.log_start_offset, partition.partition_max_bytes
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    replica_id, replica_state = request.replica_id, request.replica_state
    session_id, rack_id = request.session_id, request.rack_id

    def vary(integers: tuple[int, ...], _: Records | None) -> FetchRequest:
        session_epoch, fetch_offset = integers
        topics = [FetchTopic(name, topic_id, [FetchPartition(index, leader_epoch, fetch_offset, *end)])]
        return FetchRequest(None, replica_id, replica_state, *limits, session_id, session_epoch, topics, [], rack_id)

    return vary


PATTERN: Final = Pattern(_formats, _varying)
"""A consumer reads a partition on: the epoch of its session and the offset vary."""
