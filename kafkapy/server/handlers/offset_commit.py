"""OffsetCommit: stores a group's committed offsets.

Versions 0-10; from version 10 on topics are named by id (KIP-516). Answered after ``offsets.commit.required.acks``
acknowledgements; version 0 keeps offsets in the metadata tree (``metadata/exchange/consumer_offsets.py``), apart from
those of other versions and without a check of the member.
Errors, by partition: UNKNOWN_TOPIC_OR_PARTITION 3, OFFSET_METADATA_TOO_LARGE 12, COORDINATOR_LOAD_IN_PROGRESS 14,
COORDINATOR_NOT_AVAILABLE 15, NOT_COORDINATOR 16, ILLEGAL_GENERATION 22, UNKNOWN_MEMBER_ID 25, REBALANCE_IN_PROGRESS 27,
INVALID_COMMIT_OFFSET_SIZE 28, UNSUPPORTED_VERSION 35 (a static member where the inter-broker protocol is below 2.3),
FENCED_INSTANCE_ID 82; of a member of a consumer group (KIP-848) UNSUPPORTED_VERSION 35 below version 9, and
STALE_MEMBER_EPOCH 113; from version 9 on GROUP_ID_NOT_FOUND 69 in place of ILLEGAL_GENERATION for a group that does not
exist; from version 10 on UNKNOWN_TOPIC_ID 100; in version 0: UNKNOWN_TOPIC_OR_PARTITION 3, OFFSET_METADATA_TOO_LARGE
12, INVALID_GROUP_ID 24 (more than 1,000 characters; ZooKeeper has no such bound), KAFKA_STORAGE_ERROR 56,
UNKNOWN_SERVER_ERROR -1 (the group's name can't be a part of a path).
"""

from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.answer import respond, respond_in_turns
from kafkapy.coordinator.group.calls import CommitCall, commit_call_of
from kafkapy.coordinator.group.offset_requests import utf16_length
from kafkapy.coordinator.group.offsets import NO_EXPIRY, CommittedOffset
from kafkapy.metadata.exchange import consumer_offsets
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message, Records
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkapy.server.dispatch.encoding import ConstantTemplate, Filled
from kafkapy.server.dispatch.forms import Pattern, Vary
from kafkapy.server.handlers.shared.commits import COMMITS_IN_A_STEP, is_large, parts_of, split_by_existence
from kafkapy.server.handlers.shared.older_versions import TREE_VERSION, refuses_static_member
from kafkapy.server.handlers.shared.partition_rows import rows_by_topic
from kafkapy.turns import Steps, in_turns, pause, pieces
from kafkapy.types import TopicPartition, as_long

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

DATED_VERSION = 1
"""The only version in which requests have the times of commits."""
MEMBER_EPOCH_FROM: Final = 9
"""The first version that members of consumer groups may use (KIP-848)."""
TOPIC_IDS_FROM: Final = 10
DEFAULT_RETENTION = -1
TREE_NODES_AT_ONCE: Final = 64
"""Offsets that are written into the metadata tree at once: some milliseconds, most of them in the store."""
_KNOWN_ANSWERS: Final = 1024
_KNOWN_PARTITIONS: Final = 16
"""Answers for more partitions are not cached."""


Answered = Message | Awaitable[OffsetCommitResponse]


def handle(context: "RequestContext", request: OffsetCommitRequest) -> Answered | Steps[Answered]:
    """Commit the offsets of partitions that exist; a large request is served in steps."""
    if context.header.api_version == TREE_VERSION:
        return _commit_to_tree(context, request)
    # most members are not static: they don't pay for the call
    if request.group_instance_id is not None and refuses_static_member(context, request.group_instance_id):
        return _refuse_all(request)
    now_ms = context.services.clock.now_ms()
    retention_ms = request.retention_time_ms
    expire_ms = NO_EXPIRY if retention_ms == DEFAULT_RETENTION else as_long(now_ms + retention_ms)

    topics = request.topics
    if (len(topics) != 1 or len(topics[0].partitions) >= COMMITS_IN_A_STEP) and is_large(
        topics
    ):  # most don't pay for the call
        return _commit_many(context, request, now_ms, expire_ms)
    offsets, errors = split_by_existence(
        context.services.metadata.image,
        request.topics,
        now_ms,
        expire_ms,
        is_dated=context.header.api_version == DATED_VERSION,
    )
    if not offsets:
        return _build(errors)
    call = commit_call_of(
        (
            request.group_id,
            request.member_id,
            request.generation_id_or_member_epoch,
            offsets,
            request.group_instance_id,
            context.header.api_version >= MEMBER_EPOCH_FROM,
        )
    )
    answer = context.services.group_coordinator.commit_offsets(call)
    if answer.is_set and not errors:
        return _answered(context.header.api_version, answer.value)
    return respond(answer, lambda committed: _build({**committed, **errors}))


def _refuse_all(request: OffsetCommitRequest) -> Steps[Answered]:
    errors: dict[TopicPartition, int] = {}
    for part in parts_of(request.topics):
        asked = [TopicPartition(part.name, each.partition_index) for each in part.partitions]
        errors.update(dict.fromkeys(asked, ErrorCode.UNSUPPORTED_VERSION))
        yield
    return (yield from _build_in_steps(errors))


def _commit_many(
    context: "RequestContext", request: OffsetCommitRequest, now_ms: int, expire_ms: int
) -> Steps[Answered]:
    """Do what ``handle`` does, with places to pause; the metadata image is that of the beginning."""
    image, is_dated = context.services.metadata.image, context.header.api_version == DATED_VERSION
    offsets: dict[TopicPartition, CommittedOffset] = {}
    errors: dict[TopicPartition, int] = {}
    for part in parts_of(request.topics):
        found, missing = split_by_existence(image, (part,), now_ms, expire_ms, is_dated=is_dated)
        offsets.update(found)
        errors.update(missing)
        yield
    if not offsets:
        return (yield from _build_in_steps(errors))
    call = CommitCall(
        request.group_id,
        request.member_id,
        request.generation_id_or_member_epoch,
        offsets,
        request.group_instance_id,
        context.header.api_version >= MEMBER_EPOCH_FROM,
    )
    answer = yield from context.services.group_coordinator.commit_many_offsets(call)
    if answer.is_set:
        return (yield from _build_in_steps({**answer.value, **errors}))
    return respond_in_turns(answer, lambda committed: _build_in_steps({**committed, **errors}))


def _build_in_steps(errors: dict[TopicPartition, int]) -> Steps[OffsetCommitResponse]:
    topics = yield from rows_by_topic(
        errors,
        lambda name: OffsetCommitResponseTopic(name, partitions=[]),
        lambda topic, *answer: topic.partitions.append(OffsetCommitResponsePartition(*answer)),
    )
    return OffsetCommitResponse(topics=topics)


async def _commit_to_tree(context: "RequestContext", request: OffsetCommitRequest) -> OffsetCommitResponse:
    services = context.services
    max_length = services.group_coordinator.settings.offset_metadata_max_bytes
    named: dict[TopicPartition, OffsetCommitRequestPartition] = {}
    for part in parts_of(request.topics):  # of a partition that is named twice the last one counts, as in Kafka
        named.update((TopicPartition(part.name, each.partition_index), each) for each in part.partitions)
        await pause()
    errors: dict[TopicPartition, int] = {}
    kept: list[tuple[TopicPartition, int]] = []
    for piece in pieces(list(named.items())):
        for key, partition in piece:
            if services.metadata.image.partition(*key) is None:
                errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif utf16_length(partition.committed_metadata or "") > max_length:
                errors[key] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                kept.append((key, partition.committed_offset))
        await pause()
    for committed in pieces(kept, TREE_NODES_AT_ONCE):
        errors.update(await consumer_offsets.commit(services.store, request.group_id, dict(committed)))
        await pause()
    return await in_turns(_build_in_steps(errors))


def _formats(context: "RequestContext", request: OffsetCommitRequest) -> str | None:
    topics = request.topics
    if context.header.api_version <= DATED_VERSION or len(topics) != 1:
        return None
    return "q" * len(topics[0].partitions)


def _varying(request: OffsetCommitRequest) -> Vary[OffsetCommitRequest]:
    (topic,) = request.topics
    name, topic_id, rows = topic.name, topic.topic_id, topic.partitions
    indexes = [each.partition_index for each in rows]
    others = [(each.committed_leader_epoch, each.commit_timestamp, each.committed_metadata) for each in rows]
    columns = list(zip(*others, strict=True))
    start = (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
    )

    def vary(offsets: tuple[int, ...], _: Records | None) -> OffsetCommitRequest:
        partitions = list(map(OffsetCommitRequestPartition, indexes, offsets, *columns))
        return OffsetCommitRequest(*start, [OffsetCommitRequestTopic(name, topic_id, partitions)])

    return vary


PATTERN: Final = Pattern(_formats, _varying)
"""A member commits offsets of the same partitions again and again."""


def _answered(version: int, errors: dict[TopicPartition, int]) -> Message:
    # an encoded answer with ids has no names, by which the ids are added to it
    if version < TOPIC_IDS_FROM and len(errors) <= _KNOWN_PARTITIONS and not any(errors.values()):
        return _without_errors(version, tuple(errors))
    return _build(errors)


@lru_cache(maxsize=_KNOWN_ANSWERS)
def _without_errors(version: int, partitions: tuple[TopicPartition, ...]) -> Filled:
    """The answer without errors; it is cached, since a group commits the same partitions again and again."""
    return Filled(ConstantTemplate(_build(dict.fromkeys(partitions, 0)), version))


def _build(errors: dict[TopicPartition, int]) -> OffsetCommitResponse:
    topics: dict[str, OffsetCommitResponseTopic] = {}
    for (name, index), error_code in errors.items():  # as few_rows does, with fewer calls
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = OffsetCommitResponseTopic(name, partitions=[])
        topic.partitions.append(OffsetCommitResponsePartition(index, error_code))
    return OffsetCommitResponse(topics=list(topics.values()))
