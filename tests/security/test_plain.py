import hmac

import pytest

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.mechanisms import MalformedTokenError
from kafkapy.security.plain import PlainServer, plain_client, users_of

USERS = users_of({"username": "admin", "password": "x", "user_alice": "secret", "user_empty": "", "user_é": "ü"})


def test_users_are_those_of_the_login_module() -> None:
    assert USERS == {"alice": "secret", "empty": "", "é": "ü"}


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret", "\0é\0ü".encode()])
def test_the_right_password_is_accepted(token: bytes) -> None:
    server = PlainServer(USERS)
    assert server.step(token) == b""
    assert server.user == token.decode().split("\0")[1]


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0alice\0secre", "Invalid username or password"),
        (b"\0nobody\0secret", "Invalid username or password"),
        (b"\0empty\0x", "Invalid username or password"),
        (b"\0empty\0", "password not specified"),
        (b"\0\0secret", "username not specified"),
        (b"bob\0alice\0secret", "authorization id that is different from username"),
    ],
)
def test_the_client_is_told_why(token: bytes, problem: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(AuthenticationFailedError, match=problem):
        server.step(token)
    assert server.user is None


@pytest.mark.parametrize(("token", "count"), [(b"", 1), (b"alice", 1), (b"\0alice", 2), (b"\0alice\0secret\0", 4)])
def test_tokens_of_another_form_are_refused(token: bytes, count: int) -> None:
    with pytest.raises(AuthenticationFailedError, match=f"expected 3 tokens, got {count}"):
        PlainServer(USERS).step(token)
    with pytest.raises(MalformedTokenError):
        PlainServer(USERS).step(b"\xff\0a\0b")


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_passwords_are_compared_in_constant_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CVE-2021-38153: the time of a comparison tells how many bytes are right; that of its absence, who exists."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    with pytest.raises(AuthenticationFailedError, match="Invalid username or password"):
        PlainServer({"alice": "secret"}).step(b"\0" + name.encode() + b"\0wrong")
    assert len(compared) == 1


def test_our_client_sends_one_token() -> None:
    assert list(plain_client("alice", "secret")) == [b"\0alice\0secret"]
