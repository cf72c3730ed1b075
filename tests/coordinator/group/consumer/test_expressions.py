"""Subscriptions by regular expressions: answered first, resolved afterwards, and kept in the log."""

import sys
from typing import Any

import pytest

from kafkapy.coordinator.group.consumer import records as stored
from kafkapy.coordinator.group.consumer.calls import HeartbeatResult
from kafkapy.coordinator.group.records import ConsumerExpressionKey, decode_key
from kafkapy.coordinator.regular_expressions import LIBRARY_IS_MISSING
from kafkapy.metadata.errors import NotEnoughReplicasError, RequestTimedOutError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import PIECE
from kafkapy.types import TopicPartition
from tests.coordinator.group.consumer.world import FIRST_STEPS, ConsumerWorld, T, U, shown


class ExpressionWorld(ConsumerWorld):
    def match(self, member_id: str, pattern: str, **fields: Any) -> HeartbeatResult:
        """The member joins with an expression alone."""
        return self.enter(member_id, topic_regex=pattern, **({"topic_names": None} | fields))

    def expression_records(self) -> list[tuple[str, list[str] | None]]:
        """The expressions in the log, each with its topics."""
        found: list[tuple[str, list[str] | None]] = []
        for record in self.log.records():
            key = decode_key(record.key or b"")
            if isinstance(key, ConsumerExpressionKey):
                topics = None if record.value is None else stored.decode_expression(record.value).topics
                found.append((key.pattern, topics))
        return found

    def live_later(self) -> None:
        """Start again with so many topics that a search of them is kept in ``later``."""
        self.run_slowly()
        others = {f"other{number}": 1 for number in range(PIECE * FIRST_STEPS)}
        self.set_topics(t=3, u=2, **others)


def test_topics_are_assigned_after_a_later_heartbeat() -> None:
    world = ExpressionWorld()
    assert shown(world.match("a", "t|x.*")) == (1, {})
    assert world.state() == ("Assigning", 2, 1)
    assert world.epochs("a", 1) == (2, {T: [0, 1, 2]})
    assert world.expression_records() == [("t|x.*", ["t"])]
    assert world.describe().members[0].topic_regex == "t|x.*"
    assert world.consumer_group().is_read("t")


def test_a_topic_may_be_named_and_matched() -> None:
    world = ExpressionWorld()
    world.match("a", "t.*", topic_names=("t", "u"))
    assert world.epochs("a", 2) == (3, None)
    assert world.state() == ("Stable", 3, 3)
    world.beat("a", 3, topic_names=())
    assert world.epochs("a", 3, owned={T: [0, 1, 2]}) == (4, None)
    world.beat("a", 4, topic_regex="")
    assert world.epochs("a", 4, owned={}) == (5, None)
    assert world.expression_records() == [("t.*", ["t"]), ("t.*", None)]
    assert not world.consumer_group().is_read("t")


def test_a_member_takes_the_expression_of_another_one() -> None:
    world = ExpressionWorld()
    world.match("a", "u")
    world.beat("a", 1)
    assert shown(world.match("b", "u")) == (3, {})
    assert world.epochs("a", 2)[1] == {U: [0]}
    world.beat("a", -1)
    assert world.expression_records() == [("u", ["u"])]
    world.beat("b", -1)
    assert world.expression_records() == [("u", ["u"]), ("u", None)]
    assert world.state() == ("Empty", 5, 5)


def test_an_expression_that_waits_for_its_search_does_not_change_the_epoch() -> None:
    world = ExpressionWorld()
    world.live_later()
    assert shown(world.match("a", "t")) == (1, {})
    assert shown(world.match("b", "t")) == (1, {})
    assert world.state() == ("Stable", 1, 1)
    assert len(world.later) == 1
    world.finish_later()
    assert world.state() == ("Assigning", 2, 1)


def test_topics_are_searched_again_after_ten_seconds() -> None:
    world = ExpressionWorld()
    world.match("a", ".*")
    assert world.epochs("a", 1) == (2, {T: [0, 1, 2], U: [0, 1]})
    world.set_topics(t=3, u=2, v=1)
    assert world.epochs("a", 2) == (2, None)
    world.clock.advance(10_000)
    assert world.epochs("a", 2) == (2, None)
    assert world.epochs("a", 2)[0] == 3
    world.clock.advance(10_000)
    world.set_topics(t=3, u=2)
    kept = {T: [0, 1, 2], U: [0, 1]}
    world.beat("a", 3)
    assert world.epochs("a", 3, owned=kept) == (4, None)
    assert len(world.expression_records()) == 2
    for _ in range(59):
        world.clock.advance(10_000)
        world.epochs("a", world.describe().members[0].member_epoch, owned=kept)
    assert world.expression_records()[2:] == [(".*", ["t", "u"])]


def test_a_topic_that_vanishes_is_not_assigned_any_more() -> None:
    world = ExpressionWorld()
    world.match("a", ".*")
    world.beat("a", 1)
    world.set_topics(t=3)
    assert world.epochs("a", 2) == (2, {T: [0, 1, 2]})
    assert world.state() == ("Reconciling", 3, 3)


def test_topics_that_the_member_may_not_describe_are_not_selected() -> None:
    world = ExpressionWorld()
    world.match("a", ".*", may_describe=lambda topic: topic == "u")
    assert world.epochs("a", 1) == (2, {U: [0, 1]})


def test_an_invalid_expression_is_refused() -> None:
    world = ExpressionWorld()
    refused = world.match("a", "t(")
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.error_message is not None
    assert "SubscribedTopicRegex `t(` is not a valid" in refused.error_message
    assert not world.has_group()


def test_an_expression_without_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    refused = ExpressionWorld().match("a", "t")
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REGULAR_EXPRESSION, LIBRARY_IS_MISSING)


def test_a_restart_restores_expressions_and_searches_again() -> None:
    world = ExpressionWorld()
    world.match("a", "t.*")
    world.beat("a", 1)
    before = world.describe()
    used = world.consumer_group().budget.used_bytes
    world.clock.advance(10_000)
    world.restart()
    assert world.describe() == before
    assert world.consumer_group().budget.used_bytes == used
    assert world.epochs("a", 2) == (2, None)
    assert world.expression_records() == [("t.*", ["t"])] * 2
    assert world.state() == ("Stable", 2, 2)
    group = world.consumer_group()
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), None)
    assert group.budget.used_bytes == 0


def test_an_expression_that_is_not_valid_here_selects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ExpressionWorld()
    world.match("a", "t")
    world.beat("a", 1)
    world.clock.advance(10_000)
    world.restart()
    monkeypatch.setitem(sys.modules, "re2", None)
    world.beat("a", 2)
    assert world.expression_records() == [("t", ["t"]), ("t", [])]


def test_a_search_whose_members_have_left_writes_nothing() -> None:
    world = ExpressionWorld()
    world.live_later()
    world.match("a", "t")
    world.enter("b")
    world.beat("a", -1)
    world.finish_later()
    assert world.expression_records() == [("t", None)]


def test_a_search_that_ends_after_the_partition_has_moved_writes_nothing() -> None:
    world = ExpressionWorld()
    world.live_later()
    world.match("a", "t")
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), None)
    world.finish_later()
    assert world.expression_records() == []


def test_a_result_that_is_refused_is_searched_again() -> None:
    world = ExpressionWorld()
    world.live_later()
    world.match("a", "t")
    world.broker.error = NotEnoughReplicasError("too few")
    world.finish_later()
    world.broker.error = None
    world.beat("a", 1)
    assert world.later == []
    world.clock.advance(10_000)
    world.beat("a", 1)
    world.finish_later()
    assert world.expression_records() == [("t", ["t"])]


def test_topics_that_exceed_the_bound_on_memory_are_not_kept() -> None:
    world = ExpressionWorld()
    world.live_later()
    world.match("a", ".*")
    budget = world.consumer_group().budget
    budget.max_bytes = budget.used_bytes
    world.finish_later()
    assert world.background.counters.refused_metadata == 1
    assert world.expression_records() == []


def test_a_search_that_ends_when_no_member_has_its_expression_while_an_acknowledgement_is_missing() -> None:
    world = ExpressionWorld()
    world.live_later()
    world.match("a", "u.*", topic_names=("t",))
    assert len(world.later) == 1
    world.broker.is_slow = True
    answer = world.send("a", 2, topic_regex="")
    world.broker.acknowledge(RequestTimedOutError("too slow"))
    assert answer.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    written = len(list(world.log.records()))
    world.finish_later()
    assert len(list(world.log.records())) == written
