"""The messages of SASL/GSSAPI with Kerberos (RFC 4752).

client → tokens of GSSAPI ← server     until both sides have a context; then the client's token is empty
server → wrapped: LAYERS SIZE          the security layers that it offers (a byte), and the size of its buffer (three)
client → wrapped: LAYER SIZE NAME      the layer that it chooses, and the name as which it wants to act
server → (nothing)

Kafka has no security layer (TLS encrypts), so the offer and the choice are "none", with the size 0.
"""

import logging
from collections.abc import Generator
from typing import Final, Protocol

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.kerberos.short_names import ShortNames
from kafkapy.security.mechanisms import MalformedTokenError, SaslExchange

logger: Final = logging.getLogger(__name__)

_NO_LAYER: Final = 1
_LAYERS: Final = bytes([_NO_LAYER, 0, 0, 0])


class ContextError(Exception):
    """A step of GSSAPI has failed; the text has the library's reason."""


class Context(Protocol):
    """One side of a security context of GSSAPI; every method raises ContextError."""

    @property
    def is_complete(self) -> bool:
        """Whether the other side has proved who it is."""

    @property
    def client(self) -> str:
        """The principal of the client of a complete context, as in ``alice@EXAMPLE.COM``."""

    def step(self, token: bytes) -> bytes:
        """Take the other side's token, empty at the client's first step; return the next, empty if there is none."""

    def wrap(self, message: bytes) -> bytes:
        """Protect a message by a checksum."""

    def unwrap(self, message: bytes) -> bytes:
        """Return the content of a message that ``wrap`` of the other side has made."""


class GssapiServer(SaslExchange):
    """One authentication with GSSAPI."""

    def __init__(self, context: Context, names: ShortNames) -> None:
        self._context = context
        self._names = names
        self._has_offered = False

    def step(self, token: bytes) -> bytes:
        """Give the token to the context until it is complete; then offer no layer, and take the client's choice."""
        try:
            return self._answer(token)
        except ContextError as error:
            logger.debug("A ticket or a token of GSSAPI is refused: %s", error)
            raise MalformedTokenError(str(error)) from error

    def _answer(self, token: bytes) -> bytes:
        context = self._context
        if self._has_offered:
            self._finish(context.unwrap(token))
            return b""
        if not context.is_complete:
            answer = context.step(token)
            if answer or not context.is_complete:
                return answer
        elif token:
            raise MalformedTokenError("a token after the context was complete")
        self._has_offered = True
        return context.wrap(_LAYERS)

    def _finish(self, choice: bytes) -> None:
        """Take the client's choice. Its name has no effect, as in Apache Kafka: kafka-python sends the broker's."""
        if len(choice) < len(_LAYERS) or choice[0] != _NO_LAYER:
            raise MalformedTokenError("the client chooses a layer that was not offered")
        self.complete(self._names.name_of(self._context.client))


def gssapi_client(context: Context) -> Generator[bytes, bytes, None]:
    """The client's side: yields its tokens and its choice, and is sent the server's.

    Raises AuthenticationFailedError.
    """
    try:
        answer = b""
        while not context.is_complete:
            answer = yield context.step(answer)
        offer = context.unwrap(answer)
        if len(offer) != len(_LAYERS) or not offer[0] & _NO_LAYER:
            raise AuthenticationFailedError(
                "the broker wants a security layer of GSSAPI, and Kafka's protocol has none"
            )
        yield context.wrap(_LAYERS)
    except ContextError as error:
        raise AuthenticationFailedError(f"no login by GSSAPI: {error}") from error
