"""Feeds broken requests to the codec: `python -m tools.fuzz_codec --seconds 300 --seed 1`.

Only ProtocolError may come out, and memory stays within a multiple of the frame plus the decoding budget. An input that
breaks this is written to the corpus (tests/fuzz/corpus, one file per input), which the tests replay.
"""

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from harness.mutation import mutate
from kafkapy.protocol.framing import FrameDecoder
from kafkapy.protocol.headers import RequestHeader, read_request_header, write_request_header
from kafkapy.protocol.message import Message, ProtocolError
from kafkapy.protocol.messages import APIS, has_classes, request_class, response_class
from kafkapy.protocol.primitives import encode
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Writer

CORPUS = Path(__file__).resolve().parent.parent / "tests" / "fuzz" / "corpus"
BUDGET = 20_000
MEMORY_PER_SLOT = 160
MEMORY_PER_BYTE = 12


class FuzzFailure(Exception):
    """An input that got something else than ProtocolError, or too much memory."""


def seeds() -> Iterator[bytes]:
    """A request with default fields for every API and version that has classes, and the corpus."""
    for key, (_, _, low, high, _) in APIS.items():
        if not has_classes(key):
            continue
        for version in range(low, high + 1):
            writer = Writer()
            write_request_header(writer, RequestHeader(key, version, 7, "fuzz"))
            try:
                request_class(key)().write(writer, version)
            except ProtocolError:
                continue
            yield writer.getvalue() + bytes(16)
    for path in sorted(CORPUS.glob("*.bin")):
        yield path.read_bytes()


def run_input(data: bytes) -> bool:
    """Decode one request, and its bytes as the response too; whether the request was valid. Anything odd propagates."""
    reader = Reader(data, BUDGET)
    try:
        header = read_request_header(reader)
    except ProtocolError:
        return False
    if not has_classes(header.api_key):
        return False
    position = reader.position
    _read(response_class(header.api_key), Reader(data[position:], BUDGET), header.api_version)
    request = _read(request_class(header.api_key), reader, header.api_version)
    if request is None:
        return False
    writer = Writer()
    try:
        request.write(writer, header.api_version)
    except ProtocolError:
        return True  # a tag twice, or a string that U+FFFD makes too long: Java reads it too and can't write it
    data = writer.getvalue()
    if encode(request_class(header.api_key).read(Reader(data), header.api_version), header.api_version) != data:
        raise FuzzFailure("a request that was read isn't written the same")
    return True


def _read(message: type[Message], reader: Reader, version: int) -> Message | None:
    try:
        return message.read(reader, version)
    except ProtocolError:
        return None


def check_input(data: bytes) -> bool:
    """`run_input` under a watch on memory; raises FuzzFailure."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        valid = run_input(data)
    except FuzzFailure:
        raise
    except Exception as error:  # whatever it is, it is what the fuzzer looks for
        raise FuzzFailure(f"{type(error).__name__}: {error}") from error
    used = tracemalloc.get_traced_memory()[1] - before
    allowed = 4 * BUDGET * MEMORY_PER_SLOT + MEMORY_PER_BYTE * len(data) + 300_000
    if used > allowed:
        raise FuzzFailure(f"{used} bytes of memory for a frame of {len(data)}, {allowed} allowed")
    return valid


def check_framing(data: bytes, chance: random.Random) -> None:
    """Random bytes in random pieces into the frame decoder."""
    decoder = FrameDecoder(1 << 16)
    try:
        while data:
            buffer = decoder.get_buffer(-1)
            size = min(len(buffer), len(data), chance.randint(1, 64))
            buffer[:size] = data[:size]
            decoder.buffer_updated(size)
            data = data[size:]
            while decoder.next_frame() is not None:
                decoder.release()
    except ProtocolError:
        pass


def fuzz(seconds: float, seed: int) -> tuple[int, int]:
    """Run for a while; how many inputs there were, and how many of them were valid requests."""
    chance = random.Random(seed)
    pool = list(seeds())
    for key in filter(has_classes, APIS):
        request_class(key)
        response_class(key)
    inputs = valid = 0
    deadline = time.monotonic() + seconds
    tracemalloc.start()
    try:
        while time.monotonic() < deadline:
            data = mutate(chance.choice(pool), chance)
            inputs += 1
            try:
                if check_input(data):
                    valid += 1
                    if len(data) < 2000 and len(pool) < 20_000 and chance.random() < 0.05:
                        pool.append(data)
                check_framing(data, chance)
            except FuzzFailure:
                (CORPUS / f"seed-{seed}-{inputs}.bin").write_bytes(data)
                raise
    finally:
        tracemalloc.stop()
    return inputs, valid


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz_codec", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    inputs, valid = fuzz(arguments.seconds, arguments.seed)
    print(f"{inputs} inputs, {valid} valid requests among them, nothing but ProtocolError came out")
    return 0


if __name__ == "__main__":
    sys.exit(main())
