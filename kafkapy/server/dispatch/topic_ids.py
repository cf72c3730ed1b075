"""The stage in which topics that a request names by id (KIP-516) get their names: before access control and handler.

Handlers and the rules of access control know names. A topic whose id no topic has now is taken out of the request and
gets its error here, so a recreated topic is never served for the old one; the answers for the others get their ids. The
handlers of Produce and Fetch know the ids too, since much may happen until they answer: the first puts them into its
answers, the second refuses unknown ones, which stay in the sessions of clients. Answers are as those of Apache Kafka
4.4.0. A response shows the name of a topic that was named by id only to a client that may describe it: a principal
without that right gets TOPIC_AUTHORIZATION_FAILED with the id.

Errors: UNKNOWN_SERVER_ERROR -1 (Metadata 12 and later, a topic without name and id: as 4.4.0), INVALID_REQUEST 42 (a
topic with neither or both where one is needed, or one that is named twice; Metadata 10 and 11 have ids in answers
alone), UNKNOWN_TOPIC_ID 100.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkapy.network.errors import UnansweredFailureError
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ZERO_UUID, Message
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kafkapy.protocol.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafkapy.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.verdicts import Partial, Verdict
from kafkapy.turns import PIECE, MaybeSteps, Steps, pieces
from kafkapy.types import NO_EPOCH, NO_OFFSET

ByName = Callable[[RequestContext, Any], MaybeSteps[Verdict]]

FIRST_METADATA_BY_ID: Final = 12
FIRST_METADATA_WITH_ERROR: Final = 13
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_ID
_NO_COMMIT: Final = NO_OFFSET, NO_EPOCH, "", _UNKNOWN
"""The offset, epoch, text and error code of the commits of an unknown topic."""


def _metadata(context: RequestContext, request: MetadataRequest) -> MaybeSteps[Verdict]:
    topics = request.topics or ()
    if len(topics) > PIECE:
        return _metadata_of_many(context, request)
    if all(topic.name is not None and topic.topic_id == ZERO_UUID for topic in topics):
        return None
    return _metadata_by_id(context, request)


def _metadata_of_many(context: RequestContext, request: MetadataRequest) -> Steps[Verdict]:
    for piece in pieces(request.topics or ()):
        if any(topic.name is None or topic.topic_id != ZERO_UUID for topic in piece):
            return (yield from _metadata_by_id(context, request))
        yield
    return None


def _metadata_by_id(context: RequestContext, request: MetadataRequest) -> Steps[Verdict]:
    """Topics that are named only by name are left out, where others are named by id."""
    topics, version, image = request.topics or (), context.header.api_version, context.services.metadata.image
    if version < FIRST_METADATA_BY_ID:
        return (yield from _refused_metadata(topics, ErrorCode.INVALID_REQUEST))
    ids: dict[UUID, None] = {}
    for piece in pieces(topics):
        ids.update((topic.topic_id, None) for topic in piece if topic.topic_id != ZERO_UUID)
        yield
    if not ids:
        refused = yield from _refused_metadata(topics, ErrorCode.UNKNOWN_SERVER_ERROR)
        if version >= FIRST_METADATA_WITH_ERROR:
            refused.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
        return refused
    known: dict[str, UUID] = {}
    unknown: list[MetadataResponseTopic] = []
    for topic_id in ids:
        name = image.topic_name(topic_id)
        if name is None:
            unknown.append(MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id, partitions=[]))
        else:
            known[name] = topic_id
        yield

    def merge(response: MetadataResponse) -> Steps[MetadataResponse]:
        for topic in response.topics:
            topic.topic_id = known[topic.name or ""]
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                topic.name = None
            yield
        response.topics = unknown + response.topics
        return response

    named = copy(request)
    named.topics = [MetadataRequestTopic(name=name) for name in known]
    named.allow_auto_topic_creation = False
    return Partial(named, merge)


def _refused_metadata(topics: Sequence[MetadataRequestTopic], code: int) -> Steps[MetadataResponse]:
    rows = []
    for piece in pieces(topics):
        rows += [MetadataResponseTopic(code, topic.name or "", topic.topic_id, partitions=[]) for topic in piece]
        yield
    return MetadataResponse(cluster_id=None, topics=rows)


def _delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> Steps[Verdict]:
    image = context.services.metadata.image
    refused: list[DeletableTopicResult] = []
    given: Counter[str | UUID] = Counter()
    for topic in request.topics:
        if (topic.name is None) == (topic.topic_id == ZERO_UUID):
            refused.append(_refused(topic, "Name a topic either by its name or by its id."))
        else:
            given[topic.topic_id if topic.name is None else topic.name] += 1
        yield
    by_id: dict[str, UUID] = {}
    names: list[str] = []
    twice: set[UUID] = set()
    for each, count in given.items():
        topic = DeleteTopicState(topic_id=each) if isinstance(each, UUID) else DeleteTopicState(each)
        name = image.topic_name(each) if isinstance(each, UUID) else each
        if count > 1:
            refused.append(_refused(topic, "The request names this topic more than once."))
        elif name is None:
            refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID.message, ErrorCode.UNKNOWN_TOPIC_ID))
        elif isinstance(each, UUID):
            by_id[name] = each
        elif given[image.topic_id(name)]:
            twice.add(image.topic_id(name))
            refused.append(_refused(DeleteTopicState(name, image.topic_id(name)), "The request names its id too."))
        else:
            names.append(name)
        yield
    deleted = names + [name for name, topic_id in by_id.items() if topic_id not in twice]
    known = {name: image.topic_id(name) for name in deleted}

    def merge(response: DeleteTopicsResponse) -> Steps[DeleteTopicsResponse]:
        for row in response.responses:
            _add_id(context, row, by_id, known)
            yield
        response.responses = refused + response.responses
        return response

    return Partial(DeleteTopicsRequest(topic_names=deleted, timeout_ms=request.timeout_ms), merge)


def _refused(topic: DeleteTopicState, text: str, code: int = ErrorCode.INVALID_REQUEST) -> DeletableTopicResult:
    return DeletableTopicResult(topic.name, topic.topic_id, code, text)


def _add_id(
    context: RequestContext, row: DeletableTopicResult, by_id: Mapping[str, UUID], known: Mapping[str, UUID]
) -> None:
    """Add the id to the answer for a topic: always if it was named by id, else if it is deleted."""
    name = row.name or ""
    if name in by_id:
        row.topic_id = by_id[name]
        if row.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and not _may_describe(context, name):
            row.name = None
    elif not row.error_code:
        row.topic_id = known[name]


def _fetch(context: RequestContext, request: FetchRequest) -> MaybeSteps[Verdict]:
    """Give topics the names that belong to their ids now, or none: an id without a topic stays in a session."""
    if len(request.topics) > PIECE or len(request.forgotten_topics_data) > PIECE:
        return _fetch_of_many(context, request)
    _give_names(context, request.topics)
    _give_names(context, request.forgotten_topics_data)
    return None


def _fetch_of_many(context: RequestContext, request: FetchRequest) -> Steps[Verdict]:
    for asked in pieces(request.topics):
        _give_names(context, asked)
        yield
    for forgotten in pieces(request.forgotten_topics_data):
        _give_names(context, forgotten)
        yield
    return None


def _give_names(context: RequestContext, topics: Sequence[FetchTopic] | Sequence[ForgottenTopic]) -> None:
    names = context.services.metadata.image.topic_names
    for topic in topics:
        topic.topic = names.get(topic.topic_id, "")


def _produce(context: RequestContext, request: ProduceRequest) -> MaybeSteps[Verdict]:
    topics = request.topic_data
    if len(topics) == 1:
        (topic,) = topics
        topic.name = context.services.metadata.image.topic_names.get(topic.topic_id, "")
        if topic.name:
            return None
    return _produce_to_known(context, request)


def _produce_to_known(context: RequestContext, request: ProduceRequest) -> Steps[Verdict]:
    known: list[TopicProduceData] = []
    rows: dict[UUID, dict[int, PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        topic.name = context.services.metadata.image.topic_names.get(topic.topic_id, "")
        if topic.name:
            known.append(topic)
        else:
            of_topic = rows.setdefault(topic.topic_id, {})
            for piece in pieces(topic.partition_data):
                refused = (PartitionProduceResponse(each.index, _UNKNOWN, NO_OFFSET) for each in piece)
                of_topic.update((each.index, each) for each in refused)
                yield
        yield
    if not rows:
        return None

    def merge(response: ProduceResponse | None) -> ProduceResponse:
        if response is None:
            raise UnansweredFailureError("a produce request with acks=0 names topics by ids that no topic has")
        response.responses += [
            TopicProduceResponse(topic_id=topic_id, partition_responses=list(each.values()))
            for topic_id, each in rows.items()
        ]
        return response

    named = copy(request)
    named.topic_data = known
    return Partial(named, merge)


Commits = OffsetCommitRequest | TxnOffsetCommitRequest


class _CommitRows(NamedTuple):
    """The classes of an answer to commits: for a topic, and for a partition."""

    topic: type[OffsetCommitResponseTopic] | type[TxnOffsetCommitResponseTopic]
    partition: type[OffsetCommitResponsePartition] | type[TxnOffsetCommitResponsePartition]


def _offset_commit(context: RequestContext, request: OffsetCommitRequest) -> MaybeSteps[Verdict]:
    return _commit(context, request, _CommitRows(OffsetCommitResponseTopic, OffsetCommitResponsePartition))


def _txn_offset_commit(context: RequestContext, request: TxnOffsetCommitRequest) -> MaybeSteps[Verdict]:
    return _commit(context, request, _CommitRows(TxnOffsetCommitResponseTopic, TxnOffsetCommitResponsePartition))


def _commit(context: RequestContext, request: Commits, rows: _CommitRows) -> MaybeSteps[Verdict]:
    if len(request.topics) == 1:
        (topic,) = request.topics
        topic_id = topic.topic_id
        topic.name = context.services.metadata.image.topic_names.get(topic_id, "")
        if topic.name:

            def merge(response: OffsetCommitResponse | TxnOffsetCommitResponse) -> Message:
                for row in response.topics:
                    row.topic_id = topic_id
                return response

            return Partial(request, merge)
    return _commit_to_known(context, request, rows)


def _commit_to_known(context: RequestContext, request: Commits, rows: _CommitRows) -> Steps[Verdict]:
    named: Any = copy(request)
    named.topics = []
    ids: dict[str, UUID] = {}
    unknown: dict[UUID, dict[int, Message]] = {}
    error_code = _error_of_unknown(context, request)
    for topic in request.topics:
        topic.name = context.services.metadata.image.topic_names.get(topic.topic_id, "")
        if topic.name:
            ids[topic.name] = topic.topic_id
            named.topics.append(topic)
        else:
            refused = unknown.setdefault(topic.topic_id, {})
            for index in topic.partitions:
                refused[index.partition_index] = rows.partition(index.partition_index, error_code)
                yield
        yield

    def merge(response: Any) -> Steps[Message]:
        for row in response.topics:
            row.topic_id = ids[row.name]
            yield
        response.topics += [rows.topic("", topic_id, list(each.values())) for topic_id, each in unknown.items()]  # type: ignore[arg-type]  # of the same API
        merged: Message = response
        return merged

    if not named.topics:
        return (yield from merge(response_class(request.API_KEY)()))
    return Partial(named, merge)


def _error_of_unknown(context: RequestContext, request: Commits) -> int:
    """Return the error of commits for unknown topics: a client that may not commit for the group gets that error."""
    rights = context.rights()
    if rights is None:
        return _UNKNOWN
    if isinstance(request, TxnOffsetCommitRequest) and not rights.may(
        AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id, logs=False
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not rights.may(AclOperation.READ, AclResourceType.GROUP, request.group_id, logs=False):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return _UNKNOWN


def _offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> Steps[Verdict]:
    """A request for all topics of a group gets those that have an id."""
    named = copy(request)
    named.groups = []
    unknown: list[list[OffsetFetchResponseTopics]] = []
    ids: dict[str, UUID] = {}
    for group in request.groups:
        group_by_name = copy(group)
        named.groups.append(group_by_name)
        unknown.append([])
        if group.topics is None:
            continue
        group_by_name.topics = []
        for topic in group.topics:
            topic.name = context.services.metadata.image.topic_names.get(topic.topic_id, "")
            if topic.name:
                ids[topic.name] = topic.topic_id
                group_by_name.topics.append(topic)
            else:
                refused = OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=[])
                for piece in pieces(topic.partition_indexes):
                    refused.partitions += [OffsetFetchResponsePartitions(each, *_NO_COMMIT) for each in piece]
                    yield
                unknown[-1].append(refused)
            yield

    def merge(response: OffsetFetchResponse) -> Steps[OffsetFetchResponse]:
        image = context.services.metadata.image
        for row, refused_topics in zip(response.groups, unknown, strict=True):
            for topic in row.topics:
                topic.topic_id = ids.get(topic.name) or image.topic_id(topic.name)
                yield
            if not row.error_code:
                row.topics = [topic for topic in row.topics if topic.topic_id != ZERO_UUID] + refused_topics
        return response

    return Partial(named, merge)


def _may_describe(context: RequestContext, name: str) -> bool:
    rights = context.rights()
    return rights is None or rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, logs=False)


_BY_ID: Final[Mapping[int, tuple[int, ByName]]] = {
    ApiKey.PRODUCE: (13, _produce),
    ApiKey.FETCH: (13, _fetch),
    ApiKey.METADATA: (10, _metadata),
    ApiKey.OFFSET_COMMIT: (10, _offset_commit),
    ApiKey.OFFSET_FETCH: (10, _offset_fetch),
    ApiKey.DELETE_TOPICS: (6, _delete_topics),
    ApiKey.TXN_OFFSET_COMMIT: (6, _txn_offset_commit),
}
"""By API: the first version with ids in requests, and the function that translates them."""


def by_name(key: int, version: int) -> ByName | None:
    """Return what translates requests of this kind; None if they can't name topics by id."""
    first, translate = _BY_ID.get(key, (0, None))
    return translate if version >= first else None
