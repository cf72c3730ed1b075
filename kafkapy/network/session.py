"""The peer of one connection: the broker's data about it."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kafkapy.security.authentication import Authentication

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a peer that has not been authenticated, as Apache Kafka names it."""


_LOCAL: Final = "local"


class Session:
    """The peer of one connection, as handlers see it: its address, its listener and its principal.

    It lasts as long as the connection. Authentication replaces ``principal``. The client id is part of
    each request (``RequestHeader.client_id``): a client may change it from one request to the next.
    """

    __slots__ = (
        "peer_host",
        "peer_port",
        "listener",
        "local_address",
        "principal",
        "authentication",
        "forms",
        "throttle_ms",
    )

    def __init__(self, peer: tuple[str, int], listener: str, local_address: tuple[str, int]) -> None:
        self.peer_host, self.peer_port = peer
        """Numeric address of the client, and its port; 0 for the broker itself."""
        self.listener = listener
        """Name of the listener that accepted the connection."""
        self.local_address = local_address
        """(host, port) at which the client reached this broker."""
        self.principal = ANONYMOUS
        """Kafka's form of the client's identity, ``TYPE:NAME``."""
        self.authentication: Authentication | None = None
        """What the client has to prove, and has proved, on a listener with SASL; None on others."""
        self.throttle_ms = 0
        """Set when the client exceeds a quota: how long the connection takes no further request, which resets it."""
        self.forms: dict[int, Any] = {}
        """The dispatcher's: forms of earlier requests, by their first four bytes (``server/dispatch/forms.py``)."""

    @property
    def is_local(self) -> bool:
        """Whether it is the broker's own: no peer of a socket has a name in place of a numeric address."""
        return self.peer_host == _LOCAL

    def __str__(self) -> str:
        return f"{self.peer_host}:{self.peer_port} on {self.listener}"

    @classmethod
    def local(cls, listener: str) -> "Session":
        """Return the session of the broker's own requests to itself, which take no socket."""
        return cls((_LOCAL, 0), listener, ("localhost", 0))
