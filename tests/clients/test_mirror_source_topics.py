"""The topics that a mirror derives for its source, from listings that may lack some; the clock is set by hand."""

import re

import pytest

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NoBrokerError
from kafkapy.clients.mirror.source_topics import ABSENT_S, SourceTopics
from kafkapy.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


class _Source:
    """A source that lists what it is told to; each look-up is at a time of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self._listed: list[str] = []
        monkeypatch.setattr(ClusterClient, "metadata", lambda _: self._listing())
        patterns = [re.compile("t.*|_.*")]
        self.topics = SourceTopics(ClusterClient(), patterns, lambda: self.now_s, self.lines.append)

    def _listing(self) -> MetadataResponse:
        topics = [
            MetadataResponseTopic(
                name=name, partitions=[MetadataResponsePartition(partition_index=at) for at in (0, 1)]
            )
            for name in self._listed
        ]
        return MetadataResponse(topics=topics)

    def look_up(self, now_s: float, *listed: str) -> dict[str, list[int]]:
        """The leaders of each topic."""
        self.now_s, self._listed = now_s, [*listed]
        return {each.name or "": [part.leader_id for part in each.partitions] for each in self.topics.look_up()}


LED = [0, 0]
LEADERLESS = [-1, -1]


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> _Source:
    return _Source(monkeypatch)


def test_internal_topics_and_those_of_other_names_are_left_out(source: _Source) -> None:
    assert source.look_up(0, "t2", "__t", "other", "t1") == {"t1": LED, "t2": LED}
    assert source.topics.missing == frozenset()


def test_a_topic_that_is_missing_waits_and_then_counts_as_deleted(source: _Source) -> None:
    source.look_up(0, "t1", "t2")
    for now_s in (5.0, 10.0, 5 + ABSENT_S - 0.1):
        assert source.look_up(now_s, "t1") == {"t1": LED, "t2": LEADERLESS}
        assert source.topics.missing == {"t2"}
    assert source.lines == []
    assert source.look_up(5 + ABSENT_S, "t1") == {"t1": LED}
    assert source.topics.missing == frozenset()
    assert source.lines == ["topic t2 was deleted on the source; it is no longer copied"]
    assert source.look_up(100, "t1", "t2") == {"t1": LED, "t2": LED}, "it was made again"


def test_two_listings_far_apart_are_not_enough(source: _Source) -> None:
    """The broker may have been down between them, and have started again."""
    source.look_up(0, "t1", "t2")
    source.look_up(1, "t1")
    assert source.look_up(1000, "t1") == {"t1": LED, "t2": LEADERLESS}
    assert source.look_up(1001, "t1") == {"t1": LED}


def test_listings_of_one_moment_count_as_one(source: _Source) -> None:
    source.look_up(0, "t1", "t2")
    for now_s in (1.0, 1.2, 1.9, 1000.0, 1000.5):
        assert source.look_up(now_s, "t1") == {"t1": LED, "t2": LEADERLESS}
    assert source.look_up(1001, "t1") == {"t1": LED}


def test_an_absence_begins_again_after_the_topic_was_seen(source: _Source) -> None:
    source.look_up(0, "t1", "t2")
    for now_s in (1, 2, 3):
        source.look_up(now_s, "t1")
    source.look_up(4, "t1", "t2")
    for now_s in (5, 15, 5 + ABSENT_S - 0.1):
        assert source.look_up(now_s, "t1") == {"t1": LED, "t2": LEADERLESS}


def test_a_source_without_any_topic_is_not_believed_at_once(source: _Source) -> None:
    for now_s in (0.0, 1.0, ABSENT_S - 0.1):
        with pytest.raises(NoBrokerError, match="the source lists no topics, as a broker does that has just started"):
            source.look_up(now_s)
    assert source.look_up(ABSENT_S) == {}
    assert source.look_up(ABSENT_S + 1) == {}
    assert source.look_up(ABSENT_S + 2, "t1") == {"t1": LED}
    with pytest.raises(NoBrokerError):
        source.look_up(ABSENT_S + 3)
    assert source.look_up(ABSENT_S + 4, "t1") == {"t1": LED}
    assert source.lines == []


def test_all_topics_may_be_deleted(source: _Source) -> None:
    source.look_up(0, "t1")
    for now_s in (1, 2):
        with pytest.raises(NoBrokerError):
            source.look_up(now_s)
    assert source.look_up(1 + ABSENT_S) == {}
    assert source.lines == ["topic t1 was deleted on the source; it is no longer copied"]
