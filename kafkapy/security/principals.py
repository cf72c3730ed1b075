"""Principals of TLS clients: the subject of the certificate, changed by ``ssl.principal.mapping.rules`` (KIP-371).

The subject is written as Java writes it (RFC 2253): the last name first, the types of RFC 2253 by their short names,
other types by their number with the value as DER in hexadecimal digits.
"""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.text import printable, shortened

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute

USER: Final = "User"
_LONGEST_SHOWN: Final = 300
"""Characters of a subject in an error."""
_SHORT_NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_RULE: Final = re.compile(r"DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")


class _Rule(NamedTuple):
    """A rule of the list; ``pattern`` is None for DEFAULT."""

    pattern: "re.Pattern[str] | None"
    replacement: str
    case: str


class PrincipalRules:
    """The list of ``ssl.principal.mapping.rules``; raises InvalidSecurityError for one that can't be read."""

    def __init__(self, text: str) -> None:
        self._rules = _parse(text or "DEFAULT")

    def name_of(self, subject: str) -> str:
        """Return the name for a subject by the first rule that matches it; raises AuthenticationFailedError."""
        for rule in self._rules:
            if rule.pattern is None:
                return subject
            if rule.pattern.fullmatch(subject):
                name = rule.pattern.sub(lambda match: _expanded(rule.replacement, match), subject)  # noqa: B023  # used now
                return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        shown = printable(shortened(subject, _LONGEST_SHOWN))
        raise AuthenticationFailedError(f"no rule of ssl.principal.mapping.rules applies to {shown}")

    def principal_of(self, certificate: bytes) -> str:
        """Return the principal of a certificate in DER; raises AuthenticationFailedError."""
        from cryptography.x509 import load_der_x509_certificate

        try:
            subject = subject_of(load_der_x509_certificate(certificate).subject)
        except ValueError as error:
            raise AuthenticationFailedError(f"the certificate has no readable subject: {error}") from None
        return f"{USER}:{self.name_of(subject)}"


def _parse(text: str) -> list[_Rule]:
    rules = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or (match.end() < len(text) and text[match.end()] not in ", \t\n"):
            raise InvalidSecurityError(f"ssl.principal.mapping.rules can't be read from {text[position:]!r} on")
        rules.append(_rule(match))
        position = match.end() + len(text[match.end() :]) - len(text[match.end() :].lstrip(", \t\n"))
    return rules


def _rule(match: "re.Match[str]") -> _Rule:
    pattern, replacement, case = match.groups()
    if pattern is None:
        return _Rule(None, "", "")
    try:
        return _Rule(re.compile(pattern), replacement, case)
    except re.error as error:
        raise InvalidSecurityError(f"ssl.principal.mapping.rules has a pattern that can't be used: {error}") from None


def _expanded(replacement: str, match: "re.Match[str]") -> str:
    """Return a replacement with the groups of a match, as Java's ``replaceAll`` after Kafka's own rule for ``$``.

    A number above that of the last group loses its last digits, or stands for itself.
    """
    groups = match.re.groups

    def expand(found: "re.Match[str]") -> str:
        if found[1] is not None:
            return found[1]
        digits = found[2]
        while len(digits) > 1 and int(digits) > groups:
            digits = digits[:-1]
        if int(digits) > groups:
            if not groups:
                raise AuthenticationFailedError(f"ssl.principal.mapping.rules uses ${digits} without groups")
            return found[0]
        return (match[int(digits)] or "") + found[2][len(digits) :]

    return _REFERENCE.sub(expand, replacement)


def subject_of(name: "Name") -> str:
    """Return a distinguished name as ``X500Principal.getName()`` of Java writes it (RFC 2253)."""
    return ",".join("+".join(_attribute(each) for each in part) for part in reversed(name.rdns))


def _attribute(attribute: "NameAttribute[str | bytes]") -> str:
    number, value = attribute.oid.dotted_string, attribute.value
    short = _SHORT_NAMES.get(number)
    if short is None or isinstance(value, bytes):
        return f"{number}=#{_der(attribute).hex()}"
    begun = len(value) - len(value.lstrip(" "))
    ended = len(value.rstrip(" "))
    escaped = (
        "\\ " if character == " " and not begun <= at < ended else _character(character)
        for at, character in enumerate(value)
    )
    return f"{short}={''.join(escaped)}"


def _character(character: str) -> str:
    if character in _ESCAPED:
        return "\\" + character
    return "\\00" if character == "\0" else character


def _der(attribute: "NameAttribute[str | bytes]") -> bytes:
    """Return the value with its type and length in front."""
    value = attribute.value
    kind = attribute._type.value  # noqa: SLF001  # the library has no other way to read it
    data = value if isinstance(value, bytes) else value.encode(_ENCODINGS.get(kind, "utf-8"))
    return bytes([kind]) + _length(len(data)) + data


_ENCODINGS: Final = {30: "utf-16-be", 28: "utf-32-be"}


def _length(size: int) -> bytes:
    if size < 128:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([128 | len(digits)]) + digits
