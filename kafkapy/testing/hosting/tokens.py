"""Tokens of a broker in a test: an issuer in memory, and the objects with which stock clients take its tokens."""

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from joserfc import jws
from joserfc.jwk import ECKey

from kafkapy.config import oauth_keys
from kafkapy.config.own_keys import OAUTH_ALLOWED_URLS
from kafkapy.security.oauth.settings import HANDLER, SIGNED_HANDLERS

ISSUER: Final = "https://issuer.test"
AUDIENCE: Final = "kafkapy"
_ALGORITHM: Final = "ES256"
_KEY_ID: Final = "test"

NewToken = Callable[[], str]


class TokenIssuer:
    """An issuer whose public key the broker reads from a file, which is removed with the object."""

    def __init__(self) -> None:
        self._key = ECKey.generate_key("P-256")
        self._foreign_key = ECKey.generate_key("P-256")
        self._directory = Path(tempfile.mkdtemp(prefix="kafkapy-issuer-"))
        weakref.finalize(self, _remove, self._directory, os.getpid())
        public = {**self._key.as_dict(private=False), "kid": _KEY_ID, "use": "sig"}
        self._keys_url = self._written("jwks.json", json.dumps({"keys": [public]}))

    def _written(self, name: str, content: str) -> str:
        path = self._directory / name
        path.write_text(content, encoding="utf-8")
        return path.as_uri()

    def broker_settings(self, prefix: str) -> dict[str, str]:
        """The keys with which a listener accepts the tokens; ``prefix`` is that of the listener."""
        values = {
            HANDLER: SIGNED_HANDLERS[0],
            oauth_keys.JWKS_URL: self._keys_url,
            oauth_keys.EXPECTED_ISSUER: ISSUER,
            oauth_keys.EXPECTED_AUDIENCE: AUDIENCE,
            oauth_keys.CLOCK_SKEW_S: "0",
        }
        return {
            OAUTH_ALLOWED_URLS: self._keys_url,
            **{f"{prefix}oauthbearer.{name}": value for name, value in values.items()},
        }

    def token(self, user: str, now_ms: int, expires_in_s: float, *, foreign_key: bool = False) -> str:
        """Return a token of ``user``; with ``foreign_key`` it is signed with another key than the issuer's."""
        now_s = now_ms / 1000
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "iat": min(now_s, now_s + expires_in_s),
            "exp": now_s + expires_in_s,
        }
        key = self._foreign_key if foreign_key else self._key
        return jws.serialize_compact({"alg": _ALGORITHM, "kid": _KEY_ID}, json.dumps(claims), key, [_ALGORITHM])

    def token_file(self, user: str, token: str) -> str:
        """Write a token to a file, and return its URL, from which Java's clients read it."""
        return self._written(f"{user.encode().hex()}.jwt", token)


def _remove(directory: Path, process_id: int) -> None:
    if os.getpid() == process_id:  # a forked child leaves the directory to its parent
        shutil.rmtree(directory, ignore_errors=True)


class BlockingTokens:
    """What kafka-python takes its tokens from."""

    def __init__(self, new_token: NewToken) -> None:
        self.token = new_token

    def extensions(self) -> Mapping[str, str]:
        """None."""
        return {}


class AsyncTokens:
    """What aiokafka takes its tokens from."""

    def __init__(self, new_token: NewToken) -> None:
        self._new_token = new_token

    async def token(self) -> str:
        """Return a token."""
        return self._new_token()

    def extensions(self) -> Mapping[str, str]:
        """None."""
        return {}


def kafka_python_tokens(new_token: NewToken) -> BlockingTokens:
    """Return a token provider of kafka-python, which has to be installed."""
    try:
        from kafka.net.sasl.oauth import AbstractTokenProvider
    except ImportError:  # before its release 3
        from kafka.sasl.oauth import AbstractTokenProvider

    AbstractTokenProvider.register(BlockingTokens)
    return BlockingTokens(new_token)


def aiokafka_tokens(new_token: NewToken) -> AsyncTokens:
    """Return a token provider of aiokafka, which has to be installed."""
    from aiokafka.abc import AbstractTokenProvider

    AbstractTokenProvider.register(AsyncTokens)
    return AsyncTokens(new_token)
