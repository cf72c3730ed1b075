"""The distribution of tests over processes: each process has one target, and tests that share much stay together.

A session's broker and the programs of the clients take seconds to start, so not every process should start all of them.
Tests without a target come first, since the longest ones are among them. (xdist's own loadgroup would keep groups
together, but does not see the groups under pytest 9.)
"""

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling

from compat_tests.selection.scenarios import NO_TARGET

TOGETHER = "pytest.mark.together"


@cache
def _is_shared(path: str) -> bool:
    """Whether a file asks that its tests run in one process."""
    return TOGETHER in Path(path).read_text()


class ByTarget(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out single tests, or all of a file and target at once."""

    def __init__(self, config: Any, log: Any, targets: list[str]) -> None:
        super().__init__(config, log)
        self.targets = sorted(targets, key=len, reverse=True)  # kafkapy-cluster is not kafkapy
        self._working_on: dict[Any, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        """The unit that a test belongs to; its name begins with its target."""
        path, _, arguments = nodeid.partition("[")
        words = f"-{arguments.rpartition(']')[0]}-"
        target = next((each for each in self.targets if f"-{each}-" in words), NO_TARGET)
        file = path.partition("::")[0]
        return f"{target} {file if _is_shared(str(self.config.rootpath / file)) else nodeid}"

    def remove_node(self, node: Any) -> str | None:
        """Removes a process that has ended; returns the test during which it ended, if there was one.

        Its remaining tests go to the other processes and to its successor. (xdist's own scheduler also gives back the
        completed tests and the one during which it ended, and stops at units without tests.)
        """
        units: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        left = [(unit, test) for unit, tests in units.items() for test, is_done in tests.items() if not is_done]
        if not left:
            return None
        (_, died_of), *others = left
        for unit, test in others:
            self.workqueue.setdefault(unit, {})[test] = False
        self._working_on.pop(node, None)
        self._fill_up()
        return died_of

    def schedule(self) -> None:
        """Gives each process its first tests, also one that replaces another."""
        super().schedule()
        self._fill_up()

    def _fill_up(self) -> None:
        """A process begins a test when it has the next one, or knows that there is none."""
        for node in self.nodes:
            while self._is_ready(node) and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)

    def _is_ready(self, node: Any) -> bool:
        """Whether a process can get tests: one that replaces another has to collect them first."""
        return node in self.registered_collections and not node.shutting_down

    def _reschedule(self, node: Any) -> None:
        """Give a process more tests, or tell it that there are none."""
        if self._is_ready(node):
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        target = self._next_target(node)
        self._working_on[node] = target
        unit = next(unit for unit in self.workqueue if unit.partition(" ")[0] == target)
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _next_target(self, node: Any) -> str:
        """No target; then the one that the process is at, one that no other is at, the one with most to do."""
        left: list[str] = [unit.partition(" ")[0] for unit in self.workqueue]
        if NO_TARGET in left:
            return NO_TARGET
        before = self._working_on.get(node, "")
        if before in left:
            return before
        others = {target for each, target in self._working_on.items() if each is not node}
        return max(left, key=lambda target: (target not in others, left.count(target)))
