"""The base of every broker under test: a child process on loopback, its data directory, its log, its end."""

import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from harness.keeper import keeper

HOST = "127.0.0.1"
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
PORTS = (12_000, 32_000)
API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class BrokerError(Exception):
    """The broker under test did not start, or ended by itself; the message carries the end of its log."""


class Broker(Protocol):
    """A running broker that tests and benchmarks talk to."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def data(self) -> Path | None: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    def why_gone(self) -> str: ...


def free_port() -> int:
    """A free loopback port below those that systems give to outgoing connections."""
    while True:
        port = random.SystemRandom().randrange(*PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port


def answers_api_versions(port: int, host: str = HOST) -> bool:
    """Whether something on this port answers an ApiVersions v0 request."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(API_VERSIONS_V0)
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Asks until the condition holds; returns whether it came to."""
    deadline = time.monotonic() + timeout_s
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(every_s)
    return holds


class ChildProcess:
    """A server as a child process in a directory of its own, stopped by its process id.

    A subclass sets `command` in `prepare` and says in `is_ready` when it serves. Without `directory` everything lies
    in a temporary one, gone after `stop`. `start` and `stop` may alternate: the data stays until `close`.
    """

    def __init__(self, name: str, directory: Path | None = None, overrides: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.overrides = dict(overrides or {})
        self.host = HOST
        self.prefix: tuple[str, ...] = ()
        """Words before the command: a program that runs it in a network namespace, say."""
        self.port = free_port()
        self._own_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"{name}-"))
        if self._own_directory:
            keeper().note("directory", self.directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.log_path = self.directory / "process.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0

    @property
    def bootstrap(self) -> str:
        """The address for clients, as `host:port`."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None else None

    def command(self) -> list[str]:
        """The command line; called at each start."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        """The child's environment variables."""
        return dict(os.environ)

    def is_ready(self) -> bool:
        """Whether the server answers."""
        return answers_api_versions(self.port, self.host)

    def start(self, *, wait: bool = True) -> Self:
        """Starts the process and waits until it answers; raises BrokerError with its log when it doesn't."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self.environment(),
            )
        keeper().note("process", self._process.pid)
        self.started_s = time.monotonic()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Returns when the server answers; raises BrokerError when it ended or took too long."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if self._process.poll() is not None:
                raise BrokerError(f"{self.name} ended with {self._process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.stop()
                raise BrokerError(f"{self.name} did not answer within {timeout_s:.0f} s:\n{self.log_tail()}")
            time.sleep(0.02)

    def why_gone(self) -> str:
        """The reason why the process ended although it was not stopped, on one line; "" while it serves."""
        if self._process is None or (code := self._process.poll()) is None:
            return ""
        said = (self.log_tail(1) or "nothing").strip()
        return f"{self.name} (process {self._process.pid}) ended by itself with {code}; the last it said: {said}"

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the process's output."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """Ends the process cleanly (SIGTERM), by force only when it hangs; returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()
        finally:
            keeper().forget("process", process.pid)

    def kill(self) -> None:
        """Ends the process without warning (SIGKILL)."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            keeper().forget("process", process.pid)

    def close(self) -> None:
        """Stops the process and removes its directory if it was a temporary one."""
        self.stop()
        if self._own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
            keeper().forget("directory", self.directory)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
