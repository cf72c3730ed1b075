"""One broker for the commands' tests, and the command line as a function."""

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kafkapy.cli import main as cli
from tests.clients.thread_broker import thread_broker


@dataclass
class Ran:
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(scope="package")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with thread_broker(tmp_path_factory.mktemp("broker"), transaction_partition_verification_enable="false") as address:
        yield address


@pytest.fixture
def run(bootstrap: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``kafkapy`` with these words, and ``stdin`` as its input, on the tests' broker."""
    monkeypatch.setenv("KAFKAPY_BOOTSTRAP", bootstrap)

    def run_command(*words: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = cli.main(list(words))
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run_command
