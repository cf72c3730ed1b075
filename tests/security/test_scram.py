"""SCRAM against scramp, an implementation of others, and against the example of RFC 7677."""

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.mechanisms import MalformedTokenError
from kafkapy.security.scram import HASHES, ScramCredential, ScramServer, scram_client

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
"""Of ASCII, which SASLprep does not change: Apache Kafka does not use it, scramp does."""


def _server(mechanism: str = "SCRAM-SHA-256", password: str = "pencil", **options: object) -> ScramServer:
    credential = ScramCredential.of_password(mechanism, password, SALT, 4096)
    return ScramServer(mechanism, lambda _, user: credential if user != "nobody" else None, **options)  # type: ignore[arg-type]  # the nonce


def test_the_example_of_rfc_7677() -> None:
    server = _server(new_nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.user is None
    assert (
        server.step(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert server.user == "user"


@pytest.mark.parametrize("mechanism", HASHES)
@given(user=TEXTS, password=TEXTS)
def test_another_client_is_accepted(mechanism: str, user: str, password: str) -> None:
    credential = ScramCredential.of_password(mechanism, password, SALT, 4096)
    server = ScramServer(mechanism, lambda _, name: credential if name == user else None)
    client = ScramClient([mechanism], user, password)
    client.set_server_first(server.step(client.get_client_first().encode()).decode())
    client.set_server_final(server.step(client.get_client_final().encode()).decode())
    assert server.user == user


@pytest.mark.parametrize("mechanism", HASHES)
def test_our_client_and_server_agree(mechanism: str) -> None:
    server = _server(mechanism, "pässword,=")
    steps = scram_client(mechanism, "alice,=x", "pässword,=")
    final = steps.send(server.step(next(steps)))
    with pytest.raises(StopIteration):
        steps.send(server.step(final))
    assert server.user == "alice,=x"


def test_a_wrong_password_and_an_unknown_user_are_refused_alike() -> None:
    server = _server()
    steps = scram_client("SCRAM-SHA-256", "user", "pencil2")
    final = steps.send(server.step(next(steps)))
    with pytest.raises(MalformedTokenError):
        server.step(final)
    assert server.user is None
    with pytest.raises(MalformedTokenError):
        _server().step(b"n,,n=nobody,r=abc")


def test_messages_of_an_earlier_exchange_are_refused() -> None:
    """CVE-2024-56128: Apache Kafka up to 3.7.1 did not compare the nonce."""
    recorded = _server(new_nonce=lambda: "one")
    steps = scram_client("SCRAM-SHA-256", "user", "pencil")
    first = next(steps)
    final = steps.send(recorded.step(first))
    recorded.step(final)
    server = _server(new_nonce=lambda: "two")
    server.step(first)
    with pytest.raises(MalformedTokenError, match="nonce"):
        server.step(final)


def _final_with(nonce: str, first: str, answer: str) -> bytes:
    """The last message of a client that knows the password and sends this nonce."""
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c=biws,r={nonce}"
    signed = f"{first},{answer},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def test_the_nonce_of_older_librdkafka_is_accepted_and_no_other() -> None:
    """Before 2.6.1 it sends its own nonce twice; Debian 12 and confluent-kafka 2.6.0 have such a release."""
    for nonce in ("minetheirs", "mineminetheirs"):
        server = _server(new_nonce=lambda: "theirs")
        answer = server.step(b"n,,n=user,r=mine").decode()
        assert server.step(_final_with(nonce, "n=user,r=mine", answer)).startswith(b"v=")
    for nonce in ("mine", "theirs", "mineminetheir", "xmineminetheirs", "otherminetheirs", "mineminemine"):
        server = _server(new_nonce=lambda: "theirs")
        answer = server.step(b"n,,n=user,r=mine").decode()
        with pytest.raises(MalformedTokenError, match="nonce"):
            server.step(_final_with(nonce, "n=user,r=mine", answer))


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\xff", b"n", b"n,,", b"n,,n=,r=abc", b"n,,n=user", b"n,,n=user,r=", b"y,,n=user,r=abc", b"p=x,,n=u,r=a",
        b"n,,n=us\0er,r=abc", b"n,,n=us=er,r=abc\0",
    ],
)  # fmt: skip
def test_odd_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(MalformedTokenError):
        _server().step(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: b"", lambda final: b"\xff", lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b"c=biws", b"c=b"), lambda final: final[:-8], lambda final: final.split(b",p=")[0],
        lambda final: final.split(b",p=")[0] + b",p=AAAA", lambda final: final.split(b",p=")[0] + b",p=A",
    ],
)  # fmt: skip
def test_odd_final_messages_are_refused(change: Callable[[bytes], bytes]) -> None:
    server = _server()
    steps = scram_client("SCRAM-SHA-256", "user", "pencil")
    final = steps.send(server.step(next(steps)))
    with pytest.raises(MalformedTokenError):
        server.step(change(final))
    assert server.user is None


def test_another_authorization_id_is_refused() -> None:
    assert _server().step(b"n,a=user,n=user,r=abc").startswith(b"r=abc")
    with pytest.raises(AuthenticationFailedError, match="authorization id"):
        _server().step(b"n,a=admin,n=user,r=abc")


def test_a_weak_credential_is_not_used() -> None:
    weak = ScramCredential.of_password("SCRAM-SHA-256", "x", SALT, 100)
    with pytest.raises(MalformedTokenError, match="iterations"):
        ScramServer("SCRAM-SHA-256", lambda *_: weak).step(b"n,,n=user,r=abc")


def test_nothing_follows_a_complete_exchange() -> None:
    server = _server()
    steps = scram_client("SCRAM-SHA-256", "user", "pencil")
    server.step(steps.send(server.step(next(steps))))
    with pytest.raises(MalformedTokenError, match="complete"):
        server.step(b"n,,n=user,r=abc")


@pytest.mark.parametrize(
    "answer",
    [b"", b"r=other,s=QQ==,i=4096", b"r={nonce},s=QQ==,i=4096", b"r={nonce}x,s=Q,i=4096", b"r={nonce}x,s=QQ==,i=1",
     b"r={nonce}x,s=QQ==,i=99999999"],
)  # fmt: skip
def test_our_client_checks_the_first_answer(answer: bytes) -> None:
    steps = scram_client("SCRAM-SHA-256", "u", "p", lambda: "abc")
    next(steps)
    with pytest.raises(AuthenticationFailedError):
        steps.send(answer.replace(b"{nonce}", b"abc"))


def test_our_client_checks_the_brokers_signature() -> None:
    server = _server()
    steps = scram_client("SCRAM-SHA-256", "user", "pencil")
    server.step(steps.send(server.step(next(steps))))
    with pytest.raises(AuthenticationFailedError, match="does not know the password"):
        steps.send(b"v=AAAA")


def test_a_credential_is_stored_as_apache_kafka_stores_it() -> None:
    credential = ScramCredential.of_password("SCRAM-SHA-256", "pencil", SALT, 4096)
    text = str(credential)
    assert text == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )
    assert ScramCredential.parse(text) == credential
    assert "WG5d" not in repr(credential)
    for bad in ("", "salt=QQ==", text.replace("salt=W", "salt=?"), text.replace("4096", "x")):
        with pytest.raises(ValueError, match=r"."):
            ScramCredential.parse(bad)
