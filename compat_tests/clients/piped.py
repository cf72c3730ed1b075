"""Command-line producers and consumers that go on while a broker ends and comes back: lines in, lines out."""

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from compat_tests.clients.client import LOAD_PARTITIONS, TIMEOUT_S, KafkaCodeError, Received
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.clients.load import PAUSE_S
from compat_tests.clients.restarts import Held
from harness.jars import JarsError
from harness.java import NoJavaError
from harness.java_programs import MissingToolchainError
from harness.java_tools import JavaTools
from harness.keeper import keeper

END_S = 20


class PipedProcess:
    """A command that reads lines, or else writes them, through `pipe`; what it complains of is kept for who asks."""

    def __init__(self, command: Sequence[str], *, reads: bool) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  (closed by end)
        ends = (subprocess.PIPE, subprocess.DEVNULL)
        stdin, stdout = ends if reads else reversed(ends)
        self.process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=self._complaints, bufsize=0)
        keeper().note("process", self.process.pid)
        pipe = self.process.stdin or self.process.stdout
        assert pipe is not None
        self.pipe: IO[bytes] = pipe

    def end(self, patience_s: float) -> str:
        """Waits for its end, forces it if need be; returns why that was no good end, "" if it was."""
        try:
            code = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        keeper().forget("process", self.process.pid)
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace")
        self._complaints.close()
        with suppress(BrokenPipeError):
            self.pipe.close()
        return f"it ended with {code} and said: {said[-1000:]}" if code != 0 else ""


class PipedLoad:
    """A producer that is handed one numbered line after the other; where they went is seen in the log alone."""

    def __init__(self, command: Sequence[str], bootstrap: str, topic: str) -> None:
        self._running = PipedProcess(command, reads=True)
        self._reader = ConfluentClient(bootstrap)
        self._topic = topic
        self._sent = 0
        self._held = Held(bootstrap, topic)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(BrokenPipeError):  # its exit code tells more
            while not self._stopping.wait(PAUSE_S):
                self._running.pipe.write(b"%d\n" % self._sent)
                self._sent += 1

    def acknowledged(self) -> int:
        return self._held.count()

    def finish(self) -> dict[int, tuple[int, int]]:
        self._stopping.set()
        self._thread.join(TIMEOUT_S)
        with suppress(BrokenPipeError):
            self._running.pipe.close()
        if trouble := self._running.end(TIMEOUT_S):
            raise KafkaCodeError(-1, trouble)
        places: dict[int, tuple[int, int]] = {}
        for partition in range(LOAD_PARTITIONS):
            end = self._reader.watermarks(self._topic, partition)[1]
            for each in self._reader.consume(self._topic, end, partition=partition):
                places[int(each.value or b"")] = (partition, each.offset)
        if lost := self._sent - len(places):
            raise KafkaCodeError(-1, f"{lost} of {self._sent} lines were lost")
        return places


class PipedMember:
    """A consumer in a group that prints one value a line."""

    error = None
    """It must stay running, otherwise its lines are missing."""

    def __init__(self, command: Sequence[str]) -> None:
        self.received: list[Received] = []
        self._running = PipedProcess(command, reads=False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for line in self._running.pipe:
            self.received.append(Received(line.rstrip(b"\n")))

    def close(self) -> None:
        """Leaves the group."""
        self._running.process.terminate()
        self._thread.join(END_S)
        self._running.end(END_S)


class Kcat:
    """kcat, told to live on when no broker is there."""

    name = "kcat"
    is_idempotent = True

    def __init__(self, bootstrap: str) -> None:
        if shutil.which("kcat") is None:
            raise MissingToolchainError("kcat is not installed (Debian's package of that name)")
        self.bootstrap = bootstrap
        self._command = ["kcat", "-b", bootstrap, "-E", "-X", "reconnect.backoff.max.ms=500"]

    def start_load(self, topic: str) -> PipedLoad:
        settings = ["-X", "enable.idempotence=true", "-X", "linger.ms=5"]
        return PipedLoad([*self._command, *settings, "-P", "-t", topic], self.bootstrap, topic)

    def join(self, group: str, topic: str) -> PipedMember:
        settings = ["-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=10000", "-q", "-u"]
        return PipedMember([*self._command, *settings, "-G", group, topic])


class ConsoleTools:
    """kafka-console-producer and kafka-console-consumer of a release."""

    is_idempotent = True

    def __init__(self, version: str, bootstrap: str) -> None:
        self.name = f"kafka-tools-{version}"
        self.bootstrap = bootstrap
        self._tools = JavaTools(version)

    def _command(self, tool: str, *arguments: str) -> list[str]:
        try:
            return self._tools.command(tool, "--bootstrap-server", self.bootstrap, *arguments, heap="64M")
        except (JarsError, NoJavaError) as missing:
            raise MissingToolchainError(f"{self.name}: {missing}") from missing

    def start_load(self, topic: str) -> PipedLoad:
        """Idempotent as 4.1's is by itself; 2.7's own patience would end within a second."""
        wanted = ("enable.idempotence=true", "acks=all", "linger.ms=5", "request.timeout.ms=5000",
                  "retries=2147483647", "delivery.timeout.ms=120000", "reconnect.backoff.max.ms=500")  # fmt: skip
        settings = [word for each in wanted for word in ("--producer-property", each)]
        return PipedLoad(self._command("ConsoleProducer", "--topic", topic, *settings), self.bootstrap, topic)

    def join(self, group: str, topic: str) -> PipedMember:
        settings = ["--group", group, "--from-beginning", "--consumer-property", "reconnect.backoff.max.ms=500"]
        return PipedMember(self._command("ConsoleConsumer", "--topic", topic, *settings))
