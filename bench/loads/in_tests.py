"""The cost of a broker in a test suite: start, time to a group's first record, memory; compared with other brokers."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from bench.brokers.contestants import KAFKAPY, Arena, Contestant
from bench.loads.lifecycle import until_acknowledged
from bench.loads.load import Metrics, python_client
from harness.kafkapy_process import ROOT, kafkapy_command
from harness.measure import LoadError, resident_mib

EPHEMERAL, MOCK, KFAKE = "kafkapy start", "librdkafka mock", "kfake"
IN_PROCESS = {KAFKAPY: "kafkapy", MOCK: "mock"}
KFAKE_SOURCE = ROOT / "bench" / "brokers" / "kfake"
KFAKE_PROGRAM = ROOT / ".cache" / "clients" / "kfake"
BUILD_TIMEOUT_S = 300.0
END_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class InTests:
    """A new broker each time: to the first acknowledged record, then new groups of one librdkafka consumer.

    kafkapy and the mock cluster are in a process that has imported what it needs, and start so many times; the others
    are processes of their own.
    """

    starts: int
    groups: int
    peers: ClassVar[tuple[str, ...]] = (EPHEMERAL, MOCK, KFAKE)
    warm_ups: ClassVar[int] = 0
    most_rounds: ClassVar[int] = 3

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        name = contestant.name
        if name in IN_PROCESS:
            return self._in_process(IN_PROCESS[name])
        if name in (EPHEMERAL, KFAKE):
            return self._as_child(name)
        process = arena.prepared(name)
        try:
            process.start(wait=False)
            acknowledged_s = until_acknowledged(process.port, name)
            assert process.pid is not None
            metrics = {
                "start_ms": 1000 * (acknowledged_s - process.started_s),
                "resident_mib": resident_mib(process.pid),
            }
            return {**metrics, **self._groups(process.port)}
        finally:
            process.close()

    def _in_process(self, kind: str) -> Metrics:
        command = [sys.executable, "-m", "bench.clients.in_tests", kind, json.dumps({"starts": self.starts})]
        with child(command) as (_, line):
            try:
                metrics: Metrics = json.loads(line)
            except ValueError:
                raise LoadError(f"a test's process with {kind} ended without a word") from None
            return {**metrics, **self._groups(int(metrics["port"]))}

    def _as_child(self, name: str) -> Metrics:
        command = [*kafkapy_command(), "start", "--ephemeral", "--print-bootstrap", "--log-level", "error"]
        if name == KFAKE:
            command = [built_kfake()]
        started_s = time.monotonic()
        with child(command) as (process, line):
            host, _, port = line.strip().rpartition(":")
            if not host:
                raise LoadError(f"{name} did not say where it listens")
            acknowledged_s = until_acknowledged(int(port), name)
            metrics = {"start_ms": 1000 * (acknowledged_s - started_s), "resident_mib": resident_mib(process.pid)}
            return {**metrics, **self._groups(int(port))}

    def _groups(self, port: int) -> Metrics:
        options = {"port": port, "topic": "groups", "groups": self.groups}
        return python_client("bench.clients.groups", "first_record", json.dumps(options))


@contextmanager
def child(command: list[str]) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """A process that prints a line when it is ready; it ends with its standard input, or else is told to."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            end(process)


def end(process: "subprocess.Popen[str]") -> None:
    """Close its input, which all but the command wait for; after a while, SIGTERM."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()


def built_kfake() -> str:
    """The program, compiled from the module proxy's sources. Raises LoadError when that can't be done."""
    if shutil.which("go") is None:
        raise LoadError("kfake wants the go command")
    KFAKE_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    command = ["go", "build", "-o", str(KFAKE_PROGRAM), "."]
    try:
        built = subprocess.run(
            command, cwd=KFAKE_SOURCE, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"kfake could not be built within {BUILD_TIMEOUT_S:.0f} s") from None
    if built.returncode:
        raise LoadError(f"kfake can't be built: {(built.stderr.strip().splitlines() or ['without a word'])[-1]}")
    return str(KFAKE_PROGRAM)
