"""Faults of connections and logins: an expired certificate, a slow handshake, a user who is no longer accepted.

    with broker.faults.expired_certificate() as fault:
        …  # a client that connects now does not trust the broker
    assert fault.fired

While one is set the broker's listeners have a transport or mechanisms of this module in place of their own. A fault
meets the connections and logins that come later; a fault of a user also ends the user's open connections.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from kafkapy.network.errors import RefusedError
from kafkapy.network.listener import Listener
from kafkapy.network.transport import ConnectionTransport, TlsTransport
from kafkapy.security.mechanisms import MalformedTokenError, Mechanism, SaslExchange
from kafkapy.security.principals import USER
from kafkapy.testing.faults.gate import Gate, Waits, end_waits
from kafkapy.testing.faults.rules import InvalidFaultError, Removable

if TYPE_CHECKING:
    import ssl

    from kafkapy.security.authentication import SaslSettings

Remove = Callable[["ConnectionFault"], None]


class SecuredBroker(Protocol):
    """The security of a broker, as its faults use it."""

    @property
    def uses_tls(self) -> bool:
        """Whether it has a certificate."""

    @property
    def knows_its_clients(self) -> bool:
        """Whether its clients prove who they are."""

    @property
    def users(self) -> Mapping[str, str]:
        """The passwords of its users by name."""

    def expired_settings(self) -> Mapping[str, str]:
        """The keys of TLS with a certificate that has expired."""


class ConnectionFault(Removable):
    """A fault that has been set; ``Faults`` makes it. As a context manager it is removed at the end of the block."""

    def __init__(
        self, remove: Remove, *, user: str = "", duration_ms: float = 0.0, context: "ssl.SSLContext | None" = None
    ) -> None:
        self.user: Final = user
        self.duration_ms: Final = duration_ms
        self.context: Final = context
        self.waits: Waits = set()
        """The handshakes that it delays."""
        self.fired = 0
        """How many connections and logins it has met."""
        self._remove = remove

    def remove(self) -> None:
        """End the fault; may be called repeatedly."""
        self._remove(self)


class _FaultyTls(TlsTransport):
    """The transport of a listener while there is a fault."""

    __slots__ = ("_faults", "_gate")

    def __init__(self, usual: TlsTransport, faults: Sequence[ConnectionFault], gate: Gate) -> None:
        contexts = [fault.context for fault in faults if fault.context is not None]
        context = contexts[-1] if contexts else usual.context
        super().__init__(context, usual.principal_of_certificate, usual.handshake_limit_s)
        self._faults = faults
        self._gate = gate

    async def start(self, sock: socket.socket, connection: asyncio.BufferedProtocol) -> None:
        """Wait if the handshake is slow."""
        for fault in self._faults:
            if not fault.user:
                fault.fired += 1
            if fault.duration_ms:
                await self._gate.wait(fault.waits, fault.duration_ms)
        if not self._gate.is_open:
            sock.close()
            raise ConnectionAbortedError("the broker stops")
        await super().start(sock, connection)

    def end_starts(self) -> None:
        """End the waiting too."""
        for fault in self._faults:
            end_waits(fault.waits)
        super().end_starts()

    def principal_of(self, transport: asyncio.Transport) -> str:
        """Refuse the certificates of users who are revoked."""
        principal = super().principal_of(transport)
        fault = _revoking(self._faults, principal)
        if fault is not None:
            raise RefusedError(f"the certificate of {fault.user} is revoked by a fault of the test")
        return principal


class _FaultyExchange(SaslExchange):
    """An authentication that fails for users who are revoked, as one with a wrong password."""

    def __init__(self, usual: SaslExchange, faults: Sequence[ConnectionFault]) -> None:
        self._usual = usual
        self._faults = faults

    def step(self, token: bytes) -> bytes:
        """See ``SaslExchange``."""
        answer = self._usual.step(token)
        user = self._usual.user
        if user is not None:
            if _revoking(self._faults, f"{USER}:{user}") is not None:
                raise MalformedTokenError
            self.expires_ms, self.is_by_token = self._usual.expires_ms, self._usual.is_by_token
            self.complete(user)
        return answer


def _revoking(faults: Sequence[ConnectionFault], principal: str) -> ConnectionFault | None:
    """Return the fault of a principal, and count that it was met."""
    for fault in faults:
        if fault.user and principal in _principals(fault.user):
            fault.fired += 1
            return fault
    return None


def _principals(user: str) -> tuple[str, str]:
    """Return the principals of a user who logs in with a password or token, or connects with a certificate."""
    return f"{USER}:{user}", f"{USER}:CN={user}"


class ConnectionFaults:
    """The faults of one broker that are set, and its listeners; used on the broker's loop."""

    def __init__(self, security: SecuredBroker | None, gate: Gate) -> None:
        self._security = security
        self._gate = gate
        self._faults: tuple[ConnectionFault, ...] = ()
        self._usual: list[tuple[Listener, ConnectionTransport, SaslSettings | None]] = []

    def serve(self, listeners: Sequence[Listener]) -> None:
        """The broker has started: these are its listeners."""
        self._usual = [(listener, listener.transport, listener.sasl) for listener in listeners]
        self._apply()

    def expired_certificate(self, remove: Remove) -> ConnectionFault:
        """See ``Faults.expired_certificate``."""
        security = self._secured_by_tls("expired_certificate")
        from kafkapy.security.tls import server_context

        long_ago_ms = 0  # when the certificate had not expired
        return self._add(ConnectionFault(remove, context=server_context(security.expired_settings(), long_ago_ms)))

    def slow_handshake(self, duration_ms: float, remove: Remove) -> ConnectionFault:
        """See ``Faults.slow_handshake``."""
        self._secured_by_tls("slow_handshake")
        return self._add(ConnectionFault(remove, duration_ms=duration_ms))

    def revoke(self, user: str, remove: Remove) -> ConnectionFault:
        """See ``Faults.revoke``."""
        security = self._security
        if security is None or not security.knows_its_clients:
            raise InvalidFaultError("revoke needs a broker whose clients log in: make it with Broker(security='scram')")
        if user not in security.users:
            raise InvalidFaultError(f"user is {user!r}: the broker has {', '.join(security.users)}")
        fault = self._add(ConnectionFault(remove, user=user))
        for listener, _, _ in self._usual:
            for connection in tuple(listener.connections):
                if connection.session.principal in _principals(user):
                    fault.fired += 1
                    connection.close(f"the credential of {user} is revoked by a fault of the test")
        return fault

    def _secured_by_tls(self, name: str) -> SecuredBroker:
        if self._security is None or not self._security.uses_tls:
            raise InvalidFaultError(f"{name} needs a broker with TLS: make it with Broker(security='sasl_ssl')")
        return self._security

    def _add(self, fault: ConnectionFault) -> ConnectionFault:
        self._faults = (*self._faults, fault)
        self._apply()
        return fault

    def forget(self, fault: ConnectionFault) -> None:
        """The fault is removed; what it delays goes on."""
        self._faults = tuple(each for each in self._faults if each is not fault)
        self._apply()
        end_waits(fault.waits)

    @property
    def all(self) -> tuple[ConnectionFault, ...]:
        """The faults that are set."""
        return self._faults

    def _apply(self) -> None:
        for listener, transport, sasl in self._usual:
            if not self._faults:
                listener.secure(transport, sasl)
                continue
            listener.secure(
                _FaultyTls(transport, self._faults, self._gate) if isinstance(transport, TlsTransport) else transport,
                None if sasl is None else _faulty(sasl, self._faults),
            )


def _faulty(usual: "SaslSettings", faults: Sequence[ConnectionFault]) -> "SaslSettings":
    def of(mechanism: Mechanism) -> Mechanism:
        return lambda: _FaultyExchange(mechanism(), faults)

    return usual._replace(mechanisms={name: of(mechanism) for name, mechanism in usual.mechanisms.items()})
