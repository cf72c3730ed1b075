"""The results of a run, side by side: tables at its end, and a JSON file with `--results`."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from compat_tests.selection.scenarios import NO_TARGET, SCENARIOS, case_of, cell_of

PASSED, FAILED, SKIPPED, DIFFERS = "passed", "failed", "skipped", "differs"
RANK = (PASSED, SKIPPED, DIFFERS, FAILED)
SIGNS = {PASSED: "", SKIPPED: " skipped", DIFFERS: " differ", FAILED: " FAILED"}
PROPERTY, SEPARATOR = "kafkapy-cell", "\t"


@dataclass(frozen=True)
class Result:
    """How one test ended on one target; `reason` says why it did not simply pass."""

    test: str
    target: str
    client: str
    scenario: str
    outcome: str
    reason: str = ""


def name_of(nodeid: str, target: str) -> str:
    """The name of a test without its target, the same on every target."""
    path, bracket, arguments = nodeid.partition("[")
    kept = case_of(arguments.removesuffix("]"), target)
    return f"{path}[{kept}]" if bracket and kept else path


def outcome_of(report: pytest.TestReport) -> tuple[str, str]:
    """How one phase of a test ended, and why."""
    if hasattr(report, "wasxfail") and report.skipped:
        return DIFFERS, report.wasxfail.removeprefix("reason: ")
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        return FAILED, (crash.message if crash is not None else str(report.longrepr)).splitlines()[0][:300]
    if report.skipped and isinstance(report.longrepr, tuple):
        return SKIPPED, report.longrepr[2].removeprefix("Skipped: ")
    return PASSED, ""


class Results:
    """The pytest plugin that listens; under xdist the one of the controlling process."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Result] = {}
        self._cells: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the worst of a test's phases; the first report may be the end of its process."""
        nothing_known = SEPARATOR.join((NO_TARGET, "", ""))
        cell = str(dict(report.user_properties).get(PROPERTY, self._cells.get(report.nodeid, nothing_known)))
        self._cells[report.nodeid] = cell
        target, client, scenario = cell.split(SEPARATOR)
        outcome, reason = outcome_of(report)
        result = Result(name_of(report.nodeid, target), target, client, scenario, outcome, reason)
        before = self.found.get((result.test, target))
        if before is None or RANK.index(outcome) > RANK.index(before.outcome):
            self.found[result.test, target] = result

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keeps the files that could not be collected."""
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            self.found[report.nodeid, NO_TARGET] = Result(report.nodeid, NO_TARGET, "", "", SKIPPED, reason)

    def write(self, path: Path) -> None:
        """Puts these results into the file, instead of older ones of the same tests on the same targets."""
        found = {(each.test, each.target): each for each in read(path)} if path.exists() else {}
        found |= self.found
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(found[key]) for key in sorted(found)], indent=1) + "\n")


def read(path: Path) -> list[Result]:
    """The results in a file that `write` made."""
    return [Result(**each) for each in json.loads(path.read_text())]


def merged(paths: Iterable[Path]) -> list[Result]:
    """The results in all of these files; of one test on one target the last one's."""
    return list({(each.test, each.target): each for path in paths for each in read(path)}.values())


def mark(item: pytest.Item) -> None:
    """Lets the reports of a test tell what it counts for."""
    item.user_properties.append((PROPERTY, SEPARATOR.join(cell_of(item))))


def counted(outcomes: Iterable[str]) -> str:
    """How many there are of each outcome: "12", "3, 1 skipped"; "" for none."""
    counts = Counter(outcomes)
    return ", ".join(f"{counts[outcome]}{SIGNS[outcome]}" for outcome in RANK if counts[outcome])


def targets_of(results: Iterable[Result]) -> list[str]:
    """The targets in these results, in order, those of no target last."""
    return sorted({each.target for each in results}, key=lambda target: (target == NO_TARGET, target))


def by_test(results: Iterable[Result], *, verbose: bool) -> list[list[str]]:
    """Rows of test × target: a file each, and the tests in it of which targets differ; `verbose` has all tests."""
    results = list(results)
    targets = targets_of(results)
    files: dict[str, dict[str, list[Result]]] = {}
    for each in results:
        path, _, name = each.test.partition("::")
        files.setdefault(path, {}).setdefault(name.partition("[")[0], []).append(each)
    rows = [["test", *targets]]
    for path, tests in sorted(files.items()):
        whole = [each for found in tests.values() for each in found]
        rows.append([path, *_row(targets, whole)])
        compared = {each.target for each in whole if each.outcome != SKIPPED} - {NO_TARGET}
        for name, found in tests.items():
            row = _row(targets, found)
            told = {cell for target, cell in zip(targets, row, strict=True) if cell and target in compared}
            if name and (verbose or len(told) > 1 or any(each.outcome == FAILED for each in found)):
                rows.append([f"    {name}", *row])
    return rows


def _row(targets: list[str], found: list[Result]) -> list[str]:
    return [counted(each.outcome for each in found if each.target == target) for target in targets]


def by_client(results: Iterable[Result]) -> list[list[str]]:
    """Rows of client and target × scenario."""
    counted_for: dict[tuple[str, str], dict[str, list[str]]] = {}
    for each in results:
        if each.client:
            counted_for.setdefault((each.client, each.target), {}).setdefault(each.scenario, []).append(each.outcome)
    rows = [["client", "target", *SCENARIOS]]
    for (client, target), found in sorted(counted_for.items()):
        rows.append([client, target, *(counted(found.get(scenario, ())) or "-" for scenario in SCENARIOS)])
    return rows


def reasons(results: Iterable[Result], outcome: str) -> Mapping[str, int]:
    """How often each reason was given for an outcome."""
    return Counter(f"{each.target}: {each.reason}" for each in results if each.outcome == outcome)


def aligned(rows: list[list[str]]) -> list[str]:
    """The rows as lines of one table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def tables(results: Iterable[Result], *, verbose: bool) -> list[str]:
    """Everything that the end of a run says."""
    results = list(results)
    lines = ["", *aligned(by_test(results, verbose=verbose))]
    if any(each.client for each in results):
        lines += ["", *aligned(by_client(results))]
    for outcome in (SKIPPED, DIFFERS):
        for reason, count in sorted(reasons(results, outcome).items()):
            lines += ([""] if not lines[-1].startswith(outcome) else []) + [f"{outcome} {count}: {reason}"]
    return lines
