"""Frames are the same in whatever pieces their bytes arrive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.buffers import extended_buffer, new_buffer
from kafkapy.protocol.framing import (
    INITIAL_SIZE,
    KEPT_SIZE,
    READ_AT_ONCE_SIZE,
    FrameDecoder,
    FrameTooLarge,
    InvalidFrameLength,
)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def feed(decoder: FrameDecoder, data: bytes | memoryview) -> int:
    """Put as many bytes into the decoder as it takes at once; return their number."""
    buffer = decoder.get_buffer(-1)
    assert len(buffer) > 0
    size = min(len(buffer), len(data))
    buffer[:size] = data[:size]
    decoder.buffer_updated(size)
    return size


def frames_of(decoder: FrameDecoder, data: bytes, chunk: int) -> list[bytes]:
    found = []
    while data:
        taken = feed(decoder, data[:chunk])
        data = data[taken:]
        while (view := decoder.next_frame()) is not None:
            found.append(bytes(view))
            decoder.release()
    return found


@given(
    bodies=st.lists(st.integers(0, 20_000).map(lambda size: bytes(range(256)) * (size // 256) + bytes(size % 256))),
    chunk=st.sampled_from([1, 2, 3, 5, 7, 1000, 4096, 100_000]),
)
def test_frames_come_out_whole_however_they_arrive(bodies: list[bytes], chunk: int) -> None:
    if chunk < 1000:
        bodies = [body[:50] for body in bodies]
    assert frames_of(FrameDecoder(1 << 20), b"".join(map(frame, bodies)), chunk) == bodies


def test_bytes_after_a_frame_are_kept_until_its_release() -> None:
    decoder = FrameDecoder(100)
    feed(decoder, frame(b"one") + frame(b"two") + b"\x00")
    first = decoder.next_frame()
    assert first == b"one"
    with pytest.raises(RuntimeError):
        decoder.next_frame()
    decoder.release()
    assert decoder.next_frame() == b"two"
    decoder.release()
    assert decoder.next_frame() is None
    assert decoder.buffered_size == 1
    with pytest.raises(RuntimeError):
        decoder.release()


def test_a_full_decoder_still_offers_memory() -> None:
    decoder = FrameDecoder(1 << 20)
    feed(decoder, frame(b"held"))
    held = decoder.next_frame()
    assert held is not None
    assert not decoder.full
    while not decoder.full:
        feed(decoder, frame(b"12") * 1000)
    before = decoder.buffered_size
    assert len(decoder.get_buffer(-1)) > 0
    assert decoder.buffered_size == before
    assert held == b"held"
    assert not decoder.full
    decoder.release()
    assert decoder.next_frame() == b"12"


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_refused(size: int) -> None:
    decoder = FrameDecoder(100)
    feed(decoder, size.to_bytes(4, "big", signed=True))
    with pytest.raises(InvalidFrameLength):
        decoder.next_frame()


def test_size_above_the_limit_is_refused_before_its_bytes_come() -> None:
    decoder = FrameDecoder(100)
    feed(decoder, frame(bytes(100)))
    assert decoder.next_frame() == bytes(100)
    decoder.release()
    feed(decoder, (101).to_bytes(4, "big"))
    with pytest.raises(FrameTooLarge):
        decoder.next_frame()


def test_memory_follows_arriving_bytes_not_the_announced_size() -> None:
    decoder = FrameDecoder(2**31 - 1)
    feed(decoder, (2**31 - 1).to_bytes(4, "big") + b"x")
    assert decoder.next_frame() is None
    assert decoder.pending_size == 2**31 - 1
    assert len(decoder.get_buffer(-1)) < INITIAL_SIZE
    for _ in range(10):
        feed(decoder, bytes(1000))
        decoder.next_frame()
    assert len(decoder.get_buffer(-1)) < 4 * 10_000


def test_large_buffers_are_freed() -> None:
    decoder = FrameDecoder(1 << 24)
    assert frames_of(decoder, frame(bytes(3 * KEPT_SIZE)), 1 << 16) == [bytes(3 * KEPT_SIZE)]
    assert len(decoder.get_buffer(-1)) == KEPT_SIZE
    frames_of(decoder, frame(b"small") * 20, 9)
    assert len(decoder.get_buffer(-1)) == INITIAL_SIZE


def test_a_large_buffer_is_freed_although_the_next_frame_has_begun() -> None:
    decoder = FrameDecoder(1 << 24)
    first = bytes(3 * KEPT_SIZE)
    assert frames_of(decoder, frame(first) + frame(b"next")[:-1], 1 << 16) == [first]
    assert decoder.buffered_size == 7
    assert not decoder.is_empty
    assert len(decoder.get_buffer(-1)) < KEPT_SIZE
    feed(decoder, b"t")
    assert decoder.next_frame() == b"next"


def test_only_an_empty_buffer_is_freed() -> None:
    decoder = FrameDecoder(1 << 24)
    assert frames_of(decoder, frame(bytes(100_000)) * 3, 1 << 16) == [bytes(100_000)] * 3
    decoder.free_if_empty()
    assert len(decoder.get_buffer(-1)) == INITIAL_SIZE
    feed(decoder, frame(b"x")[:3])
    decoder.free_if_empty()
    feed(decoder, frame(b"x")[3:])
    assert decoder.next_frame() == b"x"
    decoder.free_if_empty()
    decoder.release()
    assert frames_of(decoder, frame(b"y"), 1) == [b"y"]


def test_views_of_a_frame_survive_a_replaced_buffer() -> None:
    decoder = FrameDecoder(1 << 24)
    feed(decoder, frame(b"abc"))
    view = decoder.next_frame()
    assert view is not None
    while not decoder.full:
        feed(decoder, bytes(1000))
    decoder.get_buffer(-1)
    decoder.release()
    assert bytes(view) == b"abc"


def test_a_buffer_that_is_read_full_takes_several_frames_at_once() -> None:
    decoder = FrameDecoder(1 << 20)
    waiting = frame(bytes(16_380)) * 100
    while waiting:
        waiting = waiting[feed(decoder, waiting) :]
        while decoder.next_frame() is not None:
            decoder.release()
        assert len(decoder.get_buffer(-1)) <= READ_AT_ONCE_SIZE
    assert len(decoder.get_buffer(-1)) > 5 * 16_384


def test_the_decoder_is_empty_after_the_last_release() -> None:
    decoder = FrameDecoder(100)
    assert decoder.is_empty
    feed(decoder, frame(b"one") + frame(b"two"))
    assert decoder.next_frame() == b"one"
    decoder.release()
    assert not decoder.is_empty
    assert decoder.next_frame() == b"two"
    assert not decoder.is_empty
    decoder.release()
    assert decoder.is_empty


@pytest.mark.parametrize("chunk", [1 << 16, 3 * KEPT_SIZE + 1])
def test_large_frames_arrive_whole_in_buffers_that_are_extended(chunk: int) -> None:
    """Also while a view of an earlier frame is in use, whose buffer stays unchanged."""
    decoder = FrameDecoder(1 << 26, new_buffer, extended_buffer)
    bodies = [bytes([number]) * size for number, size in enumerate((5 * KEPT_SIZE, 10, 9 * KEPT_SIZE, 2 * KEPT_SIZE))]
    kept = []
    for body in bodies:
        data, found = memoryview(frame(body)), None
        while data:
            assert found is None
            data = data[feed(decoder, data[:chunk]) :]
            found = decoder.next_frame()
        assert found == body
        kept.append(found)
        decoder.release()
    assert [kept[0], kept[2]] == [bodies[0], bodies[2]]
