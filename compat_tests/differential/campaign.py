"""Many conversations with Apache Kafka 2.7.2 and kafkapy side by side, drawn by a seed, up to a number of requests.

python -m compat_tests.differential.campaign --requests 100000 [--seed 7] [--minutes 60] [--keep-going] [--to FOLDER]
python -m compat_tests.differential.campaign --replay FILE…

A conversation with a difference is reduced as far as possible, printed, and kept as a file for ``--replay``. With
``--keep-going`` nothing is reduced: the first case of each difference is kept. With ``--security`` the requests are
those of a client that has logged in, through a process (``harness.tunnel``) that does so.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from compat_tests.differential.brokers import OWN_SETTINGS, side_by_side
from compat_tests.differential.comparison import Comparison, Difference
from compat_tests.differential.requests import plans
from compat_tests.differential.steps import Plan
from compat_tests.security.secured import KINDS

EXAMPLES_AT_ONCE = 40


class DifferentError(AssertionError):
    """The two brokers answered differently; the message is the conversation."""


def told(plan: Plan, found: Sequence[Difference], path: Path) -> str:
    """The differences, and the file with their conversation."""
    plan.write(path)
    return "\n".join([*map(str, found), f"as a file: {path}", path.read_text()])


def examine(comparison: Comparison, number: int, folder: Path, examples: int = EXAMPLES_AT_ONCE) -> None:
    """Draw conversations and hold them; raises DifferentError with the smallest that differs."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(plans(comparison.served, comparison.release))
    def check(plan: Plan) -> None:
        # a difference that is not repeated comes from a delay of Kafka's ZooKeeper
        found = comparison.hold(plan) and comparison.hold_again(plan)
        if found:
            raise DifferentError(told(plan, found, folder / f"difference-{number}.json"))

    check()


class Collector:
    """Replaces a comparison and keeps the first conversation of each kind of difference."""

    def __init__(self, comparison: Comparison, folder: Path) -> None:
        self._comparison = comparison
        self._folder = folder
        self.served = comparison.served
        self.release = comparison.release
        self.found: dict[str, int] = {}

    def hold(self, plan: Plan) -> list[Difference]:
        """Reports no difference, but keeps those that are repeated."""
        found = self._comparison.hold(plan)
        if found and not self._comparison.hold_again(plan):
            print(f"not again: {found[0]}", flush=True)
        elif found:
            key = found[0].signature
            self.found[key] = self.found.get(key, 0) + 1
            if self.found[key] == 1:
                path = self._folder / f"difference-{len(self.found)}.json"
                plan.write(path)
                print(f"--- {path}", *found[:3], sep="\n", flush=True)
        return []


def arguments(given_arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="compat_tests.differential.campaign", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--to", type=Path, default=Path("out/differential"))
    parser.add_argument("--verbose", action="store_true", help="print every request and both answers")
    parser.add_argument("--security", default="", choices=KINDS, help="requests of a client that has logged in so")
    parser.add_argument("--release", default="2.7.2", choices=list(OWN_SETTINGS), help="of Apache Kafka")
    parser.add_argument("--replay", type=Path, nargs="+", default=[])
    return parser.parse_args(given_arguments)


def run(wanted: argparse.Namespace, comparison: Comparison) -> int:
    """The campaign's exit code; sends requests until there were enough, or the time is over."""
    collector = Collector(comparison, wanted.to) if wanted.keep_going else None
    started, number = time.monotonic(), wanted.seed
    while comparison.requests < wanted.requests and time.monotonic() - started < wanted.minutes * 60:
        try:
            examine(collector or comparison, number, wanted.to)  # type: ignore[arg-type]  # holds plans all the same
        except DifferentError as different:
            print(different)
            return 1
        number += 1
        spent = time.monotonic() - started
        print(f"{comparison.requests:,} requests in {spent:.0f} s, next seed {number}", flush=True)
    summary(comparison)
    return int(bool(collector and collector.found))


def summary(comparison: Comparison) -> None:
    """Print the numbers of requests and of allowed differences."""
    print(f"{comparison.requests:,} requests, {len(comparison.by_api)} versions of APIs")
    for reason, count in comparison.excused.by_reason().most_common():
        print(f"{count:>7}  {reason}")


def figures(seed_: int, comparison: Comparison) -> dict[str, Any]:
    """The figures of a run, for ``figures``."""
    return {
        "seed": seed_,
        "requests": comparison.requests,
        "by_api": dict(comparison.by_api),
        "let_pass": dict(comparison.excused.by_reason()),
    }


def replay(paths: Sequence[Path], comparison: Comparison) -> int:
    """Hold kept conversations again; the number that still differ, at most 1."""
    differ = False
    for path in paths:
        found = comparison.hold(Plan.read(path))
        differ |= bool(found)
        print(f"{path}: {'the same answers' if not found else ''}", *found, sep="\n")
    return int(differ)


def main() -> int:
    wanted = arguments(sys.argv[1:])
    wanted.to.mkdir(parents=True, exist_ok=True)
    with side_by_side(wanted.security, wanted.release) as comparison:
        comparison.is_verbose = wanted.verbose
        if wanted.replay:
            return replay(wanted.replay, comparison)
        print(f"seed {wanted.seed}", flush=True)
        try:
            return run(wanted, comparison)
        finally:
            comparison.excused.write(wanted.to / f"let-pass-{wanted.seed}.txt")
            (wanted.to / f"run-{wanted.seed}.json").write_text(json.dumps(figures(wanted.seed, comparison)))


if __name__ == "__main__":
    sys.exit(main())
