"""Random requests to a control port, valid and damaged."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from kafkapy.testing.control.routes import ROUTES

HOSTS: Final = (b"localhost", b"127.0.0.1:80", b"[::1]", b"evil.example", b"[", b"", b"\xff\xfe", b"127.0.0.1" * 3_000)
TARGETS: Final = (
    b"http://[", b"//[x", b"//]", b"http://[::1%25]/clock", b"/faults/" + b"9" * 5_000, b"", b"*", b"/\xff\xfe", b"//",
    b"/faults/%00", b"http://localhost/clock", b"//\xe2\x84\x80@x/", b"/" + b"a" * 9_000, b"?", b"#", b"/faults/-1",
)  # fmt: skip
BODIES: Final = (
    b"", b"{", b"[]", b"null", b'"\\ud800"', b'{"action": "\\ud800"}', b'{"action": "drop", "topic": "\\udfff"}',
    b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"[" * 60_000, b'{"a":' * 12_000, b'{"duration_ms": NaN}',
    b'{"duration_ms": 1e999}', b'{"duration_ms": -Infinity}', b'{"duration_ms": ' + b"9" * 6_000 + b"}",
    b'{"action": "delay", "duration_ms": 1' + b"0" * 400 + b"}", b'{"duration_ms": 1' + b"0" * 20 + b"}",
    b'{"action": "drop", "nth": [' + b"1," * 9_000 + b"1]}",
)  # fmt: skip
VALUES: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1, 2**31, 2**63, -(2**70), 10**300, 0.5, 1e308, -0.0, float("nan"), float("inf"), "", "x",
    "\ud800", "\x00\n", "ü" * 500, [], [1, 2], [None], [[[]]], {}, {"a": {}}, "error", "delay", "drop", "hold", "pause",
    "expire_member", "Produce", "Fetch", "NOT_LEADER_OR_FOLLOWER", "before", "after",
)  # fmt: skip
HEADERS: Final = (
    b"Content-Length: -5", b"Content-Length: 99999999999999999999999", b"Content-Length: \xb2", b"Content-Length: 1_0",
    b"Transfer-Encoding: chunked", b"Origin: http://[", b"Origin: null", b"X: " + b"y" * 17_000, b"no colon", b": x",
    b"Expect: 100-continue", b"Host: twice", b"Content-Length: 10", b"\x00: \x00",
)  # fmt: skip


class Requests:
    """An endless, repeatable series of requests' bytes."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # repeatable
        self._breakings: tuple[Callable[[bytes], bytes], ...] = (
            self._cut, self._flipped, self._doubled, self._with_header, self._with_noise, bytes,
        )  # fmt: skip

    def __iter__(self) -> Iterator[bytes]:
        while True:
            request = self._ordinary()
            for _ in range(self._random.choice((0, 0, 1, 1, 2, 5))):
                request = self._random.choice(self._breakings)(request)
            yield request

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """``data`` as it may arrive: at once, or in a few parts."""
        places = sorted(self._random.randint(0, len(data)) for _ in range(self._random.choice((0, 0, 1, 3))))
        for begin, end in zip([0, *places], [*places, len(data)], strict=True):
            yield data[begin:end]

    def _ordinary(self) -> bytes:
        choose = self._random.choice
        route = choose(ROUTES)
        method = route.method.encode() if choose((True, True, True, False)) else choose((b"GET", b"POST", b"PUT", b""))
        path = route.path.replace("{id}", str(self._random.randint(0, 9))).encode()
        target = path if choose((True, True, True, False)) else choose(TARGETS)
        body = self._body(route.fields) if choose((True, True, True, False)) else choose(BODIES)
        host = b"localhost" if choose((True, True, True, False)) else choose(HOSTS)
        lines = [
            b"%s %s HTTP/1.1" % (method, target), b"Host: " + host, b"Content-Type: application/json",
            b"Content-Length: %d" % len(body),
        ]  # fmt: skip
        return b"\r\n".join([*lines, b"", body])

    def _body(self, fields: tuple[tuple[str, str, bool, str], ...]) -> bytes:
        names = [name for name, *_ in fields if self._random.random() < 0.4] + ["action"] * (len(fields) > 4)
        value = {name: self._random.choice(VALUES) for name in names}
        return json.dumps(value).encode()

    def _cut(self, data: bytes) -> bytes:
        return data[: self._random.randint(0, len(data))]

    def _flipped(self, data: bytes) -> bytes:
        if not data:
            return data
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 8)):
            changed[self._random.randrange(len(data))] = self._random.randrange(256)
        return bytes(changed)

    def _doubled(self, data: bytes) -> bytes:
        place, end = sorted(self._random.randint(0, len(data)) for _ in range(2))
        return data[:end] + data[place:]

    def _with_header(self, data: bytes) -> bytes:
        first, _, rest = data.partition(b"\r\n")
        return first + b"\r\n" + self._random.choice(HEADERS) + b"\r\n" + rest

    def _with_noise(self, data: bytes) -> bytes:
        place = self._random.randint(0, len(data))
        return data[:place] + self._random.randbytes(self._random.choice((1, 4, 100, 20_000))) + data[place:]
