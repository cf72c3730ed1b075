"""The regular expressions of a group's subscriptions: when the topics are searched for them, and what was found.

A member that brings an expression is answered first. The search follows in steps (``select_topics``), its result
becomes a record for each expression, and the group epoch grows if other topics are selected. As in Apache Kafka 4.4 a
heartbeat starts a search of the topics for all expressions of the group, with the rights of the member that sent it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafkapy.coordinator.regular_expressions import InvalidRegularExpressionError, RegularExpression
from kafkapy.turns import Steps, pieces

SHORTEST_INTERVAL_MS: Final = 10_000
"""The least time between two searches for a group's expressions."""
NEVER_MS: Final = -SHORTEST_INTERVAL_MS
NO_TOPICS: Final[frozenset[str]] = frozenset()

MayDescribe = Callable[[str], bool]
"""Whether a member may describe the topic."""

logger = logging.getLogger(__name__)


class GroupExpressions:
    """The expressions of one group."""

    __slots__ = ("members", "topics", "_searched_ms", "_searched", "_is_searching")

    def __init__(self) -> None:
        self.members: Counter[str] = Counter()
        """The expressions, each with the number of its members."""
        self.topics: dict[str, frozenset[str]] = {}
        """The topics that each expression selects; an expression that is not resolved yet is missing."""
        self._searched_ms = NEVER_MS
        self._searched: Mapping[str, object] = {}
        self._is_searching = False

    def selected(self, pattern: str) -> frozenset[str]:
        """The topics of an expression, none if it is empty or not resolved yet."""
        return self.topics.get(pattern, NO_TOPICS)

    def replay_member(self, pattern: str, sign: int) -> None:
        """A member has the expression (1), or does not have it any more (-1); an empty one is none."""
        if pattern:
            self.members[pattern] += sign
            if not self.members[pattern]:
                del self.members[pattern]

    def replay_topics(self, pattern: str, topics: frozenset[str] | None, resolved_ms: int) -> None:
        """The expression selects the topics, or is not used any more."""
        if topics is None:
            self.topics.pop(pattern, None)
        else:
            self.topics[pattern] = topics
            self._searched_ms = max(self._searched_ms, resolved_ms)

    def start_search(self, cluster_topics: Mapping[str, object], now_ms: int, longest_interval_ms: int) -> bool:
        """Whether the cluster's topics have to be searched now; if so, ``end_search`` follows.

        After ``longest_interval_ms`` they are searched without new topics: the rights of the members may have changed.
        """
        if not self.members or self._is_searching or now_ms - self._searched_ms < SHORTEST_INTERVAL_MS:
            return False
        is_due = now_ms - self._searched_ms >= longest_interval_ms
        if is_due or len(self.members) != len(self.topics) or self._has_new(cluster_topics):
            self._is_searching = True
            self._searched_ms = now_ms
        return self._is_searching

    def _has_new(self, cluster_topics: Mapping[str, object]) -> bool:
        if cluster_topics is self._searched:
            return False
        if not cluster_topics.keys() <= self._searched.keys():
            return True
        self._searched = cluster_topics
        return False

    def end_search(self, cluster_topics: Mapping[str, object] | None) -> None:
        """The log has what was found among these topics; None if it has not, so that the search is repeated."""
        self._is_searching = False
        self._searched = {} if cluster_topics is None else cluster_topics


def select_topics(
    patterns: Iterable[str], names: Sequence[str], may_describe: MayDescribe | None
) -> Steps[dict[str, frozenset[str]]]:
    """Return the topics that each expression selects, without those that the member may not describe."""
    found = {}
    for pattern in patterns:
        selected = yield from _select(pattern, names)
        if may_describe is not None:
            selected = yield from _visible(selected, may_describe)
        found[pattern] = frozenset(selected)
    return found


def _select(pattern: str, names: Sequence[str]) -> Steps[set[str]]:
    """An expression that another broker has accepted may be invalid here: it selects nothing."""
    try:
        expression = RegularExpression(pattern)
    except InvalidRegularExpressionError as error:
        logger.warning("The regular expression %r of a consumer group selects no topics: %s", pattern, error)
        return set()
    return (yield from expression.select(names))


def _visible(selected: set[str], may_describe: MayDescribe) -> Steps[set[str]]:
    visible: set[str] = set()
    for piece in pieces(list(selected)):
        visible.update(filter(may_describe, piece))
        yield
    return visible
