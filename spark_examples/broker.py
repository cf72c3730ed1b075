"""A kafkapy broker for the length of an example, or the address of one that runs already."""

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"
START_TIMEOUT_S = 20
API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


@contextmanager
def running_broker(bootstrap: str | None = None, trace: Path | None = None) -> Iterator[str]:
    """Yields a bootstrap address: the given one, or that of `kafkapy start` on a free port, ended afterwards.

    With `trace` the started broker writes its requests and responses into this file, one JSON object per line.
    """
    if bootstrap is not None:
        yield bootstrap
        return
    with tempfile.TemporaryDirectory(prefix="kafkapy-example-") as directory, socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
        probe.close()
        process = _start(Path(directory), port, trace)
        try:
            yield f"{HOST}:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=START_TIMEOUT_S)


def _start(directory: Path, port: int, trace: Path | None) -> subprocess.Popen[bytes]:
    log = directory / "broker.log"
    command = [sys.executable, "-c", "from kafkapy.cli.main import main; main()", "start"]
    command += ["--data", str(directory / "data"), "--port", str(port)]
    with log.open("wb") as errors, (log if trace is None else trace).open("ab") as output:
        process = subprocess.Popen(
            command if trace is None else [*command, "--trace-json"], stdout=output, stderr=errors
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the broker did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.02)
    return process


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1) as connection:
            connection.sendall(API_VERSIONS_V0)
            return bool(connection.recv(8))
    except OSError:
        return False
