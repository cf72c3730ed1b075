"""One accepted socket: carries bytes, requests and replies between the event loop, the core and the dispatcher.

``core.py`` decides what a connection does next, and describes the states and laws; ``pacing.py`` decides which replies
leave together; ``transport.py`` and ``sender.py`` send bytes. This module has the effects:

- asyncio calls ``get_buffer`` and ``buffer_updated``; ``_serve`` takes requests from the core while it has some, and
  hands each to the dispatcher, whose answer is a frame, nothing, or a future to wait for;
- the core's output is written to the transport, or given to the sender if it has file slices. If the socket does not
  take all of it, ``pause_writing`` and ``resume_writing`` are called, or the sender's ``on_done``;
- after ``FIRST_SLICE_S`` of work on requests that arrived together the connection goes to the queue of the loop's long
  work (``kafkapy/turns.py``), and goes on with them when its turn comes. Without this limit one client that pipelines
  requests delays the others as long as it sends: up to 120 s (``bench/results/robustness.md``);
- a large frame, and a large response that is not read, are charged to the broker's budgets (``budget.py``).

The ends of a connection:

- The peer closes its side: the requests that it had sent are answered first. A fetch waits for no more data then, since
  the peer may be gone.
- The peer is lost: a waiting fetch is cancelled; a request that changes something runs on (``keep_until_done``).
- The peer sends invalid bytes: only its own connection ends, with one line in the log that has its address and the
  reason. An exception that a handler did not expect ends the connection too, and goes to the loop's exception handler,
  with its traceback.
- The peer stops in the middle, or reads nothing: the listener closes the connection after ``connections.max.idle.ms``,
  and the budget earlier if others wait for the memory that it holds.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafkapy.clock import Clock, TimerHandle
from kafkapy.delayed import hurry
from kafkapy.metrics import Metrics
from kafkapy.network.budget import SMALL_FRAME_SIZE, FrameBudget
from kafkapy.network.core import MUTED, QUEUED, SENDING, UNSENT, ConnectionCore, Sent
from kafkapy.network.dispatcher import Dispatcher, Waiting
from kafkapy.network.errors import RefusedError
from kafkapy.network.limits import Limits
from kafkapy.network.pacing import FEW, LATE_SIZE, LateReplies
from kafkapy.network.sender import BodySender, FileCutError
from kafkapy.network.session import Session
from kafkapy.network.transport import ConnectionTransport, break_cycles
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.writer import Part
from kafkapy.turns import FIRST_SLICE_S, SLICE_S, turns

if TYPE_CHECKING:
    from kafkapy.security.authentication import SaslSettings

logger: Final = logging.getLogger(__name__)

_REFUSALS: Final = (ProtocolError, RefusedError)
"""The peer sent bytes that can't be answered."""
_SEND_FAILURES: Final = (OSError, FileCutError)


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


class _UnsentParts(_UnreadResponse):
    """A response in many parts, all of which count until the last one is sent; slices of files do not count."""

    __slots__ = ()

    @property
    def missing_size(self) -> int:
        """See ``budget.Holder``."""
        return self._connection.unsent_size + self._connection.waiting_size


class ConnectionOwner(Protocol):
    """The listener of a connection, as the connection uses it."""

    @property
    def name(self) -> str:
        """The listener's name."""

    @property
    def transport(self) -> ConnectionTransport:
        """The transport of the listener's security protocol."""

    @property
    def sasl(self) -> "SaslSettings | None":
        """How clients authenticate, on a listener with SASL."""

    @property
    def clock(self) -> Clock:
        """The clock of the connections."""

    @property
    def limits(self) -> Limits:
        """The limits of frames."""

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
    def late_replies(self) -> LateReplies:
        """Replies of one iteration of the loop that leave together."""

    def may_log_line(self) -> bool:
        """Whether a line may be logged that the peer has caused."""

    def opened(self, connection: "Connection") -> None:
        """The connection has its transport."""

    def closed(self, connection: "Connection") -> None:
        """The connection has ended."""

    def keep_until_done(self, task: "asyncio.Future[Any]") -> None:
        """Keep the task of a request of the closed connection until it is done, and take its result."""


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket."""

    __slots__ = (
        "session",
        "core",
        "_owner",
        "_dispatcher",
        "_late",
        "_socket",
        "_transport",
        "_sender",
        "_turns",
        "_now_s",
        "_slice_s",
        "_reading_paused",
        "_reserved",
        "_unread",
        "_mute_timer",
    )

    def __init__(
        self, owner: ConnectionOwner, dispatcher: Dispatcher, peer: tuple[str, int], sock: socket.socket
    ) -> None:
        self.session = Session(peer, owner.name, sock.getsockname()[:2])
        self.core = ConnectionCore(owner.limits.max_frame_size)
        self._owner = owner
        self._dispatcher = dispatcher
        self._late = owner.late_replies
        self._socket = sock
        self._transport: asyncio.Transport | None = None
        self._sender: BodySender | None = None
        self._turns = turns()
        self._now_s = self._turns.now_s
        self._slice_s = FIRST_SLICE_S
        self._reading_paused = False
        self._reserved = 0
        self._unread: _UnreadResponse | None = None
        self._mute_timer: TimerHandle | None = None
        if owner.sasl is not None:
            self._require_authentication(owner.sasl)

    def _require_authentication(self, settings: "SaslSettings") -> None:
        from kafkapy.security.authentication import FRAME_SIZE, Authentication

        self.session.authentication = Authentication(settings, self._owner.clock, self)
        self.core.limit_frames(min(FRAME_SIZE, self._owner.limits.max_frame_size))

    def authenticated(self, principal: str) -> None:
        """See ``AuthenticatedConnection``."""
        self.session.principal = principal
        self.core.limit_frames(self._owner.limits.max_frame_size)
        assert self._transport is not None, "requests come from an open connection"
        self._owner.transport.read_more_at_once(self._transport)

    def end_after_replies(self, reason: str) -> None:
        """See ``AuthenticatedConnection``."""
        self.core.refuse(RefusedError(reason))
        self._end_if_refused()

    def __repr__(self) -> str:
        return f"<Connection {self.session}>"

    # called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See ``asyncio.BaseProtocol``."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner.transport.limit_writing(transport)
        self._owner.opened(self)
        try:
            self.session.principal = self._owner.transport.principal_of(transport)
        except RefusedError as error:
            self._refuse(error)
        authentication = self.session.authentication
        if authentication is None:
            self._owner.transport.read_more_at_once(transport)
        elif authentication.has_failed:
            self.close("its time for authentication was over before the end of the TLS handshake")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the loop has logged what matters
        """See ``asyncio.BaseProtocol``. A waiting fetch ends here; a request that changes something runs on."""
        self.core.close()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        if self.session.authentication is not None:
            self.session.authentication.closed()
        transport, self._transport = self._transport, None
        if transport is not None:
            break_cycles(transport)
        for waiting in self.core.waited():
            is_done = waiting.future.done()
            if is_done:
                self._dispatcher.dropped(waiting)
            if is_done or isinstance(waiting.future, asyncio.Task):
                self._owner.keep_until_done(waiting.future)  # the connection reads the exception, if there is one
            else:
                waiting.future.cancel()
        if self._sender is not None:
            self._sender.close()
        self._give_back()
        self._release_unread()
        self._owner.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """See ``asyncio.BufferedProtocol``."""
        return self.core.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """See ``asyncio.BufferedProtocol``. If a handler fails unexpectedly, the transport logs it and aborts."""
        self.core.buffer_updated(nbytes)
        try:
            self._serve()
        except _REFUSALS as error:
            self._refuse(error)
        except _SEND_FAILURES as error:
            self._fail_to_send(error)
        else:
            if self._reading_paused or not self.core.is_empty or self.core.peer_closed:
                self._steer_reading()

    def eof_received(self) -> bool:
        """See ``asyncio.Protocol``: keep the transport while a reply is being sent, or waited for."""
        self.core.peer_has_closed()
        self.flush()
        for waiting in self.core.waited():
            hurry(waiting.future)
        return self.core.busy != 0 and self._owner.transport.has_half_close

    def pause_writing(self) -> None:
        """See ``asyncio.BaseProtocol``: the socket did not take everything."""
        self.core.set_busy(UNSENT)
        unsent = self.unsent_size
        if unsent > SMALL_FRAME_SIZE and self._unread is None:
            self._charge_unread(_UnreadResponse(self), unsent)

    def resume_writing(self) -> None:
        """See ``asyncio.BaseProtocol``: everything was taken."""
        self.core.clear_busy(UNSENT)
        if not isinstance(self._unread, _UnsentParts):  # which count until the last of them is sent
            self._release_unread()
        # This is deferred: the transport calls this method during a write, and an abort is not allowed there.
        asyncio.get_running_loop().call_soon(self._guarded, self._go_on_sending)

    # called by the listener

    @property
    def unsent_size(self) -> int:
        """Bytes of responses that the socket has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    @property
    def waiting_size(self) -> int:
        """Bytes of the response's parts that the transport does not have yet."""
        return self._sender.waiting_size if self._sender is not None else 0

    def progress(self) -> tuple[int, int, int, int, bool]:
        """Return counters that change while data moves: the connection is closed if they stay the same too long."""
        sent = self._sender.bytes_sent if self._sender is not None else 0
        return self.core.requests, self.unsent_size, sent, self.core.buffered_size, self.core.has_pending

    def free_buffer(self) -> None:
        """Free the receive buffer if it is empty; the next bytes get a new one."""
        self.core.free_if_empty()

    def close(self, reason: str, level: int = logging.INFO, *, drops_unsent: bool = True) -> None:
        """End the connection, with one line in the log; at once, or when the unsent bytes have left."""
        transport = self._transport
        if transport is None:
            return
        if not transport.is_closing():
            self.flush()
            if level >= logging.ERROR or (logger.isEnabledFor(level) and self._owner.may_log_line()):
                logger.log(level, "Closed the connection of %s: %s", self.session, reason)
        self.core.close()
        if drops_unsent:
            transport.abort()
        else:
            _close_once(transport)

    def close_inherited(self) -> None:
        """Close the copies of the socket in a forked child; the connection itself stays as it is."""
        self._socket.close()
        if self._sender is not None:
            self._sender.close_inherited()

    # serving

    def _serve(self) -> None:
        """Answer the requests that have arrived, until the next one has to wait or the slice is over.

        The usual course of a request is written inline: each saved call is about 1 % of a small request. Raises
        ``_REFUSALS``, ``_SEND_FAILURES`` and unexpected errors of handlers; replies to earlier requests leave first.
        """
        core, late, transport, session = self.core, self._late, self._transport, self.session
        assert transport is not None
        slice_end_s = 0.0
        leaves_at_once = True
        try:
            while (not core.busy or core.may_overtake()) and (frame := core.next_frame()) is not None:
                if len(frame) > LATE_SIZE:
                    late.leave()
                reply = self._dispatcher.dispatch(frame, session)
                if session.throttle_ms:
                    self._mute()
                if isinstance(reply, Waiting):
                    self._begin_wait(reply)
                else:
                    output = core.reply(reply, late.ready_count >= FEW)
                    if type(output) is bytearray:
                        transport.write(output)
                    elif output is not None:
                        self._send(output)
                    if self._reserved:
                        self._give_back()
                if core.is_empty:
                    break
                slice_end_s = self._queue_after(slice_end_s)  # not called for a single request
            leaves_at_once = False
        finally:
            if core.replies is not None:
                self._leave(at_once=leaves_at_once)

    def _queue_after(self, slice_end_s: float) -> float:
        """Queue the connection if its slice of time is over; return when it is, with ``slice_end_s`` 0 a new one."""
        now_s = self._now_s()
        slice_end_s = slice_end_s or now_s + self._slice_s
        if now_s >= slice_end_s:
            self.core.set_busy(QUEUED)
            self._turns.enqueue(self._resume)
        return slice_end_s

    def _resume(self) -> None:
        """The turn in the queue has come."""
        self.core.clear_busy(QUEUED)
        self._slice_s = SLICE_S
        self._guarded(self._go_on)
        self._slice_s = FIRST_SLICE_S

    def _go_on(self) -> None:
        """Serve the requests that have arrived, unless the connection is about to end; pause or resume reading."""
        if self._transport is not None and not self._transport.is_closing():
            self._serve()
            self._steer_reading()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step outside ``buffer_updated``: if it fails unexpectedly, the connection must not hang.

        This is the one place that handles a handler's bug; the exception goes on to the loop's exception handler,
        which logs it. (In ``buffer_updated`` the transport itself does both.)
        """
        done = False
        try:
            step()
            done = True
        except _REFUSALS as error:
            self._refuse(error)
            done = True
        except _SEND_FAILURES as error:
            self._fail_to_send(error)
            done = True
        finally:
            if not done:
                self._owner.metrics.connections_failed += 1
                self.close("a handler failed unexpectedly, see the traceback", logging.ERROR)

    def _refuse(self, error: ProtocolError | RefusedError) -> None:
        """The peer has sent bytes that can't be answered: end the connection when all before them is answered."""
        if self._reserved:
            self._give_back()
        self.core.refuse(error)
        self._end_if_refused()

    def _end_if_refused(self) -> None:
        error = self.core.refusal
        if error is not None:
            self._owner.metrics.connections_failed += 1
            self.close(f"{error}", logging.WARNING, drops_unsent=False)
            error.__traceback__ = None  # its frames refer to the task of the response, and the task to the error

    def _fail_to_send(self, error: OSError | FileCutError) -> None:
        is_lost = isinstance(error, ConnectionError)  # the peer has closed the connection: that is no failure
        self.close(f"sending failed: {error}", logging.DEBUG if is_lost else logging.WARNING)

    # responses that come later

    def _begin_wait(self, waiting: Waiting[Any]) -> None:
        """The response to the current request comes later. A task may need the request's frame until it is done."""
        keeps_frame = isinstance(waiting.future, asyncio.Task)
        self.core.begin_wait(waiting, keeps_frame=keeps_frame)
        self._watch(waiting)
        if self._reserved and not keeps_frame:
            self._give_back()

    def _watch(self, waiting: Waiting[Any]) -> None:
        waiting.future.add_done_callback(partial(self._on_response, waiting))
        if self.core.peer_closed:
            hurry(waiting.future)

    def _on_response(self, waiting: Waiting[Any], future: "asyncio.Future[object]") -> None:
        """A response that the connection waits for is there."""
        if self._transport is not None and not future.cancelled():
            self._guarded(partial(self._end_wait, waiting))

    def _end_wait(self, waiting: Waiting[Any]) -> None:
        core = self.core
        pending = core.arrived(waiting)
        if self._reserved and not core.holds_frame:
            self._give_back()
        outputs: list[Sent] = []
        if self.session.throttle_ms:
            self._mute()
        try:
            reply = self._dispatcher.answer(waiting)
        except _REFUSALS as error:
            outputs = core.fail_wait(pending, error)
        else:
            if isinstance(reply, Waiting):
                core.wait_on(pending, reply)
                self._watch(reply)
            else:
                outputs = core.end_wait(pending, reply)
        for output in outputs:
            self._send(output)
        self._end_if_refused()
        # Even if the reply still waits: its frame may be released, and the end of the stream must be noticed.
        self._go_on()

    # quotas

    def _mute(self) -> None:
        """Take no request for the time that the last response asks of the client."""
        self.core.set_busy(MUTED)
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        self._mute_timer = self._owner.clock.call_later(self.session.throttle_ms, self._unmute)
        self.session.throttle_ms = 0

    def _unmute(self) -> None:
        self._mute_timer = None
        self.core.clear_busy(MUTED)
        self._guarded(self._go_on)

    # sending

    def _leave(self, *, at_once: bool) -> None:
        """All requests that arrived together are answered: send their replies, now or with those of others."""
        if at_once or self._late.ready_count < FEW or self.core.replied_size > LATE_SIZE:
            self.flush()
        else:
            self._late.add(self)

    def flush(self) -> bool:
        """Write the replies that stay in the core; tell whether the connection is about to end."""
        transport = self._transport
        if transport is None:
            return False
        replies = self.core.take_replies()
        if replies is not None:
            transport.write(replies)
        return transport.is_closing()

    def _send(self, output: bytearray | list[Part]) -> None:
        """Send a response: behind the late replies of others, since it may be long."""
        transport = self._transport
        assert transport is not None
        if isinstance(output, bytearray):
            transport.write(output)
            return
        self._late.leave()
        if self._sender is None:
            core = self.core
            self._sender = self._owner.transport.new_sender(
                transport, self._socket, is_blocked=lambda: core.busy & UNSENT != 0, on_done=self._sent
            )
        if not self._sender.send(output):
            self.core.set_busy(SENDING)
            held = self._sender.held_size
            if held > SMALL_FRAME_SIZE:
                earlier = self._unread
                self._charge_unread(_UnsentParts(self), held + self.unsent_size)
                if earlier is not None:  # after the new charge: else waiting connections resume without free memory
                    self._owner.response_budget.release(earlier)

    def _sent(self) -> None:
        """The sender has sent the rest of a response that the socket did not take at once."""
        self.core.clear_busy(SENDING)
        if isinstance(self._unread, _UnsentParts):  # any other is of bytes that the transport has
            self._release_unread()
        self._guarded(self._go_on)

    def _go_on_sending(self) -> None:
        """The transport's buffer is empty again."""
        if self._sender is not None:
            self._sender.unblocked()
        else:
            self._go_on()

    # reading

    def _steer_reading(self) -> None:
        """Read on unless enough is read ahead, or a large frame has to wait for its share of the memory.

        The connection ends here if its peer sends no more and everything is answered.
        """
        core, transport = self.core, self._transport
        if transport is None:
            return
        if core.is_finished:
            self.flush()
            core.close()
            _close_once(transport)
            return
        pause = core.has_read_enough
        more = core.budgeted_size - self._reserved
        if more > 0:
            pause = not self._owner.budget.take(self, more)
            self._reserved += 0 if pause else more
        if pause != self._reading_paused:
            self._reading_paused = pause
            if pause:
                transport.pause_reading()
            else:
                transport.resume_reading()

    @property
    def missing_size(self) -> int:
        """See ``budget.Holder``."""
        return self.core.missing_size

    def memory_granted(self) -> None:
        """See ``budget.Holder``."""
        self._guarded(self._go_on)

    def is_abandoned(self) -> bool:
        """See ``budget.Holder``: the end of the stream is in the kernel, and too few bytes are before it."""
        if self._transport is None or self._transport.is_closing():
            return False
        unread = self._owner.transport.unread_before_end(self._transport)
        return unread is not None and unread < self.core.missing_size

    def give_up(self, reason: str) -> None:
        """See ``budget.Holder``."""
        self._owner.metrics.connections_failed += 1
        self.close(reason, logging.WARNING)

    def _give_back(self) -> None:
        self._reserved = 0
        self._owner.budget.release(self)

    def _charge_unread(self, unread: _UnreadResponse, size: int) -> None:
        self._unread = unread
        self._owner.response_budget.charge(unread, size)

    def _release_unread(self) -> None:
        if self._unread is not None:
            unread, self._unread = self._unread, None
            self._owner.response_budget.release(unread)


def _close_once(transport: asyncio.Transport) -> None:
    """Close a transport; at a second call asyncio's TLS would forget its socket, and ``abort`` would do nothing."""
    if not transport.is_closing():
        transport.close()
