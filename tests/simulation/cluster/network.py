"""The network of a simulated cluster: streams that keep their order, take drawn times, stall and break.

A link is one direction between two processes. While it is cut, what was sent waits, as TCP sends it again and again:
the receiver gets nothing, the sender notices nothing, and after the link is healed everything arrives, perhaps long
after the sender has given up. A connection that is reset loses what was under way, and both ends learn of it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any, Final

from kafkapy.network.dispatcher import Dispatcher, Waiting
from kafkapy.network.errors import RefusedError
from kafkapy.network.session import Session
from kafkapy.platform.files import FileSlice
from kafkapy.protocol.message import ProtocolError
from tests.simulation.cluster.loop import NODE, Node, SimulatedLoop

Link = tuple[Node, Node]
"""From the first to the second."""


class Delays:
    """How long messages take: mostly a millisecond, now and then long enough for others to overtake them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._slow_share = random.choice((0.0, 0.02, 0.1))
        self._slowest_s = random.choice((0.02, 0.2, 0.8))

    def draw_s(self) -> float:
        random = self._random
        if random.random() < self._slow_share:
            return random.random() * self._slowest_s
        return 0.0001 + random.random() * 0.002


class Pipe:
    """Delivers calls in their order into a process, each after a drawn time; nothing while the link is cut."""

    def __init__(self, network: "Network", link: Link, context: Context) -> None:
        self._network = network
        self._link = link
        self._context = context
        self._queue: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_armed = False
        self._is_closed = False

    def put(self, callback: Callable[..., object], *args: Any) -> None:
        if self._is_closed:
            return
        self._queue.append((callback, args))
        self.flow()

    def flow(self) -> None:
        """Deliver what waits, unless the link is cut."""
        if self._queue and not self._is_armed and self._link not in self._network.cut:
            self._is_armed = True
            loop = self._network.loop
            loop.call_later(self._network.delays.draw_s(), self._deliver, context=self._context)

    def _deliver(self) -> None:
        self._is_armed = False
        if self._queue and self._link not in self._network.cut:
            callback, args = self._queue.popleft()
            callback(*args)
            self.flow()

    def close(self) -> None:
        """Deliver nothing more."""
        self._is_closed = True
        self._queue.clear()


class Wire(asyncio.Transport):
    """A connection of ``source`` to the broker of ``target``, and the transport of its client's end."""

    def __init__(self, network: "Network", source: "Node", target: "Host", client: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._network = network
        self.ends = (source, target.node)
        self._client: Any = client
        self._server = Served(self, target.dispatcher, source.name)
        self._up = Pipe(network, (source, target.node), target.node.context)
        self._down = Pipe(network, (target.node, source), source.context)
        self.is_open = True

    def flow(self) -> None:
        self._up.flow()
        self._down.flow()

    # the client's end

    def write(self, data: Any) -> None:
        if self.is_open:
            self._up.put(self._server.frame_received, bytes(data))

    def abort(self) -> None:
        """The client closes: its sent bytes still arrive, and then the end."""
        if self.is_open:
            self.is_open = False
            self._down.close()
            self._up.put(self._ended)
            self._network.loop.call_soon(self._client.connection_lost, None, context=self.ends[0].context)

    def is_closing(self) -> bool:
        return not self.is_open

    def _arrived(self, frame: bytes) -> None:
        """Fill the client's buffer as often as the frame needs, as asyncio does."""
        left = memoryview(frame)
        while left:
            buffer = self._client.get_buffer(-1)
            size = min(len(left), len(buffer))
            buffer[:size] = left[:size]
            self._client.buffer_updated(size)
            left = left[size:]

    def _ended(self) -> None:
        self._server.close()
        self._network.wires.pop(self, None)

    # the broker's end

    def answer(self, frame: bytes) -> None:
        if self.is_open:
            self._down.put(self._arrived, frame)

    def refuse(self) -> None:
        """The broker closes after what it has answered."""
        self._server.close()
        self._down.put(self._lost)

    def drain(self) -> None:
        """The broker stops: it answers what waits, then closes."""
        self._server.drain()
        self._network.loop.call_later(1e-6, self.refuse)

    # both

    def reset(self) -> None:
        """Break the connection: the bytes in flight are lost."""
        self._up.close()
        self._server.close()
        self._network.wires.pop(self, None)
        if self.is_open:
            down = self._down
            self._down = Pipe(self._network, (self.ends[1], self.ends[0]), self.ends[0].context)
            down.close()
            self._down.put(self._lost)
            self._network.wires[self] = None

    def _lost(self) -> None:
        self._network.wires.pop(self, None)
        if self.is_open:
            self.is_open = False
            self._client.connection_lost(ConnectionResetError("the simulation has reset the connection"))


class Served:
    """The broker's end of a connection: one request after the other goes to the real dispatcher."""

    def __init__(self, wire: Wire, dispatcher: Dispatcher, peer: str) -> None:
        self._wire = wire
        self._dispatcher = dispatcher
        self._session = Session((peer, 1), "PLAINTEXT", ("localhost", 0))
        self._frames: deque[bytes] = deque()
        self._waiting: Waiting[Any] | None = None
        self._is_closed = False
        self._is_draining = False

    def frame_received(self, data: bytes) -> None:
        if not self._is_closed and not self._is_draining:
            self._frames.append(data[4:])
            self._serve()

    def _serve(self) -> None:
        while self._frames and self._waiting is None and not self._is_closed:
            frame = memoryview(bytearray(self._frames.popleft()))
            try:
                self._answered(self._dispatcher.dispatch(frame, self._session))
            except (ProtocolError, RefusedError):
                self._wire.refuse()

    def _answered(self, result: Any) -> None:
        if isinstance(result, Waiting):
            self._waiting = result
            result.future.add_done_callback(self._done)
        elif result is not None:
            self._wire.answer(b"".join(map(_bytes_of, result)))

    def _done(self, future: "asyncio.Future[Any]") -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or future.cancelled() or self._is_closed:
            return
        try:
            self._answered(self._dispatcher.answer(waiting))
        except (ProtocolError, RefusedError):
            self._wire.refuse()
        self._serve()

    def drain(self) -> None:
        """Answer the request that waits, and no other."""
        self._is_draining = True
        self._frames.clear()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._frames.clear()
            if self._waiting is not None:
                self._waiting.future.cancel()


def _bytes_of(part: Any) -> bytes:
    if isinstance(part, FileSlice):
        content = part.read()
        part.release()
        return content
    return bytes(part)


class Host:
    """A broker that listens: its process, and what answers its requests."""

    def __init__(self, node: Node, dispatcher: Dispatcher) -> None:
        self.node = node
        self.dispatcher: Final = dispatcher


class Network:
    """``hosts`` are the brokers that accept connections, by host name."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.delays = Delays(loop.random)
        self.cut: set[Link] = set()
        self.hosts: dict[str, Host] = {}
        self.wires: dict[Wire, None] = {}
        loop.create_connection = self._connect  # type: ignore[method-assign,assignment]  # as the loop's own
        self.others: list[Callable[[], None]] = []
        """Called when a link is healed: other streams over it go on."""

    async def _connect(self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int, **_: object) -> object:
        source = NODE.get()
        assert source is not None
        await asyncio.sleep(self.delays.draw_s())
        found = self.hosts.get(host)
        if found is None:
            raise ConnectionRefusedError(111, "Connection refused")
        while True:
            if (source, found.node) not in self.cut and (found.node, source) not in self.cut:
                break
            await asyncio.sleep(0.5)  # the first packet is sent again now and then
        if self.hosts.get(host) is not found:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = make()
        wire = Wire(self, source, found, protocol)
        self.wires[wire] = None
        protocol.connection_made(wire)
        return wire, protocol

    def stop_serving(self, host: str) -> None:
        """The broker closes its listener and its clients' connections."""
        found = self.hosts.pop(host, None)
        for wire in list(self.wires) if found is not None else ():
            if wire.ends[1] is found.node:
                wire.drain()

    def sever(self, source: Node, target: Node) -> None:
        """Cut the link from ``source`` to ``target``."""
        self.cut.add((source, target))

    def heal(self) -> None:
        """Heal every link."""
        self.cut.clear()
        for wire in list(self.wires):
            wire.flow()
        for flow in self.others:
            flow()

    def reset(self, *nodes: Node) -> None:
        """Break the connections that have all of ``nodes`` at their ends."""
        for wire in list(self.wires):
            if all(node in wire.ends for node in nodes):
                wire.reset()
