"""The common base of ``Cluster`` and ``AsyncCluster``: arguments, brokers, addresses, clock."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import ClassVar, Final, Generic, TypeVar

from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.errors import BrokerStartError
from kafkapy.testing.hosting.hosted_broker import HostedBroker
from kafkapy.testing.hosting.hosted_cluster import HostedCluster
from kafkapy.testing.hosting.security import BrokerSecurity
from kafkapy.testing.hosting.settings import with_release
from kafkapy.testing.hosting.surface import HostedSurface
from kafkapy.testing.loop.lifecycle import Lifecycle
from kafkapy.testing.loop.thread import LoopThread

MOST_BROKERS: Final = 64
"""More brokers would need thousands of connections to each other, in one process."""


class ClusterMember(HostedSurface):
    """The functions that a broker of a cluster has beyond those of a single broker."""

    @property
    def id(self) -> int:
        """``broker.id``, the place in the cluster's ``brokers``."""
        assert self._host.broker_id is not None, "a cluster numbers its brokers"
        return self._host.broker_id

    @property
    def host(self) -> HostedBroker:
        """The broker on the event loop; for the cluster."""
        return self._host

    def run_on(self, thread: LoopThread | None) -> None:
        """Called by the cluster with its thread, and with None at its end."""
        self._thread = thread

    def pause(self) -> None:
        """Stop answering clients and brokers: requests wait until ``resume``. The broker stays in the cluster."""
        self.faults.pause()

    def resume(self) -> None:
        """Answer again, waiting requests first."""
        self.faults.resume()


B = TypeVar("B", bound=ClusterMember)


class ClusterSurface(Generic[B]):
    """The brokers of a cluster and their thread, from ``start`` to ``close``."""

    kind: ClassVar[type[ClusterMember]]
    """The class of the brokers."""

    def __init__(  # noqa: PLR0913  # those of a broker, and their number
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Iterable[str] | Mapping[str, int] = (),
        data: str | PathLike[str] | None = None,
        port: int = 0,
        security: str | None = None,
        users: Mapping[str, str] | None = None,
        act_as: str | None = None,
    ) -> None:
        check_count(brokers)
        self.security: Final = None if security is None else BrokerSecurity(security, users)
        """The authority, users and certificates of all brokers, which use them between each other too; or None."""
        if self.security is not None:
            self.security.cluster_settings()  # raises for what a cluster can't have
        ports = [port + at if port else 0 for at in range(brokers)]
        self.brokers: Final[tuple[B, ...]] = tuple(
            self.kind(with_release(settings, act_as), port=each, security=self.security)  # type: ignore[misc]  # the class of B
            for each in ports
        )
        self._hosted = HostedCluster((broker.host for broker in self.brokers), topics, data=data)
        self._thread: LoopThread | None = None
        self._lifecycle = Lifecycle()

    @property
    def _is_inherited(self) -> bool:
        """Whether the cluster runs in the process that this one was forked from."""
        return self._thread is not None and self._thread.is_inherited

    def _give_brokers(self, thread: LoopThread | None) -> None:
        for broker in self.brokers:
            broker.run_on(thread)

    def _broker(self, host: HostedBroker) -> B:
        return next(broker for broker in self.brokers if broker.host is host)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for the clients' ``bootstrap.servers``; the same after restarts."""
        return self._hosted.bootstrap

    def client_settings(self, client: str, user: str = "alice") -> dict[str, object]:
        """The settings with which a client connects to the cluster as ``user``: see ``Broker.client_settings``."""
        if self.security is None:
            raise ValueError("the cluster has no security: make it with Cluster(security=…)")
        return self.security.client_settings(client, self.bootstrap, user)

    @property
    def clock(self) -> MovingClock:
        """The clock of all brokers: ``clock.advance(ms)`` runs all timers that are due by then."""
        return self._hosted.clock


def check_count(brokers: int) -> None:
    """Raise ``BrokerStartError`` unless a cluster can have so many brokers."""
    if not 1 <= brokers <= MOST_BROKERS:
        raise BrokerStartError(f"a cluster of {brokers} brokers can't be had: ask for 1 to {MOST_BROKERS}")
