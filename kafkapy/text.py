"""Text from outside of kafkapy, made safe for a log line or a terminal.

Names and error messages may hold anything that a string can: line ends, escape sequences of terminals, marks that
reverse the reading direction, half of a surrogate pair. ``printable`` leaves none of them; it changes nothing in text
that it has made, so it may be applied twice. ``text_size`` says how much memory a text takes.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final

ELLIPSIS: Final = "…"


def printable(text: str, kept: str = "") -> str:
    """Return ``text`` with each character that is not printable as an escape sequence of Python (``\\n``, ``\\x1b``).

    Not printable are control and format characters, surrogates, unassigned characters, and all spaces but the common
    one (see ``str.isprintable``). Characters in ``kept`` stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in kept else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, limit: int) -> str:
    """Return ``text`` with its middle left out where it has more than ``limit`` characters; a note says how long it is.

    The note comes on top of ``limit``.
    """
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]}{ELLIPSIS}({len(text)} characters){ELLIPSIS}{text[len(text) - tail :]}"


def printable_json(value: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Return ``value`` as JSON in which every character is printable, but for the line ends that ``indent`` makes.

    Other characters are written as ``\\uXXXX``, so a reader of the JSON gets the same text. ``indent`` and ``default``
    are those of ``json.dumps``.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=default)
    if text.isprintable():
        return text
    line_end = "" if indent is None else "\n"
    return "".join(each if each.isprintable() or each in line_end else json.dumps(each)[1:-1] for each in text)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean …?`` with the most similar of the known names, whatever their case; nothing if none is."""
    import difflib  # needed after a typing error only

    by_case = {each.lower(): each for each in known}
    matches = difflib.get_close_matches(name.lower(), list(by_case), n=1)
    return f"; did you mean {by_case[matches[0]]!r}?" if matches else ""


def text_size(*texts: str | None) -> int:
    """Return the bytes of some texts in memory, at most: four for a character where not all are ASCII."""
    return sum(len(text) * (1 if text.isascii() else 4) for text in texts if text)
