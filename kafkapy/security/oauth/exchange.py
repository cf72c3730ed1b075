"""The messages of SASL/OAUTHBEARER (RFC 7628, KIP-255), with ^A for the byte 1.

client → n,[a=AUTHORIZATION-ID],^Aauth=Bearer TOKEN^A[NAME=VALUE^A...]^A
server → (nothing)

server → {"status":"invalid_token"}      if the token is refused
client → ^A
server → SASL_AUTHENTICATION_FAILED
"""

import logging
import re
from collections.abc import Callable, Generator, Mapping
from typing import Final, NamedTuple

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.mechanisms import MalformedTokenError, SaslExchange
from kafkapy.security.oauth.tokens import TokenRefusedError, Validate

logger: Final = logging.getLogger(__name__)

AUTH: Final = "auth"
_SEPARATOR: Final = "\x01"
EXTENSION_NAME: Final = re.compile("[A-Za-z]+")
EXTENSION_VALUE: Final = re.compile("[!-~ \t\r\n]+")
_SASL_NAME: Final = r"(?:[\x01-+\--<>-\x7f]|=2C|=3D)+"
_PAIRS: Final = f"(?:{EXTENSION_NAME.pattern}={EXTENSION_VALUE.pattern}{_SEPARATOR})*"
_INITIAL: Final = re.compile(f"n,(?:a=({_SASL_NAME}))?,{_SEPARATOR}({_PAIRS}){_SEPARATOR}")
TOKEN: Final = re.compile(r"[-_.a-zA-Z0-9]+")
_AUTH_VALUE: Final = re.compile(rf"(\w+) +({TOKEN.pattern})", re.ASCII)


class InitialMessage(NamedTuple):
    """The client's first message."""

    token: str
    authorization_id: str
    """Empty if there is none."""
    extensions: dict[str, str]
    """Names and values that no validator here uses."""

    def __repr__(self) -> str:
        return "<the first message of OAUTHBEARER>"


def parse_initial(data: bytes) -> InitialMessage:
    """Parse the client's first message as Apache Kafka does; raises MalformedTokenError."""
    try:
        match = _INITIAL.fullmatch(data.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise MalformedTokenError("this is no first message of OAUTHBEARER")
    pairs = [pair.split("=", 1) for pair in match[2].split(_SEPARATOR) if pair]
    extensions = {name: value for name, value in pairs}  # noqa: C416  # pairs are lists
    auth = _AUTH_VALUE.fullmatch(extensions.pop(AUTH, ""))
    if auth is None or auth[1].lower() != "bearer":
        raise MalformedTokenError("the first message of OAUTHBEARER has no bearer token")
    return InitialMessage(auth[2], match[1] or "", extensions)


class OAuthServer(SaslExchange):
    """One authentication with OAUTHBEARER."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refusal = ""
        """What the client was told about its token."""

    def step(self, token: bytes) -> bytes:
        """Check the client's token; after a refusal whatever the client sends is the end."""
        if self._refusal:
            raise AuthenticationFailedError(self._refusal)
        message = parse_initial(token)
        try:
            valid = self._validate(message.token)
        except TokenRefusedError as refused:
            logger.debug("A token is refused: %s", refused)
            self._refusal = _json(refused)
            return self._refusal.encode()
        if message.authorization_id not in ("", valid.user):
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from the token's"
                " principal name"
            )
        self.expires_ms = valid.expires_ms
        self.complete(valid.user)
        return b""


def _json(refused: TokenRefusedError) -> str:
    if refused.scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{refused.scope}"}}'


def oauth_client(new_token: Callable[[], str], extensions: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    """The client's side: yields its first message, and after a refusal the one that ends the authentication.

    Raises AuthenticationFailedError.
    """
    pairs = "".join(f"{name}={value}{_SEPARATOR}" for name, value in extensions.items())
    answer = yield f"n,,{_SEPARATOR}auth=Bearer {new_token()}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()
    if answer:
        yield _SEPARATOR.encode()
        raise AuthenticationFailedError("the broker does not accept the token")
