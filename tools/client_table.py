"""What real clients and other brokers made of the tests: from a run's results to a file that is committed, to a page.

`docs/compatibility.json` holds counts and reasons, without times or machines, so that two runs that find the same leave
the same.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compat_tests.results import DIFFERS, FAILED, PASSED, SKIPPED, Result
from compat_tests.scenarios import NO_TARGET, SCENARIOS

ROOT = Path(__file__).resolve().parent.parent
SUMMARY = ROOT / "docs" / "compatibility.json"
Counts = dict[str, int]


def summary_of(results: Iterable[Result]) -> dict[str, Any]:
    """Counts by client, scenario and target, counts by target, and each reason for which a test did not just pass."""
    results = sorted(results, key=lambda each: (each.test, each.target))
    clients: dict[str, dict[str, dict[str, Counter[str]]]] = {}
    targets: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, list[str]]] = {SKIPPED: {}, DIFFERS: {}}
    for each in results:
        targets.setdefault(each.target, Counter())[each.outcome] += 1
        if each.client:
            by_scenario = clients.setdefault(each.client, {})
            by_scenario.setdefault(each.scenario, {}).setdefault(each.target, Counter())[each.outcome] += 1
        if each.outcome in reasons:
            found = reasons[each.outcome].setdefault(each.reason, [])
            found += [name for name in (_short(each),) if name not in found]
    return {"targets": targets, "clients": clients, "reasons": reasons}


def _short(result: Result) -> str:
    """A test without its parameters, and where it ran."""
    name = result.test.partition("[")[0].removeprefix("compat_tests/")
    return name if result.target == NO_TARGET else f"{name} on {result.target}"


def write(results: Iterable[Result], path: Path = SUMMARY) -> None:
    """Writes the summary of a run; raises ValueError, with their names, when tests of it failed."""
    results = list(results)
    if failed := sorted(f"{each.test} on {each.target}" for each in results if each.outcome == FAILED):
        raise ValueError(f"{len(failed)} tests failed, the first is {failed[0]}")
    path.write_text(json.dumps(summary_of(results), indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def read(path: Path = SUMMARY) -> dict[str, Any]:
    """The summary that is committed, an empty one before there is any."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else summary_of(())
    return found


def cell(counts: Mapping[str, Counts], targets: list[str]) -> str:
    """What the targets made of one client's scenario: a number where all of them passed as many, else one for each."""
    told = {target: _told(counts[target]) for target in targets if target in counts}
    if not told:
        return ""
    if len(told) == len(targets) and len(set(told.values())) == 1:
        return next(iter(told.values()))
    return "<br>".join(f"{target}: {each}" for target, each in told.items())


def _told(counts: Counts) -> str:
    words = [(PASSED, "{}"), (DIFFERS, "{} differ"), (SKIPPED, "{} skipped")]
    return ", ".join(word.format(counts[outcome]) for outcome, word in words if counts.get(outcome))


def page_of(summary: Mapping[str, Any]) -> str:
    """The page's part about clients and releases."""
    targets = [target for target in summary["targets"] if target != NO_TARGET]
    if not targets:
        return "## Clients\n\nNo results have been taken over yet: `make compatibility` does.\n"
    lines = ["## Clients", "", f"Tests that pass, on each of {', '.join(targets)} unless a target is named:", ""]
    lines += [f"- {name}: {text}" for name, text in SCENARIOS.items()]
    lines += ["", f"| client | {' | '.join(SCENARIOS)} |", f"|---|{'---|' * len(SCENARIOS)}"]
    for client, found in summary["clients"].items():
        cells = (cell(found.get(scenario, {}), targets) for scenario in SCENARIOS)
        lines.append(f"| {client} | {' | '.join(cells)} |")
    lines += ["", "## Targets", "", "| target | tests that pass | that differ | skipped |", "|---|---:|---:|---:|"]
    for target, counts in summary["targets"].items():
        name = "both at once, or none" if target == NO_TARGET else target
        lines.append(f"| {name} | {' | '.join(str(counts.get(each, 0)) for each in (PASSED, DIFFERS, SKIPPED))} |")
    for outcome, head in ((DIFFERS, "Where releases differ, and why"), (SKIPPED, "What was skipped, and why")):
        if summary["reasons"][outcome]:
            lines += ["", f"## {head}", ""]
            lines += [f"- {reason}: {', '.join(tests)}" for reason, tests in summary["reasons"][outcome].items()]
    return "\n".join(lines) + "\n"
