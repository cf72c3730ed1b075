"""A history of a coordinator under a seed: steps that are drawn one by one, checks after each, and a calm end.

The seed and the number of a step decide what the step does, so a history stays the same when other steps are left out.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final

from tests.simulation.cluster.invariants import Violation

STEPS: Final = 60


def require(holds: object, text: str) -> None:
    """Raise ``Violation`` with ``text`` unless a law holds."""
    if not holds:
        raise Violation(text)


class CoordinatorHistory(ABC):
    """One history; ``run`` raises ``Violation``, or what the coordinator raises."""

    name: ClassVar[str]

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"{self.name} {seed}")
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """Add a line to the history for people."""
        self.lines.append(text)

    def run(self, steps: Sequence[int] = range(STEPS)) -> None:
        """Take the steps with these numbers, then let the faults end."""
        try:
            for number in steps:
                self.random = Random(f"{self.name} {self.seed} {number}")
                self.lines.append(f"-- {number}")
                self.step()
                self.check()
            self.lines.append("-- the faults end")
            self.settle()
        finally:
            self.close()

    @abstractmethod
    def step(self) -> None:
        """Take one step, which ``random`` decides."""

    @abstractmethod
    def check(self) -> None:
        """Check what must hold after each step."""

    @abstractmethod
    def settle(self) -> None:
        """End all faults; check what must hold some time later."""

    @abstractmethod
    def close(self) -> None:
        """Release what the history has taken."""
