"""Delegation tokens (KIP-48): a token stands for its owner, who gives it to programs in place of the own password.

The HMAC of a token is ``HmacSHA512(delegation.token.master.key, token id)``: every broker with the key can compute it,
and none stores it. A client logs in by SCRAM with the token's id as its name, the HMAC in base64 as its password, and
the extension ``tokenauth=true``.
"""

import hmac
import secrets
from base64 import b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkapy.security.scram import FEWEST_ITERATIONS, ScramCredential, TokenLogin

HMAC_HASH: Final = "sha512"
HMAC_SIZE: Final = 64
_SALT_SIZE: Final = 24


def _new_salt() -> bytes:
    return secrets.token_bytes(_SALT_SIZE)


class DelegationToken(NamedTuple):
    """A token without its HMAC; principals are ``TYPE:NAME``, times milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    """The principal that has created the token: the owner, or one that may do that for the owner (KIP-373)."""
    renewers: tuple[str, ...]
    """The principals that may renew and expire the token, beside the owner and the requester."""
    issue_ms: int
    expiry_ms: int
    """When the token can't be used any more, unless it is renewed before."""
    max_ms: int
    """The latest time to which the token can be renewed."""

    def belongs_to(self, principal: str) -> bool:
        """Whether the principal is the owner, the requester or a renewer."""
        return principal in (self.owner, self.requester) or principal in self.renewers

    def is_expired(self, now_ms: int) -> bool:
        """Whether it is too late to use or to renew the token."""
        return self.expiry_ms < now_ms or self.max_ms < now_ms


class TokenCache:
    """The tokens that a broker knows, with their HMACs and SCRAM credentials.

    A credential is derived at the first login with it, which takes some milliseconds. A broker may have many tokens.
    """

    def __init__(self, master_key: str, now_ms: Callable[[], int], new_salt: Callable[[], bytes] = _new_salt) -> None:
        self._master_key = master_key.encode()
        self._now_ms = now_ms
        self._new_salt = new_salt
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        """The id of each token, by its HMAC."""
        self._credentials: dict[str, dict[str, ScramCredential]] = {}
        """By token id, and by mechanism."""

    def hmac_of(self, token_id: str) -> bytes:
        """Return the HMAC of a token."""
        return hmac.digest(self._master_key, token_id.encode(), HMAC_HASH)

    def tokens(self) -> list[DelegationToken]:
        """Return all tokens, also those that have expired and are not yet removed."""
        return list(self._tokens.values())

    def id_of(self, token_hmac: bytes) -> str | None:
        """Return the id of the token with an HMAC; None if there is no such token."""
        return self._ids.get(token_hmac) if len(token_hmac) == HMAC_SIZE else None

    def put(self, token: DelegationToken) -> None:
        """Add a token, or replace the one with the same id."""
        self._tokens[token.token_id] = token
        self._ids[self.hmac_of(token.token_id)] = token.token_id

    def remove(self, token_id: str) -> None:
        """Forget a token; nothing happens if it is not known."""
        if self._tokens.pop(token_id, None) is not None:
            del self._ids[self.hmac_of(token_id)]
            self._credentials.pop(token_id, None)

    def login(self, mechanism: str, token_id: str) -> TokenLogin | None:
        """Return what a login with the token needs; None if there is no such token, or if it has expired."""
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._now_ms()):
            return None
        credentials = self._credentials.setdefault(token_id, {})
        credential = credentials.get(mechanism)
        if credential is None:
            password = b64encode(self.hmac_of(token_id)).decode()
            credential = ScramCredential.of_password(mechanism, password, self._new_salt(), FEWEST_ITERATIONS)
            credentials[mechanism] = credential
        return TokenLogin(token.owner.partition(":")[2], credential, token.expiry_ms)
