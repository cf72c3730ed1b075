"""The way to another broker: what carries a request there and its response back."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from kafkapy.protocol.message import Message


class PeerUnreachableError(Exception):
    """The request may not have arrived: connecting, sending or waiting failed."""


class BrokerChannel(Protocol):
    """Carries a request to a broker and its response back."""

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """The broker's response; raises PeerUnreachableError."""
        ...


Handle = Callable[[Message, int], Message | Awaitable[Message]]


class LocalChannel:
    """Brokers of this process, reached through a call of the handlers that also serve the network."""

    def __init__(self, handles: Mapping[int, Handle]) -> None:
        self._handles = handles

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """See ``BrokerChannel.send``."""
        handle = self._handles.get(broker_id)
        if handle is None:
            raise PeerUnreachableError(f"no broker {broker_id} in this process")
        response = handle(request, version)
        return response if isinstance(response, Message) else await response
