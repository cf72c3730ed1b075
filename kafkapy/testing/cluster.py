"""A cluster for tests: as many brokers as kafkapy can put into one, which is one so far."""

from collections.abc import Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import Final, Self

from kafkapy.testing.broker import Broker
from kafkapy.testing.errors import BrokerStartError

MOST_MEMBERS: Final = 1


class Cluster:
    """``brokers`` of one cluster, on free ports. Raises ``BrokerStartError`` for more than kafkapy can join."""

    def __init__(
        self,
        members: int = 1,
        settings: Mapping[str, object] | None = None,
        *,
        topics: Iterable[str] | Mapping[str, int] = (),
        data: str | PathLike[str] | None = None,
    ) -> None:
        if members != MOST_MEMBERS:
            raise BrokerStartError(
                f"a cluster of {members} members can't be had: kafkapy's brokers don't join each other yet;"
                " leave it at 1, or start several Broker()s, which are clusters of their own"
            )
        self.brokers: Final = [Broker(settings, topics=topics, data=data)]

    def __enter__(self) -> Self:
        for broker in self.brokers:
            broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for broker in self.brokers:
            broker.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all members, for the clients' ``bootstrap.servers``."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def controller(self) -> Broker:
        """The member that makes topics."""
        return self.brokers[0]
