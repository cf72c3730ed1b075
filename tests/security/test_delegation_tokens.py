"""Tokens in a broker's memory, and logins with them."""

import hashlib
import hmac
from base64 import b64encode

import pytest

from kafkapy.security.delegation_tokens import DelegationToken, TokenCache
from kafkapy.security.mechanisms import MalformedTokenError
from kafkapy.security.scram import HASHES, ScramCredential, ScramServer, TokenLogin, scram_client

TOKEN = DelegationToken("zzwQNYypTVODHFCoA2hAhQ", "User:ann=,", "User:carl", ("User:bob",), 1_000, 5_000, 9_000)
KEY = "the master key"
HMAC = hmac.new(KEY.encode(), TOKEN.token_id.encode(), hashlib.sha512).digest()
PASSWORD = b64encode(HMAC).decode()


class Moment:
    """A clock that is set by hand."""

    now_ms = 1_000


def _cache(moment: Moment | None = None) -> TokenCache:
    found = moment or Moment()
    cache = TokenCache(KEY, lambda: found.now_ms, lambda: b"salt")
    cache.put(TOKEN)
    return cache


def _server(mechanism: str, cache: TokenCache) -> ScramServer:
    own = ScramCredential.of_password(mechanism, "own", b"own salt", 4096)
    return ScramServer(mechanism, lambda _, user: own if user == "own" else None, token_login_of=cache.login)


def _log_in(server: ScramServer, mechanism: str, user: str, password: str, *, is_by_token: bool = True) -> None:
    steps = scram_client(mechanism, user, password, is_by_token=is_by_token)
    final = steps.send(server.step(next(steps)))
    with pytest.raises(StopIteration):
        steps.send(server.step(final))


def test_who_a_token_belongs_to() -> None:
    assert TOKEN.belongs_to("User:ann=,")
    assert TOKEN.belongs_to("User:bob")
    assert not TOKEN.belongs_to("User:eve")
    assert not TOKEN.belongs_to("Group:bob")


@pytest.mark.parametrize(("now_ms", "is_expired"), [(0, False), (5_000, False), (5_001, True)])
def test_a_token_expires_after_its_time(now_ms: int, is_expired: bool) -> None:
    assert TOKEN.is_expired(now_ms) is is_expired
    assert TOKEN._replace(expiry_ms=10_000, max_ms=5_000).is_expired(now_ms) is is_expired


def test_a_token_is_found_by_its_hmac() -> None:
    cache = _cache()
    assert cache.hmac_of(TOKEN.token_id) == HMAC
    assert cache.id_of(HMAC) == TOKEN.token_id
    for other in (b"", HMAC[:-1], HMAC + b"\0", bytes(64), b"x" * 1_000_000):
        assert cache.id_of(other) is None
    cache.put(TOKEN._replace(expiry_ms=6_000))
    assert [each.expiry_ms for each in cache.tokens()] == [6_000]
    cache.remove("another")
    cache.remove(TOKEN.token_id)
    assert cache.tokens() == []
    assert cache.id_of(HMAC) is None
    cache.remove(TOKEN.token_id)


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_client_logs_in_as_the_owner(mechanism: str) -> None:
    cache = _cache()
    for _ in range(2):
        server = _server(mechanism, cache)
        _log_in(server, mechanism, TOKEN.token_id, PASSWORD)
        assert (server.user, server.is_by_token, server.expires_ms) == ("ann=,", True, 5_000)
    credential = ScramCredential.of_password(mechanism, PASSWORD, b"salt", 4096)
    assert cache.login(mechanism, TOKEN.token_id) == TokenLogin("ann=,", credential, 5_000)
    assert PASSWORD not in repr(cache.login(mechanism, TOKEN.token_id))


def test_other_users_log_in_as_before() -> None:
    server = _server("SCRAM-SHA-256", _cache())
    _log_in(server, "SCRAM-SHA-256", "own", "own", is_by_token=False)
    assert (server.user, server.is_by_token, server.expires_ms) == ("own", False, None)


@pytest.mark.parametrize("extension", [b"tokenauth=true", b"x=y,tokenauth=TRUE", b"tokenauth=false,tokenauth=True,z"])
def test_the_extension_asks_for_a_token(extension: bytes) -> None:
    _server("SCRAM-SHA-256", _cache()).step(b"n,,n=%s,r=abc,%s" % (TOKEN.token_id.encode(), extension))
    with pytest.raises(MalformedTokenError):
        _server("SCRAM-SHA-256", _cache()).step(b"n,,n=own,r=abc," + extension)


@pytest.mark.parametrize("extension", [b"", b",tokenauth=false", b",tokenauth=1", b",tokenauth", b",Tokenauth=true"])
def test_other_extensions_do_not(extension: bytes) -> None:
    _server("SCRAM-SHA-256", _cache()).step(b"n,,n=own,r=abc" + extension)
    with pytest.raises(MalformedTokenError):
        _server("SCRAM-SHA-256", _cache()).step(b"n,,n=%s,r=abc%s" % (TOKEN.token_id.encode(), extension))


def test_no_login_with_a_token_that_has_expired_or_was_removed() -> None:
    moment = Moment()
    cache = _cache(moment)
    _log_in(_server("SCRAM-SHA-256", cache), "SCRAM-SHA-256", TOKEN.token_id, PASSWORD)
    moment.now_ms = 5_001
    with pytest.raises(MalformedTokenError, match="expired"):
        _log_in(_server("SCRAM-SHA-256", cache), "SCRAM-SHA-256", TOKEN.token_id, PASSWORD)
    cache.put(TOKEN._replace(expiry_ms=6_000))
    _log_in(_server("SCRAM-SHA-256", cache), "SCRAM-SHA-256", TOKEN.token_id, PASSWORD)
    cache.remove(TOKEN.token_id)
    with pytest.raises(MalformedTokenError):
        _log_in(_server("SCRAM-SHA-256", cache), "SCRAM-SHA-256", TOKEN.token_id, PASSWORD)


def test_a_wrong_password_or_a_broker_without_tokens() -> None:
    with pytest.raises(MalformedTokenError, match="proof"):
        _log_in(_server("SCRAM-SHA-256", _cache()), "SCRAM-SHA-256", TOKEN.token_id, PASSWORD[:-1])
    server = ScramServer("SCRAM-SHA-256", lambda *_: None)
    with pytest.raises(MalformedTokenError):
        _log_in(server, "SCRAM-SHA-256", TOKEN.token_id, PASSWORD)
    assert server.user is None
