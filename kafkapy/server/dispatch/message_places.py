"""The topics, partitions and groups that a request names: traces and faults select requests by them.

The lists and fields come from Kafka's definitions (``kafkapy/protocol/places.py``). Three requests concern more than
their own lists name: a fetch has a session, Metadata may request all topics and its response has each partition, and
the key of FindCoordinator may be a group. AlterReplicaLogDirs has its topics within a list of directories, which its
response has not.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import GROUP_KEY, ResourceType
from kafkapy.protocol.places import PLACES, WITH_GROUP_ID, Place, Role
from kafkapy.types import TopicPartition

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext


class NamedResource(NamedTuple):
    """The topic, partition and group that one error code of a response is for; None for those that it is not for."""

    topic: str | None
    partition: int | None
    group: str | None = None
    """Set where the request has a list of groups; ``groups_in`` returns the group of a request about a single one."""


def names_topics(key: int) -> bool:
    """Whether requests of the API name topics."""
    roles = (Role.TOPIC, Role.RESOURCE)
    return key == ApiKey.ALTER_REPLICA_LOG_DIRS or any(place.role in roles for place in PLACES.get(key, ()))


def names_partitions(key: int) -> bool:
    """Whether requests of the API, or responses of Metadata, name partitions."""
    if key in (ApiKey.METADATA, ApiKey.ALTER_REPLICA_LOG_DIRS):
        return True
    return any(place.role is Role.PARTITION for place in PLACES.get(key, ()))


def names_groups(key: int) -> bool:
    """Whether requests of the API name consumer groups."""
    if key in WITH_GROUP_ID or key == ApiKey.FIND_COORDINATOR:
        return True
    return any(place.role is Role.GROUP for place in PLACES.get(key, ()))


def groups_in(key: int, request: Any) -> list[str]:
    """The consumer groups that a request of the API names."""
    if request is None or not names_groups(key):
        return []
    if key == ApiKey.OFFSET_FETCH and request.groups:
        return [group.group_id for group in request.groups]
    if key in WITH_GROUP_ID:
        return [request.group_id]
    if key == ApiKey.FIND_COORDINATOR:
        keys: list[str] = request.coordinator_keys or [request.key]
        return keys if request.key_type == GROUP_KEY else []
    found = _in_lists(request, PLACES[key], NamedResource(None, None))
    return [named.group for named in found if named.group is not None]


def names_in(context: "RequestContext", request: Any) -> list[NamedResource]:
    """The names in a request, one item for each error code of its answer; empty if the answer has a single code.

    A fetch also names the partitions of its session, Metadata those of all requested topics.
    """
    key = context.header.api_key
    if request is None:
        return []
    if key == ApiKey.METADATA:
        return list(_in_metadata(context, request))
    if key == ApiKey.ALTER_REPLICA_LOG_DIRS:
        listed = [topic for directory in request.dirs for topic in directory.topics]
        return [NamedResource(topic.name, index) for topic in listed for index in topic.partitions]
    if key == ApiKey.OFFSET_FETCH and request.groups:
        listed = [topic for group in request.groups for topic in group.topics or ()]
        return [NamedResource(topic.name, index) for topic in listed for index in topic.partition_indexes]
    found = list(_in_lists(request, PLACES.get(key, ()), NamedResource(None, None)))
    if key == ApiKey.FETCH:
        session = context.services.fetch_sessions.get(request.session_id)
        if session is not None:
            gone = {TopicPartition(topic.topic, index) for topic in request.forgotten_topics_data
                    for index in topic.partitions}  # fmt: skip
            asked = set(found)
            kept = (NamedResource(*each) for each in session.named() if each not in gone)
            found += [each for each in kept if each not in asked]
    return found


def extended(named: NamedResource, place: Place, item: Any) -> NamedResource:
    """``named``, which comes from the lists around ``item``, with the item's own name added."""
    if place.role is Role.PARTITION:
        return named._replace(partition=place.name_of(item))
    if place.role is Role.TOPIC or (place.role is Role.RESOURCE and item.resource_type == ResourceType.TOPIC):
        return named._replace(topic=place.name_of(item))
    if place.role is Role.GROUP:
        return named._replace(group=place.name_of(item))
    return named


def _in_lists(container: Any, places: tuple[Place, ...], named: NamedResource) -> Iterator[NamedResource]:
    if not places:
        return
    for item in getattr(container, places[0].request) or ():
        inner = extended(named, places[0], item)
        if len(places) == 1:
            yield inner
        else:
            yield from _in_lists(item, places[1:], inner)


def _in_metadata(context: "RequestContext", request: Any) -> Iterator[NamedResource]:
    image = context.services.metadata.image
    is_all = request.topics is None or (context.header.api_version == 0 and not request.topics)
    for name in image.topics if is_all else [topic.name for topic in request.topics]:
        yield NamedResource(name, None)
        known = image.topics.get(name)
        for partition in () if known is None else known.partitions:
            yield NamedResource(name, partition)


Select = Callable[[NamedResource], bool]
