"""Metadata: the brokers of the cluster, and the leaders and replicas of the requested partitions.

Versions 0-9. Topics that are missing are created when the client and ``auto.create.topics.enable`` allow it; the
answer for them is LEADER_NOT_AVAILABLE, and the client repeats its request. This broker's own address is one that the
client can use (see ``RequestContext.own_endpoint``). Requests to a broker that has just started wait until it has all
metadata of the cluster (``Api.needs_whole_image``); 2.7.2 answers UNKNOWN_TOPIC_OR_PARTITION at once in that state.
With an authorizer a topic that the client may not describe is left out of all topics, and refused if it is named.
Errors: per topic UNKNOWN_TOPIC_OR_PARTITION 3, LEADER_NOT_AVAILABLE 5 (being created, or later:
``kafkapy.auto.create.topics.per.second``), INVALID_TOPIC_EXCEPTION 17 (name), INVALID_REPLICATION_FACTOR 38,
TOPIC_AUTHORIZATION_FAILED 29 (it may not be described, or is missing and may not be created), POLICY_VIOLATION 44
(more replicas than ``kafkapy.max.replicas``); per partition LEADER_NOT_AVAILABLE 5 (no leader),
REPLICA_NOT_AVAILABLE 9 (version 0: a replica is offline), LISTENER_NOT_FOUND 72 (LEADER_NOT_AVAILABLE 5 below version
6: the leader has no such listener).
"""

from collections.abc import Awaitable, Collection, Hashable, Iterable
from typing import TYPE_CHECKING, Final

from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import LeaderNotAvailableError, PolicyViolationError
from kafkapy.metadata.image import BrokerInfo, MetadataImage, PartitionInfo
from kafkapy.metadata.topic_rules import INTERNAL_TOPICS
from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkapy.server.dispatch.encoding import ConstantTemplate, Filled
from kafkapy.server.dispatch.forms import REPEATED
from kafkapy.server.handlers.shared.authorized_operations import cluster_operations, topic_operations
from kafkapy.server.handlers.shared.endpoints import client_address
from kafkapy.turns import OneByOne, Steps, in_turns
from kafkapy.types import NO_LEADER

if TYPE_CHECKING:
    from kafkapy.security.authorizer import Rights
    from kafkapy.server.dispatch.context import RequestContext

PARTITIONS_IN_A_STEP = 64
"""Rows that are built between two places to pause: some hundred microseconds."""
MOST_KEPT_ANSWERS: Final = 32
"""Answers that are kept, encoded, until the metadata change."""
MOST_KEPT_TOPICS: Final = 64
"""Topics of such an answer; it has up to ``PARTITIONS_IN_A_STEP`` partitions."""

Answer = Message | Awaitable[MetadataResponse]


def handle(context: "RequestContext", request: MetadataRequest) -> Answer | Steps[Answer]:
    """Answer from one metadata image, in steps; requests wait for topics that are created.

    Answers about few partitions are kept.
    """
    image, version = context.services.metadata.image, context.header.api_version
    asked = None if _names_all(request, version) else request.topics
    if len(image.topics if asked is None else asked) > MOST_KEPT_TOPICS or context.services.access is not None:
        return _answer_in_steps(context, request, image, None)
    names = None if asked is None else tuple([each.name for each in asked])
    wants = request.include_cluster_authorized_operations, request.include_topic_authorized_operations
    key = "Metadata", version, context.session.listener, context.own_endpoint(), names, wants
    known = context.services.metadata.derived.get(key)
    return known if isinstance(known, Filled) else _answer_in_steps(context, request, image, key)


PATTERN: Final = REPEATED
"""Clients request the same topics again and again."""


def _answer_in_steps(
    context: "RequestContext", request: MetadataRequest, image: MetadataImage, key: Hashable | None
) -> Steps[Answer]:
    """Answer for any number of topics, known or not; with a ``key`` the answer is kept if it is short."""
    names = yield from _asked(request, image, context.header.api_version)
    allowed = request.allow_auto_topic_creation and context.services.config.flag("auto.create.topics.enable")
    rights = context.rights()
    denied: list[MetadataResponseTopic] = []
    if rights is not None:
        names, denied = yield from _visible(rights, names, _names_all(request, context.header.api_version))
        if allowed and not rights.may_on_cluster(AclOperation.CREATE, logs=False):
            names, uncreated = yield from _creatable(rights, image, names)
            denied += uncreated
    missing = []
    for name in names:
        if name not in image.topics:
            missing.append(name)
            yield
    if missing and allowed:
        return _create_and_answer(context, request, names, missing, denied)
    refused = dict.fromkeys(missing, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    response = yield from _answer(context, request, image, names, refused)
    response.topics += denied
    if key is not None and not missing:
        _keep(context, key, image, response)
    return response


def _visible(
    rights: "Rights", names: Iterable[str], names_all: bool
) -> Steps[tuple[list[str], list[MetadataResponseTopic]]]:
    """Return the topics that the client may describe, and the rows of the others if it has named them."""
    visible, denied = [], []
    for name in names:
        if rights.may(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, logs=not names_all):
            visible.append(name)
        elif not names_all:
            denied.append(_denied(name, is_internal=False))  # which does not tell whether it exists
        yield
    return visible, denied


def _creatable(
    rights: "Rights", image: MetadataImage, names: Iterable[str]
) -> Steps[tuple[list[str], list[MetadataResponseTopic]]]:
    """Return the topics that exist or that the client may create, and the rows of the others."""
    creatable, denied = [], []
    for name in names:
        if name in image.topics or rights.may(AclOperation.CREATE, AclResourceType.TOPIC, name):
            creatable.append(name)
        else:
            denied.append(_denied(name, is_internal=name in INTERNAL_TOPICS))
        yield
    return creatable, denied


def _denied(name: str, *, is_internal: bool) -> MetadataResponseTopic:
    return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, is_internal=is_internal, partitions=[])


def _keep(context: "RequestContext", key: Hashable, image: MetadataImage, response: MetadataResponse) -> None:
    """Keep a short answer, encoded, unless the metadata have changed between the steps."""
    metadata = context.services.metadata
    is_short = sum(len(topic.partitions) for topic in response.topics) <= PARTITIONS_IN_A_STEP
    if is_short and metadata.image is image and len(metadata.derived) < MOST_KEPT_ANSWERS:
        metadata.derived[key] = Filled(ConstantTemplate(response, context.header.api_version))


async def _create_and_answer(
    context: "RequestContext",
    request: MetadataRequest,
    names: Iterable[str],
    missing: list[str],
    denied: list[MetadataResponseTopic],
) -> MetadataResponse:
    metrics = context.services.metrics
    outcomes = await context.services.topic_admin.create_automatically(missing)
    codes = {}
    async for name, error in OneByOne(outcomes.items()):
        codes[name] = _outcome_code(error)
        if isinstance(error, PolicyViolationError):
            metrics.topics_refused_by_replica_limit += 1
        elif isinstance(error, LeaderNotAvailableError):
            metrics.automatic_topics_delayed += 1
    response = await in_turns(_answer(context, request, context.services.metadata.image, names, codes))
    response.topics += denied
    return response


def _outcome_code(error: BrokerError | None) -> int:
    """Return LEADER_NOT_AVAILABLE, after which clients retry, if the topic is or can be created later."""
    if error is None or error.error_code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return error.error_code


def _names_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _asked(request: MetadataRequest, image: MetadataImage, version: int) -> Steps[Collection[str]]:
    if _names_all(request, version):
        return image.topics.keys()
    names: dict[str, None] = {}
    for topic in request.topics or ():
        yield
        if topic.name is not None:
            names[topic.name] = None
    return names.keys()


def _answer(
    context: "RequestContext",
    request: MetadataRequest,
    image: MetadataImage,
    names: Iterable[str],
    refused: dict[str, int],
) -> Steps[MetadataResponse]:
    rights, asked = context.rights(), request.include_topic_authorized_operations
    listener, version = context.session.listener, context.header.api_version
    topics: list[MetadataResponseTopic] = []
    rows = 0
    for name in names:
        found = None if name in refused else image.topics.get(name)
        topic = MetadataResponseTopic(ErrorCode.NONE, name, is_internal=name in INTERNAL_TOPICS, partitions=[])
        topic.topic_authorized_operations = topic_operations(rights, name, asked=asked)
        topics.append(topic)
        if found is None:  # refused, or deleted while others were created
            topic.error_code = refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for index, partition in found.partitions.items() if found is not None else ():
            topic.partitions.append(_partition(image, index, partition, listener, version))
            rows += 1
            if rows % PARTITIONS_IN_A_STEP == 0:
                yield
        rows += 1
        if rows % PARTITIONS_IN_A_STEP == 0:
            yield
    return _response(context, request, image, topics)


def _response(
    context: "RequestContext", request: MetadataRequest, image: MetadataImage, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[broker for info in image.brokers.values() for broker in _broker(context, info)],
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if image.controller_id in image.brokers else NO_LEADER,
        topics=topics,
        cluster_authorized_operations=cluster_operations(
            context.rights(), asked=request.include_cluster_authorized_operations
        ),
    )


def _broker(context: "RequestContext", info: BrokerInfo) -> list[MetadataResponseBroker]:
    address = client_address(context, info)
    if address is None:
        return []
    host, port = address
    return [MetadataResponseBroker(node_id=info.id, host=host, port=port, rack=info.rack)]


def _partition(
    image: MetadataImage, index: int, found: PartitionInfo, listener: str, version: int
) -> MetadataResponsePartition:
    replicas, isr, leader = list(found.replicas), list(found.isr), found.leader
    code = ErrorCode.NONE
    reachable = {id_ for id_ in found.replicas if id_ in image.brokers and listener in image.brokers[id_].endpoints}
    if leader not in image.brokers:
        code, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif listener not in image.brokers[leader].endpoints:
        code = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif version == 0 and not reachable.issuperset(replicas):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    if version == 0:
        replicas = [id_ for id_ in replicas if id_ in reachable]
        isr = [id_ for id_ in isr if id_ in reachable]
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=found.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=[id_ for id_ in found.replicas if id_ not in reachable or id_ in found.offline_replicas],
    )
