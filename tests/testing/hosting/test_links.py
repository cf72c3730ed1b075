"""Connections between the brokers of a cluster that a test breaks."""

import asyncio

import pytest

from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from kafkapy.testing.hosting.links import LinkedChannel, Links
from tests.server.harness import run

REQUEST = ControlledShutdownRequest(0, 1)
RESPONSE = ControlledShutdownResponse()


class Others:
    """A channel whose brokers answer when ``answer`` is set."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.asked: list[int] = []
        self.cancelled: list[int] = []

    async def send(self, broker_id: int, _request: Message, _version: int) -> Message:
        self.asked.append(broker_id)
        try:
            await self.answer.wait()
        except asyncio.CancelledError:
            self.cancelled.append(broker_id)
            raise
        return RESPONSE


def test_a_severed_link_fails_the_requests_in_flight_and_later_ones() -> None:
    async def scenario() -> None:
        links, others = Links(), Others()
        channel = LinkedChannel(links, 0, others)
        asking = [asyncio.create_task(channel.send(broker_id, REQUEST, 3)) for broker_id in (1, 2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        links.sever(frozenset((1, 0)))
        with pytest.raises(PeerUnreachableError, match="broken the connection to broker 1"):
            await asking[0]
        with pytest.raises(PeerUnreachableError, match="separated broker 0 from broker 1"):
            await channel.send(1, REQUEST, 3)
        others.answer.set()
        assert await asking[1] is RESPONSE
        assert (others.asked, others.cancelled) == ([1, 2], [1])

        links.heal()
        assert await channel.send(1, REQUEST, 3) is RESPONSE

    run(scenario())


def test_a_request_that_is_cancelled_is_cancelled_on_its_connection() -> None:
    async def scenario() -> None:
        others = Others()
        asking = asyncio.create_task(LinkedChannel(Links(), 0, others).send(1, REQUEST, 3))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        assert asking.cancelled()
        await asyncio.sleep(0)
        assert others.cancelled == [1]

    run(scenario())


def test_a_failure_of_the_connection_is_passed_on() -> None:
    class Unreachable:
        async def send(self, _broker_id: int, _request: Message, _version: int) -> Message:
            raise PeerUnreachableError("no connection")

    async def scenario() -> None:
        with pytest.raises(PeerUnreachableError, match="no connection"):
            await LinkedChannel(Links(), 0, Unreachable()).send(1, REQUEST, 3)

    run(scenario())
