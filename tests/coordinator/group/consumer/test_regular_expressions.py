"""Regular expressions that select topics."""

import sys

import pytest

from kafkapy.coordinator.group.consumer.regular_expressions import (
    InvalidRegularExpressionError,
    RegularExpressionLibraryError,
    TopicExpression,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import PIECE, finish


def test_an_expression_selects_the_names_that_it_matches_as_a_whole() -> None:
    names = ["a", "ab", "b.a", "bab", "B"]
    assert finish(TopicExpression("a.?").select(names)) == {"a", "ab"}
    assert finish(TopicExpression("a|ab").select(names)) == {"a", "ab"}
    assert finish(TopicExpression("(?i)[^a]").select(names)) == {"B"}
    assert finish(TopicExpression(".*").select([])) == set()


def test_names_are_matched_in_steps() -> None:
    steps = TopicExpression("t[0-9]*").select([f"t{number}" for number in range(PIECE * 3)])
    assert len(list(steps)) == 3


def test_an_expression_takes_linear_time() -> None:
    assert not TopicExpression("(a*)*b").matches("a" * 249)


@pytest.mark.parametrize("pattern", ["a(", "a**", "(?=a)", "\\1", "a{1001}"])
def test_an_invalid_expression(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression: ") as raised:
        TopicExpression(pattern)
    assert raised.value.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(raised.value).startswith(f"SubscribedTopicRegex `{pattern}` ")


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RegularExpressionLibraryError, match=r"kafkapy-broker\[regex\]") as raised:
        TopicExpression("a")
    assert raised.value.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
