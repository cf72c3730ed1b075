"""Many histories of a simulated cluster: ``make simulate-cluster``, or ``python -m tests.simulation.cluster.campaign``.

    --seeds N      how many histories (10,000)
    --first N      the first seed (0)
    --seed N       one history, which is printed
    --rule NAME    with a broken rule (``broken.py``), until it is noticed; ``all`` for each of them
    --coordinators only histories with many coordinators, which one seed of fifty has
    --processes N  how many at a time (the processors)

A seed that fails is run again, must fail in the same way, loses the events that it can fail without, and is printed.
"""

import argparse
import gc
import itertools
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from itertools import islice
from typing import NamedTuple

from tests.simulation.cluster.broken import RULES
from tests.simulation.cluster.schedule import Plan, plan_of
from tests.simulation.cluster.world import World

SEEDS_AT_A_TIME = 20
RULE_SEEDS = 1000
COORDINATOR_RULE_SEEDS = 60


class Outcome(NamedTuple):
    """The end of a history: the violation in words, or ""."""

    plan: Plan
    problem: str
    digest: str
    calls: int
    virtual_s: float
    acknowledged: int
    events: dict[str, int]
    lines: tuple[str, ...] = ()
    where: str = ""


def play(plan: Plan, rule: str = "", *, is_told: bool = False) -> Outcome:
    """Run a history, with a broken rule if one is named."""
    world = World(plan)
    problem, where = "", ""
    gc.disable()  # what a collection finalizes must not depend on when it comes
    try:
        with RULES[rule].break_it() if rule else nullcontext():
            world.run()
    except Exception as error:  # noqa: BLE001  # whatever it is, the history is not as it must be
        problem = f"{type(error).__name__}: {error}"
        where = traceback.format_exc()
    finally:
        gc.enable()
    return Outcome(
        plan, problem, world.digest() if is_told else "", world.loop.calls, world.loop.time(),
        len(world.clients.acknowledged), world.counts(), tuple(world.lines()) if is_told else (), where,
    )  # fmt: skip


def shrink(plan: Plan, rule: str = "", tries: int = 200) -> Outcome:
    """Return a failing history of ``plan`` with as few events as can be found in so many tries."""
    best = play(plan, rule, is_told=True)
    size = max(len(plan.steps) // 2, 1)
    while size and tries:
        start, shrunk = 0, False
        while start < len(best.plan.steps) and tries:
            steps = best.plan.steps
            tries -= 1
            found = play(plan._replace(steps=steps[:start] + steps[start + size :]), rule, is_told=True)
            if found.problem:
                best, shrunk = found, True
            else:
                start += size
        size = size if shrunk and size > 1 else size // 2
    return best


def tell(outcome: Outcome, rule: str = "") -> None:
    """Print a history for people."""
    print(*outcome.lines, sep="\n")
    print(f"\nseed {outcome.plan.seed}: {outcome.problem or 'no violation'}")
    print(f"{len(outcome.plan.steps)} events, {outcome.virtual_s:.1f} s, {outcome.calls} calls, {outcome.digest}")
    print("settings:", ", ".join(f"{key}={value}" for key, value in outcome.plan.settings.items()))
    print(f"again: python -m tests.simulation.cluster.campaign --seed {outcome.plan.seed}{rule and ' --rule ' + rule}")


def _play_some(seeds: Sequence[int], rule: str) -> list[Outcome]:
    found = []
    for seed in seeds:
        found.append(play(plan_of(seed), rule))
        if found[-1].problem and rule:
            break
    gc.collect()
    return found


def outcomes(seeds: Sequence[int], rule: str, processes: int) -> Iterator[Outcome]:
    """Run histories on several processors, in the order of their seeds."""
    parts = [seeds[at : at + SEEDS_AT_A_TIME] for at in range(0, len(seeds), SEEDS_AT_A_TIME)]
    if processes == 1:
        for part in parts:
            yield from _play_some(part, rule)
        return
    with ProcessPoolExecutor(processes) as pool:
        try:
            for found in pool.map(_play_some, parts, [rule] * len(parts)):
                yield from found
        finally:
            pool.shutdown(cancel_futures=True)


def _search(rule: str, first: int, processes: int) -> bool:
    began = time.monotonic()
    needs = RULES[rule].needs_coordinators
    seeds = _seeds(first, COORDINATOR_RULE_SEEDS if needs else RULE_SEEDS, have_coordinators=needs)
    for outcome in outcomes(seeds, rule, processes):
        if outcome.problem:
            took = time.monotonic() - began
            print(f"{rule}: noticed with seed {outcome.plan.seed} ({took:.0f} s): {outcome.problem}", flush=True)
            return True
    print(f"{rule}: NOT noticed in {len(seeds)} seeds", flush=True)
    return False


def _seeds(first: int, count: int, *, have_coordinators: bool) -> Sequence[int]:
    if not have_coordinators:
        return range(first, first + count)
    return list(islice((seed for seed in itertools.count(first) if plan_of(seed).coordinators), count))


def _campaign(seeds: Sequence[int], processes: int) -> bool:
    began, failed = time.monotonic(), 0
    total: dict[str, int] = {}
    calls = acknowledged = 0
    virtual_s = 0.0
    for number, outcome in enumerate(outcomes(seeds, "", processes), 1):
        calls += outcome.calls
        acknowledged += outcome.acknowledged
        virtual_s += outcome.virtual_s
        for name, count in outcome.events.items():
            total[name] = total.get(name, 0) + count
        if outcome.problem:
            failed += 1
            print(f"seed {outcome.plan.seed}: {outcome.problem}\n{outcome.where}", flush=True)
            if failed == 1:
                tell(shrink(outcome.plan))
        if number % 250 == 0:
            print(f"{number} histories, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"{len(seeds)} histories from seed {seeds[0]}: {failed} failed; {time.monotonic() - began:.0f} s, "
        f"{virtual_s / 3600:.1f} hours of the brokers' time, {calls} calls, {acknowledged} records acknowledged"
    )
    print(", ".join(f"{name} {count}" for name, count in sorted(total.items())))
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--rule", default="", choices=["", "all", *RULES])
    parser.add_argument("--coordinators", action="store_true")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    if arguments.seed is not None:
        outcome = play(plan_of(arguments.seed), arguments.rule, is_told=True)
        tell(shrink(outcome.plan, arguments.rule) if outcome.problem else outcome, arguments.rule)
        print(outcome.where)
        return bool(outcome.problem)
    if arguments.rule:
        rules = list(RULES) if arguments.rule == "all" else [arguments.rule]
        noticed = {rule: _search(rule, arguments.first, arguments.processes) for rule in rules}
        return not all(found or RULES[rule].is_rare for rule, found in noticed.items())
    seeds = _seeds(arguments.first, arguments.seeds, have_coordinators=arguments.coordinators)
    return not _campaign(seeds, arguments.processes)


if __name__ == "__main__":
    sys.exit(main())
