"""A kafkapy broker for the length of a demonstration, or the address of one that is running already."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

ANSWER_TIMEOUT_MS = 10_000
STOP_TIMEOUT_S = 20


class NoBrokerError(RuntimeError):
    """No broker answers at the given address, or the own one did not start."""


@contextmanager
def running_broker(
    bootstrap: str | None, log: Path, *, trace: bool = False, option: str = "--bootstrap"
) -> Iterator[str]:
    """Yields a bootstrap address: the given one, or that of a kafkapy on a free port, stopped afterwards.

    The broker of ours keeps its data in a temporary directory, writes its log into `log`, and stops when this process
    ends in any way. With `trace` its requests and responses are written there too, one JSON object in each line.
    `option` is the one that gives the address. Raises NoBrokerError.
    """
    if bootstrap is not None:
        check_answers(bootstrap, option)
        yield bootstrap
        return
    command = [sys.executable, "-m", "kafkapy", "start", "--ephemeral", "--print-bootstrap"]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*command, "--trace-json"] if trace else command, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise NoBrokerError(f"The broker did not start:\n{log.read_text(errors='replace')}")
        try:
            yield address
        finally:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


def check_answers(bootstrap: str, option: str = "--bootstrap") -> None:
    """Raises NoBrokerError if no broker answers at this address within ten seconds."""
    try:
        KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=ANSWER_TIMEOUT_MS).close()
    except (KafkaError, ValueError) as error:
        raise NoBrokerError(f"No broker answers at {bootstrap} ({option}): {error}") from error
