"""The order of decisions on one group id: one at a time.

A decision may take many steps: its records are computed, appended, acknowledged by other replicas, and replayed.
Further decisions on the group wait until it has ended. A group that takes the place of one of another type takes its
queue too: the decisions that wait are made on the new group.
"""

from collections import deque
from collections.abc import Callable

from kafkapy.coordinator.runtime import Run
from kafkapy.turns import Steps


class DecisionQueue:
    """The decisions on a group that wait for the present one."""

    __slots__ = ("is_writing", "_run", "_is_deciding", "_waiting")

    def __init__(self, run: Run) -> None:
        self.is_writing = False
        """Whether the records of a decision are being computed, appended or replayed."""
        self._run = run
        self._is_deciding = False
        self._waiting: deque[Callable[[], None]] | None = None
        """The decisions that wait; None for none, since an empty deque takes 760 bytes in each of very many groups."""

    def when_idle(self, decide: Callable[[], None]) -> None:
        """Call ``decide`` now, or when the decisions before it have ended."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(decide)
        self._decide_waiting()

    def decide_next(self, decide: Callable[[], None]) -> None:
        """Call ``decide`` before the decisions that wait: it is the second part of the one that is ending."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.appendleft(decide)

    def write_started(self) -> None:
        """The records of a decision are going to be computed and appended."""
        self.is_writing = True

    def write_ended(self) -> None:
        """The records were replayed, or refused by the log: make the decisions that wait."""
        self.is_writing = False
        self._decide_waiting()

    def _decide_waiting(self) -> None:
        if not self._is_deciding and not self.is_writing:
            self._run(self._decide_in_steps())

    def _decide_in_steps(self) -> Steps[None]:
        """Make the decisions that wait, up to one whose records take longer; there may be one for each member."""
        self._is_deciding = True
        while self._waiting and not self.is_writing:
            self._waiting.popleft()()
            yield
        self._waiting = self._waiting or None
        self._is_deciding = False
