"""The issuer's keys: read from the configured address at the start, and again from time to time, in a thread."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.config.oauth_keys import JWKS_URL
from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.oauth.addresses import Address, AddressNotReadError
from kafkapy.security.oauth.signed import VerificationKey, parse_jwks

logger: Final = logging.getLogger(__name__)

UNKNOWN_KEY_MS: Final = 60_000
"""The shortest time between two reads because of tokens whose key is not known."""
RETRY_MS: Final = 10_000
"""How long after a failure the keys are read again."""


class IssuerKeys:
    """The keys at an address; see the module. ``start`` and all other methods are called on the event loop."""

    def __init__(self, address: Address, refresh_ms: int, clock: Clock) -> None:
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
            self._keys = parse_jwks(self._address.read(self._clock.machine_s))
        except (AddressNotReadError, ValueError) as error:
            raise InvalidSecurityError(f"the keys of {JWKS_URL} can't be read: {error}") from None
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
            keys = parse_jwks(self._address.read(self._clock.machine_s))
        except (AddressNotReadError, ValueError) as error:
            problem = str(error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._have_read, keys, problem)

    def _have_read(self, keys: list[VerificationKey], problem: str) -> None:
        self._is_reading = False
        if problem:
            logger.error("The keys of %s can't be read: %s", JWKS_URL, problem)
        else:
            self._keys = keys
        self._read_after(min(self._refresh_ms, RETRY_MS) if problem else self._refresh_ms)
