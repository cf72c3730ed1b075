"""Texts in the syntax of ``java.util.Properties``, in which ``server.properties`` and ``meta.properties`` are written.

Natural lines end at CR, LF or CRLF; blank lines and those whose first visible character is ``#`` or ``!`` are
skipped; an odd number of backslashes at the end continues a line, whose successor loses its leading blanks; the key
ends at the first unescaped ``=``, ``:`` or blank; ``\\t \\n \\r \\f \\uXXXX`` are escapes, and any other escaped
character stands for itself.
"""

import re
from collections.abc import Iterator

from kafkapy.config.errors import InvalidConfigError

_BLANKS = " \t\f"
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """The keys and values of ``text``; the last of several equal keys wins. Raises InvalidConfigError on a bad \\u."""
    values = {}
    for line in _logical_lines(text):
        match = _KEY.fullmatch(line)
        assert match is not None, "the pattern matches every line"
        values[_unescape(match[1])] = _unescape(match[2])
    return values


def _logical_lines(text: str) -> Iterator[str]:
    joined: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if joined is None and (not line or line[0] in "#!"):
            continue
        line = (joined or "") + line
        joined = None
        if (len(natural) - len(natural.rstrip("\\"))) % 2:
            joined = line[:-1] or None  # a line with the backslash alone is not continued
        else:
            yield line
    if joined is not None:
        yield joined


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    # Java's escapes are UTF-16 units: two of them may be one character.
    return _ESCAPE.sub(_replacement, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _replacement(match: re.Match[str]) -> str:
    escape = match[1]
    if escape == "u":
        raise InvalidConfigError(f"Malformed \\uXXXX escape in {match.string!r}: four hexadecimal digits must follow")
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _NAMED.get(escape, escape)
