"""Committed offsets of consumer groups: translated to the target's offsets and committed there (KIP-545).

A group of the source is read as it is, also while its consumers run. On the target its offsets change only while it has
no members there. The target's coordinator sees to that: once a consumer has joined, it refuses commits from outside.
Offsets only grow, and only after they have grown on the source: what somebody sets on the target stays, as long as the
group of the source does not go on.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.mirror.common import MirrorOptions, OnceReport, Place, by_topic
from kafkapy.clients.mirror.reading import list_offsets
from kafkapy.protocol.client_core import Request
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

UNDER_WAY: Final = 50
"""Small requests that wait for their responses on one connection."""
PLACES_UNDER_WAY: Final = 2000
"""Partitions in such requests: a broker that can't send its responses does not read more requests."""
OF_CONSUMERS: Final = frozenset({"", "consumer"})
"""Types of groups whose offsets are those of records; without members the type may be empty."""
_FIRST_WITH_STABLE: Final = 7
_IN_USE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
_LATER: Final = frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})
R = TypeVar("R", bound=Message)


class GroupOffset(NamedTuple):
    """An offset, and the text that the consumer has committed with it."""

    offset: int
    metadata: str


NOTHING: Final = GroupOffset(-1, "")
"""The group has no offset of a partition."""
UNSTABLE: Final = GroupOffset(-1, "an open transaction may change the offset")

GroupOffsets = dict[str, dict[Place, GroupOffset]]
"""The offsets of each group."""
Translate = Callable[[Place, int], int | None]
"""From a place and an offset of the source to the target's offset; None: the map of offsets begins behind it."""


class GroupOffsetSync:
    """Keeps the groups of the target in step with those of the source; ``sync`` is called again and again."""

    def __init__(
        self, source: ClusterClient, target: ClusterClient, options: MirrorOptions, report: Callable[[str], None]
    ) -> None:  # fmt: skip
        self._source = source
        self._target = target
        self._options = options
        self._tell = OnceReport(report)
        self._done: dict[tuple[str, Place], int] = {}
        self._coordinators: dict[str, int] = {}
        self._is_complete = True

    def reset(self) -> None:
        """Forget which brokers coordinate groups, after the connections were lost."""
        self._coordinators.clear()

    def forget(self, places: Collection[Place]) -> None:
        """The target has these partitions' records at other offsets now; offsets committed before do not count."""
        if places:
            self._done = {(group, place): at for (group, place), at in self._done.items() if place not in places}

    def sync(self, translate: Translate, leaders: dict[Place, int], *, keep: bool = False) -> bool:
        """Commit on the target what has grown on the source; ``leaders`` are the target's, of all copied partitions.

        With ``keep`` offsets that have not changed on either side are committed again, so that the target does not
        forget them. Returns whether everything could be done; else a later call does what is left. A group that the
        target refuses is reported once, in a line. Raises NoBrokerError.
        """
        self._is_complete = True
        wanted: GroupOffsets = {}
        listed = self._listed()
        if self._is_complete:
            self._done = {(group, place): at for (group, place), at in self._done.items() if group in listed}
            self._coordinators = {group: node for group, node in self._coordinators.items() if group in listed}
        for group, offsets in self._fetched(self._source, listed, None).items():
            changed = self._translated(group, offsets, translate, leaders, keep=keep)
            if changed:
                wanted[group] = changed
        if wanted:
            wanted = self._in_range(wanted, leaders)
            there = self._fetched(self._target, self._coordinated(wanted), wanted)
            for group, committed in there.items():
                self._advance(group, wanted[group], committed)
        return self._is_complete

    def _listed(self) -> dict[str, int]:
        """The groups of the source that match, each with the broker that coordinates it."""
        requests: list[tuple[int | None, Request]] = [(node, ListGroupsRequest()) for node in self._source.node_ids()]
        found = {}
        for node, answer in self._pipelined(self._source, requests, ListGroupsResponse):
            assert node is not None
            self._accepts(answer.error_code, f"the groups of broker {node} of the source")
            for each in answer.groups:
                if each.protocol_type in OF_CONSUMERS and self._matches(each.group_id):
                    found[each.group_id] = node
        return found

    def _matches(self, group: str) -> bool:
        """The mirror's own group has offsets of other clusters: those of a mirror in the other direction."""
        return group != self._options.group and any(each.fullmatch(group) for each in self._options.groups)

    def _fetched(
        self, client: ClusterClient, groups: Mapping[str, int], wanted: GroupOffsets | None
    ) -> GroupOffsets:  # fmt: skip
        """The committed offsets of groups, given the broker that coordinates each, without those that can't answer now.

        None asks for all partitions, else for the wanted ones. Of these an offset that an open transaction may change
        is ``UNSTABLE``: the mirror's commit would count as the later one, also if the transaction commits a higher
        offset after it. (If all are asked for, brokers leave out those that only the transaction has.)
        """
        requests: list[tuple[int | None, Request]] = []
        for group, node in groups.items():
            request = OffsetFetchRequest(group, None)
            if wanted is not None:
                request.topics = [OffsetFetchRequestTopic(*pair) for pair in by_topic(wanted[group]).items()]
                request.require_stable = client.node(node).version_for(request) >= _FIRST_WITH_STABLE
            requests.append((node, request))
        found: GroupOffsets = {}
        largest = max((len(wanted[group]) for group in groups), default=1) if wanted is not None else 1
        answers = self._pipelined(client, requests, OffsetFetchResponse, max(1, PLACES_UNDER_WAY // max(largest, 1)))
        for group, (_, answer) in zip(groups, answers, strict=True):
            if not self._accepts(answer.error_code, f"group {group}"):
                self._coordinators.pop(group, None)
                continue
            found[group] = {}
            for topic in answer.topics:
                for each in topic.partitions:
                    is_known = self._accepts(each.error_code, f"group {group}, topic {topic.name}")
                    offset = GroupOffset(each.committed_offset, each.metadata or "") if is_known else UNSTABLE
                    found[group][topic.name, each.partition_index] = offset
        return found

    def _translated(
        self,
        group: str,
        offsets: Mapping[Place, GroupOffset],
        translate: Translate,
        leaders: Mapping[Place, int],
        *,
        keep: bool,
    ) -> dict[Place, GroupOffset]:
        """What the target's group should have and does not have yet, as far as the mirror knows."""
        found = {}
        for place, (offset, metadata) in offsets.items():
            if place not in leaders or offset < 0:
                continue
            at = translate(place, offset)
            if at is None:
                self._tell(
                    f"group {group}: its offset of {place[0]}-{place[1]} is before those of which the mirror knows"
                    " where they are on the target; it is translated when the group has passed them"
                )
            elif keep or at > self._done.get((group, place), -1):
                found[place] = GroupOffset(at, metadata)
        return found

    def _in_range(self, wanted: GroupOffsets, leaders: dict[Place, int]) -> GroupOffsets:
        """The same, but not before the first record that the target still has, where consumers would be reset."""
        places = sorted({place for offsets in wanted.values() for place in offsets})
        first, end = (list_offsets(self._target, places, leaders, at, is_source=False) for at in (EARLIEST, LATEST))
        return {
            group: {
                place: each._replace(offset=max(each.offset, first[place]))
                for place, each in offsets.items()
                if each.offset <= end[place]
            }
            for group, offsets in wanted.items()
        }

    def _coordinated(self, groups: Iterable[str]) -> dict[str, int]:
        """The broker of the target that coordinates each group; those without one now are left out."""
        groups = list(groups)
        asked = [group for group in groups if group not in self._coordinators]
        requests: list[tuple[int | None, Request]] = [(None, FindCoordinatorRequest(group)) for group in asked]
        answers = self._pipelined(self._target, requests, FindCoordinatorResponse)
        known = set(self._target.node_ids()) if asked else set()
        for group, (_, answer) in zip(asked, answers, strict=True):
            if self._accepts(answer.error_code, f"group {group} on the target") and answer.node_id in known:
                self._coordinators[group] = answer.node_id
        self._is_complete = self._is_complete and all(group in self._coordinators for group in groups)
        return {group: self._coordinators[group] for group in groups if group in self._coordinators}

    def _advance(
        self, group: str, wanted: Mapping[Place, GroupOffset], committed: Mapping[Place, GroupOffset]
    ) -> None:  # fmt: skip
        """Commit those offsets of a group that are behind; none goes back."""
        changed = {}
        for place, each in wanted.items():
            there = committed.get(place, NOTHING)
            last = self._done.get((group, place), -1)
            is_kept = there.offset == each.offset == last
            if there is UNSTABLE:
                continue
            if is_kept or there.offset < each.offset > last:
                changed[place] = each
            else:
                self._done[group, place] = max(each.offset, last)
        if changed:
            self._commit(group, changed)

    def _commit(self, group: str, changed: Mapping[Place, GroupOffset], *, has_metadata: bool = True) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), each in changed.items():
            text = each.metadata if has_metadata else ""
            part = OffsetCommitRequestPartition(index, each.offset, committed_metadata=text)
            topics.setdefault(topic, []).append(part)
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(*pair) for pair in topics.items()])
        answer = self._target.node(self._coordinators[group]).call(request, OffsetCommitResponse)
        refused = {}
        for answered in answer.topics:
            for found in answered.partitions:
                place = answered.name, found.partition_index
                if found.error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE and has_metadata:
                    refused[place] = changed[place]
                elif self._accepts(found.error_code, f"group {group} on the target", is_commit=True):
                    self._done[group, place] = changed[place].offset
        if refused:
            self._tell(
                f"group {group}: the text that its consumers commit with offsets is longer than"
                " offset.metadata.max.bytes of the target; the offsets are committed without it"
            )
            self._commit(group, refused, has_metadata=False)

    def _accepts(self, code: int, what: str, *, is_commit: bool = False) -> bool:
        """Whether a code is NONE. Of others, those that don't pass by themselves are reported, each once."""
        if code == ErrorCode.NONE:
            return True
        if is_commit and code in _IN_USE:
            self._tell(f"{what} has members: its offsets there stay as they are until it has none")
        elif code in _LATER or (code in set(ErrorCode) and ErrorCode(code).retriable):
            self._is_complete = False
        else:
            self._tell(
                f"{RequestFailedError(code, what=what)}: its offsets are not translated; leave it out with --groups"
            )
        return False

    @staticmethod
    def _pipelined(
        client: ClusterClient,
        requests: Sequence[tuple[int | None, Request]],
        response_class: type[R],
        under_way: int = UNDER_WAY,
    ) -> list[tuple[int | None, R]]:
        """The responses to small requests, in their order; None asks any broker. Some are under way at a time."""
        found: list[tuple[int | None, R]] = []
        step = min(under_way, UNDER_WAY)
        for at in range(0, len(requests), step):
            part = requests[at : at + step]
            connections = [client.any_broker() if node is None else client.node(node) for node, _ in part]
            for connection, (_, request) in zip(connections, part, strict=True):
                connection.post(request)
            for connection, (node, _) in zip(connections, part, strict=True):
                found.append((node, connection.take(response_class)))
        return found
