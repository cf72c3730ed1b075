"""The common base of ``Broker`` and ``AsyncBroker``: arguments, addresses, faults, clock."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING

from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.faults import Faults
from kafkapy.testing.hosting.helpers import Helpers
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.security import BrokerSecurity
from kafkapy.testing.hosting.settings import with_release
from kafkapy.testing.loop.lifecycle import Lifecycle
from kafkapy.testing.loop.thread import LoopThread

if TYPE_CHECKING:
    from pathlib import Path


class HostedSurface:
    """A broker and its thread, from ``start`` to ``close``."""

    def __init__(  # noqa: PLR0913  # one for each kind of choice
        self,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Iterable[str] | Mapping[str, int] = (),
        data: str | PathLike[str] | None = None,
        port: int = 0,
        security: str | BrokerSecurity | None = None,
        users: Mapping[str, str] | None = None,
        act_as: str | None = None,
    ) -> None:
        self._host = HostedBroker(
            with_release(settings, act_as), topics=topics, data=data, port=port,
            security=BrokerSecurity(security, users) if isinstance(security, str) else security,
        )  # fmt: skip
        self._helpers = Helpers(self._host)
        self._thread: LoopThread | None = None
        self._lifecycle = Lifecycle()

    @property
    def _is_inherited(self) -> bool:
        """Whether the broker runs in the process that this one was forked from."""
        return self._thread is not None and self._thread.is_inherited

    # addresses and state

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:port``, for the clients' ``bootstrap.servers``; the same after a restart."""
        return self._host.bootstrap

    @property
    def port(self) -> int:
        """The port alone."""
        return self._host.port

    @property
    def security(self) -> "BrokerSecurity | None":
        """The authority, users and certificates of a broker with ``security``; None without."""
        return self._host.security

    def client_settings(self, client: str, user: str = "alice") -> dict[str, object]:
        """The settings with which a client connects as ``user``, to pass on as they are.

        ``client`` is "confluent-kafka", "kafka-python", "aiokafka", "java", "spark", "librdkafka", "kcat", "rdkafka",
        "kafkajs", "franz-go", "sarama", "kafka-go" or "rskafka". Raises ValueError for another client, an unknown
        user, or a broker without ``security``.
        """
        if self.security is None:
            raise ValueError("the broker has no security: make it with Broker(security=…)")
        return self.security.client_settings(client, self.bootstrap, user)

    def token(self, user: str, expires_in_s: float = 3600.0, *, foreign_key: bool = False) -> str:
        """Return a token of ``user`` for a broker with ``security="oauth"``; ``-60`` makes one that has expired.

        With ``foreign_key`` another issuer has signed it. Raises ValueError for a broker without tokens.
        """
        if self.security is None:
            raise ValueError("the broker has no tokens: make it with Broker(security='oauth')")
        return self.security.token(user, expires_in_s, foreign_key=foreign_key)

    @property
    def data(self) -> "Path":
        """The data directory."""
        from pathlib import Path

        return Path(self._host.data)

    @property
    def is_running(self) -> bool:
        """Whether clients are served."""
        return self._host.is_running

    # faults and clock

    @property
    def faults(self) -> Faults:
        """Errors, delays, dropped connections and so on for the clients; they are kept after a restart."""
        return self._host.faults

    @property
    def clock(self) -> MovingClock:
        """The broker's clock: ``clock.advance(ms)`` runs all timers that are due by then."""
        return self._host.clock
