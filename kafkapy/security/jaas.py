"""JAAS in the properties of brokers and clients: ``sasl.jaas.config`` (KIP-85), as Apache Kafka's parser reads it.

org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret";

A file of Java has such configurations in sections: ``Client { org.apache... required username="kafka"; };``
"""

import re
from typing import Final, NamedTuple

from kafkapy.security.errors import InvalidSecurityError

_TOKEN: Final = re.compile(
    r"""
      //[^\n]* | /\*.*?\*/            # comments
    | "(?P<double>(?:\\.|[^"\\\n])*)"
    | '(?P<single>(?:\\.|[^'\\\n])*)'
    | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][\w$.\-\u00a0-\U0010ffff]*)  # a number has to be in quotes
    | (?P<mark>[=;{}])
    | (?P<space>\s+)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_SECTION_END: Final = [("}", True), (";", True)]
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


class LoginModule(NamedTuple):
    """The one login module of a configuration: its Java class and its options."""

    class_name: str
    options: dict[str, str]


def parse_jaas(key: str, text: str) -> LoginModule:
    """Parse the value of ``key``; raises InvalidSecurityError that names the key, and quotes nothing of the value."""
    return _login_module(key, _tokens(key, text))


def parse_jaas_section(key: str, text: str, section: str) -> LoginModule | None:
    """Parse one section of a JAAS file, None if the file does not have it; ``key`` names the file to the user.

    Raises InvalidSecurityError as ``parse_jaas``.
    """
    tokens = _tokens(key, text)
    while tokens:
        end = next((at for at in range(len(tokens) - 1) if tokens[at : at + 2] == _SECTION_END), 0)
        if end < 2 or tokens[0][1] or tokens[1] != ("{", True):
            raise InvalidSecurityError(f"{key} can't be read: its sections must be NAME {{ CLASS required ...; }};")
        if tokens[0][0] == section:
            return _login_module(f"section {section} of {key}", tokens[2:end])
        tokens = tokens[end + 2 :]
    return None


def _login_module(key: str, tokens: list[tuple[str, bool]]) -> LoginModule:
    if len(tokens) < 3 or tokens[-1] != (";", True):
        raise InvalidSecurityError(f"{key} can't be read: it must be CLASS required NAME=VALUE ... and end with ;")
    (class_name, is_mark), (flag, _), *pairs = tokens[:-1]
    if is_mark or flag.lower() not in _FLAGS:
        raise InvalidSecurityError(f"{key} can't be read: the word after the class must be required")
    if len(pairs) % 3:
        raise InvalidSecurityError(f"{key} can't be read: an option is not NAME=VALUE")
    options = {}
    for at in range(0, len(pairs), 3):
        (name, name_is_mark), equals, (value, value_is_mark) = pairs[at : at + 3]
        if name_is_mark or equals != ("=", True) or value_is_mark:
            raise InvalidSecurityError(f"{key} can't be read: an option is not NAME=VALUE, or a second module follows")
        options[name] = value
    return LoginModule(class_name, options)


def _tokens(key: str, text: str) -> list[tuple[str, bool]]:
    """Return words and texts, and with True the marks ``=``, ``;`` and braces."""
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidSecurityError(f"{key} can't be read at character {position + 1}")
        position = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            tokens.append((re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted), False))
        elif match["word"] or match["mark"]:
            tokens.append((match["word"] or match["mark"], match["mark"] is not None))
    return tokens
