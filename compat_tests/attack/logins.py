"""The conversations of clients that do not authenticate: broken logins, and broken records of TLS, drawn by a seed.

The frames of a login (ApiVersions, SaslHandshake and SaslAuthenticate of each mechanism, tokens without a header) come
in any order, most of them with some bytes changed. Of TLS it is a client's first record, with bytes changed, or
followed by others.
"""

import random
import struct
from collections.abc import Callable
from typing import Final

from compat_tests.attack.frames import DROP, HOLD, READ, Conversation, nudged, sized
from compat_tests.attack.prepared import framed
from compat_tests.security.secured import KINDS
from harness.mutation import mutate
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.security.authentication import FRAME_SIZE
from kafkapy.security.oauth.unsecured import unsecured_token
from kafkapy.security.scram import HASHES, scram_client

NOT_SO_MANY: Final = 1_000
"""More answers than a client gets that does not authenticate: a conversation lasts until the broker ends it."""
MECHANISMS: Final = ("PLAIN", *HASHES, "OAUTHBEARER", "GSSAPI", "", "plain", "SCRAM-SHA-1")
PLAINTEXT_KINDS: Final = [kind for kind in KINDS if KINDS[kind].protocol == "SASL_PLAINTEXT"]
TLS_KINDS: Final = [kind for kind in KINDS if KINDS[kind].protocol.endswith("SSL")]
RECORD_TYPES: Final = (20, 21, 22, 23, 24, 0, 255)
PLAIN: Final = b"\0alice\0alice-secret"


class LoginGenerator:
    """Draws conversations; the same for a seed and the first record of TLS."""

    def __init__(self, seed: int, hello: bytes) -> None:
        self._seed = seed
        self._hello = hello
        bearer = unsecured_token({"sub": "alice", "iat": 0, "exp": 1}).encode()
        self._tokens = [
            PLAIN,
            *(next(scram_client(name, "alice", "alice-secret")) for name in HASHES),
            b"n,,\x01auth=Bearer " + bearer + b"\x01\x01",
            b"\x60\x82",
            b"",
        ]
        self._begins = [framed(SaslHandshakeRequest(name), version)[4:] for name in MECHANISMS for version in (0, 1)]
        self._versions = [framed(ApiVersionsRequest(), version)[4:] for version in range(4)]
        self._authenticates = [
            framed(SaslAuthenticateRequest(token), version)[4:] for token in self._tokens for version in range(3)
        ]

    def conversation(self, number: int) -> Conversation:
        """The conversation of this number."""
        chance = random.Random(f"{self._seed}-{number}")
        kinds: dict[Callable[[random.Random, int], Conversation], int] = {
            self._login: 60,
            self._any_order: 20,
            self._garbage: 5,
            self._greeting: 30,
            self._records: 5,
        }
        (make,) = chance.choices([*kinds], [*kinds.values()])
        return make(chance, number)

    def _login(self, chance: random.Random, number: int) -> Conversation:
        """A login in the usual order; one of its frames is changed."""
        frames = [chance.choice(self._begins), chance.choice(self._authenticates + self._tokens)]
        if chance.random() < 0.5:
            frames.insert(0, chance.choice(self._versions))
        if chance.random() < 0.5:
            frames.append(chance.choice(self._authenticates + self._tokens))
        changed = chance.randrange(len(frames))
        frames[changed] = _changed(chance, frames[changed])
        return self._joined(chance, number, "login", frames)

    def _any_order(self, chance: random.Random, number: int) -> Conversation:
        pool = self._begins + self._versions + self._authenticates + self._tokens
        frames = [_changed(chance, each) for each in chance.choices(pool, k=chance.randint(1, 9))]
        return self._joined(chance, number, "any-order", frames)

    def _garbage(self, chance: random.Random, number: int) -> Conversation:
        """Random bytes, or a size and less than that."""
        data = chance.randbytes(chance.choice([1, 4, 5, 100, 3000]))
        if chance.random() < 0.5:
            size = chance.choice([FRAME_SIZE, FRAME_SIZE + 1, 0, -1, 2**31 - 1, len(data)])
            data = struct.pack(">i", size) + data
        kind = chance.choice(PLAINTEXT_KINDS + TLS_KINDS)
        return Conversation(number, "garbage", data, 1, NOT_SO_MANY, chance.choice([READ, DROP, HOLD]), kind)

    def _greeting(self, chance: random.Random, number: int) -> Conversation:
        """The first record of TLS, changed; sometimes with others behind it."""
        data = self._hello
        for _ in range(chance.randint(1, 3)):
            data = mutate(data, chance) if chance.random() < 0.3 else nudged(data, chance)
        if chance.random() < 0.3:
            data += _record(chance)
        return self._over_tls(chance, number, "greeting", data)

    def _records(self, chance: random.Random, number: int) -> Conversation:
        """A good first record, and others that the broker does not expect; or those alone."""
        data = b"".join(_record(chance) for _ in range(chance.randint(1, 20)))
        return self._over_tls(chance, number, "records", data if chance.random() < 0.3 else self._hello + data)

    def _over_tls(self, chance: random.Random, number: int, name: str, data: bytes) -> Conversation:
        ending = chance.choices([READ, DROP, HOLD], [8, 1, 1])[0]
        return Conversation(number, name, data, 1, NOT_SO_MANY, ending, chance.choice(TLS_KINDS))

    def _joined(self, chance: random.Random, number: int, name: str, frames: list[bytes]) -> Conversation:
        data = b"".join(sized(each) for each in frames)
        if chance.random() < 0.1:
            data = data[: chance.randrange(len(data))]
        ending = chance.choices([READ, DROP, HOLD], [8, 1, 1])[0]
        kind = chance.choice(PLAINTEXT_KINDS)
        return Conversation(number, name, data, len(frames), NOT_SO_MANY, ending, kind)


def _changed(chance: random.Random, frame: bytes) -> bytes:
    """A frame with some bytes changed; seldom as it is."""
    kind = chance.random()
    if kind < 0.1:
        return frame
    return mutate(frame, chance) if kind < 0.4 else nudged(frame, chance)


def _record(chance: random.Random) -> bytes:
    """A record of TLS with random content; its size may be wrong."""
    content = chance.randbytes(chance.choice([0, 1, 2, 50, 500]))
    size = len(content) if chance.random() < 0.8 else chance.randrange(65_536)
    return struct.pack(">BHH", chance.choice(RECORD_TYPES), chance.choice([0x0301, 0x0303, 0x0304]), size) + content
