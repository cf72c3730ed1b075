"""A connection without I/O: bytes in, requests out in order, replies in, bytes and file slices out.

``ConnectionCore`` decides what one client connection does next. It has no socket, no event loop and no clock: the
caller (``connection.py``, or a test) hands in the bytes that arrived, takes requests, hands in replies, and sends what
``reply`` and ``end_wait`` return.

**States.** ``busy`` holds the reasons why the next request is not taken yet, 0 if it may be:

    WAITING   responses to requests that were taken come later (a fetch without data, a produce with acks=all)
    SENDING   a response with file slices is being sent
    UNSENT    the transport holds bytes that the socket has not taken: the peer does not read fast enough
    QUEUED    the connection's slice of time is over; it waits for its turn (``kafkapy/turns.py``)
    CLOSED    nothing is taken any more

Several may hold at once. Requests may arrive in any state; they are kept, and looked at only when ``busy`` is 0.

**Order of events** for each request:

1. ``get_buffer`` and ``buffer_updated`` collect bytes until a whole frame is there.
2. ``next_frame`` hands it out, a view into the receive buffer. It must not be called while ``busy`` is set, unless
   ``may_overtake`` holds.
3. The caller ends the request with exactly one of ``reply`` (the response is there, or there is none), ``begin_wait``,
   and ``reply_behind`` (the response is there, but others have to be sent before). ``end_wait`` follows each of the
   latter two, in the order of the requests, when the response may be sent.
4. The returned output is sent at once. A small reply may stay here while more requests have arrived; ``take_replies``
   returns all that stayed. Later output is sent behind them.

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
- The bytes are no frame: ``next_frame`` raises a ``ProtocolError``. The caller waits for the responses that are waited
  for, sends what ``take_replies`` returns, so that earlier requests keep their replies, and closes.
- ``close`` is called when the connection ends for any reason. Replies that stay here may still be taken.
"""

from typing import Final

from kafkapy.buffers import extended_buffer, new_buffer
from kafkapy.network.budget import SMALL_FRAME_SIZE
from kafkapy.network.dispatcher import NO_API
from kafkapy.network.pacing import MOST_WAITS, READ_AHEAD_SIZE, TOGETHER_SIZE
from kafkapy.protocol.framing import PREFIX_SIZE, FrameDecoder
from kafkapy.protocol.writer import Part

WAITING: Final = 1
SENDING: Final = 2
UNSENT: Final = 4
QUEUED: Final = 8
CLOSED: Final = 16

Output = bytearray | list[Part] | None
"""What to send now: bytes, a response with several parts (bytes, file slices), or nothing."""


class ConnectionCore(FrameDecoder):
    """The states of one connection. As a ``FrameDecoder`` it cuts what arrives into requests.

    It inherits the decoder instead of having one: a call and an object less for each request and connection.
    """

    __slots__ = ("busy", "requests", "peer_closed", "replied_size", "replies", "waits", "_overtaken_by")

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
        self.waits = 0
        """Requests whose responses have to be sent later."""
        self._overtaken_by = NO_API

    # requests and replies

    def reply(self, parts: list[Part] | None, others_are_ready: bool) -> Output:
        """End the request that is out with its response, None if it has none; return what to send now.

        A response of one ``bytearray`` is small, and becomes the core's own. It stays here while more bytes are at
        hand on this connection, or with ``others_are_ready`` on others.
        """
        size = self._frame_end - self._start - PREFIX_SIZE
        self.release()
        self.requests += 1
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

    def begin_wait(self, *, keeps_frame: bool, overtaken_by: int = NO_API) -> None:
        """The response to the request that is out comes later; its frame stays valid with ``keeps_frame``.

        Requests of the API ``overtaken_by`` may be served meanwhile.
        """
        self.busy |= WAITING
        self.requests += 1
        self.waits += 1
        self._overtaken_by = overtaken_by
        if not keeps_frame:
            self.release()

    def reply_behind(self) -> None:
        """End the request that is out, whose response has to be sent behind those that are waited for."""
        self.begin_wait(keeps_frame=False, overtaken_by=self._overtaken_by)

    def may_overtake(self) -> bool:
        """Whether the next request may be served although responses to earlier ones are waited for."""
        return (
            self.busy == WAITING
            and self._overtaken_by != NO_API
            and self.waits < MOST_WAITS
            and self.next_key == self._overtaken_by
        )

    def end_wait(self, parts: list[Part] | None) -> Output:
        """End the first of the requests whose responses were waited for; return what to send now.

        If it keeps its frame it is the last of them, too.
        """
        self.waits -= 1
        if not self.waits:
            self.busy &= ~WAITING
        if self._frame_end >= 0 and not self.waits:
            self.release()
        if parts is None:
            return None
        first = parts[0]
        if len(parts) > 1 or not isinstance(first, bytearray):
            return parts if self.replies is None else self._behind_replies(parts)
        replies = self.take_replies()
        return first if replies is None else replies + first

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
        """Whether the peer sends no more and all it has asked is answered, after ``next_frame`` has found no frame."""
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
        """Bytes that the buffer of the incomplete frame is about to take beyond those that every connection has."""
        if (self.busy and not self.may_overtake()) or self.pending_size <= SMALL_FRAME_SIZE:
            return 0
        return self.wanted_capacity - SMALL_FRAME_SIZE
