"""Which process gets which tests."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.selection.scenarios import in_order
from compat_tests.selection.scheduling import TOGETHER, ByTarget

ALL = [
    "shared.py::test_a[1]", "shared.py::test_b", "single.py::test_a",
    *(f"{file}.py::test_{name}[{target}-x]" for target in ("k-1", "k-2") for file in ("shared", "single")
      for name in "cd"),
]  # fmt: skip


class Node:
    """Stands for a process; notes what it is told to run."""

    shutting_down = False

    def __init__(self) -> None:
        self.got: list[str] = []
        self.done = 0
        self.gateway = SimpleNamespace(id="one")

    def send_runtest_some(self, indices: list[int]) -> None:
        self.got += [ALL[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def next_test(self) -> str | None:
        """The tests that it would run now: as in xdist, only a test of which it has the next one, or the last."""
        return self.got[self.done] if len(self.got) > self.done + (not self.shutting_down) else None


def scheduler(directory: Path, nodes: list[Node]) -> ByTarget:
    (directory / "shared.py").write_text(f"pytestmark = {TOGETHER}")
    (directory / "single.py").write_text("")
    options = SimpleNamespace(loadscopereorder=False, maxschedchunk=None)
    config: Any = SimpleNamespace(
        rootpath=directory, option=options, getvalue=lambda name: [f"{len(nodes)}*popen"], getoption=lambda name: None
    )
    found = ByTarget(config, None, ["k-1", "k-2"])
    found.numnodes = len(nodes)
    for node in nodes:
        found.add_node(node)
    for node in nodes:
        found.add_node_collection(node, ALL)
    return found


def run(found: ByTarget, nodes: list[Node], tests: int = len(ALL)) -> None:
    """Each does a test in turn until so many are done, or all."""
    while found.has_pending and tests:
        able = [node for node in nodes if node.next_test]
        assert able, "all wait"
        for node in able[:tests]:
            found.mark_test_complete(node, ALL.index(node.got[node.done]))
            node.done += 1
            tests -= 1


def test_each_process_keeps_to_its_target(tmp_path: Path) -> None:
    nodes = [Node(), Node()]
    found = scheduler(tmp_path, nodes)
    found.schedule()
    run(found, nodes)
    assert sorted(nodes[0].got + nodes[1].got) == sorted(ALL)
    targets = [[test.partition("[")[2] for test in node.got if "[k-" in test] for node in nodes]
    assert sorted(map(set, targets), key=str) == [{"k-1-x]"}, {"k-2-x]"}]


def test_tests_without_a_target_come_first(tmp_path: Path) -> None:
    nodes = [Node()]
    found = scheduler(tmp_path, nodes)
    found.schedule()
    run(found, nodes)
    assert nodes[0].got[:3] == ALL[:3]


def test_a_file_that_shares_is_one_unit_of_each_target(tmp_path: Path) -> None:
    found = scheduler(tmp_path, [Node()])
    units = [found._split_scope(test) for test in ALL]
    assert units[:2] == ["- shared.py"] * 2
    assert len(set(units)) == len({"- shared", "- single", "k-1 shared", "k-2 shared"}) + 4


def test_a_target_may_begin_with_the_name_of_another(tmp_path: Path) -> None:
    found = scheduler(tmp_path, [Node()])
    both = ByTarget(found.config, None, ["k-1", "k-1-cluster"])
    assert both._split_scope("single.py::test_a[k-1-cluster-x]") == "k-1-cluster single.py::test_a[k-1-cluster-x]"
    assert both._split_scope("single.py::test_a[k-1-x]").startswith("k-1 ")


@pytest.mark.parametrize("done", range(len(ALL)))
@pytest.mark.parametrize("number", [0, 1])
def test_other_processes_run_the_remaining_tests_of_a_dead_one(tmp_path: Path, done: int, number: int) -> None:
    nodes = [Node(), Node()]
    found = scheduler(tmp_path, nodes)
    found.schedule()
    run(found, nodes, done)
    dead = nodes[number]
    died_of = found.remove_node(dead)
    assert died_of == (dead.got[dead.done] if dead.done < len(dead.got) else None)
    successor = Node()
    found.add_node(successor)
    found.add_node_collection(successor, ALL)
    found.schedule()
    run(found, [nodes[1 - number], successor])
    assert all(each.done == len(each.got) for each in (nodes[1 - number], successor))
    ran = dead.got[: dead.done] + nodes[1 - number].got + successor.got + ([died_of] if died_of else [])
    assert sorted(ran) == sorted(ALL)


@pytest.mark.parametrize("done", [0, 3])
def test_two_processes_that_die_together(tmp_path: Path, done: int) -> None:
    """One successor gets its tests while the other one still collects."""
    nodes = [Node(), Node()]
    found = scheduler(tmp_path, nodes)
    found.schedule()
    run(found, nodes, done)
    died_of = [found.remove_node(node) for node in nodes]
    successors = [Node(), Node()]
    for each in successors:
        found.add_node(each)
    found.add_node_collection(successors[0], ALL)
    found.schedule()
    assert successors[0].got
    assert not successors[1].got
    found.add_node_collection(successors[1], ALL)
    found.schedule()
    run(found, successors)
    ran = [test for node in nodes for test in node.got[: node.done]]
    ran += [test for node in successors for test in node.got]
    assert sorted(ran + [test for test in died_of if test]) == sorted(ALL)


def item(nodeid: str, broker: str | None, timeout: int | None = None, *, is_long: bool = False) -> Any:
    marks = {"timeout": timeout and SimpleNamespace(args=(timeout,)), "long": is_long or None}
    found = SimpleNamespace(nodeid=nodeid, get_closest_marker=marks.get)
    if broker is not None:
        found.callspec = SimpleNamespace(params={"broker": broker})
    return found


def test_files_with_long_time_outs_are_the_first_of_their_target() -> None:
    items = [
        item("a.py::test_1", "k-1"), item("a.py::test_2", "k-2"), item("b.py::test_1", None),
        item("b.py::test_2", "k-1", 900, is_long=True), item("c.py::test_1", "k-1"), item("c.py::test_2", "k-1", 600),
        item("d.py::test_1", "k-1", 900), item("d.py::test_2", None, 900),
    ]  # fmt: skip
    in_order(items)
    assert [each.nodeid for each in items] == [
        "b.py::test_1", "d.py::test_2", "d.py::test_1", "c.py::test_1", "c.py::test_2", "a.py::test_1", "b.py::test_2",
        "a.py::test_2",
    ]  # fmt: skip
