"""The controller's way to the brokers: one queue per broker, one request in flight, in order, sent until answered."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from kafkapy.clock import Clock
from kafkapy.cluster.requests import Outgoing
from kafkapy.protocol.message import Message
from kafkapy.turns import pause

RETRY_MS: Final = 100

logger = logging.getLogger(__name__)


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


OnResponse = Callable[[Outgoing, Message], None]


class PeerQueues:
    """Requests to all live brokers. ``on_response(outgoing, response)`` is told of every answer."""

    def __init__(self, channel: BrokerChannel, clock: Clock, on_response: OnResponse) -> None:
        self._channel = channel
        self._clock = clock
        self._on_response = on_response
        self._waiting: dict[int, deque[Outgoing]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}

    def send(self, outgoing: Outgoing) -> None:
        """Queue a request behind the earlier ones to the same broker."""
        broker = outgoing.broker
        self._waiting.setdefault(broker, deque()).append(outgoing)
        if broker not in self._senders:
            self._senders[broker] = asyncio.create_task(self._drain(broker), name=f"controller-to-broker-{broker}")

    def remove(self, broker: int) -> None:
        """The broker is gone: drop what it has not answered."""
        self._waiting.pop(broker, None)
        sender = self._senders.pop(broker, None)
        if sender is not None:
            sender.cancel()

    def remove_all(self) -> None:
        """Nothing more is sent to anybody."""
        for broker in list(self._senders):
            self.remove(broker)

    async def _drain(self, broker: int) -> None:
        waiting = self._waiting[broker]
        while waiting:
            await pause()
            response = await self._deliver(waiting[0])
            self._on_response(waiting.popleft(), response)
        del self._senders[broker]

    async def _deliver(self, outgoing: Outgoing) -> Message:
        while True:
            try:
                return await self._channel.send(outgoing.broker, outgoing.request, outgoing.version)
            except PeerUnreachableError as error:
                logger.warning("Broker %d did not answer the controller, trying again: %s", outgoing.broker, error)
                await self._clock.sleep(RETRY_MS)
