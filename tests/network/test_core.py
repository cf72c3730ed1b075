"""The connection's core without a socket: its input, its state and its output (test_connection has sockets)."""

import struct
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.network.budget import SMALL_FRAME_SIZE
from kafkapy.network.core import QUEUED, SENDING, UNSENT, WAITING, ConnectionCore
from kafkapy.network.dispatcher import NO_API, Waiting
from kafkapy.network.errors import RefusedError
from kafkapy.network.pacing import MOST_WAITS, READ_AHEAD_SIZE, TOGETHER_SIZE
from kafkapy.protocol.framing import FrameTooLarge, InvalidFrameLength
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.writer import Part

MAX_FRAME_SIZE = 1_000_000


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def arrive(core: ConnectionCore, data: bytes) -> None:
    """The bytes arrive as a socket would put them into the buffer."""
    while data:
        buffer = core.get_buffer(-1)
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        core.buffer_updated(size)
        data = data[size:]


def taken(core: ConnectionCore) -> bytes | None:
    """The next request, if it may be taken and is whole."""
    found = None if core.busy and not core.may_overtake() else core.next_frame()
    return None if found is None else bytes(found)


def small(content: bytes) -> list[Part]:
    return [bytearray(content)]


def core_with(*requests: bytes) -> ConnectionCore:
    core = ConnectionCore(MAX_FRAME_SIZE)
    arrive(core, b"".join(map(frame, requests)))
    return core


@pytest.mark.parametrize("cuts", list(combinations(range(1, 14), 2)))
def test_requests_are_whole_wherever_the_stream_is_cut(cuts: tuple[int, int]) -> None:
    core = ConnectionCore(MAX_FRAME_SIZE)
    data = frame(b"ab") + frame(b"") + frame(b"c")
    assert len(data) == 15
    found = []
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        arrive(core, data[start:end])
        while (request := taken(core)) is not None:
            found.append(request)
            core.reply(None, False)
    assert found == [b"ab", b"", b"c"]
    assert core.is_empty
    assert core.requests == 3


def test_a_single_reply_is_sent_at_once() -> None:
    core = core_with(b"1")
    assert taken(core) == b"1"
    assert core.reply(small(b"one"), False) == b"one"
    assert core.take_replies() is None


def test_a_reply_stays_while_other_connections_are_ready() -> None:
    core = core_with(b"1")
    taken(core)
    assert core.reply(small(b"one"), True) is None
    assert core.replied_size == 1
    assert core.take_replies() == b"one"
    assert core.replied_size == 0


def test_replies_to_requests_that_arrived_together_leave_together() -> None:
    core = core_with(b"1", b"2", b"3")
    outputs = []
    while (request := taken(core)) is not None:
        outputs.append(core.reply(small(b"<" + request + b">"), False))
    assert outputs == [None, None, None]
    assert core.take_replies() == b"<1><2><3>"


def test_a_request_without_a_response_sends_nothing_and_keeps_the_order() -> None:
    core = core_with(b"1", b"2", b"3")
    for reply in (small(b"one"), None, small(b"three")):
        taken(core)
        assert core.reply(reply, False) is None
    assert core.take_replies() == b"onethree"


@pytest.mark.parametrize(("request_size", "reply_size"), [(10, TOGETHER_SIZE // 2), (TOGETHER_SIZE // 2, 10)])
def test_replies_to_a_bounded_number_of_bytes_stay(request_size: int, reply_size: int) -> None:
    """A peer that sends requests and reads nothing takes no more of the broker's memory."""
    core = core_with(*[bytes(request_size)] * 3)
    taken(core)
    assert core.reply(small(bytes(reply_size)), False) is None
    taken(core)
    output = core.reply(small(bytes(reply_size)), False)
    assert isinstance(output, bytearray)
    assert len(output) == 2 * reply_size
    assert core.replies is None


def test_a_large_response_leaves_behind_the_small_ones() -> None:
    core = core_with(b"1", b"2", b"3")
    taken(core)
    core.reply(small(b"one"), False)
    taken(core)
    assert core.reply([bytearray(b"head"), b"records"], False) == [b"one", b"head", b"records"]
    taken(core)
    assert core.reply([b"shared"], False) == [b"shared"], "bytes that are not the core's own are not extended"


HEADER = RequestHeader(0, 0, 0)
FUTURE: Any = None
"""The core does not look at what is waited for."""


def later(core: ConnectionCore, *, keeps_frame: bool = False, overtaken_by: int = NO_API) -> Waiting[object]:
    """The response to the request that is out comes later."""
    waited = Waiting[object](None, HEADER, FUTURE, overtaken_by)
    core.begin_wait(waited, keeps_frame=keeps_frame)
    return waited


def test_no_request_is_taken_while_a_response_is_pending() -> None:
    core = core_with(b"1", b"2", b"3")
    taken(core)
    core.reply(small(b"one"), False)
    taken(core)
    two = later(core)
    assert core.busy == WAITING
    assert taken(core) is None
    arrive(core, frame(b"4"))
    assert core.end_wait(core.arrived(two), small(b"two")) == [b"onetwo"]
    assert [taken(core), core.reply(None, False), taken(core)] == [b"3", None, b"4"]


PRODUCE, OTHER = b"\0\0", b"\0\1"
"""API keys at the beginning of a frame."""


def test_requests_of_one_api_overtake_those_that_wait() -> None:
    core = core_with(*[PRODUCE] * MOST_WAITS, PRODUCE, OTHER)
    waits = []
    for _ in range(MOST_WAITS):
        assert taken(core) == PRODUCE
        waits.append(later(core, overtaken_by=0))
    assert taken(core) is None, "so many may wait"
    assert core.end_wait(core.arrived(waits[0]), small(b"0")) == [b"0"]
    assert taken(core) == PRODUCE
    assert core.reply(small(b"last"), False) is None, "it is sent behind the others"
    for at, waited in reversed(list(enumerate(waits[2:], start=2))):
        assert core.end_wait(core.arrived(waited), small(b"%d" % at)) == []
        assert (taken(core), core.busy) == (None, WAITING), "another API does not overtake"
    (together,) = core.end_wait(core.arrived(waits[1]), small(b"1"))
    assert together == b"".join(b"%d" % at for at in range(1, MOST_WAITS)) + b"last"
    assert taken(core) == OTHER


def test_responses_before_a_refused_request_are_sent_first() -> None:
    core = core_with(*[PRODUCE] * 3)
    taken(core)
    first = later(core, overtaken_by=0)
    taken(core)
    second = later(core, overtaken_by=0)
    refusal = RefusedError("no")
    assert core.fail_wait(core.arrived(second), refusal) == []
    assert (core.refusal, taken(core)) == (None, None), "nothing more is taken"
    assert core.end_wait(core.arrived(first), small(b"one")) == [b"one"]
    assert core.refusal is refusal


def test_a_refused_request_ends_a_connection_at_once_if_nothing_is_waited_for() -> None:
    core = core_with(PRODUCE, PRODUCE)
    taken(core)
    core.refuse(error := RefusedError("no"))
    assert (core.refusal, taken(core)) == (error, None)


def test_what_is_waited_for_may_change() -> None:
    core = core_with(b"1")
    taken(core)
    task = later(core, keeps_frame=True)
    event = Waiting[object](None, HEADER, FUTURE)
    core.wait_on(core.arrived(task), event)
    assert not core.holds_frame, "an event needs no frame"
    assert list(core.waited()) == [event]
    assert core.end_wait(core.arrived(event), small(b"one")) == [b"one"]


@pytest.mark.parametrize(("key", "is_read"), [(PRODUCE, True), (OTHER, False)])
def test_a_large_request_that_may_overtake_is_read_on(key: bytes, is_read: bool) -> None:
    core = core_with(PRODUCE)
    taken(core)
    later(core, overtaken_by=0)
    large = frame(key + bytes(2 * READ_AHEAD_SIZE))
    arrive(core, large[: READ_AHEAD_SIZE + 10])
    assert core.has_read_enough is not is_read
    assert taken(core) is None
    assert (core.budgeted_size > 0) is is_read
    arrive(core, large[READ_AHEAD_SIZE + 10 :])
    assert (taken(core) is not None) is is_read


@pytest.mark.parametrize("reply", [None, small(b"late"), [bytearray(b"head"), b"records"]])
def test_a_response_that_comes_later_is_sent_at_once(reply: list[Part] | None) -> None:
    core = core_with(b"1", b"2")
    taken(core)
    outputs = core.end_wait(core.arrived(later(core, keeps_frame=True)), reply)
    assert outputs == ([] if reply is None else [reply[0] if len(reply) == 1 else reply])
    assert core.requests == 1
    assert taken(core) == b"2"


def test_a_frame_that_is_kept_stays_as_it_is_while_more_arrives() -> None:
    core = core_with(b"kept")
    view = core.next_frame()
    assert view is not None
    kept = later(core, keeps_frame=True)
    arrive(core, frame(b"x" * 200_000))
    assert view == b"kept"
    core.end_wait(core.arrived(kept), None)
    assert taken(core) == b"x" * 200_000


def test_requests_are_read_ahead_up_to_a_limit() -> None:
    core = core_with(b"1")
    taken(core)
    waited = later(core)
    assert not core.has_read_enough
    arrive(core, bytes(READ_AHEAD_SIZE - 1))
    before = core.has_read_enough
    arrive(core, b"x")
    assert (before, core.has_read_enough) == (False, True)
    core.end_wait(core.arrived(waited), None)
    assert not core.has_read_enough, "the bytes that have arrived are decoded first"


def test_no_request_is_taken_before_all_reasons_are_cleared() -> None:
    core = core_with(b"1")
    for reason in (SENDING, UNSENT, QUEUED):
        core.set_busy(reason)
    core.set_busy(UNSENT)
    for reason in (UNSENT, SENDING, QUEUED):
        assert taken(core) is None
        core.clear_busy(reason)
    assert taken(core) == b"1"


def test_a_closed_connection_takes_no_request_and_keeps_its_replies() -> None:
    core = core_with(b"1", b"2")
    taken(core)
    core.reply(small(b"one"), False)
    core.close()
    core.clear_busy(UNSENT)
    assert taken(core) is None
    assert core.take_replies() == b"one"


@pytest.mark.parametrize(
    ("prefix", "error"), [(b"\xff\xff\xff\xff", InvalidFrameLength), (b"\x7f\xff\xff\xff", FrameTooLarge)]
)
def test_replies_stay_when_invalid_bytes_follow(prefix: bytes, error: type[Exception]) -> None:
    core = core_with(b"1")
    arrive(core, prefix)
    taken(core)
    assert core.reply(small(b"one"), False) is None
    with pytest.raises(error):
        taken(core)
    assert core.take_replies() == b"one"


def test_a_peer_that_closes_its_side_is_answered_first() -> None:
    core = core_with(b"1", b"2")
    core.peer_has_closed()
    taken(core)
    waited = later(core)
    assert not core.is_finished
    core.end_wait(core.arrived(waited), small(b"one"))
    assert taken(core) == b"2"
    core.set_busy(SENDING)
    core.reply([b"records", b"more"], False)
    assert not core.is_finished
    core.clear_busy(SENDING)
    assert taken(core) is None
    assert core.is_finished


def test_a_peer_that_closes_in_the_middle_of_a_request_is_finished() -> None:
    core = ConnectionCore(MAX_FRAME_SIZE)
    arrive(core, frame(b"x" * 1000)[:-1])
    assert taken(core) is None
    assert core.missing_size == 1
    core.peer_has_closed()
    assert core.is_finished


def test_only_large_frames_count_and_only_as_they_grow() -> None:
    core = ConnectionCore(MAX_FRAME_SIZE)
    arrive(core, struct.pack(">i", SMALL_FRAME_SIZE))
    taken(core)
    assert core.budgeted_size == 0
    core = ConnectionCore(MAX_FRAME_SIZE)
    arrive(core, struct.pack(">i", 10 * SMALL_FRAME_SIZE))
    taken(core)
    assert core.budgeted_size <= 0, "an announced size is not charged"
    arrive(core, bytes(4 * SMALL_FRAME_SIZE))
    taken(core)
    assert SMALL_FRAME_SIZE < core.budgeted_size < 8 * SMALL_FRAME_SIZE
    arrive(core, bytes(6 * SMALL_FRAME_SIZE))
    assert taken(core) is not None
    later(core, keeps_frame=True)
    assert core.budgeted_size == 0


NOW, UNANSWERED, LARGE, LATER, LATER_LARGE = "now", "unanswered", "large", "later", "later and large"
OVERTAKEN = "later than the next"


class Conversation:
    """Sends the requests 0, 1, 2, … in pieces, answers each by its kind, and records the output in its order."""

    def __init__(self, kinds: list[str], sizes: list[int], others_are_ready: bool) -> None:
        self.core = ConnectionCore(MAX_FRAME_SIZE)
        self.kinds = kinds
        self.data = b"".join(frame(struct.pack(">i", at) + bytes(sizes[at % len(sizes)])) for at in range(len(kinds)))
        self.sent: list[int] = []
        self.waited_for: list[tuple[int, Waiting[object]]] = []
        """Numbers of requests whose responses come later."""
        self.others_are_ready = others_are_ready

    def send(self, output: bytearray | list[Part] | None) -> None:
        parts = output if isinstance(output, list) else [output or b""]
        data = b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray))
        self.sent += [number for (number,) in struct.iter_unpack(">i", data)]

    def serve(self) -> None:
        """Take requests as ``Connection`` does."""
        while (request := taken(self.core)) is not None:
            number = int.from_bytes(request[:4])
            kind = self.kinds[number]
            if kind in (LATER, LATER_LARGE, OVERTAKEN):
                overtaken_by = 0 if kind == OVERTAKEN else NO_API
                self.waited_for.append((number, later(self.core, keeps_frame=kind == LATER, overtaken_by=overtaken_by)))
            else:
                self.send(self.core.reply(self.reply_to(number), self.others_are_ready))
        self.send(self.core.take_replies())

    def reply_to(self, number: int) -> list[Part] | None:
        reply = struct.pack(">i", number)
        if self.kinds[number] == UNANSWERED:
            return None
        return [reply, b""] if self.kinds[number] in (LARGE, LATER_LARGE) else small(reply)

    def end_wait(self, which: int = 0) -> None:
        """A response is there, not always that of the oldest request."""
        if self.waited_for:
            number, waited = self.waited_for.pop(which % len(self.waited_for))
            for output in self.core.end_wait(self.core.arrived(waited), self.reply_to(number)):
                self.send(output)


@given(
    kinds=st.lists(
        st.sampled_from((NOW, NOW, UNANSWERED, LARGE, LATER, LATER_LARGE, OVERTAKEN)), min_size=1, max_size=12
    ),
    sizes=st.lists(st.sampled_from((0, 1, 5000, 70_000)), min_size=1, max_size=4),
    pieces=st.lists(st.sampled_from((1, 3, 100, 5000, 200_000)), min_size=1, max_size=6),
    events=st.lists(st.sampled_from(("arrive", "end_wait", "block", "unblock")), max_size=30),
    others_are_ready=st.booleans(),
)
def test_every_reply_leaves_once_and_in_order(
    kinds: list[str], sizes: list[int], pieces: list[int], events: list[str], others_are_ready: bool
) -> None:
    conversation = Conversation(kinds, sizes, others_are_ready)
    core, data = conversation.core, conversation.data
    for at, event in enumerate(events):
        if event == "arrive":
            size = pieces[at % len(pieces)]
            arrive(core, data[:size])
            data = data[size:]
        elif event == "end_wait":
            conversation.end_wait(at)
        elif event == "block":
            core.set_busy(UNSENT)
        else:
            core.clear_busy(UNSENT)
        conversation.serve()
    arrive(core, data)
    core.clear_busy(UNSENT)
    for _ in kinds:
        conversation.serve()
        conversation.end_wait()
    conversation.serve()
    assert conversation.sent == [at for at, kind in enumerate(kinds) if kind != UNANSWERED]
    assert core.requests == len(kinds)
    assert core.is_empty
