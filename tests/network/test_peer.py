import asyncio

import pytest

from kafkapy.controller.requests import RETRY_MS, Outgoing, PeerQueues
from kafkapy.network.peer import LocalChannel, PeerUnreachableError
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from kafkapy.testing.clock import ManualClock


def _outgoing(broker: int, controller_epoch: int) -> Outgoing:
    return Outgoing(broker, UpdateMetadataRequest(controller_epoch=controller_epoch), 6)


class Channel:
    """A channel that answers when the test opens its gate."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.down: set[int] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        assert isinstance(request, UpdateMetadataRequest)
        assert version == 6
        self.sent.append((broker_id, request.controller_epoch))
        await self.gate.wait()
        if broker_id in self.down:
            raise PeerUnreachableError("down")
        return UpdateMetadataResponse()


async def _rounds() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_each_broker_gets_its_requests_in_order_one_at_a_time() -> None:
    async def main() -> None:
        channel, answered = Channel(), []
        queues = PeerQueues(channel, ManualClock(), lambda outgoing, _: answered.append(outgoing))
        channel.gate.clear()
        for epoch in (1, 2):
            queues.send(_outgoing(1, epoch))
        queues.send(_outgoing(2, 1))
        await _rounds()
        assert channel.sent == [(1, 1), (2, 1)]
        channel.gate.set()
        await _rounds()
        assert channel.sent == [(1, 1), (2, 1), (1, 2)]
        assert len(answered) == 3
        queues.send(_outgoing(1, 3))
        await _rounds()
        assert channel.sent[-1] == (1, 3)

    asyncio.run(main())


def test_a_request_is_repeated_until_it_is_answered_or_the_broker_is_removed() -> None:
    async def main() -> None:
        channel, clock = Channel(), ManualClock()
        queues = PeerQueues(channel, clock, lambda *_: None)
        channel.down = {1, 2}
        queues.send(_outgoing(1, 1))
        queues.send(_outgoing(2, 1))
        await _rounds()
        clock.advance(RETRY_MS)
        await _rounds()
        assert channel.sent == [(1, 1), (2, 1)] * 2
        queues.remove(1)
        queues.remove(9)
        await _rounds()
        channel.down = set()
        clock.advance(RETRY_MS)
        await _rounds()
        assert channel.sent[4:] == [(2, 1)]
        channel.gate.clear()
        queues.send(_outgoing(1, 5))
        await _rounds()
        queues.remove_all()
        channel.gate.set()
        await _rounds()
        assert channel.sent[5:] == [(1, 5)]
        assert clock.pending_timers() == 0

    asyncio.run(main())


def test_requests_to_brokers_of_this_process() -> None:
    async def answer(_request: Message, _version: int) -> Message:
        return UpdateMetadataResponse(error_code=2)

    async def main() -> None:
        channel = LocalChannel({1: lambda _request, _version: UpdateMetadataResponse(error_code=1), 2: answer})
        request = UpdateMetadataRequest()
        assert await channel.send(1, request, 6) == UpdateMetadataResponse(error_code=1)
        assert await channel.send(2, request, 6) == UpdateMetadataResponse(error_code=2)
        with pytest.raises(PeerUnreachableError):
            await channel.send(3, request, 6)

    asyncio.run(main())


def test_unexpected_answers_and_failures_do_not_stop_a_queue(caplog: pytest.LogCaptureFixture) -> None:
    errors = [ProtocolError("cut short"), RuntimeError("a fault")]
    answered: list[int] = []

    class Faulty(Channel):
        async def send(self, broker_id: int, request: Message, version: int) -> Message:
            response = await super().send(broker_id, request, version)
            if errors:
                raise errors.pop(0)
            return response

    def note(outgoing: Outgoing, _: Message) -> None:
        assert isinstance(outgoing.request, UpdateMetadataRequest)
        answered.append(outgoing.request.controller_epoch)
        if len(answered) == 1:
            raise ValueError("an answer that makes no sense")

    async def main() -> None:
        clock, channel = ManualClock(), Faulty()
        queues = PeerQueues(channel, clock, note)
        for epoch in (1, 2):
            queues.send(_outgoing(1, epoch))
        for _ in range(4):
            await _rounds()
            clock.advance(RETRY_MS)
        await _rounds()
        assert channel.sent == [(1, 1)] * 3 + [(1, 2)]
        assert answered == [1, 2]
        queues.remove_all()

    with caplog.at_level("WARNING"):
        asyncio.run(main())
    assert all(text in caplog.text for text in ("cut short", "a fault", "makes no sense"))
    assert caplog.messages.count("A request to broker 1, or its response, failed; the queue continues") == 2
