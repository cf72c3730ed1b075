"""Where requests of each API name topics, partitions and groups, and where responses have an error code for them.

An API that is not in ``PLACES`` has one error code for the whole response, called ``error_code``.
"""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

TOPIC_RESOURCE: Final = 2
"""The type of a configuration resource that is a topic."""
GROUP_COORDINATOR: Final = 0
"""The type of a FindCoordinator's key that is a group."""
WITH_ONE_GROUP: Final = frozenset({
    ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.OFFSET_DELETE,
})  # fmt: skip
"""APIs whose requests have a ``group_id``."""


class Role(Enum):
    """What the items of a list stand for."""

    TOPIC = "topic"
    PARTITION = "partition"
    RESOURCE = "resource"
    """A topic if its ``resource_type`` says so."""
    GROUP = "group"
    OTHER = "other"


class Place(NamedTuple):
    """A list of the request and the list that answers it; inside of the lists before it."""

    role: Role
    request: str
    """The list in the request."""
    named: str
    """The field of an item there that names it; "" when the item is the name itself."""
    response: str
    """The list in the response."""
    item: str
    """The class of an item there."""
    answered: str
    """The field of an item there that repeats the name."""
    error: str = "error_code"
    blank: tuple[tuple[str, Any], ...] = ()
    """The fields of an item there that are not as in a new one when it has nothing but an error."""

    def name_of(self, item: Any) -> Any:
        """The name of a request's item."""
        return getattr(item, self.named) if self.named else item


def _topics(request: str, response: str, item: str, named: str = "name") -> Place:
    return Place(Role.TOPIC, request, named, response, item, named)


def _partitions(item: str, named: str = "partition_index", request: str = "partitions", **blank: Any) -> Place:
    return Place(Role.PARTITION, request, named, "partitions", item, "partition_index", blank=tuple(blank.items()))


def _resources(response: str, item: str) -> Place:
    return Place(Role.RESOURCE, "resources", "resource_name", response, item, "resource_name")


PLACES: Final[dict[int, tuple[Place, ...]]] = {
    ApiKey.PRODUCE: (
        _topics("topic_data", "responses", "TopicProduceResponse"),
        Place(
            Role.PARTITION, "partition_data", "index", "partition_responses", "PartitionProduceResponse", "index",
            blank=(("base_offset", -1),),
        ),
    ),
    ApiKey.FETCH: (
        _topics("topics", "responses", "FetchableTopicResponse", "topic"),
        _partitions("PartitionData", "partition", high_watermark=-1, aborted_transactions=None, records=b""),
    ),
    ApiKey.LIST_OFFSETS: (
        _topics("topics", "topics", "ListOffsetsTopicResponse"),
        _partitions("ListOffsetsPartitionResponse"),
    ),
    ApiKey.OFFSET_COMMIT: (
        _topics("topics", "topics", "OffsetCommitResponseTopic"),
        _partitions("OffsetCommitResponsePartition"),
    ),
    ApiKey.OFFSET_FETCH: (
        _topics("topics", "topics", "OffsetFetchResponseTopic"),
        _partitions("OffsetFetchResponsePartition", "", "partition_indexes", committed_offset=-1),
    ),
    ApiKey.DESCRIBE_GROUPS: (Place(Role.GROUP, "groups", "", "groups", "DescribedGroup", "group_id"),),
    ApiKey.CREATE_TOPICS: (_topics("topics", "topics", "CreatableTopicResult"),),
    ApiKey.DELETE_TOPICS: (Place(Role.TOPIC, "topic_names", "", "responses", "DeletableTopicResult", "name"),),
    ApiKey.DELETE_RECORDS: (
        _topics("topics", "topics", "DeleteRecordsTopicResult"),
        _partitions("DeleteRecordsPartitionResult", low_watermark=-1),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _topics("topics", "topics", "OffsetForLeaderTopicResult", "topic"),
        Place(Role.PARTITION, "partitions", "partition", "partitions", "EpochEndOffset", "partition"),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _topics("v3_and_below_topics", "results_by_topic_v3_and_below", "AddPartitionsToTxnTopicResult"),
        Place(
            Role.PARTITION, "partitions", "", "results_by_partition", "AddPartitionsToTxnPartitionResult",
            "partition_index", "partition_error_code",
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        Place(Role.OTHER, "markers", "producer_id", "markers", "WritableTxnMarkerResult", "producer_id"),
        _topics("topics", "topics", "WritableTxnMarkerTopicResult"),
        _partitions("WritableTxnMarkerPartitionResult", "", "partition_indexes"),
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        _topics("topics", "topics", "TxnOffsetCommitResponseTopic"),
        _partitions("TxnOffsetCommitResponsePartition"),
    ),
    ApiKey.DESCRIBE_CONFIGS: (_resources("results", "DescribeConfigsResult"),),
    ApiKey.ALTER_CONFIGS: (_resources("responses", "AlterConfigsResourceResponse"),),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_resources("responses", "AlterConfigsResourceResponse"),),
    ApiKey.CREATE_PARTITIONS: (_topics("topics", "results", "CreatePartitionsTopicResult"),),
    ApiKey.DELETE_GROUPS: (Place(Role.GROUP, "groups_names", "", "results", "DeletableGroupResult", "group_id"),),
    ApiKey.OFFSET_DELETE: (
        _topics("topics", "topics", "OffsetDeleteResponseTopic"),
        _partitions("OffsetDeleteResponsePartition"),
    ),
}  # fmt: skip


class Named(NamedTuple):
    """What one error code of a response is for; None where the API does not go that far."""

    topic: str | None
    partition: int | None
    group: str | None = None
    """Where the request has a list of groups; one that it is about as a whole ``groups_in`` tells."""


def names_topics(key: int) -> bool:
    """Whether requests of the API name topics."""
    roles = (Role.TOPIC, Role.RESOURCE)
    return key == ApiKey.METADATA or any(place.role in roles for place in PLACES.get(key, ()))


def names_partitions(key: int) -> bool:
    """Whether requests of the API name partitions; Metadata's answer does."""
    return key == ApiKey.METADATA or any(place.role is Role.PARTITION for place in PLACES.get(key, ()))


def names_groups(key: int) -> bool:
    """Whether requests of the API name consumer groups."""
    places = PLACES.get(key, ())
    return key in WITH_ONE_GROUP or key == ApiKey.FIND_COORDINATOR or any(each.role is Role.GROUP for each in places)


def groups_in(key: int, request: Any) -> list[str]:
    """The consumer groups that a request of the API names."""
    if request is None or not names_groups(key):
        return []
    if key in WITH_ONE_GROUP:
        return [request.group_id]
    if key == ApiKey.FIND_COORDINATOR:
        return [request.key] if request.key_type == GROUP_COORDINATOR else []
    found = _in_lists(request, PLACES[key], Named(None, None))
    return [named.group for named in found if named.group is not None]


def named_in(context: "RequestContext", request: Any) -> list[Named]:
    """What a request names, one item for each error code of its answer; empty if it has one for all.

    A fetch names the partitions of its session too, Metadata those of all topics that it asks for.
    """
    key = context.header.api_key
    if request is None:
        return []
    if key == ApiKey.METADATA:
        return list(_in_metadata(context, request))
    found = list(_in_lists(request, PLACES.get(key, ()), Named(None, None)))
    if key == ApiKey.FETCH:
        session = context.services.fetch_sessions.get(request.session_id)
        if session is not None:
            gone = {TopicPartition(topic.topic, index) for topic in request.forgotten_topics_data
                    for index in topic.partitions}  # fmt: skip
            asked = set(found)
            found += [Named(*each) for each in session.partitions if each not in gone and Named(*each) not in asked]
    return found


def extended(named: Named, place: Place, item: Any) -> Named:
    """What ``item`` of a list adds to what the lists around it say."""
    if place.role is Role.PARTITION:
        return named._replace(partition=place.name_of(item))
    if place.role is Role.TOPIC or (place.role is Role.RESOURCE and item.resource_type == TOPIC_RESOURCE):
        return named._replace(topic=place.name_of(item))
    if place.role is Role.GROUP:
        return named._replace(group=place.name_of(item))
    return named


def _in_lists(container: Any, places: tuple[Place, ...], named: Named) -> Iterator[Named]:
    if not places:
        return
    for item in getattr(container, places[0].request) or ():
        inner = extended(named, places[0], item)
        if len(places) == 1:
            yield inner
        else:
            yield from _in_lists(item, places[1:], inner)


def _in_metadata(context: "RequestContext", request: Any) -> Iterator[Named]:
    image = context.services.metadata.image
    is_all = request.topics is None or (context.header.api_version == 0 and not request.topics)
    for name in image.topics if is_all else [topic.name for topic in request.topics]:
        yield Named(name, None)
        known = image.topics.get(name)
        for partition in () if known is None else known.partitions:
            yield Named(name, partition)


Select = Callable[[Named], bool]
