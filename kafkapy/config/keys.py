"""Configuration keys: their types, defaults and allowed values, and the parsing and formatting of values.

``broker_keys.py`` and ``topic_keys.py`` hold the keys themselves. Texts are read and written as Java does it
(``java.lang.Integer.parseInt``, ``Double.toString`` …), because clients compare what DescribeConfigs answers. (Below
Java 19 ``Double.toString`` gives some numbers from 10¹⁶ on a digit more than they need.)
"""

import math
import re
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from kafkapy.config.errors import invalid_value

# Restrictions on a key's values; each can tell what is wrong with a value.


BLANKS: Final = "".join(map(chr, range(ord(" ") + 1)))
"""The characters that Java's ``String.trim`` removes at both ends; a no-break space is not one of them."""

Value = str | int | float | bool | tuple[str, ...] | None
"""A parsed configuration value; lists are tuples, passwords and class names are strings."""


class Allowed(Protocol):
    """A restriction on a key's values."""

    def problem(self, value: Value) -> str | None:
        """Return the violated restriction as the end of a sentence; None if ``value`` is allowed."""
        ...


class AtLeast(NamedTuple):
    """Numbers of at least ``minimum``, and NaN: Kafka refuses only values that are below."""

    minimum: int

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        ok = isinstance(value, int | float) and not value < self.minimum
        return None if ok else f"Value must be at least {self.minimum}"


class Between(NamedTuple):
    """Numbers from ``minimum`` to ``maximum``, both included, and NaN."""

    minimum: int
    maximum: int

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        if not isinstance(value, int | float) or value < self.minimum:
            return f"Value must be at least {self.minimum}"
        return f"Value must be no more than {self.maximum}" if value > self.maximum else None


class OneOfInAnyCase(NamedTuple):
    """One of some words in lower case, written in any case."""

    words: tuple[str, ...]

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        names = ", ".join(self.words).upper()
        is_known = isinstance(value, str) and value.lower() in self.words
        return None if is_known else f"String must be one of (case insensitive): {names}"


class OneOf(NamedTuple):
    """One of some words; for a list: each of its items is one of them."""

    words: tuple[str, ...]

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        items = value if isinstance(value, tuple) else (value,)
        return None if all(item in self.words for item in items) else f"String must be one of: {', '.join(self.words)}"


RELEASES: Final = (
    *("0.8.0", "0.8.1", "0.8.2", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.1-IV0", "0.10.1-IV1", "0.10.1-IV2"),
    *("0.10.2-IV0", "0.11.0-IV0", "0.11.0-IV1", "0.11.0-IV2", "1.0-IV0", "1.1-IV0", "2.0-IV0", "2.0-IV1"),
    *("2.1-IV0", "2.1-IV1", "2.1-IV2", "2.2-IV0", "2.2-IV1", "2.3-IV0", "2.3-IV1", "2.4-IV0", "2.4-IV1"),
    *("2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2"),
    *("2.8-IV0", "2.8-IV1"),
)
"""The versions of the inter-broker protocol and message format that kafkapy knows, oldest first: 2.7's, and 2.8's."""


FIRST_RELEASES_OF_FORMATS: Final = ("0.10.0-IV0", "0.11.0-IV0")
"""The first releases with message formats 1 and 2."""


class Release(NamedTuple):
    """A version in ``RELEASES`` up to ``newest``, in full or its release alone, with any text behind a further dot.

    Versions of the message format end with 2.7: a broker of 2.7 does not start with a topic that has a later one.
    """

    newest: str = "2.7-IV2"

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        allowed = RELEASES[: RELEASES.index(self.newest) + 1]
        if isinstance(value, str) and release_of(value) in allowed:
            return None
        return f"must be one of: {', '.join(allowed)}"


def release_of(text: str) -> str | None:
    """The version in ``RELEASES`` that a text means, for ``2.7.2`` the newest of 2.7; None if it is unknown."""
    words = 3 if text.startswith("0.") else 2
    prefix = ".".join(text.split(".")[:words])
    return next((each for each in reversed(RELEASES) if prefix in (each, each.partition("-")[0])), None)


@lru_cache(maxsize=64)
def format_of(version: str) -> int:
    """The magic of the message format that a version stands for: 0 up to 0.9, 1 in 0.10, 2 since 0.11."""
    release = RELEASES.index(release_of(version) or RELEASES[-1])
    return sum(release >= RELEASES.index(first) for first in FIRST_RELEASES_OF_FORMATS)


def is_at_least(text: str, release: str) -> bool:
    """Whether a version that ``Release`` allows is ``release`` (one of ``RELEASES``) or newer."""
    version = release_of(text)
    return version is not None and RELEASES.index(version) >= RELEASES.index(release)


class ThrottledReplicas(NamedTuple):
    """A list of ``partition:broker``, items without either among them, or one that begins with ``*``."""

    def problem(self, value: Value) -> str | None:
        """See ``Allowed.problem``."""
        items = value if isinstance(value, tuple) else ()
        words = [item.strip(BLANKS) for item in items]
        if words[:1] == ["*"] or all(re.fullmatch(r"([0-9]+:[0-9]+)?", word) for word in words):
            return None
        return "must be * or a list of partition:broker pairs"


class ConfigType(IntEnum):
    """The type of a key's value; the numbers are those of DescribeConfigs v3 (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Dynamic(IntEnum):
    """Whether a running broker accepts a new value, and for which brokers it may be set (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class Importance(IntEnum):
    """The importance of a key for operators, as Apache Kafka rates it."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


_UNITS: Final = {"ms": "ms", "bytes": "bytes", "seconds": "s", "secs": "s", "minutes": "min", "hours": "h"}


class ConfigKey(NamedTuple):
    """A key that may stand in ``server.properties`` or among a topic's overrides."""

    name: str
    type: ConfigType
    default: Value
    allowed: Allowed | None = None
    dynamic: Dynamic = Dynamic.READ_ONLY
    importance: Importance = Importance.MEDIUM

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret, which no answer and no log line shows."""
        return self.type is ConfigType.PASSWORD

    @property
    def unit(self) -> str | None:
        """The unit that the name ends with (``ms``, ``bytes``, ``bytes/s``, ``s``, ``min``, ``h``), if it does."""
        if self.name.endswith(".bytes.per.second"):
            return "bytes/s"
        return _UNITS.get(self.name.rpartition(".")[2])

    def parse(self, text: str) -> Value:
        """The value that ``text`` stands for; raises InvalidConfigError if the key does not allow it."""
        try:
            value = _PARSERS[self.type](text.strip(BLANKS))
        except ValueError:
            raise invalid_value(self.name, self._shown(text), _WANTED[self.type]) from None
        problem = None if self.allowed is None else self.allowed.problem(value)
        if problem is not None:
            raise invalid_value(self.name, self._shown(_refused_part(self.allowed, value)), problem)
        return value

    def format(self, value: Value) -> str | None:
        """The text that Apache Kafka shows for ``value``; None stays None."""
        return format_value(value)

    def _shown(self, text: str | None) -> str | None:
        return "[hidden]" if self.sensitive else text


def _refused_part(allowed: Allowed | None, value: Value) -> str | None:
    """What Apache Kafka shows of a value that is not allowed: of a list its first wrong item, or the list as Java's."""
    if not isinstance(value, tuple):
        return format_value(value)
    if isinstance(allowed, OneOf):
        return next(item for item in value if item not in allowed.words)
    return f"[{', '.join(value)}]"


def format_value(value: Value) -> str | None:
    """A value as Java's ``ConfigDef.convertToString`` writes it; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, int):
        return str(value)
    return ",".join(value)


def java_double(value: float) -> str:
    """``Double.toString``: plain from 10⁻³ up to 10⁷, else one digit, fraction and ``E``."""
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    exponent = int(f"{value:.17e}".partition("e")[2])
    digits = repr(value).partition("e")[0].replace(".", "").replace("-", "").strip("0") or "0"
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _parse_boolean(text: str) -> bool:
    value = {"TRUE": True, "FALSE": False}.get(text.upper())
    if value is None:
        raise ValueError(text)
    return value


_INTEGER: Final = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")
"""Digits of any script are allowed, as by ``Character.digit``, except those that take two UTF-16 units."""
_DOUBLE: Final = re.compile(r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"([+-]?0[xX](?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?[0-9]+)[fd]?", re.ASCII | re.I)


def _integer_parser(bits: int) -> Callable[[str], Value]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) is None or not -limit <= (value := int(text)) < limit:
            raise ValueError(text)
        return value

    return parse


def _parse_double(text: str) -> float:
    hexadecimal = _HEXADECIMAL.fullmatch(text)
    if hexadecimal is not None:
        return _from_hexadecimal(hexadecimal[1])
    if _DOUBLE.fullmatch(text) is None:
        raise ValueError(text)
    return float(text if text.endswith(("N", "y")) else text.rstrip("fFdD"))


def _from_hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"\s*,\s*", text, flags=re.ASCII)) if text else ()


_PARSERS: Final[dict[ConfigType, Callable[[str], Value]]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer_parser(32),
    ConfigType.SHORT: _integer_parser(16),
    ConfigType.LONG: _integer_parser(64),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: _parse_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
_WANTED: Final = {
    ConfigType.BOOLEAN: "Expected value to be either true or false",
    ConfigType.INT: "Not a number of type INT",
    ConfigType.SHORT: "Not a number of type SHORT",
    ConfigType.LONG: "Not a number of type LONG",
    ConfigType.DOUBLE: "Not a number of type DOUBLE",
}

__all__ = ["ConfigKey", "ConfigType", "Dynamic", "Importance", "Value", "format_value"]
