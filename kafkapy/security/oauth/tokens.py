"""Parts of a JSON Web Token (RFC 7519), as both validators read them: strictly, whatever the bytes are.

No text of an error has anything of a token in it.
"""

import json
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

Claims = Mapping[str, object]
"""A JSON object: the header of a token, or its claims."""

LATEST_S: Final = 253_402_300_799
"""The end of the year 9999: a claim with a later time is refused."""
JAVA_BLANKS: Final = "".join(map(chr, range(33)))
"""What Java's ``String.trim`` removes."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)


class TokenRefusedError(Exception):
    """A token is not valid; the text is the reason, for the broker's log alone.

    ``scope`` is the scope that the token lacks: only then the client is told more than that its token is not valid.
    """

    def __init__(self, reason: str, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


class ValidToken(NamedTuple):
    """What the broker keeps of a token."""

    user: str
    expires_ms: int
    """When it ends, milliseconds since the epoch."""


Validate = Callable[[str], ValidToken]
"""Checks a token; raises TokenRefusedError."""


def decode_segment(segment: str) -> bytes:
    """Decode base64url without padding; raises TokenRefusedError."""
    if not _SEGMENT.fullmatch(segment) or len(segment) % 4 == 1:
        raise TokenRefusedError("a part is not base64url")
    return b64decode(segment + "=" * (-len(segment) % 4), b"-_", validate=True)


def encode_segment(data: bytes) -> str:
    """Encode base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def read_object(segment: str) -> Claims:
    """Decode a header or claims; raises TokenRefusedError, also if a name occurs twice."""
    return parse_object(decode_segment(segment))


def parse_object(data: bytes) -> Claims:
    """Parse a JSON object; raises TokenRefusedError for another text, a name that occurs twice, and deep nesting."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError):  # ValueError: not UTF-8, not JSON, a number of too many digits
        raise TokenRefusedError("a part is not a JSON object in UTF-8") from None
    if not isinstance(found, dict):
        raise TokenRefusedError("a part is not a JSON object in UTF-8")
    return found


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def time_claim(claims: Claims, name: str) -> float | None:
    """Return a time in seconds since the epoch, None if the claim is missing; raises TokenRefusedError."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefusedError(f"{name} is not a number")
    if not abs(value) <= LATEST_S:  # nor is NaN
        raise TokenRefusedError(f"{name} is not a time")
    return float(value)


def required_time_claim(claims: Claims, name: str) -> float:
    """Return a time in seconds since the epoch; raises TokenRefusedError."""
    value = time_claim(claims, name)
    if value is None:
        raise TokenRefusedError(f"there is no {name}")
    return value


def checked_user(value: object) -> str:
    """Return the name of a client; raises TokenRefusedError."""
    if not isinstance(value, str) or not value.strip(JAVA_BLANKS):
        raise TokenRefusedError("the claim with the name of the client is missing, or not a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise TokenRefusedError("the name of the client is not Unicode") from None
    return value
