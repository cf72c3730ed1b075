"""Committed offsets of consumer groups: translated to the target's offsets and committed there (KIP-545).

A group of the source is read as it is, also while its consumers run. On the target its offsets change only while it has
no members there. The target's coordinator sees to that: once a consumer has joined, it refuses commits from outside.
Offsets only grow, and only after they have grown on the source: an offset that a user sets on the target stays until
the source's group commits a higher one.

In a partition that several mirrors fill from several clusters, an offset that skips no unread record is the lowest that
any of them would translate, and each knows only its own. So none of them commits there: the offsets stay as they were
before the second mirror began. To see it in time, offsets are translated first and then the other mirrors are looked
up: the records of one that begins later are behind all that was translated.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import RequestFailedError
from kafkapy.clients.mirror.common import MirrorOptions, OnceReport, Place, by_topic, passes, pipelined
from kafkapy.clients.mirror.others import OF_CONSUMERS, PLACES_UNDER_WAY, OtherMirror
from kafkapy.clients.mirror.positions import FIRST_WITH_STABLE
from kafkapy.clients.mirror.reading import list_offsets
from kafkapy.protocol.client_core import Request
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkapy.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse

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
LookUpOthers = Callable[[Iterable[Place]], Mapping[Place, OtherMirror]]
"""Those of some places that other mirrors fill from other clusters."""


class GroupOffsetSync:
    """Keeps the groups of the target in step with those of the source; ``sync`` is called again and again."""

    def __init__(
        self,
        clients: tuple[ClusterClient, ClusterClient],
        options: MirrorOptions,
        look_up_others: LookUpOthers,
        report: Callable[[str], None],
    ) -> None:
        self._source, self._target = clients
        self._options = options
        self._look_up_others = look_up_others
        self._tell = OnceReport(report)
        self._refused: set[str] = set()
        self._done: dict[tuple[str, Place], int] = {}
        self._coordinators: dict[str, int] = {}
        self._is_complete = True

    @property
    def refused(self) -> frozenset[str]:
        """Topics in which offsets are not translated because another mirror fills them too."""
        return frozenset(self._refused)

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
            wanted[group] = self._translated(group, offsets, translate, leaders, keep=keep)
        shared = self._shared(wanted)
        if not keep:
            wanted = {group: _without(offsets, shared) for group, offsets in wanted.items()}
        wanted = {group: offsets for group, offsets in wanted.items() if offsets}
        if wanted:
            wanted = self._in_range(wanted, leaders)
            there = self._fetched(self._target, self._coordinated(wanted), wanted)
            for group, committed in there.items():
                self._advance(group, wanted[group], committed, shared)
        return self._is_complete

    def _shared(self, wanted: GroupOffsets) -> Collection[Place]:
        """The places of translated offsets that other mirrors fill too, or may fill as far as brokers can tell now."""
        places = {place for offsets in wanted.values() for place in offsets}
        try:
            found = self._look_up_others(places)
        except RequestFailedError as error:
            if not passes(error):
                raise
            self._is_complete = False
            return places
        for (topic, _), other in sorted(found.items()):
            self._refused.add(topic)
            self._tell(
                f"topic {topic}: {other.text}, so the offsets of groups are not translated for it: records of one"
                " cluster that a group has not read would be skipped. Leave the topic out, or do without --groups"
            )
        return found.keys()

    def _listed(self) -> dict[str, int]:
        """The groups of the source that match, each with the broker that coordinates it."""
        requests: list[tuple[int | None, Request]] = [(node, ListGroupsRequest()) for node in self._source.node_ids()]
        found = {}
        for node, answer in pipelined(self._source, requests, ListGroupsResponse):
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
                request.require_stable = client.node(node).version_for(request) >= FIRST_WITH_STABLE
            requests.append((node, request))
        found: GroupOffsets = {}
        largest = max((len(wanted[group]) for group in groups), default=1) if wanted is not None else 1
        answers = pipelined(client, requests, OffsetFetchResponse, max(1, PLACES_UNDER_WAY // max(largest, 1)))
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
        """The offsets that the target's group should have and does not have yet, by the mirror's data."""
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
        answers = pipelined(self._target, requests, FindCoordinatorResponse)
        known = set(self._target.node_ids()) if asked else set()
        for group, (_, answer) in zip(asked, answers, strict=True):
            if self._accepts(answer.error_code, f"group {group} on the target") and answer.node_id in known:
                self._coordinators[group] = answer.node_id
        self._is_complete = self._is_complete and all(group in self._coordinators for group in groups)
        return {group: self._coordinators[group] for group in groups if group in self._coordinators}

    def _advance(
        self,
        group: str,
        wanted: Mapping[Place, GroupOffset],
        committed: Mapping[Place, GroupOffset],
        shared: Collection[Place],
    ) -> None:
        """Commit those offsets of a group that are behind; none goes back. A ``shared`` one is only kept as it is."""
        changed = {}
        for place, each in wanted.items():
            there = committed.get(place, NOTHING)
            last = self._done.get((group, place), -1)
            is_kept = there.offset == each.offset == last
            if there is UNSTABLE:
                continue
            if place in shared:
                if there.offset >= 0:
                    changed[place] = there
            elif is_kept or there.offset < each.offset > last:
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
        request = OffsetCommitRequest(
            group, topics=[OffsetCommitRequestTopic(topic, partitions=rows) for topic, rows in topics.items()]
        )
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


def _without(offsets: Mapping[Place, GroupOffset], places: Collection[Place]) -> dict[Place, GroupOffset]:
    return {place: each for place, each in offsets.items() if place not in places}
