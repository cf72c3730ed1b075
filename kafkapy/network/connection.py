"""One client connection: bytes in, one request at a time, bytes out.

Laws:

- a request is not decoded before the one before it is answered; what arrives meanwhile is kept up to
  ``READ_AHEAD_SIZE``, then the socket is not read;
- nor before that answer is in the kernel's hands, but for small answers to requests that came together, up to
  ``TOGETHER_SIZE`` of them: they leave in one write;
- after ``FIRST_SLICE_S`` of work on requests that came together the connection goes to the queue of the loop's long
  work (``kafkapy/turns.py``), and goes on with them when its turn comes;
- answers to small requests of several connections that came together leave when all of these are served
  (``network/loop.py``), and always before anything else of their connection;
- a produced batch is a view into the receive buffer, and its frame is kept until the handler has returned, its steps
  have ended, or its coroutine is done;
- the peer closing its side ends the connection once the requests that it had sent are answered; a fetch waits for
  no more data then, since the peer may be gone;
- whatever the peer sends, nothing but its own connection ends, with one line in the log that says who and why. So
  does an exception that a handler did not expect: it goes to the loop's exception handler, with its traceback.
"""

import asyncio
import logging
import select
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

from kafkapy.buffers import extended_buffer, new_buffer
from kafkapy.delayed import hurry
from kafkapy.metrics import Metrics
from kafkapy.network.budget import SMALL_FRAME_SIZE, FrameBudget
from kafkapy.network.dispatcher import Dispatcher, Waiting
from kafkapy.network.errors import RefusedError
from kafkapy.network.limits import Limits
from kafkapy.network.loop import FEW, LateAnswers
from kafkapy.network.sender import BodySender, FileCutError
from kafkapy.protocol.framing import FrameDecoder
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.writer import Part
from kafkapy.storage.io import portable
from kafkapy.turns import FIRST_SLICE_S, SLICE_S, turns

_log: Final = logging.getLogger(__name__)

# Whether the peer of a socket that is not read has closed its side.
#
# The event loop learns of the end of a stream only by reading; a connection that waits for memory is not read.


_END: Final = getattr(select, "POLLRDHUP", 0)
"""Linux tells that the end of the stream has arrived; 0 elsewhere."""
_fcntl: Any = portable.module_or_none("fcntl")
_termios: Any = portable.module_or_none("termios")


def unread_before_end(descriptor: int) -> int | None:
    """Return the unread bytes before the end of the stream; None if the end has not arrived, or can't be told."""
    if not _END or _fcntl is None or _termios is None:
        return None
    poll = select.poll()
    poll.register(descriptor, _END)
    if not poll.poll(0):
        return None
    unread = bytearray(4)
    _fcntl.ioctl(descriptor, _termios.FIONREAD, unread)
    return int.from_bytes(unread, sys.byteorder)


_ANONYMOUS: Final = "User:ANONYMOUS"

READ_AHEAD_SIZE: Final = 65_536
"""Bytes that are kept of later requests while one is being served."""

TOGETHER_SIZE: Final = 65_536
"""Bytes of requests that came together whose answers may leave together; also the most bytes of such answers."""

LATE_SIZE: Final = 4096
"""Bytes of requests whose answers may wait for those of other connections, and for which others may wait."""


class _UnreadResponse:
    """A large response that the client has not read, as the budget sees it."""

    __slots__ = ("_connection",)

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    @property
    def missing_size(self) -> int:
        """See ``budget.Holder``."""
        return self._connection.unsent_size

    def memory_granted(self) -> None:
        """See ``budget.Holder``: it never waits."""

    def is_abandoned(self) -> bool:
        """See ``budget.Holder``: writing finds it out."""
        return False

    def give_up(self, reason: str) -> None:
        """See ``budget.Holder``."""
        self._connection.give_up(reason)


def _break_cycles(transport: asyncio.Transport) -> None:
    """Drop the bound methods that a closed transport of asyncio has as its own attributes.

    They refer to the transport, and only a full garbage collection, which comes seldom (``server/interpreter.py``),
    would find that: a thousand closed connections take 2 MB.
    """
    for name, value in tuple(vars(transport).items()):
        if getattr(value, "__self__", None) is transport:
            setattr(transport, name, None)


class ConnectionOwner(Protocol):
    """What a connection needs of its listener."""

    @property
    def name(self) -> str:
        """Of the listener."""

    @property
    def limits(self) -> Limits:
        """Of frames."""

    @property
    def metrics(self) -> Metrics:
        """Counts failed connections."""

    @property
    def budget(self) -> FrameBudget:
        """The memory for requests."""

    @property
    def response_budget(self) -> FrameBudget:
        """The memory for responses that are not read."""

    @property
    def late_answers(self) -> LateAnswers:
        """Answers of one turn of the loop that leave together."""

    def opened(self, connection: "Connection") -> None:
        """The connection is there."""

    def closed(self, connection: "Connection") -> None:
        """The connection has ended."""

    def keep_until_done(self, task: "asyncio.Task[Any]") -> None:
        """A request of the closed connection goes on."""


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket; also the ``ConnectionInfo`` that handlers see."""

    __slots__ = (
        "peer_host",
        "peer_port",
        "listener",
        "local_address",
        "principal",
        "requests",
        "_owner",
        "_dispatcher",
        "_decoder",
        "_answers",
        "_answered_size",
        "_late",
        "_transport",
        "_sender",
        "_waiting",
        "_turns",
        "_now_s",
        "_slice_s",
        "_is_queued",
        "_write_blocked",
        "_reading_paused",
        "_peer_closed",
        "_reserved",
        "_unread",
    )

    def __init__(
        self, owner: ConnectionOwner, dispatcher: Dispatcher, peer: tuple[str, int], local: tuple[str, int]
    ) -> None:
        self.peer_host, self.peer_port = peer
        self.listener = owner.name
        self.local_address = local
        self.principal = _ANONYMOUS
        self.requests = 0
        self._owner = owner
        self._dispatcher = dispatcher
        self._decoder = FrameDecoder(owner.limits.max_frame_size, new_buffer, extended_buffer)
        self._answers = bytearray()
        self._answered_size = 0
        self._late = owner.late_answers
        self._transport: asyncio.Transport | None = None
        self._sender: BodySender | None = None
        self._waiting: Waiting[Any] | None = None
        self._turns = turns()
        self._now_s = self._turns.now_s
        self._slice_s = FIRST_SLICE_S
        self._is_queued = False
        self._write_blocked = False
        self._reading_paused = False
        self._peer_closed = False
        self._reserved = 0
        self._unread: _UnreadResponse | None = None

    def __repr__(self) -> str:
        return f"<Connection {self.peer_host}:{self.peer_port} on {self.listener}>"

    # what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # With no tolerance, "paused" means that something is unsent: the next request waits for it.
        transport.set_write_buffer_limits(high=0)
        self._owner.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the loop has logged what matters
        """See ``asyncio.BaseProtocol``. A waiting fetch ends here; a request that changes something runs on."""
        transport, self._transport = self._transport, None
        if transport is not None:
            _break_cycles(transport)
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            if isinstance(waiting.future, asyncio.Task):
                self._owner.keep_until_done(waiting.future)
            else:
                waiting.future.cancel()
        if self._sender is not None:
            self._sender.close()
        self._give_back()
        self._release_unread()
        self._owner.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See ``asyncio.BufferedProtocol``."""
        return self._decoder.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """See ``asyncio.BufferedProtocol``."""
        self._decoder.buffer_updated(nbytes)
        self._serve()

    def eof_received(self) -> bool:
        """See ``asyncio.Protocol``: keep the transport while an answer is on its way, or waited for."""
        self._peer_closed = True
        self.flush()
        if self._waiting is not None:
            hurry(self._waiting.future)
        return self._is_busy()

    def pause_writing(self) -> None:
        """See ``asyncio.BaseProtocol``: the socket did not take everything."""
        self._write_blocked = True
        unsent = self.unsent_size
        if unsent > SMALL_FRAME_SIZE:
            self._unread = _UnreadResponse(self)
            self._owner.response_budget.charge(self._unread, unsent)

    def resume_writing(self) -> None:
        """See ``asyncio.BaseProtocol``: everything was taken."""
        self._write_blocked = False
        self._release_unread()
        # Not at once: the transport calls this in the midst of a write, where it doesn't bear to be aborted.
        asyncio.get_running_loop().call_soon(self._guarded, self._go_on_sending)

    @property
    def unsent_size(self) -> int:
        """Bytes of responses that the socket has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    # serving

    def progress(self) -> tuple[int, int, int, int, bool]:
        """Return what changes while anything moves: who finds it unchanged for too long closes the connection."""
        unsent = self.unsent_size
        sent = self._sender.bytes_sent if self._sender is not None else 0
        return self.requests, unsent, sent, self._decoder.buffered_size, self._waiting is not None

    def rest(self) -> None:
        """Nothing moved for a while: hold no memory for what may come."""
        self._decoder.rest()

    def close(self, reason: str, level: int = logging.INFO, *, drops_unsent: bool = True) -> None:
        """End the connection, with one line in the log; at once, or when what is unsent has left."""
        transport = self._transport
        if transport is None:
            return
        if not transport.is_closing():
            self.flush()
            _log.log(level, "Closed the connection of %s:%d on %s: %s",
                     self.peer_host, self.peer_port, self.listener, reason)  # fmt: skip
        if drops_unsent:
            transport.abort()
        else:
            transport.close()

    def _is_busy(self) -> bool:
        if self._waiting is not None or self._write_blocked or self._is_queued:
            return True
        return self._sender is not None and self._sender.is_sending

    def _serve(self) -> None:
        """Answer what has arrived, until a request has to be waited for or the slice is over; steer reading on."""
        transport, decoder = self._transport, self._decoder
        if transport is None or transport.is_closing():
            return
        slice_end_s = 0.0
        done = False
        try:
            while (
                self._waiting is None
                and not self._write_blocked
                and not self._is_queued
                and (self._sender is None or not self._is_busy())
            ):
                frame = decoder.next_frame()
                if frame is None:
                    break
                self.requests += 1
                self._answer(frame, transport)
                if decoder.is_empty:
                    break
                now_s = self._now_s()  # a single request is never asked for the time
                slice_end_s = slice_end_s or now_s + self._slice_s
                if now_s >= slice_end_s:
                    self._is_queued = True
                    self._turns.enqueue(self._resume)
            done = True
        except (ProtocolError, RefusedError) as error:
            self._refuse(error)
            return
        except (OSError, FileCutError) as error:
            self.close(f"sending failed: {error}", logging.WARNING)
            return
        finally:
            if self._answers:
                self._leave(at_once=not done)
        if self._peer_closed or self._reading_paused or not decoder.is_empty:
            self._go_on_reading(transport)

    def _refuse(self, error: ProtocolError | RefusedError) -> None:
        """End the connection for what its peer has sent."""
        self._owner.metrics.connections_failed += 1
        if self._reserved:
            self._give_back()
        self.close(f"{error}", logging.WARNING, drops_unsent=False)

    def _go_on_reading(self, transport: asyncio.Transport) -> None:
        """Steer the reading; end the connection if its peer sends no more and everything is answered."""
        if self._peer_closed and not self._is_busy():
            self.flush()
            transport.close()
        elif not self._decoder.is_empty or self._reading_paused:
            self._steer_reading(transport)

    def _resume(self) -> None:
        """The turn in the queue has come."""
        self._is_queued = False
        self._slice_s = SLICE_S
        self._guarded(self._serve)
        self._slice_s = FIRST_SLICE_S

    def _answer(self, frame: memoryview, transport: asyncio.Transport) -> None:
        """Serve one request; a small answer stays in ``_answers`` while more requests are at hand, here or there."""
        if len(frame) > LATE_SIZE:
            self._late.leave()
        reply = self._dispatcher.dispatch(frame, self)
        if isinstance(reply, Waiting):
            if not isinstance(reply.future, asyncio.Task):
                self._release_frame()
            self._wait_for(reply)
            return
        self._decoder.release()
        if self._reserved:
            self._give_back()
        if reply is None:
            return
        if len(reply) > 1 or not isinstance(reply[0], bytearray):
            self.flush()
            self._late.leave()
            self._send(reply)
            return
        if self._answers or not self._decoder.is_empty or self._late.ready_count >= FEW:
            self._answers += reply[0]
            self._answered_size += len(frame)
            if self._answered_size >= TOGETHER_SIZE or len(self._answers) >= TOGETHER_SIZE:
                self.flush()
        else:
            transport.write(reply[0])

    def _wait_for(self, waiting: Waiting[Any]) -> None:
        self._waiting = waiting
        waiting.future.add_done_callback(self._on_response)
        if self._peer_closed:
            hurry(waiting.future)

    def _leave(self, *, at_once: bool) -> None:
        """What was asked for together is answered: let the answers go, now or with those of others."""
        if at_once or self._late.ready_count < FEW or self._answered_size > LATE_SIZE:
            self.flush()
        else:
            self._late.add(self)

    def flush(self) -> bool:
        """Write the answers that wait; tell whether the connection is to end."""
        transport = self._transport
        if transport is None:
            return False
        if self._answers:
            answers, self._answers = self._answers, bytearray()
            self._answered_size = 0
            transport.write(answers)
        return transport.is_closing()

    def _send(self, parts: list[Part]) -> None:
        transport = self._transport
        assert transport is not None
        if len(parts) == 1 and isinstance(parts[0], bytearray):
            transport.write(parts[0])
            return
        if self._sender is None:
            self._sender = BodySender(
                transport, is_blocked=lambda: self._write_blocked, on_done=lambda: self._guarded(self._serve)
            )
        self._sender.send(parts)

    def _on_response(self, future: "asyncio.Future[Message | list[Part] | None]") -> None:
        """A response that was waited for has come."""
        waiting, self._waiting = self._waiting, None
        if waiting is None or future.cancelled():
            return
        if isinstance(future, asyncio.Task):
            self._release_frame()
        self._guarded(lambda: self._send_later(waiting))

    def _send_later(self, waiting: Waiting[Any]) -> None:
        try:
            reply = self._dispatcher.answer(waiting)
            if isinstance(reply, Waiting):
                self._wait_for(reply)
                self._serve()  # reads on if there was no room behind the frame: the peer may go while this waits
                return
            if reply is not None and self._transport is not None:
                self.flush()
                self._send(reply)
        except (ProtocolError, RefusedError) as error:
            self._owner.metrics.connections_failed += 1
            self.close(f"{error}", logging.WARNING, drops_unsent=False)
            error.__traceback__ = None  # it refers to this frame, this to the task, and the task to the error
            return
        except (OSError, FileCutError) as error:
            self.close(f"sending failed: {error}", logging.WARNING)
            return
        self._serve()

    def _go_on_sending(self) -> None:
        try:
            if self._sender is not None:
                self._sender.unblocked()
        except (OSError, FileCutError) as error:
            self.close(f"sending failed: {error}", logging.WARNING)
            return
        if self._sender is None:
            self._serve()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step outside ``buffer_updated``: if it fails unexpectedly, the connection must not hang.

        This is the one place where a handler's bug is met; the exception goes on to the loop's exception handler,
        which logs it. (In ``buffer_updated`` the transport itself does both.)
        """
        done = False
        try:
            step()
            done = True
        finally:
            if not done:
                self._owner.metrics.connections_failed += 1
                self.close("a handler failed unexpectedly, see the traceback", logging.ERROR)

    # reading

    @property
    def missing_size(self) -> int:
        """See ``budget.Holder``."""
        return self._decoder.missing_size

    def memory_granted(self) -> None:
        """See ``budget.Holder``."""
        self._guarded(self._serve)

    def is_abandoned(self) -> bool:
        """See ``budget.Holder``: the end of the stream is in the kernel, and too few bytes are before it."""
        if self._transport is None or self._transport.is_closing():
            return False
        unread = unread_before_end(self._transport.get_extra_info("socket").fileno())
        return unread is not None and unread < self._decoder.missing_size

    def give_up(self, reason: str) -> None:
        """See ``budget.Holder``."""
        self._owner.metrics.connections_failed += 1
        self.close(reason, logging.WARNING)

    def _release_frame(self) -> None:
        self._decoder.release()
        if self._reserved:
            self._give_back()

    def _give_back(self) -> None:
        self._reserved = 0
        self._owner.budget.release(self)

    def _release_unread(self) -> None:
        if self._unread is not None:
            unread, self._unread = self._unread, None
            self._owner.response_budget.release(unread)

    def _steer_reading(self, transport: asyncio.Transport) -> None:
        """Read on unless enough is read ahead, or a large frame has to wait for its share of the memory."""
        busy = self._is_busy()
        pause = busy and (self._decoder.full or self._decoder.buffered_size >= READ_AHEAD_SIZE)
        if not busy and self._decoder.pending_size > SMALL_FRAME_SIZE:
            more = self._decoder.wanted_capacity - SMALL_FRAME_SIZE - self._reserved
            if more > 0:
                pause = not self._owner.budget.take(self, more)
                self._reserved += 0 if pause else more
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                transport.pause_reading()
            else:
                transport.resume_reading()
