"""Delegation tokens: create, renew, expire and describe (KIP-48)."""

from collections.abc import Iterable
from typing import NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import NotServedError, check
from kafkapy.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kafkapy.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

FIRST_VERSION_OF_OWNERS = 3
BROKERS_LIMIT_MS = -1
"""The lifetime or the period that the broker has configured."""
_WHAT = "the delegation token"


class Token(NamedTuple):
    """A token; principals are ``TYPE:NAME``, times milliseconds since 1970."""

    token_id: str
    hmac: bytes
    """The token's password."""
    owner: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"<Token {self.token_id} of {self.owner}>"


def create_token(
    client: ClusterClient,
    renewers: Iterable[str] = (),
    max_lifetime_ms: int = BROKERS_LIMIT_MS,
    owner: str = "",
) -> Token:
    """A new token of the client's user, or of another owner, which the renewers may renew too.

    Raises RequestFailedError, and NotServedError for an owner if the broker can't make tokens of others (KIP-373).
    """
    listed = tuple(renewers)
    request = CreateDelegationTokenRequest(
        *_parts(owner), [CreatableRenewers(*_parts(each)) for each in listed], max_lifetime_ms
    )
    broker = client.any_broker()
    if owner and broker.version_for(request) < FIRST_VERSION_OF_OWNERS:
        raise NotServedError(f"the broker at {broker.address} can't make delegation tokens of other owners")
    answer = broker.call(request, CreateDelegationTokenResponse)
    check(answer.error_code, what=_WHAT)
    return Token(
        answer.token_id,
        bytes(answer.hmac),
        f"{answer.principal_type}:{answer.principal_name}",
        listed,
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


def renew_token(client: ClusterClient, hmac: bytes, period_ms: int = BROKERS_LIMIT_MS) -> int:
    """Let the token expire later, and return when; raises RequestFailedError."""
    answer = client.call(RenewDelegationTokenRequest(hmac, period_ms), RenewDelegationTokenResponse)
    check(answer.error_code, what=_WHAT)
    return answer.expiry_timestamp_ms


def expire_token(client: ClusterClient, hmac: bytes, period_ms: int = -1) -> int:
    """Let the token expire after a period, and return when; a negative one removes it. Raises RequestFailedError."""
    answer = client.call(ExpireDelegationTokenRequest(hmac, period_ms), ExpireDelegationTokenResponse)
    check(answer.error_code, what=_WHAT)
    return answer.expiry_timestamp_ms


def describe_tokens(client: ClusterClient, owners: Iterable[str] = ()) -> list[Token]:
    """The tokens of these owners, or of all, that the client may see; raises RequestFailedError."""
    listed = [DescribeDelegationTokenOwner(*_parts(each)) for each in owners]
    answer = client.call(DescribeDelegationTokenRequest(listed or None), DescribeDelegationTokenResponse)
    check(answer.error_code, what="the delegation tokens")
    return sorted(
        Token(
            found.token_id,
            bytes(found.hmac),
            f"{found.principal_type}:{found.principal_name}",
            tuple(f"{each.principal_type}:{each.principal_name}" for each in found.renewers),
            found.issue_timestamp,
            found.expiry_timestamp,
            found.max_timestamp,
        )
        for found in answer.tokens
    )


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
