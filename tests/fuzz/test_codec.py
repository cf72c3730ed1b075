"""The kept corpus and a short run of the fuzzer; `python -m tools.fuzz_codec --seconds 300` is the long one."""

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import fuzz_codec


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.parametrize("path", sorted(fuzz_codec.CORPUS.glob("*.bin")), ids=lambda path: path.stem)
@pytest.mark.usefixtures("traced")
def test_the_corpus_passes(path: Path) -> None:
    fuzz_codec.check_input(path.read_bytes())
    fuzz_codec.check_framing(path.read_bytes(), random.Random(1))


def test_a_short_run_finds_nothing() -> None:
    inputs, valid = fuzz_codec.fuzz(1.5, seed=7)
    assert inputs > 500
    assert 0 < valid < inputs


@pytest.mark.usefixtures("traced")
def test_the_fuzzer_reports_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> bool:
        raise IndexError(len(data))

    monkeypatch.setattr(fuzz_codec, "run_input", broken)
    with pytest.raises(fuzz_codec.FuzzFailure, match="IndexError"):
        fuzz_codec.check_input(b"")
    monkeypatch.setattr(fuzz_codec, "run_input", lambda data: bool(bytearray(20_000_000)))
    with pytest.raises(fuzz_codec.FuzzFailure, match="memory"):
        fuzz_codec.check_input(b"")
