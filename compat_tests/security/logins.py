"""Logins over a plain connection, and requests about delegation tokens."""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.wire import Wire
from kafkapy.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.plain import plain_client
from kafkapy.security.scram import scram_client


@contextmanager
def logged_in(bootstrap: str, mechanism: str, user: str, password: str) -> Iterator[Wire]:
    """A connection of a user who has logged in with a password."""
    with Wire(bootstrap) as wire:
        assert log_in(wire, mechanism, user, password).error_code == 0
        yield wire


def log_in(wire: Wire, mechanism: str, user: str, password: str, *, is_by_token: bool = False) -> Any:
    """Log in; return the last answer of the broker."""
    assert wire.ask(SaslHandshakeRequest(mechanism), 1).error_code == 0
    if mechanism == "PLAIN":
        return wire.ask(SaslAuthenticateRequest(next(plain_client(user, password))), 1)
    steps = scram_client(mechanism, user, password, is_by_token=is_by_token)
    first = wire.ask(SaslAuthenticateRequest(next(steps)), 1)
    if first.error_code:
        return first
    return wire.ask(SaslAuthenticateRequest(steps.send(bytes(first.auth_bytes))), 1)


def log_in_by(wire: Wire, mechanism: str, token: Any) -> Any:
    """Log in by a delegation token; return the last answer of the broker."""
    return log_in(wire, mechanism, token.token_id, b64encode(token.hmac).decode(), is_by_token=True)


def created(wire: Wire, *renewers: str, lifetime_ms: int = -1) -> Any:
    """Make a delegation token; return the broker's answer."""
    listed = [CreatableRenewers("User", each) for each in renewers]
    answer = wire.ask(CreateDelegationTokenRequest(renewers=listed, max_lifetime_ms=lifetime_ms), 2)
    assert answer.error_code == 0
    return answer
