import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.storage.batches import START_MS, batch, marker
from kafkapy.platform.files import Files, FileSlice
from kafkapy.records.batch import HEADER_SIZE, iterate_headers
from kafkapy.records.convert import convert
from kafkapy.records.errors import CorruptRecordError, UnsupportedCompressionTypeError
from kafkapy.records.record import STEP_RECORDS, STEP_SIZE, Record, encode_legacy, read_records
from kafkapy.storage.log.converted import PIECE_SIZE, ConvertedSlice, holds_newer_format
from kafkapy.turns import in_turns


def _slice(path: Path, *contents: bytes | bytearray, size: int | None = None) -> FileSlice:
    data = b"before" + b"".join(contents)
    (path / "0.log").write_bytes(data)
    return FileSlice(Files().open(str(path / "0.log"), os.O_RDONLY), 6, len(data) - 6 if size is None else size)


def _prepared(source: FileSlice, magic: int, first_offset: int) -> ConvertedSlice:
    body = ConvertedSlice(source, magic, first_offset)
    for _ in body.prepare():
        pass
    return body


def _holds_newer(source: FileSlice, magic: int) -> bool:
    search = holds_newer_format(source, magic)
    while True:
        try:
            next(search)
        except StopIteration as end:
            return bool(end.value)


def _taken(body: ConvertedSlice) -> bytes:
    """All bytes that are sent; asserts that they are not more than announced and that there are few pauses."""
    announced, pieces = len(body), []
    while body.size:
        pieces.append(bytes(body.next_piece()))
        assert any(pieces[-100:])
        assert sum(map(len, pieces)) + body.size == announced
    return b"".join(pieces)


def _values(sent: bytes) -> list[bytes | None]:
    return [record.value for at, _ in iterate_headers(sent) for record in read_records(sent, None, at)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1])
def test_batches_are_converted_when_they_are_sent(tmp_path: Path, magic: int, codec: int) -> None:
    contents = [batch(4, value=b"%d" % at * 500, base_offset=4 * at, compression=codec) for at in range(50)]
    whole = b"".join(contents)
    sent = _taken(_prepared(_slice(tmp_path, whole), magic, 0))
    converted = convert(whole, magic)
    shared = min(len(sent), len(converted))
    assert sent[:shared] == converted[:shared]
    assert len(sent) == max(len(whole), len(convert(contents[0], magic)))


def test_missing_bytes_are_filled_with_an_incomplete_entry(tmp_path: Path) -> None:
    """Control batches have no equivalent: the converted slice has fewer bytes than the slice."""
    contents = [batch(value=b"v" * 300), *[marker(commit=True)] * 30]
    source = _slice(tmp_path, *contents)
    announced = len(source)
    sent = _taken(_prepared(source, 1, 0))
    first = convert(contents[0], 1)
    assert len(sent) == announced
    assert sent[: len(first)] == first
    filler = sent[len(first) :]
    assert filler[:8] == b"\xff" * 8
    assert int.from_bytes(filler[8:12], "big") == len(filler) + 1
    assert not any(filler[12:])
    assert _values(sent) == [b"v" * 300]


@pytest.mark.parametrize("left", range(1, 15))
def test_fillers_of_every_size(tmp_path: Path, left: int) -> None:
    content = batch(20, value=b"")
    converted = convert(content, 1)
    source = _slice(tmp_path, content, size=len(converted) + left)
    body = _prepared(source, 1, 0)
    sent = _taken(body)
    assert (len(sent), sent[: len(converted)]) == (len(converted) + left, converted)
    assert sent[len(converted) :] == (b"\xff" * 8 + HEADER_SIZE.to_bytes(4, "big") + bytes(9))[:left]


def test_one_batch_is_sent_whole_even_if_it_grows(tmp_path: Path) -> None:
    content = batch(300, value=b"")
    sent = _taken(_prepared(_slice(tmp_path, content), 1, 0))
    assert sent == convert(content, 1)
    assert len(sent) > len(content)


def test_a_batch_larger_than_a_piece(tmp_path: Path) -> None:
    content = batch(2, value=os.urandom(PIECE_SIZE))
    sent = _taken(_prepared(_slice(tmp_path, content, batch(base_offset=2)[:30]), 0, 0))
    assert sent[: len(convert(content, 0))] == convert(content, 0)


def test_records_below_the_first_offset_are_left_out(tmp_path: Path) -> None:
    sent = _taken(_prepared(_slice(tmp_path, batch(3, value=b"v" * 90)), 1, 2))
    assert [header.base_offset for _, header in iterate_headers(sent)] == [2]


@pytest.mark.parametrize("contents", [[marker(commit=True)] * 3, [batch()[:40]], [b""]])
def test_for_control_batches_only_an_incomplete_entry_is_sent(tmp_path: Path, contents: list[bytes]) -> None:
    assert _taken(_prepared(_slice(tmp_path, *contents), 1, 0)) == b"\xff" * 8 + HEADER_SIZE.to_bytes(4, "big")


def test_zstd_is_refused_in_the_first_batch_and_ends_the_body_later(tmp_path: Path) -> None:
    modern = batch(compression=4)
    with pytest.raises(UnsupportedCompressionTypeError):
        _prepared(_slice(tmp_path, modern), 1, 0)
    for size in (90, PIECE_SIZE):
        source = _slice(tmp_path, batch(value=b"v" * size), modern, modern)
        announced = len(source)
        sent = _taken(_prepared(source, 1, 0))
        assert len(sent) == announced
        assert _values(sent) == [b"v" * size]


def test_a_released_body_has_nothing_left(tmp_path: Path) -> None:
    source = _slice(tmp_path, batch())
    body = _prepared(source, 1, 0)
    body.release()
    assert len(body) == 0
    with pytest.raises(AssertionError):
        source.fileno()


def test_the_newest_format_of_a_slice(tmp_path: Path) -> None:
    old = [encode_legacy([Record(b"k", b"v" * 40, START_MS, (), at)], at % 2) for at in range(2000)]
    newer = batch()
    assert not _holds_newer(_slice(tmp_path, *old), 1)
    assert _holds_newer(_slice(tmp_path, *old), 0)
    assert _holds_newer(_slice(tmp_path, *old, newer), 1)
    assert not _holds_newer(_slice(tmp_path, *old, newer[:-1]), 1)  # not whole: the client will ask again
    assert not _holds_newer(_slice(tmp_path, *old, newer[:10]), 1)
    assert not _holds_newer(_slice(tmp_path, old[0], size=1000), 1)  # the file was cut meanwhile
    with pytest.raises(CorruptRecordError):
        _holds_newer(_slice(tmp_path, bytes(30)), 1)


def _steps(contents: bytes, path: Path) -> tuple[int, ConvertedSlice]:
    body = ConvertedSlice(_slice(path, contents), 1, 0)
    return len(list(body.prepare())), body


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_a_batch_of_many_records_is_converted_in_many_steps(tmp_path: Path, codec: int) -> None:
    """Other connections don't wait for the whole conversion, of the first batch or a later one."""
    content = batch(20 * STEP_RECORDS, value=b"", compression=codec)
    steps, body = _steps(content, tmp_path)
    assert steps >= 20
    assert _taken(body) == convert(content, 1)
    steps, body = _steps(batch(value=os.urandom(500)) + content + batch(value=bytes(1 << 19)), tmp_path)
    assert steps == 1
    pieces = []
    while body.size:
        pieces.append(body.next_piece())
    assert len(pieces) > 20
    assert pieces.count(b"") >= (19 if codec else 0)
    assert max(map(len, pieces[1:-9])) <= (len(convert(content, 1)) if codec else 2 * STEP_SIZE)


def test_a_bad_batch_ends_the_body(tmp_path: Path) -> None:
    bad = bytearray(batch(3 * STEP_RECORDS, base_offset=1))
    bad[-1] = 9
    sent = _taken(_prepared(_slice(tmp_path, batch(), bad, batch(value=bytes(1 << 17))), 1, 0))
    assert [header.base_offset for _, header in iterate_headers(sent)] == list(range(1 + 2 * STEP_RECORDS))


def _beside(path: Path, *contents: bytes) -> tuple[bytes, int, list[str]]:
    """The bytes sent when large batches are converted on another thread, with the number and threads of conversions."""
    used: list[str] = []

    async def scenario() -> tuple[bytes, int]:
        with ThreadPoolExecutor(1, "beside") as executor:

            def compute(function: Callable[[], Any]) -> "asyncio.Future[Any]":
                def run() -> Any:
                    used.append(threading.current_thread().name)
                    return function()

                return asyncio.get_running_loop().run_in_executor(executor, run)

            body = ConvertedSlice(_slice(path, *contents), 1, 0, compute)
            await in_turns(body.prepare())
            announced, pieces = len(body), []
            while body.size:
                if body.pending is not None:
                    await asyncio.wait([body.pending])
                pieces.append(bytes(body.next_piece()))
            assert sum(map(len, pieces)) == announced
            assert body.pending is None
            return b"".join(pieces), max(map(len, pieces))

    return *asyncio.run(scenario()), used


@pytest.mark.parametrize("codec", [0, 1])
def test_large_batches_are_converted_beside_the_loop(tmp_path: Path, codec: int) -> None:
    """The order stays, whether the batch is the first or a later one, alone or between small ones."""
    value = os.urandom(50_000)
    contents = [
        batch(40, value=value, compression=codec),
        batch(1, base_offset=40),
        batch(40, value=value, base_offset=41, compression=codec),
        batch(1, base_offset=81),
    ]
    sent, largest, used = _beside(tmp_path, *contents)
    converted = convert(b"".join(contents), 1)
    shared = min(len(sent), len(converted))
    assert sent[:shared] == converted[:shared]
    assert len(_values(sent)) >= 41
    assert largest <= 256 * 1024
    assert len(used) >= 2
    assert all(name.startswith("beside") for name in used)


def test_small_batches_are_converted_on_the_loop(tmp_path: Path) -> None:
    assert _beside(tmp_path, *(batch(2, base_offset=2 * at) for at in range(50)))[2] == []


def test_a_bad_batch_that_is_converted_beside_the_loop(tmp_path: Path) -> None:
    large, bad = batch(40, value=os.urandom(5_000), compression=1), bytearray(batch(40, base_offset=40, compression=1))
    bad[HEADER_SIZE + 5 :] = bytes(len(bad) - HEADER_SIZE - 5)
    sent, _, used = _beside(tmp_path, large, bad, batch(value=bytes(1 << 17)))
    assert len(used) == 2
    assert sent[: len(convert(large, 1))] == convert(large, 1)[: len(sent)]
    with pytest.raises(CorruptRecordError):
        _beside(tmp_path, bad)


def test_a_client_that_leaves_while_its_batch_is_converted(tmp_path: Path) -> None:
    async def scenario() -> None:
        pending: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        first, large = batch(1, value=os.urandom(99_000)), batch(40, value=b"", compression=1)
        futures = iter([pending])
        body = ConvertedSlice(_slice(tmp_path, batch(1), large, first), 1, 0, lambda _: next(futures))
        list(body.prepare())
        while body.pending is None:
            body.next_piece()
        assert body.next_piece() == b""
        body.release()
        pending.set_result(b"too late")
        assert (body.size, body.pending) == (0, None)

    asyncio.run(scenario())
