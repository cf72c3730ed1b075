"""The results of real clients and other brokers: from a run's results to a file that is committed, to a page.

`docs/compatibility.json` holds counts and reasons, without times or machines, so that two runs that find the same leave
the same.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from compat_tests.brokers.targets import KAFKA, RELEASES, is_cluster
from compat_tests.clients.versions import version_of
from compat_tests.report.results import DIFFERS, FAILED, PASSED, SKIPPED, Result
from compat_tests.selection.scenarios import NO_TARGET, SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = ROOT / "docs" / "compatibility.json"
OURS = "kafkapy"
NOWHERE = "both at once, or none"
Counts = Mapping[str, int]
Told = Mapping[str, Mapping[str, int]]
"""By target: how many cases of each test."""


def summary_of(results: Iterable[Result], version: Callable[[str], str] = version_of) -> dict[str, Any]:
    """Counts by client, scenario and target, counts by target, and each reason for which a test did not just pass."""
    results = sorted(results, key=lambda each: (each.test, each.target))
    clients: dict[str, dict[str, dict[str, Counter[str]]]] = {}
    targets: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, dict[str, Counter[str]]]] = {SKIPPED: {}, DIFFERS: {}}
    for each in results:
        targets.setdefault(each.target, Counter())[each.outcome] += 1
        if each.client:
            by_scenario = clients.setdefault(each.client, {})
            by_scenario.setdefault(each.scenario, {}).setdefault(each.target, Counter())[each.outcome] += 1
        if each.outcome in reasons:
            by_target = reasons[each.outcome].setdefault(each.reason, {})
            name = each.test.partition("[")[0].removeprefix("compat_tests/")
            by_target.setdefault(each.target, Counter())[name] += 1
    versions = {client: version(client) for client in clients}
    return {"targets": targets, "versions": versions, "clients": clients, "reasons": reasons}


def extended(
    summary: Mapping[str, Any], results: Iterable[Result], version: Callable[[str], str] = version_of
) -> dict[str, Any]:
    """A summary with what other runs found of clients' scenarios on targets that it has nothing about.

    Raises ValueError when they found otherwise what it does tell about.
    """
    results = [each for each in results if each.client]
    found = summary_of(results, version)
    told = {place for place, _ in _cells(summary)}
    for place, counts in _cells(found):
        if place in told and (place, counts) not in _cells(summary):
            raise ValueError(f"{', '.join(place)}: {_told(counts)}, which is not what is told already")
    new = [each for each in results if (each.client, each.scenario, each.target) not in told]
    return dict(_added(summary, summary_of(new, version)))


def _cells(summary: Mapping[str, Any]) -> list[tuple[tuple[str, str, str], Counts]]:
    return [
        ((client, scenario, target), counts)
        for client, scenarios in summary["clients"].items()
        for scenario, targets in scenarios.items()
        for target, counts in targets.items()
    ]


def _added(one: Any, other: Any) -> Any:
    """Both, with the sums of counts that both have."""
    if not isinstance(one, Mapping):
        return one + other if isinstance(one, int) else other
    both = {**one, **other}
    return {key: _added(one[key], other[key]) if key in one and key in other else both[key] for key in both}


def passing(results: Iterable[Result]) -> list[Result]:
    """The results; raises ValueError, with their names, when some of the tests failed."""
    results = list(results)
    if failed := sorted(f"{each.test} on {each.target}" for each in results if each.outcome == FAILED):
        raise ValueError(f"{len(failed)} tests failed, the first is {failed[0]}")
    return results


def write(summary: Mapping[str, Any], path: Path = SUMMARY) -> None:
    """Puts a summary into the file that is committed."""
    path.write_text(json.dumps(summary, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read(path: Path = SUMMARY) -> dict[str, Any]:
    """The summary that is committed, an empty one before there is any."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else summary_of(())
    return found


def cell(counts: Mapping[str, Counts], targets: list[str]) -> str:
    """The results of one client's scenario on the targets: one line for all that agree, without names if all do."""
    alike: dict[str, list[str]] = {}
    for target in targets:
        if target in counts:
            alike.setdefault(_told(counts[target]), []).append(target)
    if [targets] == list(alike.values()):
        return next(iter(alike))
    return "<br>".join(f"{', '.join(names)}: {told}" for told, names in alike.items())


def _told(counts: Counts) -> str:
    words = [(PASSED, "{}"), (DIFFERS, "{} differ"), (SKIPPED, "{} skipped")]
    return ", ".join(word.format(counts[outcome]) for outcome, word in words if counts.get(outcome))


def in_order(targets: Iterable[str]) -> list[str]:
    """Ours first, then the releases; what has no target last."""
    return sorted(targets, key=lambda target: (target == NO_TARGET, target != OURS, target))


def page_of(summary: Mapping[str, Any]) -> str:
    """The page's part about clients and releases."""
    targets = in_order(summary["targets"])
    if not targets:
        return "## Clients\n\nNo results have been taken over yet: `make compatibility` does.\n"
    single = [each for each in targets if each != NO_TARGET and not is_cluster(each)]
    lines = [
        *_clients(summary, single),
        *_on_clusters(summary, list(filter(is_cluster, targets))),
        *_targets(summary["targets"], targets),
    ]
    for outcome, head, told in (
        (DIFFERS, "Where releases differ, and why", "what it does"),
        (SKIPPED, "What was skipped, and why", "why"),
    ):
        if summary["reasons"][outcome]:
            lines += ["", f"## {head}", "", f"| on | {told} | tests |", "|---|---|---|"]
            lines += sorted(row for each in summary["reasons"][outcome].items() for row in _reasons(*each))
    return "\n".join(lines) + "\n"


def _clients(summary: Mapping[str, Any], targets: list[str]) -> list[str]:
    lines = [
        "## Clients", "", f"How many tests pass, on each of {', '.join(targets)} unless a broker is named. A test that",
        "differs there was run too, and had to fail: the reasons are below, of each test the first that it meets.",
        "A broker that a cell with names does not name was not tried.", *_former(targets), "",
    ]  # fmt: skip
    lines += [f"- {name}: {text}" for name, text in SCENARIOS.items()]
    return [*lines, *_table(summary, targets)]


def _former(targets: list[str]) -> list[str]:
    """Notes on the results of releases that are no longer targets."""
    former = [each for each in targets if each.startswith(KAFKA) and each not in RELEASES]
    if not former:
        return []
    said = f"{', '.join(former)}: the last results; since then the suite has run on {', '.join(RELEASES)} instead."
    return [said]


def _on_clusters(summary: Mapping[str, Any], targets: list[str]) -> list[str]:
    """The same for the targets that are clusters; nothing where there is none."""
    if not targets:
        return []
    return [
        "", "## Clients on three brokers", "",
        f"The same tests on {', '.join(targets)}: three brokers on a ZooKeeper, three replicas of each partition.",
        "There, restart means that a leader, a coordinator and the controller are killed under load, in turn.",
        *_table(summary, targets),
    ]  # fmt: skip


def _table(summary: Mapping[str, Any], targets: list[str]) -> list[str]:
    """A row for each client that one of the targets was tried with."""
    lines = ["", f"| client | {' | '.join(SCENARIOS)} |", f"|---|{'---|' * len(SCENARIOS)}"]
    for client, found in summary["clients"].items():
        cells = [cell(found.get(scenario, {}), targets) for scenario in SCENARIOS]
        name = f"{client} {summary['versions'].get(client, '')}".rstrip()
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _targets(counted: Mapping[str, Counts], targets: list[str]) -> list[str]:
    lines = ["", "## Targets", "", "| target | tests that pass | that differ | skipped |", "|---|---:|---:|---:|"]
    for target in targets:
        counts = (str(counted[target].get(each, 0)) for each in (PASSED, DIFFERS, SKIPPED))
        lines.append(f"| {NOWHERE if target == NO_TARGET else target} | {' | '.join(counts)} |")
    return lines


def _reasons(reason: str, found: Told) -> list[str]:
    """A row for all targets with the same tests: where, why, and the tests by file, each with how many of its cases."""
    alike: dict[str, list[str]] = {}
    for target in in_order(found):
        alike.setdefault(_by_file(found[target]), []).append("–" if target == NO_TARGET else target)
    told = reason.replace("|", r"\|")
    return [f"| {', '.join(targets)} | {told} | {tests} |" for tests, targets in alike.items()]


def _by_file(tests: Counts) -> str:
    files: dict[str, list[str]] = {}
    for test, count in sorted(tests.items()):
        file, _, name = test.partition("::")
        files.setdefault(file, []).append(name if count == 1 else f"{name} ({count})")
    return "<br>".join(f"{file}: {', '.join(names)}" if any(names) else file for file, names in files.items())
