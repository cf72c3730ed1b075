"""The other mirrors that write to the target: which partitions they copy from other clusters.

Each mirror commits a position on the target, with the id of its source, before it produces the first record of a
partition. So a look-up shows every other mirror whose records may have an offset that the target gave to a record
before the look-up began. Positions are found by looking at the offsets of all groups without members.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.clients.mirror.common import UNDER_WAY, Place, by_topic, pipelined
from kafkapy.clients.mirror.positions import FIRST_WITH_STABLE, position_of
from kafkapy.protocol.client_core import Request
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

OF_CONSUMERS: Final = frozenset({"", "consumer"})
"""Types of groups whose offsets are those of records; without members the type may be empty."""
PLACES_UNDER_WAY: Final = 2000
"""Partitions in requests that wait: a broker that can't send its responses does not read more requests."""
_OFFSETS_TOPIC: Final = "__consumer_offsets"
_WITHOUT_MEMBERS: Final = "Empty"
_FIRST_WITH_STATES: Final = 4


class OtherMirror(NamedTuple):
    """A mirror that copies a partition from another cluster, or has copied it."""

    group: str
    origin: str
    """The id of the cluster."""

    @property
    def text(self) -> str:
        """The group and the source cluster, for a line about the topic."""
        return f"a mirror with the group {self.group} copies it from cluster {self.origin} too"


class OtherMirrors:
    """Looks for the positions of other mirrors. The result is kept as long as this mirror runs."""

    def __init__(self, target: ClusterClient, group: str) -> None:
        self._target = target
        self._group = group
        self._found: dict[Place, OtherMirror] = {}

    def look_up(self, places: Iterable[Place], source_id: str) -> Mapping[Place, OtherMirror]:
        """Those of the places that another mirror copies from another cluster than ``source_id``.

        Raises NoBrokerError, and RequestFailedError where a broker can't answer for its groups now.
        """
        wanted = set(places)
        unknown = wanted - self._found.keys()
        if unknown:
            groups = self._groups()
            topics = [OffsetFetchRequestTopic(*pair) for pair in by_topic(sorted(unknown)).items()]
            requests = [(node, self._offsets_request(node, group, topics)) for group, node in groups]
            under_way = max(1, min(UNDER_WAY, PLACES_UNDER_WAY // len(unknown)))
            answers = pipelined(self._target, requests, OffsetFetchResponse, under_way)
            for (group, _), (_, answer) in zip(groups, answers, strict=True):
                self._take_in(group, answer, source_id)
        return {place: self._found[place] for place in wanted & self._found.keys()}

    def _groups(self) -> list[tuple[str, int]]:
        """The groups of the target that may be those of mirrors, each with the broker that coordinates it."""
        for topic in self._target.metadata([_OFFSETS_TOPIC]).topics:
            if any(each.leader_id < 0 for each in topic.partitions):
                raise RequestFailedError(ErrorCode.COORDINATOR_NOT_AVAILABLE, what="some groups of the target")
        found = []
        for node in self._target.node_ids():
            request, connection = ListGroupsRequest(), self._target.node(node)
            if connection.version_for(request) >= _FIRST_WITH_STATES:
                request.states_filter = [_WITHOUT_MEMBERS]
            answer = connection.call(request, ListGroupsResponse)
            check(answer.error_code, what=f"the groups of broker {node} of the target")
            found += [
                (each.group_id, node)
                for each in answer.groups
                if each.protocol_type in OF_CONSUMERS and each.group_id != self._group
            ]
        return found

    def _offsets_request(self, node: int, group: str, topics: list[OffsetFetchRequestTopic]) -> Request:
        request = OffsetFetchRequest(group, topics)
        request.require_stable = self._target.node(node).version_for(request) >= FIRST_WITH_STABLE
        return request

    def _take_in(self, group: str, answer: OffsetFetchResponse, source_id: str) -> None:
        check(answer.error_code, what=f"group {group} on the target")
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, what=f"group {group} on the target, {topic.name}-{each.partition_index}")
                origin = position_of(each.committed_offset, each.metadata or "").origin
                if origin and origin != source_id:
                    self._found.setdefault((topic.name, each.partition_index), OtherMirror(group, origin))
