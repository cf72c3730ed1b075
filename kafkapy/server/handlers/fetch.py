"""Fetch v0-12.

Done: min and max bytes, max wait, partition limits; incremental sessions (KIP-227); isolation level with the aborted
transactions; the epoch that the client knows (KIP-320); followers' fetches with diverging epochs (KIP-595) and
throttled rates (KIP-73); reading from a follower in the client's rack (KIP-392). Records are sent as they are in the
file, but below v4 batches of newer formats than the client's are converted while they are sent, a few milliseconds at
a time.
Errors: UNKNOWN_SERVER_ERROR -1 (no such isolation level), CORRUPT_MESSAGE 2, OFFSET_OUT_OF_RANGE 1,
UNKNOWN_TOPIC_OR_PARTITION 3, NOT_LEADER_OR_FOLLOWER 6, UNSUPPORTED_VERSION 35 (conversion is switched off),
KAFKA_STORAGE_ERROR 56, FETCH_SESSION_ID_NOT_FOUND 70, INVALID_FETCH_SESSION_EPOCH 71, FENCED_LEADER_EPOCH 74,
UNKNOWN_LEADER_EPOCH 75, UNSUPPORTED_COMPRESSION_TYPE 76 (zstd before v10).
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.delayed import Delayed
from kafkapy.network.budget import RequestMemory
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kafkapy.protocol.primitives import encode
from kafkapy.protocol.writer import Part, Writer
from kafkapy.replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, FetchSessionCache
from kafkapy.replication.fetch_sessions import next_epoch as epoch_after
from kafkapy.replication.fetching import (
    EndWaiting,
    FetchLimits,
    FetchWish,
    PartitionRead,
    Reads,
    fetch,
    fetch_many,
    fetch_one,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoded import SIZE_AND_CORRELATION_ID
from kafkapy.server.dispatch.forms import (
    API_AND_CORRELATION_ID,
    LARGEST_FORM_SIZE,
    IntegersForm,
    keep_integers,
    note_repeat,
)
from kafkapy.server.handlers.shared import fetch_versions
from kafkapy.turns import Steps, in_turns, pieces
from kafkapy.types import NO_BROKER_ID, NO_EPOCH, READ_COMMITTED, TopicPartition, maker, topic_partition_of

if TYPE_CHECKING:
    from kafkapy.network.session import Session


class _Begun(NamedTuple):
    """A valid request, before anything is read for it."""

    wishes: dict[TopicPartition, FetchWish]
    """The partitions to read."""
    session: FetchSession | None = None
    """The session that it continues."""
    opens_session: bool = False
    """Whether its response opens one."""


_begun_of: Final = maker(_Begun)
_limits_of: Final = maker(FetchLimits)
_wish_of: Final = maker(FetchWish)

MANY: Final = 100
"""Partitions of a request that is served at once; a request for more runs in slices."""

WAITING_PARTITION_SIZE: Final = 1_000
"""Bytes that a partition of a waiting fetch counts as in the memory budget."""

FIRST_VERSION_WITH_RACKS: Final = 11
"""From this version on consumers may read from followers."""

ISOLATION_LEVELS: Final = (0, READ_COMMITTED)
LAST_VERSION_WITH_HARD_LIMITS: Final = 2
"""Up to this version the first batch, too, must fit the limits: the client's buffer may have just that size."""

_UNKNOWN: Final = ErrorCode.UNKNOWN_SERVER_ERROR
_SESSION_NOT_FOUND: Final = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
_INVALID_SESSION_EPOCH: Final = ErrorCode.INVALID_FETCH_SESSION_EPOCH


def handle(context: RequestContext, request: FetchRequest) -> FetchResponse | Delayed[FetchResponse]:
    """See the card."""
    limits = _limits(context, request)
    session = context.services.fetch_sessions.get(request.session_id)
    if _count(session, request) > MANY:
        end_waiting = EndWaiting()
        response = Delayed.of(asyncio.create_task(_fetch_many(context, request, limits, end_waiting)), None)
        response.hurry = end_waiting
        return response
    begun = _begin(context, request, session)
    if isinstance(begun, FetchResponse):
        return begun
    replicas, version = context.services.replica_manager, context.header.api_version
    if version >= fetch_versions.FIRST_VERSION_OF_FORMAT_2:
        follower = _of_follower(begun, limits)
        return fetch(replicas, begun.wishes, limits, lambda reads: _answer(context, limits, begun, reads), follower)
    found = fetch(replicas, begun.wishes, limits, lambda reads: reads)

    async def convert() -> FetchResponse:
        reads = await found if isinstance(found, Delayed) else found
        return await _converted(context, limits, begun, reads)

    return Delayed.of(asyncio.create_task(convert()), found)


async def _fetch_many(
    context: RequestContext, request: FetchRequest, limits: FetchLimits, end_waiting: EndWaiting
) -> FetchResponse:
    """Answer a request for so many partitions that other requests must be served between them."""
    with RequestMemory(context.services.memory, end_waiting) as held:
        await _count_session(context, request, held)
        begun = await in_turns(_begin_many(context, request))
        if isinstance(begun, FetchResponse):
            return begun
        del request  # it may be large, and the fetch may wait
        version = context.header.api_version
        replicas = context.services.replica_manager
        reads = await fetch_many(replicas, begun.wishes, limits, end_waiting, _of_follower(begun, limits))
    if version >= fetch_versions.FIRST_VERSION_OF_FORMAT_2:
        return await in_turns(_answer_many(context, limits, begun, reads, version))
    return await _converted(context, limits, begun, reads)


async def _count_session(context: RequestContext, request: FetchRequest, held: RequestMemory) -> None:
    """Charge the memory budget for the session's partitions, after admission, if the request itself names few."""
    session = context.services.fetch_sessions.get(request.session_id)
    if session is not None and sum(len(topic.partitions) for topic in request.topics) <= MANY:
        await held.admission()
        held.charge(len(session.due) * WAITING_PARTITION_SIZE)


async def _converted(context: RequestContext, limits: FetchLimits, begun: _Begun, reads: Reads) -> FetchResponse:
    """Answer a client that knows older formats only."""
    replicas, version = context.services.replica_manager, context.header.api_version
    fitted = fetch_versions.fit(replicas, version, reads)
    converted = await fetch_versions.convert_all(
        replicas,
        version,
        fitted,
        begun.wishes,
        is_follower=limits.is_follower,
        compute=context.services.compute.run,
    )
    return await in_turns(_answer_many(context, limits, begun, converted, fetch_versions.FIRST_VERSION_WITH_ALL))


def _count(session: FetchSession | None, request: FetchRequest) -> int:
    """Return how many partitions the request is about, or some number above ``MANY``."""
    count = 0 if session is None else len(session.due)
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
    version = context.header.api_version
    return _limits_of(
        (
            request.max_wait_ms,
            min(request.min_bytes, max_bytes),
            max_bytes,
            request.isolation_level == READ_COMMITTED,
            request.replica_id,
            version <= LAST_VERSION_WITH_HARD_LIMITS,
            version >= FIRST_VERSION_WITH_RACKS and request.replica_id < 0,
            request.rack_id if request.replica_id < 0 else "",
            context.session.listener,
        )
    )


def _begin(context: RequestContext, request: FetchRequest, session: FetchSession | None) -> FetchResponse | _Begun:
    """Continue the request's session, or serve the partitions of the request itself."""
    wishes = {
        topic_partition_of((topic.topic, partition.partition)): _wish(partition)
        for topic in request.topics
        for partition in topic.partitions
    }
    sessions = context.services.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        begun = _begun_of((wishes, None, request.session_epoch == INITIAL_EPOCH))
    else:
        if session is None or session.epoch != request.session_epoch:
            return FetchResponse(error_code=_SESSION_NOT_FOUND if session is None else _INVALID_SESSION_EPOCH)
        _advance(sessions, session)
        if wishes and not sessions.remember(session, wishes.items()):
            return FetchResponse(error_code=_SESSION_NOT_FOUND)
        if request.forgotten_topics_data:
            sessions.forget(session, _forgotten(request))
        if not session.partitions:
            sessions.remove(session.session_id)
            return FetchResponse()
        begun = _begun_of((session.wishes(), session, False))
    if request.isolation_level not in ISOLATION_LEVELS and _is_any_known(context, begun):
        topics: list[FetchableTopicResponse] = []
        _add_rows(topics, [PartitionRead(each, error_code=_UNKNOWN) for each in wishes])
        return _failed(request, topics)
    return begun


def _begin_many(context: RequestContext, request: FetchRequest) -> Steps[FetchResponse | _Begun]:
    """Do what ``_begin`` does, in steps."""
    wishes = yield from _wishes(request)
    sessions = context.services.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        begun = _begun_of((wishes, None, request.session_epoch == INITIAL_EPOCH))
    else:
        session = sessions.get(request.session_id)
        if session is None or session.epoch != request.session_epoch:
            return FetchResponse(error_code=_SESSION_NOT_FOUND if session is None else _INVALID_SESSION_EPOCH)
        _advance(sessions, session)  # before the next pause, so that no other request continues it
        if not (yield from _remember(sessions, session, wishes)):
            return FetchResponse(error_code=_SESSION_NOT_FOUND)
        for forgotten in _forgotten(request):
            sessions.forget(session, (forgotten,))
            yield
        if not session.partitions:
            sessions.remove(session.session_id)
            return FetchResponse()
        remembered: dict[TopicPartition, FetchWish] = {}
        for piece in pieces(tuple(session.due)):
            remembered.update(session.wishes(piece))
            yield
        begun = _Begun(remembered, session)
    if request.isolation_level not in ISOLATION_LEVELS and _is_any_known(context, begun):
        return _failed(request, (yield from _by_topic([PartitionRead(each, error_code=_UNKNOWN) for each in wishes])))
    return begun


def _advance(sessions: FetchSessionCache, session: FetchSession) -> None:
    session.epoch = epoch_after(session.epoch)
    sessions.touch(session)


def _remember(
    sessions: FetchSessionCache, session: FetchSession, wishes: dict[TopicPartition, FetchWish]
) -> Steps[bool]:
    for piece in pieces(tuple(wishes.items())):
        if not sessions.remember(session, piece):
            return False
        yield
    return True


def _of_follower(begun: _Begun, limits: FetchLimits) -> FetchSession | None:
    """Return the session if it is a follower's: it has partitions that are read only when something happens to them."""
    return begun.session if limits.is_follower else None


def _is_any_known(context: RequestContext, begun: _Begun) -> bool:
    return not context.services.replica_manager.partitions.keys().isdisjoint(begun.wishes)


def _failed(request: FetchRequest, topics: list[FetchableTopicResponse]) -> FetchResponse:
    """Answer an unknown isolation level; Kafka notices it only when it reads a partition."""
    return FetchResponse(error_code=_UNKNOWN, responses=topics, session_id=request.session_id)


def _wishes(request: FetchRequest) -> Steps[dict[TopicPartition, FetchWish]]:
    wishes = {}
    for topic in request.topics:
        for partition in topic.partitions:
            wishes[topic_partition_of((topic.topic, partition.partition))] = _wish(partition)
            yield
    return wishes


def _wish(partition: FetchPartition) -> FetchWish:
    return _wish_of(
        (
            partition.fetch_offset,
            partition.partition_max_bytes,
            # any negative epoch means none, but in Fetch alone, as in Apache Kafka
            max(partition.current_leader_epoch, NO_EPOCH),
            partition.log_start_offset,
            partition.last_fetched_epoch,
        )
    )


def _forgotten(request: FetchRequest) -> Iterator[TopicPartition]:
    for topic in request.forgotten_topics_data:
        for partition in topic.partitions:
            yield TopicPartition(topic.topic, partition)


def _news(session: FetchSession, reads: Sequence[PartitionRead]) -> Reads:
    """Return the reads whose contents the client of a session does not know yet."""
    news = [read for read in reads if _is_news(session, read)]
    for read in news:
        session.move_to_end(read.topic_partition)
    return news


def _rest(context: RequestContext, limits: FetchLimits, session: FetchSession, reads: Sequence[PartitionRead]) -> None:
    """Leave out of a follower's next fetches what it has whole and was told about."""
    if limits.is_follower:
        nothing_new = [
            read.topic_partition for read in reads if not (read.records or read.error_code or read.diverging)
        ]
        session.rest(context.services.replica_manager, limits.replica_id, nothing_new)


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


def _answer(context: RequestContext, limits: FetchLimits, begun: _Begun, reads: Reads) -> FetchResponse:
    """Build the response. Errors because of an old client's version do not change its session."""
    session, version = begun.session, context.header.api_version
    if session is not None:
        read = reads
        reads = _news(session, read)
        _rest(context, limits, session, read)
    elif begun.opens_session:
        session = _opened(context.services.fetch_sessions, limits, begun.wishes, reads)
    if limits.is_follower:
        _count_for_throttle(context, reads)
    if version < fetch_versions.FIRST_VERSION_WITH_ALL:
        reads = fetch_versions.fit(context.services.replica_manager, version, reads)
    topics: list[FetchableTopicResponse] = []
    _add_rows(topics, reads)
    return FetchResponse(responses=topics, session_id=NO_SESSION if session is None else session.session_id)


def _answer_many(
    context: RequestContext, limits: FetchLimits, begun: _Begun, reads: Reads, version: int
) -> Steps[FetchResponse]:
    """Do what ``_answer`` does, in steps, for a client of ``version``."""
    session = begun.session
    if session is not None:
        news: Reads = []
        for piece in pieces(reads):
            news += _news(session, piece)
            _rest(context, limits, session, piece)
            yield
        reads = news
    elif begun.opens_session:
        session = yield from _opened_in_steps(context.services.fetch_sessions, limits, begun.wishes, reads)
    if limits.is_follower:
        for piece in pieces(reads):
            _count_for_throttle(context, piece)
            yield
    if version < fetch_versions.FIRST_VERSION_WITH_ALL:
        reads = fetch_versions.fit(context.services.replica_manager, version, reads)
    topics = yield from _by_topic(reads)
    return FetchResponse(responses=topics, session_id=NO_SESSION if session is None else session.session_id)


def _count_for_throttle(context: RequestContext, reads: Sequence[PartitionRead]) -> None:
    context.services.replica_manager.count_throttled_bytes(
        [(read.topic_partition, len(read.records)) for read in reads]
    )


def _opened(
    sessions: FetchSessionCache, limits: FetchLimits, wishes: dict[TopicPartition, FetchWish], reads: Reads
) -> FetchSession | None:
    """Open a session with these partitions, if the cache has a place for it."""
    session = sessions.create(len(wishes), is_follower=limits.is_follower)
    if session is None or not sessions.remember(session, wishes.items()):
        return None
    for read in reads:
        _is_news(session, read)
    return session


def _opened_in_steps(
    sessions: FetchSessionCache, limits: FetchLimits, wishes: dict[TopicPartition, FetchWish], reads: Reads
) -> Steps[FetchSession | None]:
    session = sessions.create(len(wishes), is_follower=limits.is_follower)
    if session is None or not (yield from _remember(sessions, session, wishes)):
        return None
    for read in reads:
        _is_news(session, read)
        yield
    return session


def _by_topic(reads: Reads) -> Steps[list[FetchableTopicResponse]]:
    """Group the reads by topic, in their order."""
    topics: list[FetchableTopicResponse] = []
    for piece in pieces(reads):
        _add_rows(topics, piece)
        yield
    return topics


def _add_rows(topics: list[FetchableTopicResponse], reads: Sequence[PartitionRead]) -> None:
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
                preferred_read_replica=read.preferred_read_replica,
                records=read.records,
            )
        )


_EMPTY_END_SIZE: Final = 4
"""Bytes behind the constant part of a response without records: four for their size; from version 12 on, one for it and
three tag counts."""
_OFFSETS: Final = Struct(">qqq")
"""High watermark, last stable offset and log start offset."""
_SIZE: Final = Struct(">i")
_NO_TAGS: Final = b"\0\0\0"
"""Of the partition, of its topic and of the response."""


class _ResponseForm:
    """Responses with the read of one partition, without an error: three offsets and the records vary."""

    __slots__ = ("_is_flexible", "_header_size", "_start", "_place")

    def __init__(self, partition: TopicPartition, version: int, session_id: int) -> None:
        def empty(offset: int) -> bytes:
            topics: list[FetchableTopicResponse] = []
            _add_rows(topics, [PartitionRead(partition, b"", 0, offset, offset, offset)])
            return encode(FetchResponse(responses=topics, session_id=session_id), version)

        start, other = empty(0), empty(~0)
        self._is_flexible = version >= FetchResponse.FLEXIBLE_FROM
        self._header_size = SIZE_AND_CORRELATION_ID.size + self._is_flexible  # whose header has a tag count too
        place = next(place for place, (one, two) in enumerate(zip(start, other, strict=True)) if one != two)
        self._place = self._header_size + place
        self._start = bytearray(self._header_size) + start[:-_EMPTY_END_SIZE]

    def frame(self, read: PartitionRead, correlation_id: int) -> list[Part]:
        """The response's frame."""
        start, end = self._around(read)
        records = read.records
        size = len(records)
        SIZE_AND_CORRELATION_ID.pack_into(start, 0, len(start) - _SIZE.size + size + len(end), correlation_id)
        if not size:
            return [start + end]
        return [start, records, end] if end else [start, records]

    def write(self, read: PartitionRead, writer: Writer) -> None:
        """Write the response, without a header."""
        start, end = self._around(read)
        writer.buffer += start[self._header_size :]
        if read.records:
            writer.write_parts((read.records,))
        writer.buffer += end

    def _around(self, read: PartitionRead) -> tuple[bytearray, bytes]:
        """The frame's bytes before the records, with an empty header, and those behind them."""
        start = self._start[:]
        _OFFSETS.pack_into(start, self._place, read.high_watermark, read.last_stable_offset, read.log_start_offset)
        size = len(read.records)
        if not self._is_flexible:
            return start + _SIZE.pack(size), b""
        sizes = Writer()
        sizes.write_unsigned_varint(size + 1)
        return start + sizes.buffer, _NO_TAGS


class _FormedResponse(Message):
    """A response that has a form, as a message."""

    __slots__ = ("_form", "_read")

    def __init__(self, form: _ResponseForm, read: PartitionRead) -> None:
        self._form = form
        self._read = read

    def write(self, writer: Writer, version: int) -> None:  # noqa: ARG002  # the form is of one version
        """See ``Message.write``."""
        self._form.write(self._read, writer)


class RepeatedFetch(IntegersForm):
    """Fetches of one connection for one partition, which differ in correlation id, session epoch and offset only.

    Most responses have a form, too. Without one are errors, those with aborted transactions or another replica to read
    from, those that open or end a session, and those of a session with other partitions. A fetch of 64 kB on 16
    connections takes 0.56 of the processor time, and 0.63 of the round trip (``bench/results/2026-11-26-small.md``).
    """

    __slots__ = ("_request", "_limits", "_topic_partition", "_session_id", "_responses")

    def __init__(self, context: RequestContext, request: FetchRequest, frame: memoryview, layout: Struct) -> None:
        super().__init__(context, frame, layout)
        self._request = request
        self._limits = _limits(context, request)
        (topic,) = request.topics
        self._topic_partition = TopicPartition(topic.topic, topic.partitions[0].partition)
        self._session_id = request.session_id
        self._responses = _ResponseForm(self._topic_partition, context.header.api_version, request.session_id)

    def handle(
        self, varying: tuple[int, ...], frame: memoryview, session: "Session"
    ) -> list[Part] | Message | Delayed[FetchResponse] | Delayed[Message]:
        """Fetch from the offset, as the function ``handle`` does; may return the response's frame.

        ``varying`` are the session epoch and the offset.
        """
        request, services = self._request, self.services
        partition = request.topics[0].partitions[0]
        epoch, partition.fetch_offset = varying
        wish = _wish(partition)
        fetching: FetchSession | None = None
        if self._session_id != NO_SESSION or epoch != FINAL_EPOCH:
            fetching = self._session_at(epoch)
            if fetching is None:
                # the handler may read the request until its response is there: the next one is not taken before that
                request.session_epoch = epoch
                return handle(self.context(frame, session), request)
            _advance(services.fetch_sessions, fetching)
            services.fetch_sessions.remember(fetching, ((self._topic_partition, wish),))
        build = partial(self._response, fetching)
        read = fetch_one(services.replica_manager, self._topic_partition, wish, self._limits, build)
        if isinstance(read, Delayed):
            return read
        response = build([read])
        if type(response) is _FormedResponse:
            return self._responses.frame(read, API_AND_CORRELATION_ID.unpack_from(frame)[1])
        return response

    def _session_at(self, epoch: int) -> FetchSession | None:
        """The session that a request with ``epoch`` continues; None without one, or if it has other partitions too."""
        session = self.services.fetch_sessions.get(self._session_id)
        if session is None or session.epoch != epoch or session.is_follower:
            return None
        return session if session.partitions.keys() == {self._topic_partition} else None

    def _response(self, session: FetchSession | None, reads: Reads) -> Message:
        """Do what ``_answer`` does for one partition."""
        (read,) = reads
        if session is not None:
            reads = _news(session, reads)
        if reads and not read.error_code and read.aborted is None and read.preferred_read_replica == NO_BROKER_ID:
            return _FormedResponse(self._responses, read)
        topics: list[FetchableTopicResponse] = []
        _add_rows(topics, reads)
        return FetchResponse(responses=topics, session_id=self._session_id)


def _about(context: RequestContext, request: FetchRequest) -> object:
    """All of a fetch of one partition but its session epoch and offset."""
    (topic,) = request.topics
    (partition,) = topic.partitions
    limits = request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level
    return context.header.client_id, limits, request.session_id, topic.topic, partition.partition, _wish(partition)[1:]


def _has_other_partitions(context: RequestContext, request: FetchRequest) -> bool:
    """Whether the request's session has more than one partition: the requests of such a session vary."""
    session = context.services.fetch_sessions.get(request.session_id)
    return session is not None and len(session.partitions) > 1


def _invert(request: FetchRequest) -> None:
    request.session_epoch = ~request.session_epoch
    request.topics[0].partitions[0].fetch_offset = ~request.topics[0].partitions[0].fetch_offset


def remember(context: RequestContext, request: FetchRequest, frame: memoryview) -> None:
    """Let the next fetches of the connection be compared with this one, if the one before was about the same."""
    topics, version = request.topics, context.header.api_version
    if (
        len(topics) != 1
        or len(topics[0].partitions) != 1
        or len(frame) > LARGEST_FORM_SIZE
        or request.forgotten_topics_data
        or request.replica_id >= 0
        or request.isolation_level not in ISOLATION_LEVELS
        or version < fetch_versions.FIRST_VERSION_WITH_ALL
        or _has_other_partitions(context, request)
        or not note_repeat(_about(context, request), frame, context.session)
    ):
        return
    keep_integers(context, request, frame, ("iq", _invert), RepeatedFetch)
