"""A SASL mechanism as authentication uses it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
"""Names of mechanisms; those of SCRAM are the keys of ``scram.HASHES``."""


class MalformedTokenError(Exception):
    """A token is not of the mechanism, or proves nothing: the peer gets the mechanism's name and no reason."""


class SaslExchange(ABC):
    """The server's side of one authentication: tokens in, tokens out, until ``user`` is known."""

    user: str | None = None
    """The name of the client that has proved who it is; None before."""
    expires_ms: int | None = None
    """When what the client has proved it with ends, milliseconds since the epoch; None: never."""
    is_by_token: bool = False
    """Whether the client has logged in with a delegation token of ``user``."""

    @abstractmethod
    def step(self, token: bytes) -> bytes:
        """Return the answer to a token of the client.

        Raises AuthenticationFailedError with a text for the client, or MalformedTokenError.
        """

    def complete(self, user: str) -> None:
        """The client is ``user``."""
        self.user = user


Mechanism = Callable[[], SaslExchange]
"""Begins an authentication."""
