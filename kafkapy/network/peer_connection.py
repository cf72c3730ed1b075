"""Requests to other brokers over TCP: a connection to each, made when it is needed and made again when it broke.

``RemoteBrokers`` is a ``BrokerChannel``. Each part of a broker that sends requests has one of its own (the controller,
the sender of transaction markers, ...): requests to one broker go out one after the other, as Kafka's channels between
brokers do, and a broker that is slow for one part must not delay another part. Requests to different brokers do not
wait for each other.

A request fails with ``PeerUnreachableError`` when its broker can't be reached, closes the connection, sends bytes that
are no response, or does not answer in time. The connection is closed then: a late response could be taken for that of
the next request. The broker may have executed the request or not; the caller decides whether to send it again.

After a failure the next connection waits for an exponential back-off. Only a response resets the back-off, so it also
applies to a broker that accepts connections and closes them.

``tls`` wraps the socket, ``authenticate`` makes the handshake with a host that comes before the first request (SASL),
and again before a later one when most of the session's time is over (KIP-368). Its steps run in threads: they compute
keys of passwords, or wait for a KDC.

The module is imported when the first request to another broker is sent: a single broker does not need it.
"""

import asyncio
import math
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from random import Random
from typing import Final, NamedTuple, cast

from kafkapy.clock import Clock
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.client_core import RENEWED_AFTER, ClientCore, Handshake, Request
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.writer import TooManyStructs

BACKOFF_JITTER: Final = 0.2
"""The share by which a back-off is longer or shorter, so that brokers do not reconnect all at once."""

INLINE_STRUCTS: Final = 1_000
"""Structs of a request that is encoded on the event loop: a few milliseconds."""

RECEIVE_SIZE: Final = 262_144
"""Bytes that are taken from a socket at once."""

Address = tuple[str, int]
"""Host and port."""

AddressOf = Callable[[int], Address | None]
"""Returns the address of a broker, None for one that is not registered."""


class PeerTimes(NamedTuple):
    """Time limits and pauses in milliseconds; the defaults are Apache Kafka's."""

    request_ms: int = 30_000
    connect_ms: int = 10_000
    """The limit from the first packet to the end of the handshake."""
    backoff_ms: int = 50
    """The first pause after a failure; each further one doubles it."""
    backoff_max_ms: int = 1_000


class PeerSettings(NamedTuple):
    """The settings of all connections of one part of a broker."""

    client_id: str
    times: PeerTimes = PeerTimes()
    tls: ssl.SSLContext | None = None
    authenticate: Callable[[str], Handshake] | None = None
    max_response_size: int = 100 * 1024 * 1024
    compute: Callable[[Callable[[], bytes]], Awaitable[bytes]] | None = None
    """Runs a function beside the event loop: it encodes large requests. Without it they are encoded on the loop."""


class PeerConnection(asyncio.BufferedProtocol):
    """One connection, with one request in flight. ``abort`` ends it, and the request in flight fails.

    ``buffer`` is where the socket's bytes arrive; connections of one loop can share it, since they copy what came at
    once. (For an ``asyncio.Protocol`` the loop gets 256 kB of new memory from the system each time.)
    """

    def __init__(self, core: ClientCore, buffer: memoryview) -> None:
        self._buffer = buffer
        self.failure: PeerUnreachableError | None = None
        """The reason why the connection can't be used any more."""
        self._core = core
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Message] | None = None

    def ask(self, frame: bytes) -> "asyncio.Future[Message]":
        """Send a request, which the connection's core has encoded; the future has the response.

        It fails with ``PeerUnreachableError``, which is also raised if the connection has failed already.
        """
        if self.failure is not None:
            raise self.failure
        assert self._transport is not None, "a connection that has not failed has a transport"
        response = self._response = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return response

    def abort(self, reason: str) -> None:
        """Close the connection at once."""
        if self.failure is None:
            self.failure = PeerUnreachableError(reason)
        if self._transport is not None:
            self._transport.abort()
        if self._response is not None and not self._response.done():
            self._response.set_exception(self.failure)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert isinstance(transport, asyncio.Transport), "a stream has a transport for reading and writing"
        self._transport = transport
        if self.failure is not None:
            transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # a hint of asyncio that has no use
        """See ``asyncio.BufferedProtocol``."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See ``asyncio.BufferedProtocol``."""
        self._core.receive_data(self._buffer[:nbytes])
        try:
            response = self._core.next_response()
        except ProtocolError as error:
            self.abort(f"no response of a Kafka broker: {error}")
            return
        if response is not None and self._response is not None and not self._response.done():
            self._response.set_result(response)

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio.BaseProtocol``."""
        self.abort("the connection was closed" if error is None else f"the connection broke: {error}")


class _Peer:
    """One broker: its connection, and the requests that wait for their turn."""

    def __init__(self, clock: Clock, settings: PeerSettings, random: Random, buffer: memoryview) -> None:
        self._clock = clock
        self._settings = settings
        self._random = random
        self._buffer = buffer
        self._turn = asyncio.Lock()
        self._connection: PeerConnection | None = None
        self._core = ClientCore("")
        self._address: Address | None = None
        self._renew_s = math.inf
        """When the handshake of the connection is made again."""
        self._is_closed = False
        self._failures = 0
        self._not_before_s = 0.0
        """The time from which on the next request may be sent, or the next connection be made."""

    def close(self) -> None:
        """End the connection: the request in flight, the waiting ones and later ones fail."""
        self._is_closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.abort("this broker has closed the connection")

    async def ask(self, address: Address, request: Request, version: int) -> Message:
        """Send a request when it is its turn; raises PeerUnreachableError."""
        async with self._turn:
            is_answered = False
            try:
                connection = await self._connected(address)
                await self._wait()
                response = await self._answer(connection, request, version)
                is_answered = True
            finally:
                if not is_answered:
                    self._failed()
            self._failures = 0
            pause_ms = min(self._core.throttle_ms, self._settings.times.request_ms)
            self._not_before_s = self._clock.monotonic_s() + pause_ms / 1000
            return response

    async def _connected(self, address: Address) -> PeerConnection:
        connection = self._connection
        if connection is not None and connection.failure is None and self._address == address:
            if self._clock.monotonic_s() >= self._renew_s:
                await self._wait()
                await self._in_time(self._authenticate(connection, address[0]), "no new SASL session")
            return connection
        self._disconnect()
        await self._wait()
        settings, self._address = self._settings, address
        self._core = ClientCore(settings.client_id, max_response_size=settings.max_response_size)
        connection = self._connection = PeerConnection(self._core, self._buffer)
        await self._in_time(self._open(connection, address), "no connection")
        return connection

    async def _in_time(self, work: Coroutine[None, None, None], problem: str) -> None:
        opening = asyncio.ensure_future(work)
        connect_ms = self._settings.times.connect_ms
        late = self._clock.call_later(connect_ms, opening.cancel)
        try:
            await asyncio.wait([opening])
        finally:
            late.cancel()
            opening.cancel()
        if opening.cancelled():
            raise PeerUnreachableError(f"{problem} within {connect_ms} ms")
        opening.result()

    async def _open(self, connection: PeerConnection, address: Address) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: connection, *address, ssl=self._settings.tls)
        # UnicodeError: the host's name is not valid; RuntimeError: no thread in which to look for its address
        except (OSError, UnicodeError, RuntimeError) as error:
            raise PeerUnreachableError(f"no connection: {getattr(error, 'strerror', None) or error}") from error
        await self._authenticate(connection, address[0])

    async def _authenticate(self, connection: PeerConnection, host: str) -> None:
        self._renew_s = math.inf
        if self._settings.authenticate is None:
            return
        handshake = self._settings.authenticate(host)
        begin_s = self._clock.monotonic_s()
        try:
            step = await asyncio.to_thread(next, handshake, 0)
            while isinstance(step, tuple):
                answer = await connection.ask(self._core.request(*step))
                step = await asyncio.to_thread(_next_step, handshake, answer)
        except ProtocolError as error:
            raise PeerUnreachableError(f"the handshake failed: {error}") from error
        if step:
            self._renew_s = begin_s + step * RENEWED_AFTER / 1000

    async def _answer(self, connection: PeerConnection, request: Request, version: int) -> Message:
        duration_ms = self._settings.times.request_ms
        if connection.failure is not None:  # then its core can't encode any more
            raise connection.failure
        response = connection.ask(await self._encoded(request, version))
        late = self._clock.call_later(duration_ms, connection.abort, f"no response within {duration_ms} ms")
        try:
            return await response
        finally:
            late.cancel()

    async def _encoded(self, request: Request, version: int) -> bytes:
        """Encode a request: on the loop if it is small; one about 20,000 partitions takes a tenth of a second."""
        core, compute = self._core, self._settings.compute
        if compute is None:
            return core.request(request, version)
        try:
            return core.request(request, version, max_structs=INLINE_STRUCTS)
        except TooManyStructs:
            return await compute(lambda: core.request(request, version))

    async def _wait(self) -> None:
        remaining_s = self._not_before_s - self._clock.monotonic_s()
        if remaining_s > 0:
            await self._clock.sleep(remaining_s * 1000)
        if self._is_closed:
            raise PeerUnreachableError("this broker stops")

    def _failed(self) -> None:
        """Close the connection after a failure or a cancelled request, and delay the next one by the back-off."""
        self._disconnect()
        times = self._settings.times
        backoff_ms = min(times.backoff_max_ms, times.backoff_ms * 2 ** min(self._failures, 30))
        self._failures += 1
        jitter = 1 + BACKOFF_JITTER * (2 * self._random.random() - 1)
        self._not_before_s = self._clock.monotonic_s() + backoff_ms * jitter / 1000


def _next_step(handshake: Handshake, answer: Message) -> tuple[Request, int] | int:
    """Return the request after an answer; after the last one, for how many milliseconds the handshake holds."""
    try:
        return handshake.send(answer)
    except StopIteration as end:
        return int(end.value or 0)


class RemoteBrokers:
    """Sends requests to other brokers, on one connection to each, opened when it is first needed."""

    def __init__(self, address_of: AddressOf, clock: Clock, settings: PeerSettings, random: Random) -> None:
        self._address_of = address_of
        self._clock = clock
        self._settings = settings
        self._random = random
        self._peers: dict[int, _Peer] = {}
        self._buffer = memoryview(bytearray(RECEIVE_SIZE))  # memory that is not used yet costs nothing
        self._is_closed = False

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        """See ``BrokerChannel.send``; also raises ProtocolError for a request that the version can't express."""
        address = self._address_of(broker_id)
        if address is None:
            raise PeerUnreachableError(f"broker {broker_id} is not registered")
        if self._is_closed:
            raise PeerUnreachableError("this broker stops")
        peer = self._peers.get(broker_id)
        if peer is None:
            peer = self._peers[broker_id] = _Peer(self._clock, self._settings, self._random, self._buffer)
        try:
            return await peer.ask(address, cast("Request", request), version)
        except PeerUnreachableError as error:
            raise PeerUnreachableError(f"broker {broker_id} at {address[0]}:{address[1]}: {error}") from error

    def close(self) -> None:
        """End every connection; requests in flight and later ones fail."""
        self._is_closed = True
        for peer in self._peers.values():
            peer.close()
