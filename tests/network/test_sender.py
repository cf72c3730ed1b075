"""Parts and slices on a socket that takes few bytes at a time (test_connection tests the sender within a broker)."""

import asyncio
import contextlib
import gc
import os
import socket
import struct
import weakref
from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from harness.client import batch
from kafkapy.network import sender as sender_module
from kafkapy.network.sender import SENDFILE_ALONE_FROM_SIZE, SENDFILE_FROM_SIZE, BodySender, FileCutError
from kafkapy.network.transport import PlaintextTransport
from kafkapy.platform.files import Files, FileSlice
from kafkapy.records.convert import convert
from kafkapy.storage.log.converted import PIECE_SIZE, ConvertedSlice
from tests.server.harness import until


class Peer(asyncio.Protocol):
    """The sending side's protocol: knows whether the transport's buffer is blocked."""

    def __init__(self, sock: socket.socket) -> None:
        self.blocked = False
        self.socket = sock
        self.sender: BodySender | None = None
        self.done = 0
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=0)
        self.transport = transport
        self.sender = PlaintextTransport().new_sender(
            transport, self.socket, is_blocked=lambda: self.blocked, on_done=self._on_done
        )

    def _on_done(self) -> None:
        self.done += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def pause_writing(self) -> None:
        self.blocked = True

    def resume_writing(self) -> None:
        self.blocked = False
        assert self.sender is not None
        self.sender.unblocked()


def test_a_closed_sender_leaves_no_cycle() -> None:
    """Full collections wait for an idle broker: until then a cycle would keep each closed connection's memory."""

    async def opened_and_lost() -> "weakref.ref[Peer]":
        ours, theirs = socket.socketpair()
        with theirs:
            transport, peer = await asyncio.get_running_loop().connect_accepted_socket(lambda: Peer(ours), ours)
            assert peer.sender is not None
            peer.sender.close()
            transport.abort()
            await until(lambda: peer.lost)
            return weakref.ref(peer)

    async def scenario() -> None:
        gone = await opened_and_lost()
        await asyncio.sleep(0)
        assert gone() is None

    gc.disable()
    try:
        asyncio.run(scenario())
    finally:
        gc.enable()


def on_a_socket(
    test: Callable[[BodySender, Peer, socket.socket], Awaitable[None]], send_buffer_size: int = 8192
) -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_size)
        ours.setblocking(False)
        theirs.setblocking(False)
        _, peer = await asyncio.get_running_loop().connect_accepted_socket(lambda: Peer(ours), ours)
        assert peer.sender is not None
        try:
            await test(peer.sender, peer, theirs)
        finally:
            peer.sender.close()
            peer.transport.abort()
            theirs.close()
            await until(lambda: peer.lost)

    asyncio.run(scenario())


def file_slice(path: Path, data: bytes, size: int | None = None) -> FileSlice:
    path.write_bytes(data)
    return FileSlice(Files().open(str(path), os.O_RDONLY), 0, len(data) if size is None else size)


async def receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await asyncio.get_running_loop().sock_recv(sock, size - len(data))
    return data


@pytest.fixture(params=["sendfile", "reading"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With sendfile, and as on a system without it."""
    if request.param == "reading":
        monkeypatch.setattr(sender_module, "sendfile", None)


@pytest.mark.usefixtures("way")
def test_everything_arrives_in_order_through_a_narrow_socket(tmp_path: Path) -> None:
    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        pieces = [b"head", os.urandom(200_000), b"mid", os.urandom(500), os.urandom(150_000), b"x" * 50_000, b"tail"]
        parts = [
            piece if index % 2 == 0 else file_slice(tmp_path / str(index), piece) for index, piece in enumerate(pieces)
        ]
        whole = b"".join(pieces)
        assert not sender.send(list(parts))
        assert sender.is_sending
        assert await receive(theirs, len(whole)) == whole
        await until(lambda: peer.done > 0)
        assert (peer.done, sender.is_sending) == (1, False)
        assert sender.bytes_sent > SENDFILE_FROM_SIZE / 2
        assert sender.send([b"next"])
        assert await receive(theirs, 4) == b"next"

    on_a_socket(test)


@pytest.mark.parametrize("left", [1, 100, SENDFILE_FROM_SIZE - 1, SENDFILE_FROM_SIZE, SENDFILE_FROM_SIZE + 1])
def test_the_rest_of_a_slice_is_sent_after_the_socket_was_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    taken_at_once = 2 * SENDFILE_FROM_SIZE

    def narrow(out: int, source: int, position: int, count: int) -> int:
        return os.sendfile(out, source, position, min(count, taken_at_once))

    monkeypatch.setattr(sender_module, "sendfile", narrow)

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        data = os.urandom(3 * taken_at_once + left)
        assert not sender.send([b"head", file_slice(tmp_path / "large", data), b"tail"])
        assert await asyncio.wait_for(receive(theirs, len(data) + 8), 10) == b"head" + data + b"tail"
        await until(lambda: peer.done > 0)
        assert not sender.is_sending

    on_a_socket(test, send_buffer_size=8 * taken_at_once)


@settings(
    max_examples=200, deadline=None, phases=(Phase.reuse, Phase.generate)
)  # a lost byte makes the test wait, so examples are not shrunk
@given(
    sizes=st.lists(st.integers(0, 3 * SENDFILE_FROM_SIZE), min_size=1, max_size=8),
    in_files=st.integers(0, 255),
    takes=st.lists(st.integers(5_000, 2 * SENDFILE_FROM_SIZE), min_size=1, max_size=5),
    reads=st.lists(st.integers(5_000, 4 * SENDFILE_FROM_SIZE), min_size=1, max_size=5),
)
def test_all_bytes_arrive_with_any_sizes_of_writes_and_reads(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], in_files: int, takes: list[int], reads: list[int]
) -> None:
    """Bit n of ``in_files``: part n is in a file. ``takes`` and ``reads`` are used cyclically."""
    path = tmp_path_factory.mktemp("parts", numbered=True)
    data = [os.urandom(size) for size in sizes]
    whole = b"".join(data)
    taking, reading = cycle(takes), cycle(reads)

    def narrow(out: int, source: int, position: int, count: int) -> int:
        return os.sendfile(out, source, position, min(count, next(taking)))

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        parts = [file_slice(path / str(at), each) if in_files >> at & 1 else each for at, each in enumerate(data)]
        at_once = sender.send(parts)
        received = b""
        while len(received) < len(whole):
            received += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, next(reading)), 3)
        assert received == whole
        await until(lambda: at_once or peer.done > 0)
        assert (peer.done, sender.is_sending) == (0 if at_once else 1, False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sender_module, "sendfile", narrow)
        on_a_socket(test)


@settings(max_examples=200, deadline=None, phases=(Phase.reuse, Phase.generate))
@given(
    head_size=st.sampled_from([1, 100, 100_000]),
    body_size=st.integers(SENDFILE_ALONE_FROM_SIZE - 1, 3 * SENDFILE_FROM_SIZE),
    earlier=st.sampled_from(["nothing", "fills the kernel", "waits in the transport"]),
    takes=st.lists(st.integers(1_000, SENDFILE_FROM_SIZE), min_size=1, max_size=3),
)
def test_a_head_and_a_slice_arrive_behind_all_before_them(
    tmp_path_factory: pytest.TempPathFactory, head_size: int, body_size: int, earlier: str, takes: list[int]
) -> None:
    """An earlier response is not read yet."""
    path = tmp_path_factory.mktemp("parts", numbered=True)
    head, body = os.urandom(head_size), os.urandom(body_size)
    taking = cycle(takes)

    def narrow(out: int, source: int, position: int, count: int) -> int:
        return os.sendfile(out, source, position, min(count, next(taking)))

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        before, received = b"", b""
        if earlier == "fills the kernel":
            with contextlib.suppress(BlockingIOError):
                while True:
                    before += b"b" * peer.socket.send(b"b" * 4096)
        elif earlier == "waits in the transport":
            before = os.urandom(100_000)
            peer.transport.write(before)
            received = theirs.recv(50_000)
        part = file_slice(path / "body", body)
        at_once = sender.send([bytearray(head), part])
        whole = before + head + body
        received += await asyncio.wait_for(receive(theirs, len(whole) - len(received)), 10)
        assert received == whole
        await until(lambda: at_once or peer.done > 0)
        assert (peer.done, sender.is_sending) == (0 if at_once else 1, False)
        with pytest.raises(AssertionError, match="released"):
            part.fileno()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sender_module, "sendfile", narrow)
        on_a_socket(test, send_buffer_size=32_768)


DATA_SEGMENTS_OUT = 156
"""The place of the count of sent segments with data in Linux's ``struct tcp_info``."""


@pytest.mark.skipif(not hasattr(socket, "MSG_MORE"), reason="only Linux holds bytes back until others follow")
@pytest.mark.parametrize("size", [SENDFILE_ALONE_FROM_SIZE - 1, SENDFILE_ALONE_FROM_SIZE])
def test_a_head_and_a_slice_leave_in_one_segment(tmp_path: Path, size: int) -> None:
    """Two would wake the client twice."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            theirs = socket.create_connection(server.getsockname())
            ours = server.accept()[0]
        with theirs:
            transport, peer = await asyncio.get_running_loop().connect_accepted_socket(lambda: Peer(ours), ours)
            assert peer.sender is not None
            assert peer.sender.send([bytearray(b"head"), file_slice(tmp_path / "body", bytes(size))])
            (segments,) = struct.unpack_from(
                "I", ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), DATA_SEGMENTS_OUT
            )
            assert segments == 1
            peer.sender.close()
            transport.abort()
            await until(lambda: peer.lost)

    asyncio.run(scenario())


def test_a_client_that_reads_slowly_takes_no_second_descriptor(tmp_path: Path) -> None:
    """A broker without free descriptors goes on with the connections that it has."""

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        body = os.urandom(SENDFILE_FROM_SIZE - 1)
        part = file_slice(tmp_path / "body", body)
        before = len(os.listdir("/dev/fd"))
        sender.send([bytearray(b"head"), part])
        assert peer.transport.get_write_buffer_size() > 0
        assert len(os.listdir("/dev/fd")) <= before
        assert await asyncio.wait_for(receive(theirs, 4 + len(body)), 10) == b"head" + body

    on_a_socket(test)


@pytest.mark.parametrize("size", [100, SENDFILE_ALONE_FROM_SIZE, SENDFILE_FROM_SIZE])
@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_sent_on_an_aborted_connection(tmp_path: Path, size: int, count: int) -> None:
    """A reply before it may have been dropped."""

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        peer.transport.abort()
        parts = [file_slice(tmp_path / str(at), bytes(size)) for at in range(count)]
        sender.send([bytearray(b"head"), *parts])
        await until(lambda: peer.lost)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1), 10) == b""

    on_a_socket(test, send_buffer_size=1 << 20)


@pytest.mark.usefixtures("way")
def test_a_slice_longer_than_its_file_is_an_error(tmp_path: Path) -> None:
    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        with pytest.raises(FileCutError, match="600 bytes announced, the file holds 500"):
            sender.send([file_slice(tmp_path / "small", b"x" * 500, 600)])
        sender.close()
        with pytest.raises(FileCutError, match="announced are not in the file"):
            sender.send([file_slice(tmp_path / "empty", b"", SENDFILE_FROM_SIZE)])
        sender.close()
        with pytest.raises(FileCutError, match="20000 bytes announced"):
            sender.send([bytearray(b"head"), file_slice(tmp_path / "empty", b"", 20_000)])

    on_a_socket(test)


def test_a_file_cut_while_the_socket_is_full_aborts(tmp_path: Path) -> None:
    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        sender.send([file_slice(tmp_path / "large", b"x" * 5_000_000)])
        os.truncate(tmp_path / "large", 0)
        while not peer.lost:
            try:
                await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1 << 20), 5)
            except ConnectionError:
                break

    on_a_socket(test)


def test_a_bug_while_a_response_is_sent_aborts_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No code would continue the conversion."""
    batches = b"".join(batch(os.urandom(900), base_offset=at) for at in range(300))

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
        peer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        body = ConvertedSlice(file_slice(tmp_path / "0", batches), 1, 0)
        assert list(body.prepare()) == [None]
        assert not sender.send([body])
        monkeypatch.setattr(ConvertedSlice, "_convert_next", None)
        await asyncio.wait_for(until(lambda: peer.lost), 5)
        assert [type(each) for each in failures] == [TypeError]

    on_a_socket(test)


def test_closing_drops_what_is_unsent(tmp_path: Path) -> None:
    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        body = file_slice(tmp_path / "large", b"x" * 5_000_000)
        sender.send([body, b"after"])
        sender.close()
        assert not sender.is_sending
        with pytest.raises(AssertionError, match="released"):
            body.fileno()
        assert peer.done == 0

    on_a_socket(test)


def test_converted_slices_are_sent_piece_by_piece_between_other_connections(tmp_path: Path) -> None:
    batches = b"".join(batch(os.urandom(900), base_offset=at) for at in range(300))

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            if sender.is_sending:
                asyncio.get_running_loop().call_soon(count)

        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        body = ConvertedSlice(file_slice(tmp_path / "0", batches), 1, 0)
        assert list(body.prepare()) == [None]
        size = len(body)
        assert not sender.send([b"head", body, b"tail"])
        count()
        received = await receive(theirs, size + 8)
        assert (received[:4], received[-4:]) == (b"head", b"tail")
        converted = convert(batches, 1)
        assert received[4 : 4 + len(converted)] == converted
        await until(lambda: peer.done == 1)
        assert turns > len(batches) // PIECE_SIZE
        assert (body.size, sender.bytes_sent) == (0, size)

    on_a_socket(test)


def test_a_converted_slice_ends_with_its_connection(tmp_path: Path) -> None:
    batches = b"".join(batch(os.urandom(900), base_offset=at) for at in range(300))

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        body = ConvertedSlice(file_slice(tmp_path / "0", batches), 1, 0)
        assert list(body.prepare()) == [None]
        peer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        assert not sender.send([body])
        sender.close()
        assert (body.size, sender.is_sending) == (0, False)
        await asyncio.sleep(0)
        assert peer.done == 0

    on_a_socket(test)


@pytest.mark.parametrize("is_closed", [False, True])
def test_the_sender_waits_for_a_slice_that_a_thread_converts(tmp_path: Path, is_closed: bool) -> None:
    batches = batch(b"small") + batch(*[b""] * 50, base_offset=1, compression=1) + batch(bytes(9000), base_offset=51)

    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        jobs: list[tuple[asyncio.Future[Any], Any]] = []

        def compute(function: Any) -> asyncio.Future[Any]:
            jobs.append((asyncio.get_running_loop().create_future(), function))
            return jobs[-1][0]

        body = ConvertedSlice(file_slice(tmp_path / "0", batches), 1, 0, compute)
        steps = body.prepare()
        next(steps)
        while jobs and not jobs[-1][0].done():
            jobs[-1][0].set_result(jobs[-1][1]())
        assert list(steps) == []
        size = len(body)
        assert not sender.send([body, b"tail"])
        await until(lambda: len(jobs) == 1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert sender.is_sending
        if is_closed:
            sender.close()
        jobs[0][0].set_result(jobs[0][1]())
        if is_closed:
            await asyncio.sleep(0)
            assert (body.size, peer.done, sender.is_sending) == (0, 0, False)
            return
        received = await receive(theirs, size + 4)
        assert received[-4:] == b"tail"
        converted = convert(batches, 1)
        assert received[:-4][: len(converted)] == converted[:size]
        await until(lambda: peer.done == 1)

    on_a_socket(test)


def test_the_memory_of_waiting_parts_counts_shared_bytes_once_and_no_slices(tmp_path: Path) -> None:
    async def test(sender: BodySender, peer: Peer, theirs: socket.socket) -> None:
        shared = os.urandom(300_000)
        source = file_slice(tmp_path / "file", os.urandom(300_000))
        assert (sender.waiting_size, sender.held_size) == (0, 0)
        assert not sender.send([shared, bytearray(1_000), shared, source, shared])
        assert (sender.waiting_size, sender.held_size) == (901_000, 301_000)
        await receive(theirs, 1_201_000)
        await until(lambda: peer.done == 1)
        assert (sender.waiting_size, sender.held_size) == (0, 0)

    on_a_socket(test)
