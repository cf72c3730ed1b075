"""SASL/SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84): neither side sends or stores the password.

    client → n,,n=USER,r=CLIENT-NONCE                      (,tokenauth=true: USER is the id of a delegation token)
    server → r=CLIENT-NONCE SERVER-NONCE,s=SALT,i=ITERATIONS
    client → c=biws,r=CLIENT-NONCE SERVER-NONCE,p=PROOF
    server → v=SIGNATURE

The server stores the salt, the iterations and two keys that are derived from the password. The proof shows that the
client knows the password, the signature that the server has the keys.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.mechanisms import MalformedTokenError, SaslExchange

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""
FEWEST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
_NONCE_SIZE: Final = 24
_NAME: Final = r"(?:[^,=\0]|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(rf"(n,(?:a=({_NAME}))?,)((?:m=[^,]*,)?n=({_NAME}),r=([!-+\--~]+)(,.*)?)", re.DOTALL)
_CLIENT_FINAL: Final = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)(?:,.*)?),p=([A-Za-z0-9+/=]+)", re.DOTALL)
_SERVER_FIRST: Final = re.compile(r"r=([!-+\--~]+),s=([A-Za-z0-9+/=]+),i=([1-9]\d{0,8})(?:,.*)?", re.DOTALL)
_PART: Final = re.compile(r"(\w+)=([^,]*)")
TOKEN_AUTH: Final = "tokenauth"  # noqa: S105  # the name of an extension
"""The extension of the client's first message that says whether it logs in with a delegation token."""


class ScramCredential(NamedTuple):
    """What the server stores of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of_password(cls, mechanism: str, password: str, salt: bytes, iterations: int) -> "ScramCredential":
        """Derive the keys from a password."""
        return cls.of_salted(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)

    @classmethod
    def of_salted(cls, mechanism: str, salted: bytes, salt: bytes, iterations: int) -> "ScramCredential":
        """Derive the keys from a salted password, as AlterUserScramCredentials has it."""
        stored_key = hashlib.new(HASHES[mechanism], _sign(mechanism, salted, b"Client Key")).digest()
        return cls(salt, stored_key, _sign(mechanism, salted, b"Server Key"), iterations)

    @classmethod
    def parse(cls, text: str) -> "ScramCredential":
        """Read the text of Kafka's node of a user; raises ValueError."""
        parts = dict(_PART.findall(text))
        try:
            salt, stored, server = (
                b64decode(parts[key], validate=True) for key in ("salt", "stored_key", "server_key")
            )
            return cls(salt, stored, server, int(parts["iterations"]))
        except (KeyError, BinasciiError) as error:
            raise ValueError("this is no SCRAM credential") from error

    def __str__(self) -> str:
        """Return the text that Apache Kafka stores."""
        salt, stored, server = (b64encode(each).decode() for each in self[:3])
        return f"salt={salt},stored_key={stored},server_key={server},iterations={self.iterations}"

    def __repr__(self) -> str:
        return f"<ScramCredential of {self.iterations} iterations>"


CredentialOf = Callable[[str, str], ScramCredential | None]
"""Returns the credential of (mechanism, user), None if the user has none."""


class TokenLogin(NamedTuple):
    """What a login with a delegation token needs."""

    owner: str
    """The name of the user that the client becomes."""
    credential: ScramCredential
    expiry_ms: int


TokenLoginOf = Callable[[str, str], TokenLogin | None]
"""Returns the login of (mechanism, token id), None if it is no token that can be used."""


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the key that is derived from a password: PBKDF2 with the mechanism's hash function."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def _sign(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _new_nonce() -> str:
    return secrets.token_urlsafe(_NONCE_SIZE)


class ScramServer(SaslExchange):
    """One authentication with SCRAM."""

    def __init__(
        self,
        mechanism: str,
        credential_of: CredentialOf,
        new_nonce: Callable[[], str] = _new_nonce,
        token_login_of: TokenLoginOf | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._new_nonce = new_nonce
        self._token_login_of = token_login_of
        """None if there are no delegation tokens."""
        self._begun: tuple[str, ScramCredential, str, tuple[str, str], str] | None = None
        """The user, its credential, the header, the nonces that it may send, and the first two messages."""

    def step(self, token: bytes) -> bytes:
        """Answer the first and then the final message of the client."""
        try:
            message = token.decode()
        except UnicodeDecodeError as error:
            raise MalformedTokenError("a SCRAM message is not UTF-8") from error
        if self.user is not None:
            raise MalformedTokenError("the authentication is complete")
        return (self._first(message) if self._begun is None else self._final(message)).encode()

    def _first(self, message: str) -> str:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise MalformedTokenError("this is no first message of SCRAM")
        header, authorization_id, bare, name, client_nonce, extensions = match.groups()
        user = _unescaped(name)
        if authorization_id and _unescaped(authorization_id) != user:
            raise AuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if dict(_PART.findall(extensions or "")).get(TOKEN_AUTH, "").lower() == "true":
            user, credential = self._of_token(user)
        else:
            found = self._credential_of(self._mechanism, user)
            if found is None:
                raise MalformedTokenError("the user has no credential")
            credential = found
        if credential.iterations < FEWEST_ITERATIONS:
            raise MalformedTokenError("the credential has too few iterations")
        nonce = client_nonce + self._new_nonce()
        answer = f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"
        # librdkafka before 2.6.1 puts its own nonce before the whole one once more; Apache Kafka 2.7 and 3.8.1 let it.
        self._begun = user, credential, header, (nonce, client_nonce + nonce), f"{bare},{answer}"
        return answer

    def _of_token(self, token_id: str) -> tuple[str, ScramCredential]:
        """Return the token's owner, who the client becomes, and the credential."""
        login = None if self._token_login_of is None else self._token_login_of(self._mechanism, token_id)
        if login is None:
            raise MalformedTokenError("there is no such delegation token, or it has expired")
        self.is_by_token = True
        self.expires_ms = login.expiry_ms
        return login.owner, login.credential

    def _final(self, message: str) -> str:
        assert self._begun is not None, "the first message comes first"
        user, credential, header, nonces, messages = self._begun
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None:
            raise MalformedTokenError("this is no final message of SCRAM")
        without_proof, binding, their_nonce, proof_text = match.groups()
        if their_nonce not in nonces:  # else an old exchange could be played again (CVE-2024-56128)
            raise MalformedTokenError("the nonce is not the one of this authentication")
        try:
            proof, bound = b64decode(proof_text, validate=True), b64decode(binding, validate=True)
        except BinasciiError as error:
            raise MalformedTokenError("a part of the final message is not base64") from error
        signed = f"{messages},{without_proof}".encode()
        signature = _sign(self._mechanism, credential.stored_key, signed)
        if bound != header.encode() or len(proof) != len(signature):
            raise MalformedTokenError("the proof or the channel binding has another form")
        stored_key = hashlib.new(HASHES[self._mechanism], _xor(proof, signature)).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise MalformedTokenError("the proof is wrong")
        self.complete(user)
        return "v=" + b64encode(_sign(self._mechanism, credential.server_key, signed)).decode()


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def scram_client(
    mechanism: str,
    user: str,
    password: str,
    new_nonce: Callable[[], str] = _new_nonce,
    *,
    is_by_token: bool = False,
) -> Generator[bytes, bytes, None]:
    """The client's side: yields its two messages, and is sent the server's answers.

    ``is_by_token``: the user is the id of a delegation token, the password its HMAC in base64.
    Raises AuthenticationFailedError if the server does not know the password.
    """
    nonce = new_nonce()
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={escaped},r={nonce}" + (f",{TOKEN_AUTH}=true" if is_by_token else "")
    answer = (yield f"n,,{bare}".encode()).decode("ascii", "replace")
    match = _SERVER_FIRST.fullmatch(answer)
    if match is None or not match[1].startswith(nonce) or len(match[1]) == len(nonce):
        raise AuthenticationFailedError("the broker's first message of SCRAM is not valid")
    iterations = int(match[3])
    if not FEWEST_ITERATIONS <= iterations <= 1_000_000:
        raise AuthenticationFailedError(f"the broker asks for {iterations} iterations of SCRAM")
    try:
        salt = b64decode(match[2], validate=True)
    except BinasciiError as error:
        raise AuthenticationFailedError("the broker's first message of SCRAM is not valid") from error
    salted = salted_password(mechanism, password, salt, iterations)
    without_proof = f"c=biws,r={match[1]}"
    signed = f"{bare},{answer},{without_proof}".encode()
    client_key = _sign(mechanism, salted, b"Client Key")
    signature = _sign(mechanism, hashlib.new(HASHES[mechanism], client_key).digest(), signed)
    proof = b64encode(_xor(client_key, signature)).decode()
    final = yield f"{without_proof},p={proof}".encode()
    expected = b"v=" + b64encode(_sign(mechanism, _sign(mechanism, salted, b"Server Key"), signed))
    if not hmac.compare_digest(final, expected):
        raise AuthenticationFailedError("the broker does not know the password: it may not be the one it claims to be")
