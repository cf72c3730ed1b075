"""What a configuration key is: its type, default, allowed values, and how its text becomes a value and back.

``broker_keys.py`` and ``topic_keys.py`` hold the keys themselves. Texts are read and written as Java does it
(``java.lang.Integer.parseInt``, ``Double.toString`` …), because clients compare what DescribeConfigs answers. (Below
Java 19 ``Double.toString`` gives some numbers from 10¹⁶ on a digit more than they need.)
"""

import math
import re
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.config.allowed import BLANKS, Allowed, Value
from kafkapy.config.errors import invalid_value


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
    """Whether a running broker takes a new value, and for whom (KIP-226)."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


class Importance(IntEnum):
    """How much an operator should care, as Apache Kafka rates it."""

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
            raise invalid_value(self.name, self._shown(text), f"not {_WANTED[self.type]}") from None
        problem = None if self.allowed is None else self.allowed.problem(value)
        if problem is not None:
            raise invalid_value(self.name, self._shown(text), problem)
        return value

    def format(self, value: Value) -> str | None:
        """The text that Apache Kafka shows for ``value``; None stays None."""
        return format_value(value)

    def _shown(self, text: str) -> str:
        return "[hidden]" if self.sensitive else text


def format_value(value: Value) -> str | None:
    """A value as Java's ``ConfigDef.convertToString`` writes it; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, int):
        return str(value)
    return ",".join(value)


def _java_double(value: float) -> str:
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
"""The digits of any script will do, as ``Character.digit`` has them: not those that take two UTF-16 units."""
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
    ConfigType.BOOLEAN: "true or false",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
}

__all__ = ["ConfigKey", "ConfigType", "Dynamic", "Importance", "Value", "format_value"]
