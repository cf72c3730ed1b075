"""Histories of a whole cluster under a seed: some of them here, ten thousand with ``make simulate-cluster``."""

import asyncio
from random import Random

import pytest

from tests.simulation.cluster.broken import RULES
from tests.simulation.cluster.campaign import play, shrink, tell
from tests.simulation.cluster.loop import NODE, Node, SimulatedClock, SimulatedLoop, StuckError
from tests.simulation.cluster.schedule import plan_of

FIRST_SEEDS = {"changes-isr-unseen": 20}
"""Where the search for a broken rule begins, if none of the first seeds notices it."""
RARE = {"counts-committed-isr", "joins-at-high-watermark", "serves-any-epoch", "deletes-by-part"}
"""Rules that need many histories to be noticed; the campaign looks for them."""
WITH_COORDINATORS = [seed for seed in range(600) if plan_of(seed).coordinators]


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 10, 20])
def test_histories_keep_the_invariants(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = play(plan_of(seed))
        assert not outcome.problem, (seed, outcome.problem, outcome.where)
        assert outcome.acknowledged


@pytest.mark.slow
@pytest.mark.parametrize("seed", WITH_COORDINATORS[:4])
def test_every_coordinator_is_where_kafka_has_it(seed: int) -> None:
    outcome = play(plan_of(seed))
    assert not outcome.problem, (seed, outcome.problem, outcome.where)


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in RARE])
def test_a_broken_rule_is_noticed(rule: str) -> None:
    first = FIRST_SEEDS.get(rule, 0)
    seeds = WITH_COORDINATORS if RULES[rule].needs_coordinators else range(first, first + 60)
    problems = (play(plan_of(seed), rule).problem for seed in seeds)
    assert next(filter(None, problems), ""), f"not from seed {first} on: see campaign --rule {rule}"


def test_a_seed_is_the_same_history_again() -> None:
    first, again, other = (play(plan_of(seed), is_told=True) for seed in (3, 3, 4))
    assert first.lines == again.lines
    assert first.digest == again.digest != other.digest


@pytest.mark.slow
def test_a_failing_history_is_shortened_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(3)
    shortest = shrink(plan, "acknowledges-at-append", 20)
    assert len(shortest.plan.steps) < len(plan.steps)
    assert play(shortest.plan, "acknowledges-at-append", is_told=True).lines == shortest.lines
    tell(shortest, "acknowledges-at-append")
    told = capsys.readouterr().out
    assert "sequence 0 is acknowledged at offset" in told
    assert "and is not below a high watermark there" in told
    assert "--seed 3 --rule acknowledges-at-append" in told


# the loop


def test_time_passes_only_when_nothing_is_ready() -> None:
    loop = SimulatedLoop(Random(1))
    clock, seen = SimulatedClock(loop), []

    async def scenario() -> None:
        clock.call_later(86_400_000, seen.append, "tomorrow")
        clock.call_later(5, seen.append, "first")
        clock.call_later(5, seen.append, "second")
        clock.call_later(4, seen.append, "never").cancel()
        loop.call_soon(seen.append, "now")
        await clock.sleep(5)
        assert (seen, clock.monotonic_s()) == (["now", "first", "second"], 0.005)
        await asyncio.wait_for(asyncio.sleep(86_400), None)
        assert seen[3:] == ["tomorrow"]

    loop.run(scenario())
    assert clock.now_ms() == SimulatedClock.START_MS + 86_400_005


def test_a_paused_process_continues_where_it_was() -> None:
    loop = SimulatedLoop(Random(1))
    paused, ran = Node("paused"), []

    async def work() -> None:
        for number in range(4):
            ran.append((number, NODE.get(), loop.time()))
            await asyncio.sleep(1)

    async def scenario() -> None:
        task = loop.create_task(work(), context=paused.context)
        await asyncio.sleep(1.5)
        paused.is_paused = True
        await asyncio.sleep(10)
        assert len(ran) == 2
        loop.resume(paused)
        await task

    loop.run(scenario())
    assert ran == [(0, paused, 0.0), (1, paused, 1.0), (2, paused, 11.5), (3, paused, 12.5)]


def test_a_history_that_waits_for_nothing_is_noticed() -> None:
    loop = SimulatedLoop(Random(1))

    async def scenario() -> None:
        await loop.create_future()

    with pytest.raises(StuckError):
        loop.run(scenario())


def test_failures_of_calls_are_kept() -> None:
    loop = SimulatedLoop(Random(1))

    async def scenario() -> None:
        loop.call_soon(int, "no number")
        await asyncio.sleep(0)

    loop.run(scenario())
    assert isinstance(loop.failures[0]["exception"], ValueError)
