r"""Regular expressions of RE2 that select topics (KIP-848) or transactional ids (KIP-1152).

Apache Kafka uses RE2J, here it is RE2 itself through ``google-re2`` (``pip install 'kafkapy-broker[regex]'``), which is
imported with the first expression. Both need linear time. An expression selects a name if it matches the whole of it.

Where both take an expression they select the same names (``compat_tests/groups/test_regular_expressions.py``). The
differences are in what they take, and none of them helps to select names:

- RE2J alone takes nested repetitions of more than 1,000 in total (``(a{100}){100}``), expressions that RE2 compiles to
  more than its 8 MB (``\pL{1000}``), and a backslash before a character outside of ASCII;
- RE2 alone takes ``\C``, two groups of one name, and as plain text ``{`` before a repetition (``a{*``) and a
  repetition with a number of ten or more digits.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from kafkapy.errors import BrokerError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.turns import Steps, pieces

LIBRARY_IS_MISSING: Final = "Regular expressions need google-re2 at the broker: pip install 'kafkapy-broker[regex]'."


class InvalidRegularExpressionError(BrokerError):
    """RE2 refuses the expression."""

    error_code = ErrorCode.INVALID_REGULAR_EXPRESSION


class RegularExpressionLibraryError(InvalidRegularExpressionError):
    """The library is not installed, so no expression is valid."""


class _Compiled(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class RegularExpression:
    """A valid regular expression."""

    __slots__ = ("pattern", "_compiled")

    def __init__(self, pattern: str) -> None:
        """Compile the pattern.

        Raises InvalidRegularExpressionError.
        """
        self.pattern = pattern
        self._compiled = _compile(pattern)

    def matches(self, name: str) -> bool:
        """Whether the expression matches the whole name."""
        return self._compiled.fullmatch(name) is not None

    def select(self, names: Sequence[str]) -> Steps[set[str]]:
        """Return the names that the expression matches."""
        found: set[str] = set()
        for piece in pieces(names):
            yield
            found.update(filter(self.matches, piece))
        return found


def _compile(pattern: str) -> _Compiled:
    try:
        import re2
    except ImportError as missing:
        raise RegularExpressionLibraryError(LIBRARY_IS_MISSING) from missing
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True  # thousands of groups would be tracked for each character: minutes for one name
    try:
        compiled: _Compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace")
        raise InvalidRegularExpressionError(f"`{pattern}` is not a valid regular expression: {reason}.") from error
    return compiled
