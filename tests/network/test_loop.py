"""Replies that leave together: the loop alone, and with four clients of a broker."""

import asyncio
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, batch, frame, produce_request
from kafkapy.network.connection import Connection
from kafkapy.network.loop import POLL_S, QUICK_WAITS, BrokerLoop, PollingSelector, late_replies
from kafkapy.network.pacing import FEW, LATE_SIZE, MOST, LateReplies
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.server.dispatch.dispatcher import Dispatcher
from kafkapy.server.lifecycle.broker import BrokerServer
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker, until

REQUEST = frame(ApiVersionsRequest(), 0)


class Waiting:
    def __init__(self, on_flush: Callable[[], bool]) -> None:
        self.flush = on_flush


def test_late_replies_leave_once_and_in_order() -> None:
    left: list[int] = []
    late = LateReplies()
    for number in range(3):
        late.add(Waiting(lambda number=number: left.append(number) or number == 1))
    assert late.leave()
    assert not late.leave()
    assert left == [0, 1, 2]


def test_the_number_of_waiting_connections_is_bounded() -> None:
    left: list[None] = []
    late = LateReplies()
    for _ in range(MOST - 1):
        late.add(Waiting(lambda: left.append(None) or False))
    assert not left
    late.add(Waiting(lambda: left.append(None) or False))
    assert len(left) == MOST


def test_late_replies_leave_before_the_selector_waits() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        late = late_replies()
        pairs = [socket.socketpair() for _ in range(4)]
        events: list[Any] = []

        def served(sock: socket.socket) -> None:
            sock.recv(1)
            events.append(late.ready_count)
            late.add(Waiting(lambda: events.append("left") or False))

        for ours, theirs in pairs:
            loop.add_reader(ours, served, ours)
            theirs.send(b"?")
        await until(lambda: len(events) == 2 * len(pairs))
        assert events == [4] * 4 + ["left"] * 4
        for ours, theirs in pairs:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()

    run(scenario())


@pytest.mark.parametrize("ended", [True, False])
def test_the_selector_does_not_wait_when_a_connection_is_about_to_end(
    monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    timeouts: list[float | None] = []
    select = selectors.DefaultSelector.select

    def recorded(self: Any, timeout: float | None = None) -> Any:
        timeouts.append(timeout)
        return select(self, 0)

    loop = BrokerLoop()
    monkeypatch.setattr(selectors.DefaultSelector, "select", recorded)
    loop.late_replies.add(Waiting(lambda: ended))
    loop.call_later(0.02, loop.stop)  # without ready sockets the loop would wait for this timer
    loop.run_forever()
    monkeypatch.undo()
    loop.close()
    assert (timeouts[0] == 0) is ended


class Scripted:
    """A selector's system call with scripted durations and ready descriptors; after the script it finds nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: list[tuple[float, list[int]]] = []
        self.timeouts: list[float | None] = []
        self.clock = ManualClock()
        monkeypatch.setattr(selectors.DefaultSelector, "select", lambda _, timeout: self._look(timeout))
        self.selector = PollingSelector(LateReplies(), self.clock)

    def _look(self, timeout: float | None) -> list[Any]:
        self.timeouts.append(timeout)
        took_s, found = self.looks.pop(0) if self.looks else (1e-6, [])
        self.clock.advance(took_s * 1000)
        return [(selectors.SelectorKey(each, each, selectors.EVENT_READ, None), selectors.EVENT_READ) for each in found]

    def wait(self, timeout: float | None, *looks: tuple[float, list[int]]) -> list[float | None]:
        """Return the time-outs of the system calls."""
        self.timeouts.clear()
        self.looks = list(looks)
        self.selector.select(timeout)
        return list(self.timeouts)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    return Scripted(monkeypatch)


QUICK = POLL_S / 2


def test_the_selector_polls_while_one_client_sends_requests(scripted: Scripted) -> None:
    for _ in range(QUICK_WAITS + 1):
        assert scripted.wait(None, (QUICK, [7])) == [None]
    assert scripted.wait(None, (QUICK / 2, []), (QUICK / 2, []), (0, [7])) == [0, 0, 0]
    assert scripted.wait(0, (0, [7])) == [0]
    assert scripted.wait(None, (QUICK, []), (QUICK, []), (1, [7])) == [0, 0, None]  # the polling found nothing
    assert scripted.wait(None, (QUICK, [7])) == [None]


@pytest.mark.parametrize(
    "disturbance",
    [(2 * POLL_S, [7]), (QUICK, [8]), (QUICK, [7, 8]), (QUICK, [])],
    ids=["a pause", "another client", "two at once", "a timer"],
)
def test_other_events_end_the_polling(scripted: Scripted, disturbance: tuple[float, list[int]]) -> None:
    for _ in range(QUICK_WAITS):
        scripted.wait(None, (QUICK, [7]))
    scripted.wait(1e-9, disturbance)
    for _ in range(QUICK_WAITS):
        assert scripted.wait(None, (QUICK, [7])) == [None]


def test_the_selector_does_not_poll_for_two_clients_in_turn(scripted: Scripted) -> None:
    for _ in range(QUICK_WAITS):
        assert scripted.wait(None, (QUICK, [7])) == [None]
        assert scripted.wait(None, (QUICK, [8])) == [None]


def test_timers_are_kept_while_the_selector_polls(scripted: Scripted) -> None:
    for _ in range(QUICK_WAITS + 1):
        scripted.wait(None, (QUICK, [7]))
    assert scripted.wait(QUICK, (QUICK / 2, []), (QUICK / 2, [])) == [0, 0, 0]
    for _ in range(QUICK_WAITS + 1):
        scripted.wait(None, (QUICK, [7]))
    assert scripted.wait(10 * POLL_S, (POLL_S, []))[-1] == pytest.approx(9 * POLL_S, rel=0.01)


def test_no_reply_is_late_on_another_loop() -> None:
    async def scenario() -> None:
        late = late_replies()
        await asyncio.sleep(0)
        assert late.ready_count == 0
        assert late_replies() is not late

    asyncio.run(scenario())


class Recorded:
    """Records which client is served and which one is sent a reply."""

    def __init__(self, broker: BrokerServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, int]] = []
        self.ports: list[int] = []
        self._broker = broker
        dispatch = Dispatcher.dispatch
        write: Any = asyncio.selector_events._SelectorSocketTransport.write  # type: ignore[attr-defined]

        def dispatched(dispatcher: Dispatcher, request: memoryview, session: Any) -> Any:
            self._note("served", session.peer_port)
            return dispatch(dispatcher, request, session)

        def written(transport: Any, data: bytes) -> None:
            if isinstance(transport.get_protocol(), Connection):
                self._note("sent", transport.get_protocol().session.peer_port)
            write(transport, data)

        monkeypatch.setattr(Dispatcher, "dispatch", dispatched)
        monkeypatch.setattr(asyncio.selector_events._SelectorSocketTransport, "write", written)  # type: ignore[attr-defined]

    def _note(self, what: str, port: int) -> None:
        if port in self.ports:
            self.events.append((what, self.ports.index(port)))

    async def clients(self, count: int) -> list[Client]:
        """Connect new clients, whose events are recorded from now on."""
        clients = [await Client.connect(self._broker) for _ in range(count)]
        for client in clients:
            await client.ask(ApiVersionsRequest(), 0)
        self.ports = [client.writer.get_extra_info("sockname")[1] for client in clients]
        return clients


def of(what: str, count: int) -> list[tuple[str, int]]:
    return [(what, number) for number in range(count)]


@pytest.mark.parametrize("count", [1, FEW - 1, FEW, 6])
def test_several_ready_clients_are_all_served_before_replies_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            recorded = Recorded(broker, monkeypatch)
            clients = await recorded.clients(count)
            for client in clients:
                client.send(REQUEST)
            for client in clients:
                assert client.decode(18, 0, await client.receive()).error_code == 0
            served, sent = of("served", count), of("sent", count)
            one_by_one = [event for pair in zip(served, sent, strict=True) for event in pair]
            assert recorded.events == (one_by_one if count < FEW else served + sent)

    run(scenario())


def test_replies_do_not_wait_for_a_large_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            recorded = Recorded(broker, monkeypatch)
            clients = await recorded.clients(4)
            await clients[0].create_topic("t")
            large = frame(produce_request("t", batch(bytes(LATE_SIZE))), 8)
            clients[2].send(large)  # afterwards the buffer has room for another large request in one piece
            await clients[2].receive()
            recorded.events.clear()
            for client, request in zip(clients, (REQUEST, REQUEST, large, REQUEST), strict=True):
                client.send(request)
            for client in clients:
                await client.receive()
            place = recorded.events.index(("served", 2))
            assert recorded.events[place + 1] == ("sent", 2)
            before = recorded.events[:place]
            assert {who for what, who in before if what == "served"} == {who for what, who in before if what == "sent"}

    run(scenario())


def test_earlier_replies_of_a_connection_that_ends_leave_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            clients = [await Client.connect(broker) for _ in range(6)]
            for number, client in enumerate(clients):
                client.send(REQUEST + (b"\xff\xff\xff\xff" if number % 2 else b""))
                if number % 3 == 0:
                    client.writer.write_eof()
            for number, client in enumerate(clients):
                assert client.decode(18, 0, await client.receive()).error_code == 0
                assert number in (2, 4) or await client.is_closed()

    run(scenario())


def test_a_connection_closed_before_its_late_reply_affects_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            clients = [await Client.connect(broker) for _ in range(5)]
            await asyncio.gather(*(client.ask(ApiVersionsRequest(), 0) for client in clients))
            for client in clients:
                client.send(REQUEST)
            leave = LateReplies.leave
            dropped: list[Connection] = []

            def drop_first(late: LateReplies) -> bool:
                if late._connections and not dropped:
                    connection = late._connections[0]
                    assert isinstance(connection, Connection)
                    connection.close("gone")
                    dropped.append(connection)
                return leave(late)

            monkeypatch.setattr(LateReplies, "leave", drop_first)
            answers = await asyncio.gather(*(client.receive() for client in clients))
            assert len(set(answers)) == 1  # replies from before the end are sent
            await until(lambda: dropped[0] not in broker.listeners[0].connections)

    run(scenario())
