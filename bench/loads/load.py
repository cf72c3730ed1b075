"""A load: `run` runs it once and returns its cost, by the metric's name; and the functions that start a client."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from bench.brokers.contestants import Arena, Contestant
from harness.kafkapy_process import ROOT
from harness.measure import LoadError

TIMEOUT_S = 240.0

MANY = 100

Metrics = dict[str, float]


class Load(Protocol):
    """Work that takes processor time of a broker."""

    @property
    def warm_ups(self) -> int:
        """The number of unmeasured runs, in addition to the brokers' warm-up."""
        ...

    @property
    def most_rounds(self) -> int:
        """The number of measured runs that is enough."""
        ...

    def run(self, contestant: Contestant, arena: Arena) -> Metrics:
        """Runs the load once; raises LoadError if it failed and BrokerGoneError if the broker ended."""
        ...


@runtime_checkable
class ClusterLoad(Load, Protocol):
    """A load that starts several brokers itself, of those kinds that it compares."""

    @property
    def compared(self) -> Sequence[str]:
        """The kinds of brokers."""
        ...


@runtime_checkable
class SelectiveLoad(Load, Protocol):
    """A load of requests that not every broker has."""

    @property
    def takes_part(self) -> Sequence[str]:
        """The brokers that have them."""
        ...


@runtime_checkable
class SettlingLoad(Load, Protocol):
    """A load that is run until it gets no cheaper, and measured then."""

    @property
    def settles_in(self) -> int:
        """The number of runs after which it is measured in any case."""
        ...

    @property
    def cost(self) -> str:
        """The metric that falls."""
        ...


def run_child(command: list[str], what: str, timeout_s: float = TIMEOUT_S) -> str:
    """Runs a client to its end, bounded in time; its output. Raises LoadError with the last line it wrote."""
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        raise LoadError(f"{what} took more than {timeout_s:.0f} s") from None
    if run.returncode != 0:
        lines = (run.stderr or run.stdout).strip().splitlines() or ["without a word"]
        raise LoadError(f"{what} failed: {lines[-1]}")
    return run.stdout


def python_client(module: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> Metrics:
    """Runs one of the client modules in a process of its own."""
    output = run_child([sys.executable, "-m", module, *arguments], " ".join([module, *arguments[:-1]]), timeout_s)
    answer: Metrics = json.loads(output.splitlines()[-1])
    return answer


class Floor:
    """A running server of nothing but the answers: a module that prints its port, and ends with its input."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.pid = self._process.pid
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> "Floor":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
