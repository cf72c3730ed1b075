"""The topics of the source: the listed ones, and those that it may have although a listing does not show them.

A broker that has just started answers Metadata with no topics, or with some, until the controller has told it of all
(UpdateMetadata). For Apache Kafka 2.7 that takes about 0.1 s, and after a kill as long as the session in ZooKeeper that
the killed broker has left (``zookeeper.session.timeout.ms``, 18 s). To ask for a topic by its name shows no more: the
answer comes from the same cache. So what is missing counts as deleted only after several listings in a row, over more
time than that. Several, as between two listings the broker may have been down, and started again.
"""

from collections.abc import Callable, Sequence
from re import Pattern
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NoBrokerError
from kafkapy.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from kafkapy.types import NO_LEADER

INTERNAL_PREFIX: Final = "__"
ABSENT_S: Final = 20.0
ABSENT_LISTINGS: Final = 3
BETWEEN_LISTINGS_S: Final = 1.0
"""Listings that follow one another sooner count as one."""
_ALL: Final = ""
"""Stands for all topics, in an empty listing; no topic has this name."""


class _Absence(NamedTuple):
    """Since when, and in how many listings in a row, a topic has been missing; ``counted_s`` is the last one's time."""

    since_s: float
    counted_s: float
    listings: int

    def again(self, now_s: float) -> "_Absence":
        """Missing in another listing, which counts if it is of another time."""
        is_another = now_s - self.counted_s >= BETWEEN_LISTINGS_S
        return _Absence(self.since_s, now_s, self.listings + 1) if is_another else self


class SourceTopics:
    """The topics of the source that match, listing by listing. ``now_s`` is a monotonic clock."""

    def __init__(
        self,
        client: ClusterClient,
        patterns: Sequence[Pattern[str]],
        now_s: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._patterns = patterns
        self._now_s = now_s
        self._report = report
        self._known: dict[str, MetadataResponseTopic] = {}
        self._absences: dict[str, _Absence] = {}

    @property
    def missing(self) -> frozenset[str]:
        """Topics of the last ``look_up`` that the source did not list."""
        return frozenset(self._known.keys() & self._absences.keys())

    def look_up(self) -> list[MetadataResponseTopic]:
        """The topics by name. One that is missing, but may be there, is as it was, with partitions without leaders.

        Raises NoBrokerError while the source lists no topic at all, and may just have started.
        """
        listed = self._client.metadata().topics
        found = {topic.name or "": topic for topic in listed if self._matches(topic)}
        deleted = self._absent_for_good({*(self._known.keys() - found.keys()), *(() if listed else (_ALL,))})
        for name in sorted(self._known.keys() & deleted):
            self._report(f"topic {name} was deleted on the source; it is no longer copied")
            del self._known[name]
        if not listed and _ALL not in deleted:
            raise NoBrokerError("the source lists no topics, as a broker does that has just started")
        kept = {name: _without_leaders(topic) for name, topic in self._known.items() if name not in found}
        self._known = {**found, **kept}
        return [self._known[name] for name in sorted(self._known)]

    def _matches(self, topic: MetadataResponseTopic) -> bool:
        name = topic.name or ""
        is_internal = topic.is_internal or name.startswith(INTERNAL_PREFIX)
        return not is_internal and any(pattern.fullmatch(name) for pattern in self._patterns)

    def _absent_for_good(self, absent: set[str]) -> set[str]:
        """Those of the absent that have been missing long enough; an absence ends with a listing that has the topic."""
        now_s = self._now_s()
        before = self._absences
        self._absences = {
            name: before[name].again(now_s) if name in before else _Absence(now_s, now_s, 1) for name in absent
        }
        return {
            name
            for name, each in self._absences.items()
            if each.listings >= ABSENT_LISTINGS and now_s - each.since_s >= ABSENT_S
        }


def _without_leaders(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=each.partition_index, leader_id=NO_LEADER)
        for each in topic.partitions
    ]
    return MetadataResponseTopic(name=topic.name, partitions=partitions)
