"""SASL/PLAIN (RFC 4616): the client sends its name and its password."""

import hmac
from collections.abc import Generator, Mapping
from typing import Final

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.mechanisms import MalformedTokenError, SaslExchange

USER_OPTION: Final = "user_"
"""The options of the login module that have the users' passwords begin so."""


def users_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return name → password of ``PlainLoginModule``'s options."""
    return {name.removeprefix(USER_OPTION): value for name, value in options.items() if name.startswith(USER_OPTION)}


class PlainServer(SaslExchange):
    """One authentication with PLAIN; ``users`` are the passwords by name."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def step(self, token: bytes) -> bytes:
        """Check name and password, in a time that does not depend on where they differ (CVE-2021-38153)."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError as error:
            raise MalformedTokenError("a PLAIN token is not UTF-8") from error
        if len(parts) != 3:
            raise AuthenticationFailedError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, name, password = parts
        if not name:
            raise AuthenticationFailedError("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailedError("Authentication failed: password not specified")
        expected = self._users.get(name, "")
        if not hmac.compare_digest(password.encode(), expected.encode()) or not expected:
            raise AuthenticationFailedError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.complete(name)
        return b""


def plain_client(name: str, password: str) -> Generator[bytes, bytes, None]:
    """The client's side: yields its only token."""
    yield f"\0{name}\0{password}".encode()
