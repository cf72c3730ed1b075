"""The channels that carry a request to a broker and bring its response back.

``LocalChannel`` reaches the brokers of this process by a call, and the others through the connections of
``peer_connection``, which is imported when the first request goes to another process.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from kafkapy.protocol.message import Message

RETRY_MS: Final = 100
"""The pause before a request is sent again to a broker that did not answer it."""


class PeerUnreachableError(Exception):
    """The request may not have arrived: connecting, sending or waiting failed."""


class BrokerChannel(Protocol):
    """Carries a request to a broker and its response back."""

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """The broker's response; raises PeerUnreachableError."""
        ...


Handle = Callable[[Message, int], Message | Awaitable[Message]]


class LocalChannel:
    """Brokers of this process, reached through a call of the handlers that also serve the network.

    ``remote`` makes the channel to all others when the first request goes there; without it they are unreachable.
    """

    def __init__(self, handles: Mapping[int, Handle], remote: Callable[[], BrokerChannel] | None = None) -> None:
        self._handles = handles
        self._make_remote = remote
        self._remote: BrokerChannel | None = None

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """See ``BrokerChannel.send``."""
        handle = self._handles.get(broker_id)
        if handle is None:
            return await self._send_to_others(broker_id, request, version)
        response = handle(request, version)
        return response if isinstance(response, Message) else await response

    async def _send_to_others(self, broker_id: int, request: Message, version: int) -> Message:
        if self._remote is None:
            if self._make_remote is None:
                raise PeerUnreachableError(f"no broker {broker_id} in this process")
            self._remote = self._make_remote()
        return await self._remote.send(broker_id, request, version)
