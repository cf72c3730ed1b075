"""The authentication of one connection on a SASL listener: which requests it may send, and whose they are.

**States** of ``Authentication``:

    UNKNOWN    the client has not named a mechanism: it may send ApiVersions and SaslHandshake
    TOKENS     SaslAuthenticate requests carry the mechanism's tokens, after SaslHandshake version 1
    RAW        frames are tokens, without a header: after SaslHandshake version 0
    COMPLETE   all requests are served, until the session has expired (KIP-368)
    FAILED     nothing is served; the connection is closed after its error was sent

A client authenticates again with SaslHandshake in COMPLETE: with the same mechanism, as the same user. Until that is
done the other requests are not served.

Apache Kafka limits what a connection may cost before it has authenticated only by ``connections.max.idle.ms`` and the
memory of all requests. Here a frame has at most ``FRAME_SIZE`` then, the versions may be asked for ``_MOST_REQUESTS``
times, and there are ``TIME_LIMIT_MS``, or that key's time if it is shorter (CVE-2022-34917). So a connection costs at
most 64 KiB, of which TLS takes more than half: a peer that sends no more in the middle of a record has 44 KiB.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from kafkapy.clock import Clock, TimerHandle
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.security.errors import AuthenticationFailedError
from kafkapy.security.mechanisms import MalformedTokenError, Mechanism, SaslExchange
from kafkapy.security.principals import USER

FRAME_SIZE: Final = 16_384
"""Bytes of a frame before the client has authenticated: as many as web servers take of a header with a ticket."""
TIME_LIMIT_MS: Final = 30_000
"""The longest time until a client has authenticated."""
_MOST_REQUESTS: Final = 4
"""Requests before SaslHandshake: clients ask for the versions once, and again if theirs is not known."""
_BEFORE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})
_AGAIN_AFTER_MS: Final = 1_000
"""The shortest time between two authentications of a connection."""
_SHORTEST_SESSION_MS: Final = 2_000
"""Clients authenticate again after 85 % of a session: they may by then."""
_LONGEST_SESSION_MS: Final = 2**31 - 1
"""The longest session with a credential that ends: Java's clients count nanoseconds in 64 bits."""


class State(Enum):
    """What a connection may send, see the module."""

    UNKNOWN = auto()
    TOKENS = auto()
    RAW = auto()
    COMPLETE = auto()
    FAILED = auto()


class AuthenticatedConnection(Protocol):
    """The connection, as its authentication uses it."""

    def authenticated(self, principal: str) -> None:
        """The peer has proved who it is."""

    def close(self, reason: str) -> None:
        """End the connection now."""

    def end_after_replies(self, reason: str) -> None:
        """Take no more requests, and end the connection when those before are answered."""


class SaslSettings(NamedTuple):
    """What all connections of a listener have in common."""

    mechanisms: Mapping[str, Mechanism]
    """The enabled mechanisms by name."""
    max_session_ms: Mapping[str, int]
    """``connections.max.reauth.ms`` by mechanism; 0: a session does not expire."""
    failure_delay_ms: int = 100
    """``connection.failed.authentication.delay.ms``: how long the answer to a failed authentication waits."""
    time_limit_ms: int = TIME_LIMIT_MS
    """The longest time until a client has authenticated."""


class Authentication:
    """The state of one connection; see the module."""

    __slots__ = (
        "settings",
        "state",
        "is_by_token",
        "_clock",
        "_connection",
        "_deadline",
        "_mechanism",
        "_exchange",
        "_user",
        "_begun_ms",
        "_expires_s",
        "_session_ms",
        "_failure",
        "_requests",
    )

    def __init__(self, settings: SaslSettings, clock: Clock, connection: AuthenticatedConnection) -> None:
        self.settings = settings
        self.state = State.UNKNOWN
        self.is_by_token = False
        """Whether the client has logged in with a delegation token."""
        self._clock = clock
        self._connection: AuthenticatedConnection | None = connection
        self._deadline: TimerHandle | None = clock.call_later(settings.time_limit_ms, self._too_late)
        self._requests = 0
        self._mechanism = ""
        self._exchange: SaslExchange | None = None
        self._user: str | None = None
        self._begun_ms = 0.0
        self._expires_s: float | None = None
        self._session_ms = 0
        self._failure = "the authentication has failed"

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a token without a header."""
        return self.state is State.RAW

    @property
    def is_in_progress(self) -> bool:
        """Whether SaslAuthenticate requests carry tokens."""
        return self.state is State.TOKENS

    @property
    def has_failed(self) -> bool:
        """Whether the connection has to end."""
        return self.state is State.FAILED

    def problem_with(self, api_key: int) -> str:
        """Take note of a request; return why one of this API may not be sent now, empty if it may be.

        If it may not, the connection has to end.
        """
        state = self.state
        if state is State.COMPLETE:
            if self._expires_s is None or api_key == ApiKey.SASL_HANDSHAKE or self._now_s() < self._expires_s:
                return ""
            return f"the session of {self._user!r} has expired, and the client has not authenticated again"
        if state is State.UNKNOWN:
            self._requests += 1
            if self._requests > _MOST_REQUESTS:
                return f"the client sent {self._requests} requests before it named a mechanism"
            return "" if api_key in _BEFORE else "the client sent a request before it has authenticated"
        if state is State.TOKENS:
            return "" if api_key == ApiKey.SASL_AUTHENTICATE else "the client sent a request while it authenticated"
        return self._failure

    def may_begin(self) -> bool:
        """Whether SaslHandshake is possible: not twice within a second."""
        if self.state is State.COMPLETE:
            return self._now_s() * 1000 - self._begun_ms >= _AGAIN_AFTER_MS
        return self.state is State.UNKNOWN

    def begin(self, mechanism: str, *, is_raw: bool) -> bool:
        """Begin with a mechanism; False if it is not enabled: then this has failed."""
        make = self.settings.mechanisms.get(mechanism)
        if make is None:
            self.state = State.FAILED
            return False
        if self._user is None:
            self._mechanism = mechanism
        self._exchange = make() if mechanism == self._mechanism else None  # another one than before fails at its token
        self._begun_ms = self._now_s() * 1000
        self.state = State.RAW if is_raw else State.TOKENS
        return True

    def step(self, token: bytes) -> bytes:
        """Return the mechanism's answer; raises AuthenticationFailedError with the text for the client.

        The state is COMPLETE after the last one.
        """
        state, self.state = self.state, State.FAILED
        try:
            answer = self._answer(token)
        except AuthenticationFailedError as error:
            self._failure = str(error)
            raise
        if self._exchange is not None:
            self.state = state
        return answer

    def _answer(self, token: bytes) -> bytes:
        exchange = self._exchange
        if len(token) > FRAME_SIZE:
            raise AuthenticationFailedError(f"a token of more than {FRAME_SIZE} bytes")
        if exchange is None:
            raise AuthenticationFailedError(f"Re-authentication is possible only with mechanism {self._mechanism}")
        try:
            answer = exchange.step(token)
        except MalformedTokenError as error:
            kind = "authentication" if self._user is None else "re-authentication"
            raise AuthenticationFailedError(
                f"Authentication failed during {kind} due to invalid credentials with SASL mechanism {self._mechanism}"
            ) from error
        if exchange.user is not None:
            self._complete(exchange, exchange.user)
        return answer

    def _complete(self, exchange: SaslExchange, user: str) -> None:
        if self._user not in (None, user):
            raise AuthenticationFailedError(
                f"Cannot change principals during re-authentication from {USER}.{self._user}: {USER}.{user}"
            )
        self._exchange = None
        self._user = user
        self.is_by_token = exchange.is_by_token
        self.state = State.COMPLETE
        self._forget_deadline()
        self._session_ms = self._lifetime_ms(exchange.expires_ms)
        self._expires_s = self._now_s() + self._session_ms / 1000 if self._session_ms else None
        if self._connection is not None:
            self._connection.authenticated(f"{USER}:{user}")

    @property
    def session_lifetime_ms(self) -> int:
        """How long the client may go on before it authenticates again; 0: for ever."""
        return self._session_ms if self.state is State.COMPLETE else 0

    def _lifetime_ms(self, credential_ends_ms: int | None) -> int:
        """Return the time until the credential ends, at most ``connections.max.reauth.ms``; 0: for ever."""
        longest_ms = self.settings.max_session_ms.get(self._mechanism, 0)
        if credential_ends_ms is None:
            return longest_ms
        left_ms = max(credential_ends_ms - self._clock.now_ms(), _SHORTEST_SESSION_MS)
        return min(left_ms, longest_ms or _LONGEST_SESSION_MS)

    def after_failure_delay(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the answer to a failed authentication has waited long enough."""
        self._clock.call_later(self.settings.failure_delay_ms, callback)

    def end(self, reason: str) -> None:
        """End the connection after a failure, when the requests that were taken are answered."""
        if self._connection is not None:
            self._connection.end_after_replies(reason)

    def closed(self) -> None:
        """The connection has ended."""
        self._connection = None
        self._forget_deadline()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self.state = State.FAILED
        if self._connection is not None:  # at once: the client may not read what it is sent
            self._connection.close(f"it has not authenticated within {self.settings.time_limit_ms / 1000:g} s")

    def _now_s(self) -> float:
        return self._clock.monotonic_s()
