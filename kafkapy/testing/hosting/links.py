"""The connections between the brokers of a test's cluster, which a test can break and allow again."""

import asyncio
from typing import Final

from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.message import Message

Link = frozenset[int]
"""The ids of two brokers."""


class Links:
    """Which brokers can't reach each other, and the requests between brokers that are not answered yet."""

    def __init__(self) -> None:
        self._broken: set[Link] = set()
        self._in_flight: Final[dict[Link, set[asyncio.Task[Message]]]] = {}
        self.has_ended = False
        """Whether the whole cluster ends, so that requests between brokers get no answer any more."""

    @property
    def are_broken(self) -> bool:
        """Whether any two brokers can't reach each other."""
        return bool(self._broken)

    @property
    def broken(self) -> list[list[int]]:
        """The pairs of brokers that can't reach each other."""
        return sorted(sorted(link) for link in self._broken)

    def is_broken(self, link: Link) -> bool:
        """Whether the two brokers can't reach each other."""
        return link in self._broken

    def sever(self, link: Link) -> None:
        """Break the connections between two brokers, in both directions; called on the event loop."""
        self._broken.add(link)
        for asking in tuple(self._in_flight.get(link, ())):
            asking.cancel()

    def heal(self) -> None:
        """Let all brokers reach each other; their next requests connect them again."""
        self._broken.clear()
        self.has_ended = False

    def end(self) -> None:
        """Let requests between brokers wait until their senders stop, until ``heal``.

        Brokers that stop one after another would log otherwise that they can't reach those that have stopped.
        """
        self.has_ended = True

    def began(self, link: Link, asking: "asyncio.Task[Message]") -> None:
        """Remember a request until it is answered, so that ``sever`` can cancel it."""
        waiting = self._in_flight.setdefault(link, set())
        waiting.add(asking)
        asking.add_done_callback(waiting.discard)


class LinkedChannel:
    """A ``BrokerChannel`` of one broker to the others, as far as ``links`` are not broken."""

    def __init__(self, links: Links, broker_id: int, channel: BrokerChannel) -> None:
        self._links = links
        self._broker_id = broker_id
        self._channel = channel

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """See ``BrokerChannel.send``."""
        if self._links.has_ended:
            await _forever()
        link = frozenset((self._broker_id, broker_id))
        if self._links.is_broken(link):
            raise PeerUnreachableError(f"the test has separated broker {self._broker_id} from broker {broker_id}")
        asking = asyncio.ensure_future(self._channel.send(broker_id, request, version))
        self._links.began(link, asking)
        try:
            await asyncio.wait([asking])
        finally:
            asking.cancel()
        if self._links.has_ended and (asking.cancelled() or asking.exception() is not None):
            await _forever()
        if asking.cancelled():
            raise PeerUnreachableError(f"the test has broken the connection to broker {broker_id}")
        return asking.result()


async def _forever() -> None:
    """Wait until the task is cancelled."""
    await asyncio.get_running_loop().create_future()
