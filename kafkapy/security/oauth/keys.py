"""The issuer's keys: read from the configured address at the start, and again from time to time, in a thread.

An address is used only if ``kafkapy.sasl.oauthbearer.allowed.urls`` has it too: who could choose it freely would read
files of the broker's machine, or reach servers that only the broker can reach (CVE-2025-27817). For the same reason
no redirection is followed.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from kafkapy.clock import Clock, TimerHandle
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.oauth.signed import VerificationKey, parse_jwks

logger: Final = logging.getLogger(__name__)

SIZE_LIMIT: Final = 262_144
"""Bytes of a key set."""
TIME_LIMIT_S: Final = 10.0
UNKNOWN_KEY_MS: Final = 60_000
"""The shortest time between two reads because of tokens whose key is not known."""
RETRY_MS: Final = 10_000
"""How long after a failure the keys are read again."""
_KEY: Final = "sasl.oauthbearer.jwks.endpoint.url"
_ALLOWED: Final = "kafkapy.sasl.oauthbearer.allowed.urls"


class KeysNotReadError(Exception):
    """The issuer's keys can't be read; the text says why."""


def checked_address(url: str, allowed: Collection[str]) -> SplitResult:
    """Return the parts of an address that may be read; raises InvalidSecurityError."""
    if url not in allowed:
        raise InvalidSecurityError(
            f"{_KEY} is an address that {_ALLOWED} does not have: add it there if the broker may read it"
            " (CVE-2025-27817)"
        )
    try:
        parts = urlsplit(url)
        is_valid = _is_valid(parts)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidSecurityError(f"{_KEY} is no https, http or file URL")
    return parts


def _is_valid(parts: SplitResult) -> bool:
    if parts.scheme == "file":
        return parts.netloc in ("", "localhost") and parts.path.startswith("/")
    has_port = parts.port is None or parts.port > 0
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and "@" not in parts.netloc


def read_address(parts: SplitResult, machine_s: Callable[[], float]) -> bytes:
    """Read a key set, in a thread if the address is not a file's; raises KeysNotReadError."""
    try:
        if parts.scheme == "file":
            with Path(unquote(parts.path)).open("rb") as file:
                data = file.read(SIZE_LIMIT + 1)
        else:
            data = _download(parts, machine_s)
    except (OSError, HTTPException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise KeysNotReadError(reason) from None
    if len(data) > SIZE_LIMIT:
        raise KeysNotReadError(f"it has more than {SIZE_LIMIT} bytes")
    return data


def _download(parts: SplitResult, machine_s: Callable[[], float]) -> bytes:
    make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    deadline_s = machine_s() + TIME_LIMIT_S
    connection = make(str(parts.hostname), parts.port, timeout=TIME_LIMIT_S)
    try:
        connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        if response.status != 200:
            raise KeysNotReadError(f"the server answered with status {response.status}")
        data = b""
        while len(data) <= SIZE_LIMIT and (piece := response.read1(SIZE_LIMIT)):
            data += piece
            if machine_s() > deadline_s:
                raise KeysNotReadError(f"it took longer than {TIME_LIMIT_S:.0f} s")
        return data
    finally:
        connection.close()


class IssuerKeys:
    """The keys at an address; see the module. ``start`` and all other methods are called on the event loop."""

    def __init__(self, address: SplitResult, refresh_ms: int, clock: Clock) -> None:
        self._address = address
        self._refresh_ms = refresh_ms
        self._clock = clock
        self._keys: list[VerificationKey] = []
        self._timer: TimerHandle | None = None
        self._is_reading = False
        self._is_closed = False
        self._asked_s = float("-inf")
        """When a token with an unknown key last had the keys read."""

    def start(self) -> None:
        """Read the keys: a file at once, and in a thread what is behind a network. Raises InvalidSecurityError."""
        if self._address.scheme != "file":
            self._read_in_thread()
            return
        try:
            self._keys = parse_jwks(read_address(self._address, self._clock.machine_s))
        except (KeysNotReadError, ValueError) as error:
            raise InvalidSecurityError(f"the keys of {_KEY} can't be read: {error}") from None
        self._read_after(self._refresh_ms)

    def find(self, fits: Callable[[VerificationKey], bool]) -> VerificationKey | None:
        """Return the one key that fits; if none does, the keys are read again for a later token."""
        found = [key for key in self._keys if fits(key)]
        if not found and self._clock.monotonic_s() - self._asked_s >= UNKNOWN_KEY_MS / 1000:
            self._asked_s = self._clock.monotonic_s()
            self._read_in_thread()
        return found[0] if len(found) == 1 else None

    def close(self) -> None:
        """Read no more."""
        self._is_closed = True
        self._forget_timer()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _read_after(self, delay_ms: int) -> None:
        self._forget_timer()
        if not self._is_closed:
            self._timer = self._clock.call_later(delay_ms, self._read_in_thread)

    def _read_in_thread(self) -> None:
        if self._is_reading or self._is_closed:
            return
        self._is_reading = True
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="kafkapy-issuer-keys", daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        keys: list[VerificationKey] = []
        problem = ""
        try:
            keys = parse_jwks(read_address(self._address, self._clock.machine_s))
        except (KeysNotReadError, ValueError) as error:
            problem = str(error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._have_read, keys, problem)

    def _have_read(self, keys: list[VerificationKey], problem: str) -> None:
        self._is_reading = False
        if problem:
            logger.error("The keys of %s can't be read: %s", _KEY, problem)
        else:
            self._keys = keys
        self._read_after(min(self._refresh_ms, RETRY_MS) if problem else self._refresh_ms)
