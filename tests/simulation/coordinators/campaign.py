"""Many histories of coordinators: ``python -m tests.simulation.coordinators.campaign KIND``.

    KIND        ``group``, or ``transaction``
    --seeds N   how many histories (5,000)
    --first N   the first seed (0)
    --seed N    one history, which is printed
    --rule NAME with a broken rule (``broken.py``), until it is noticed; ``all`` for each of the kind

A history that fails loses the steps that it can fail without, and is printed.
"""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Final

from tests.simulation.coordinators.broken import RULES
from tests.simulation.coordinators.consumer_groups import GroupHistory
from tests.simulation.coordinators.history import STEPS, CoordinatorHistory
from tests.simulation.coordinators.transactions import TransactionHistory

KINDS: Final[dict[str, type[CoordinatorHistory]]] = {each.name: each for each in (GroupHistory, TransactionHistory)}
RULE_SEEDS: Final = 200
"""Histories within which each broken rule is noticed."""


def play(kind: str, seed: int, rule: str = "", steps: Sequence[int] = range(STEPS)) -> tuple[str, list[str]]:
    """Run a history, with a broken rule if one is named; return the violation in words, or "", and its lines."""
    history = KINDS[kind](seed)
    try:
        with RULES[rule].break_it() if rule else nullcontext():
            history.run(steps)
    except Exception as error:  # noqa: BLE001  # whatever it is, the history is not as it must be
        return f"{type(error).__name__}: {error}", history.lines
    return "", history.lines


def first_problem(kind: str, seeds: Iterable[int], rule: str = "") -> tuple[int, str] | None:
    """Return the first seed whose history fails, with the violation in words; None if none does."""
    for seed in seeds:
        problem, _ = play(kind, seed, rule)
        if problem:
            return seed, problem
    return None


def shortest(kind: str, seed: int, rule: str = "") -> list[int]:
    """Return the steps without which a failing history does not fail."""
    steps = list(range(STEPS))
    size = STEPS // 2
    while size:
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            if play(kind, seed, rule, fewer)[0]:
                steps = fewer
            else:
                start += size
        size //= 2
    return steps


def tell(kind: str, seed: int, rule: str = "") -> None:
    """Print a history for people, as short as it fails."""
    steps = shortest(kind, seed, rule) if play(kind, seed, rule)[0] else range(STEPS)
    problem, lines = play(kind, seed, rule, steps)
    print(*lines, sep="\n")
    print(f"\nseed {seed}: {problem or 'no violation'}; {len(steps)} steps")


def campaign(kind: str, seeds: Sequence[int]) -> bool:
    """Run the histories; whether none fails."""
    began = time.monotonic()
    found = first_problem(kind, seeds)
    if found is not None:
        tell(kind, found[0])
        return False
    print(f"{kind}: {len(seeds)} histories from seed {seeds[0]}, none failed; {time.monotonic() - began:.0f} s")
    return True


def main() -> int:
    """Return the exit status."""
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("--seeds", type=int, default=5_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rule", default="", choices=["", "all", *RULES])
    arguments = parser.parse_args()
    if arguments.seed is not None:
        tell(arguments.kind, arguments.seed, arguments.rule)
        return 0
    if not arguments.rule:
        return not campaign(arguments.kind, range(arguments.first, arguments.first + arguments.seeds))
    names = [name for name, rule in RULES.items() if rule.kind == arguments.kind and arguments.rule in ("all", name)]
    seeds = range(arguments.first, arguments.first + RULE_SEEDS)
    noticed = {name: first_problem(arguments.kind, seeds, name) for name in names}
    for name, found in noticed.items():
        print(f"{name}: " + ("NOT noticed" if found is None else f"noticed with seed {found[0]}: {found[1][:120]}"))
    return None in noticed.values()


if __name__ == "__main__":
    sys.exit(main())
