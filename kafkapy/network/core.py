"""A connection without I/O: bytes in, requests out in order, replies in, bytes and file slices out.

``ConnectionCore`` decides what one client connection does next. It has no socket, no event loop and no clock: the
caller (``connection.py``, or a test) hands in the bytes that arrived, takes requests, hands in replies, and sends what
``reply`` and ``end_wait`` return.

**States.** ``busy`` holds the reasons why the next request is not taken yet, 0 if it may be:

    WAITING   responses to requests that were taken come later (a fetch without data, a produce with acks=all)
    SENDING   a response with file slices is being sent
    UNSENT    the transport holds bytes that the socket has not taken: the peer does not read fast enough
    QUEUED    the connection's slice of time is over; it waits for its turn (``kafkapy/turns.py``)
    MUTED     the client has exceeded a quota, and has to wait (``server/dispatch/throttling.py``)
    CLOSED    nothing is taken any more

Several may hold at once. Requests may arrive in any state; they are kept, and taken only when ``busy`` is 0, or when
``may_overtake`` holds.

**Order of events** for each request:

1. ``get_buffer`` and ``buffer_updated`` collect bytes until a whole frame is there.
2. ``next_frame`` hands it out, a view into the receive buffer. It must not be called while ``busy`` is set, unless
   ``may_overtake`` holds.
3. The caller ends the request with exactly one of ``reply`` (the response is there, or there is none), ``begin_wait``
   (it comes later) and ``refuse`` (the bytes can't be answered, and the connection ends).
4. When the awaited event has happened, in any order, the caller calls ``arrived``; then it calls ``end_wait`` with the
   response, ``fail_wait`` with an error, or ``wait_on`` with the next event.
5. The core returns what to send now, in the order of the requests. A response waits here for those before it. Small
   ones may also wait for further requests that have arrived; ``take_replies`` returns them.

**Laws.**

- A request is not decoded before the one before it is answered: replies have the order of the requests. Exception: a
  produce request is served while earlier ones wait for other replicas, ``MOST_WAITS`` together. Its records are behind
  theirs in the log, and its reply behind theirs on the connection, whichever is acknowledged first.
- It is also not decoded before the kernel has that reply. Exception: small replies to requests that arrived together,
  up to ``TOGETHER_SIZE`` of them. A peer that never reads therefore holds one large response, or ``TOGETHER_SIZE`` of
  small ones, and none of its further requests is served.
- Bytes that arrive while a request is served are kept up to ``READ_AHEAD_SIZE``; then ``has_read_enough`` holds.
- The frame stays valid until it is released: ``reply`` does that, ``begin_wait`` if the handler needs it no more.
- A produced batch is a view into the frame, so the receive buffer is replaced and not resized while a frame is out.

**Ends.**

- The peer closes its side (``peer_closed``): requests that have arrived are answered, then ``is_finished`` holds.
- The peer stops in the middle of a frame: ``missing_size`` tells how much is missing. Nothing ends by itself here;
  the listener closes connections on which nothing moves, ``budget.py`` those that hold memory that others wait for.
- The bytes are no frame, or a request can't be answered: after ``refuse`` nothing is taken any more. When the responses
  before it are sent, ``refusal`` has the reason, and the caller closes the connection.
- ``close`` is called when the connection ends for any reason. Replies that stay here may still be taken.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from kafkapy.buffers import extended_buffer, new_buffer
from kafkapy.network.budget import SMALL_FRAME_SIZE
from kafkapy.network.dispatcher import NO_API, Waiting
from kafkapy.network.pacing import MOST_WAITS, READ_AHEAD_SIZE, TOGETHER_SIZE
from kafkapy.protocol.framing import PREFIX_SIZE, FrameDecoder
from kafkapy.protocol.writer import Part

WAITING: Final = 1
SENDING: Final = 2
UNSENT: Final = 4
QUEUED: Final = 8
CLOSED: Final = 16
MUTED: Final = 32

Sent = bytearray | list[Part]
"""The output to send now: bytes, or a response with several parts (bytes, file slices)."""
Output = Sent | None
"""The same, or nothing."""


class Pending:
    """A request whose response can't be sent yet."""

    __slots__ = ("waited", "reply", "refusal")

    def __init__(self, waited: Waiting[object] | None, reply: list[Part] | None = None) -> None:
        self.waited = waited
        """The awaited event of the response; None when the response is there."""
        self.reply = reply
        self.refusal: Exception | None = None
        """Why the connection ends here."""


class ConnectionCore(FrameDecoder):
    """The states of one connection. As a ``FrameDecoder`` it cuts what arrives into requests.

    It inherits the decoder instead of having one: a call and an object less for each request and connection.
    """

    __slots__ = ("busy", "requests", "peer_closed", "replied_size", "replies", "refusal", "_pending", "_overtaken_by")

    def __init__(self, max_frame_size: int) -> None:
        super().__init__(max_frame_size, new_buffer, extended_buffer)
        self.busy = 0
        """Reasons why the next request is not taken, one bit each; 0 if it may be."""
        self.requests = 0
        """Requests that were answered, or whose response comes later."""
        self.peer_closed = False
        """Whether the peer has closed its side: no more requests arrive."""
        self.replied_size = 0
        """Bytes of the requests whose replies stay here."""
        self.replies: bytearray | None = None
        """Small replies that stay here; ``take_replies`` takes them."""
        self.refusal: Exception | None = None
        """Why the connection has to be closed now: all before it is answered."""
        self._pending: deque[Pending] = deque()
        self._overtaken_by = NO_API

    # requests and replies

    def reply(self, parts: list[Part] | None, others_are_ready: bool) -> Output:
        """End the request that is out with its response, None if it has none; return what to send now.

        A response of one ``bytearray`` is small, and becomes the core's own. It stays here while more bytes are at
        hand on this connection, or with ``others_are_ready`` on others, or while responses before it are waited for.
        """
        size = self._frame_end - self._start - PREFIX_SIZE
        self.release()
        self.requests += 1
        if self._pending:
            self._pending.append(Pending(None, parts))
            return None
        if parts is None:
            return None
        first = parts[0]
        if len(parts) > 1 or type(first) is not bytearray:
            return parts if self.replies is None else self._behind_replies(parts)
        replies = self.replies
        if replies is not None:
            replies += first
        elif others_are_ready or not self.is_empty:
            self.replies = replies = first
        else:
            return first
        self.replied_size += size
        if self.replied_size >= TOGETHER_SIZE or len(replies) >= TOGETHER_SIZE:
            return self.take_replies()
        return None

    def begin_wait(self, waited: Waiting[object], *, keeps_frame: bool) -> None:
        """The response to the request that is out comes later; its frame stays valid with ``keeps_frame``.

        Requests of the API ``waited.overtaken_by`` may be served meanwhile.
        """
        self.busy |= WAITING
        self.requests += 1
        self._pending.append(Pending(waited))
        self._overtaken_by = waited.overtaken_by
        if not keeps_frame:
            self.release()

    def arrived(self, waited: Waiting[object]) -> Pending:
        """The awaited event has happened; exactly one of ``end_wait``, ``fail_wait`` and ``wait_on`` follows."""
        pending = next(each for each in self._pending if each.waited is waited)
        if self.holds_frame and self._pending[-1] is pending:  # which the last request has kept until now
            self.release()
        pending.waited = None
        return pending

    def wait_on(self, pending: Pending, waited: Waiting[object]) -> None:
        """It was not the response, which comes later still."""
        pending.waited = waited

    def end_wait(self, pending: Pending, parts: list[Part] | None) -> list[Sent]:
        """It was the response, None if there is none; return what to send now."""
        pending.reply = parts
        return self._take_pending()

    def fail_wait(self, pending: Pending, error: Exception) -> list[Sent]:
        """The request can't be answered: as ``refuse``; return what to send now."""
        pending.refusal = error
        self.close()
        return self._take_pending()

    def refuse(self, error: Exception) -> None:
        """Take no more requests, since the next one can't be answered; ``refusal`` is set after the last reply."""
        self.close()
        if self._pending:
            pending = Pending(None)
            pending.refusal = error
            self._pending.append(pending)
        else:
            self.refusal = error

    def waited(self) -> Iterator[Waiting[object]]:
        """Yield the awaited events, in the order of the requests."""
        for pending in tuple(self._pending):
            if pending.waited is not None:
                yield pending.waited

    @property
    def has_pending(self) -> bool:
        """Whether responses can't be sent yet, because they, or others before them, are waited for."""
        return bool(self._pending)

    def may_overtake(self) -> bool:
        """Whether the next request may be served although responses to earlier ones are waited for."""
        return (
            self.busy == WAITING
            and self._overtaken_by != NO_API
            and len(self._pending) < MOST_WAITS
            and self.next_key == self._overtaken_by
        )

    def _take_pending(self) -> list[Sent]:
        """Take the responses that are there, up to the first one that is not; small ones are sent together."""
        taken: list[Sent] = []
        together = self.take_replies()
        while self._pending and self._pending[0].waited is None:
            pending = self._pending.popleft()
            if pending.refusal is not None:
                self.refusal = pending.refusal
                self._pending.clear()
                break
            parts = pending.reply
            if parts is None:
                continue
            if len(parts) == 1 and isinstance(parts[0], bytearray):
                together = parts[0] if together is None else together + parts[0]
            else:
                taken.append(parts if together is None else [together, *parts])
                together = None
        if together is not None:
            taken.append(together)
        if not self._pending:
            self.busy &= ~WAITING
        return taken

    def take_replies(self) -> bytearray | None:
        """Return the small replies that have stayed here: the caller sends them now. None if there are none."""
        replies, self.replies = self.replies, None
        self.replied_size = 0
        return replies

    def _behind_replies(self, parts: list[Part]) -> list[Part]:
        replies = self.take_replies()
        assert replies is not None
        return [replies, *parts]

    # states

    def set_busy(self, reason: int) -> None:
        """Take no request from now on for ``reason``, one of the constants above."""
        self.busy |= reason

    def clear_busy(self, reason: int) -> None:
        """``reason`` holds no longer."""
        self.busy &= ~reason

    def peer_has_closed(self) -> None:
        """The end of the stream has arrived."""
        self.peer_closed = True

    def close(self) -> None:
        """Take no request any more."""
        self.busy |= CLOSED

    @property
    def is_finished(self) -> bool:
        """Whether the peer sends no more and all its requests are answered, after ``next_frame`` has found no frame."""
        return self.peer_closed and not self.busy

    # reading

    @property
    def has_read_enough(self) -> bool:
        """Whether the socket is not to be read until the request that is served is answered."""
        return (
            self.busy != 0
            and (self.full or self.buffered_size >= READ_AHEAD_SIZE)
            and not (self.busy == WAITING and self.may_overtake())
        )

    @property
    def budgeted_size(self) -> int:
        """Bytes that the buffer of the incomplete frame will take beyond the first buffer that every connection has."""
        if (self.busy and not self.may_overtake()) or self.pending_size <= SMALL_FRAME_SIZE:
            return 0
        return self.wanted_capacity - SMALL_FRAME_SIZE
