"""Regular expressions that select names."""

import sys
from time import process_time

import pytest

from kafkapy.coordinator.regular_expressions import (
    InvalidRegularExpressionError,
    RegularExpression,
    RegularExpressionLibraryError,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import PIECE, finish


def test_an_expression_selects_the_names_that_it_matches_as_a_whole() -> None:
    names = ["a", "ab", "b.a", "bab", "B"]
    assert finish(RegularExpression("a.?").select(names)) == {"a", "ab"}
    assert finish(RegularExpression("a|ab").select(names)) == {"a", "ab"}
    assert finish(RegularExpression("(?i)[^a]").select(names)) == {"B"}
    assert finish(RegularExpression(".*").select([])) == set()


def test_names_are_matched_in_steps() -> None:
    steps = RegularExpression("t[0-9]*").select([f"t{number}" for number in range(PIECE * 3)])
    assert len(list(steps)) == 3


def test_an_expression_takes_linear_time() -> None:
    assert not RegularExpression("(a*)*b").matches("a" * 249)


def test_thousands_of_groups_take_no_time() -> None:
    """The largest string that a request can have, matched with the longest name of a topic."""
    expression = RegularExpression("(a|b)*" * 5461)
    began_s = process_time()
    assert expression.matches("a" * 249)
    assert process_time() - began_s < 1


@pytest.mark.parametrize("pattern", ["a(", "a**", "(?=a)", "\\1", "a{1001}"])
def test_an_invalid_expression(pattern: str) -> None:
    with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression: ") as raised:
        RegularExpression(pattern)
    assert raised.value.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(raised.value).startswith(f"`{pattern}` ")


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(RegularExpressionLibraryError, match=r"kafkapy-broker\[regex\]") as raised:
        RegularExpression("a")
    assert raised.value.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
