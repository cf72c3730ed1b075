"""The clock by itself; ``test_moved_broker`` tests its effects on a broker."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from kafkapy.clock import Clock
from kafkapy.testing.clock.moving import LONGEST_ADVANCE_MS, MOST_REPEATS, MovingClock


def _run(scenario: Callable[[MovingClock], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(scenario(MovingClock()), 10)

    asyncio.run(limited())


def test_the_time_is_the_machines_time_plus_the_advances() -> None:
    clock = MovingClock()
    same: Clock = clock
    assert abs(same.now_ms() - time.time() * 1000) < 1000
    before_s = clock.monotonic_s()
    clock.advance(60_000)
    clock.advance(timedelta(days=1))
    assert clock.added_ms == 86_460_000
    assert abs(clock.now_ms() - time.time() * 1000 - 86_460_000) < 1000
    assert 86_460 <= clock.monotonic_s() - before_s < 86_461


@pytest.mark.parametrize("duration_ms", [-1, float("nan"), float("inf"), LONGEST_ADVANCE_MS + 1, timedelta(-1)])
def test_time_does_not_go_back(duration_ms: Any) -> None:
    clock = MovingClock()
    with pytest.raises(ValueError, match="a clock can be advanced by 0 to"):
        clock.advance(duration_ms)
    assert clock.added_ms == 0


def test_due_timers_run_in_order_each_at_its_instant() -> None:
    async def scenario(clock: MovingClock) -> None:
        started_ms = clock.now_ms()
        seen: list[tuple[str, int]] = []
        for name, delay_ms in (("late", 30_000), ("first", 10_000), ("second", 10_000), ("never", 90_000)):
            clock.call_later(
                delay_ms, lambda name=name: seen.append((name, round((clock.now_ms() - started_ms) / 1000)))
            )
        clock.call_later(20_000, seen.append, ("cancelled", 0)).cancel()
        clock.advance(60_000)
        assert seen == [("first", 10), ("second", 10), ("late", 30)]
        assert clock.added_ms == 60_000

    _run(scenario)


def test_timers_run_without_an_advance_in_order_of_their_times() -> None:
    async def scenario(clock: MovingClock) -> None:
        seen: list[int] = []
        done = asyncio.Event()
        clock.call_later(60_000, seen.append, 4)
        clock.call_later(20, done.set)
        clock.call_later(10, seen.append, 2)
        clock.call_later(0, seen.append, 1)
        clock.call_later(15, seen.append, 3).cancel()
        await done.wait()
        assert seen == [1, 2]
        clock.advance(60_000)
        assert seen == [1, 2, 4]

    _run(scenario)


def test_an_advance_brings_later_timers_nearer() -> None:
    async def scenario(clock: MovingClock) -> None:
        done = asyncio.Event()
        clock.call_later(60_010, done.set)
        clock.advance(60_000)
        assert not done.is_set()
        await asyncio.wait_for(done.wait(), 5)

    _run(scenario)


def test_a_timer_that_sets_itself_again_runs_a_bounded_number_of_times() -> None:
    async def scenario(clock: MovingClock) -> None:
        seen: list[int] = []
        started_ms = clock.now_ms()

        def check() -> None:
            seen.append(round((clock.now_ms() - started_ms) / 1000))
            clock.call_later(5_000, check)

        clock.call_later(5_000, check)
        clock.advance(timedelta(days=60))
        end = 60 * 86_400
        assert seen == [*range(5, 5 * MOST_REPEATS + 1, 5), end]
        clock.advance(5_000)
        assert seen[-1] == end + 5

    _run(scenario)


def test_a_timer_that_is_cancelled_during_an_advance_does_not_run() -> None:
    async def scenario(clock: MovingClock) -> None:
        seen: list[str] = []

        def again() -> None:
            seen.append("x")
            timers[0] = clock.call_later(1, again)

        timers = [clock.call_later(1, again)]
        clock.call_later(50, lambda: timers[0].cancel())  # noqa: PLW0108  # the timer that is last by then
        clock.advance(100)
        assert len(seen) == MOST_REPEATS

    _run(scenario)


def test_other_timers_run_after_one_that_fails() -> None:
    async def scenario(clock: MovingClock) -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        seen: list[int] = []
        clock.call_later(1_000, lambda: 1 / 0)
        clock.call_later(2_000, seen.append, 1)
        clock.advance(3_000)
        assert seen == [1]
        assert isinstance(failures[0]["exception"], ZeroDivisionError)

    _run(scenario)


def test_a_timer_cant_advance_the_clock() -> None:
    async def scenario(clock: MovingClock) -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        clock.call_later(1_000, clock.advance, 1)
        clock.advance(2_000)
        assert "can't advance the clock that runs it" in str(failures[0]["exception"])

    _run(scenario)


def test_sleeping_ends_with_an_advance_from_another_thread() -> None:
    async def scenario(clock: MovingClock) -> None:
        await clock.sleep(0)
        sleeping = asyncio.ensure_future(clock.sleep(3_600_000))
        given_up = asyncio.ensure_future(clock.sleep(3_600_000))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.to_thread(clock.advance, 3_600_000)
        await sleeping
        assert given_up.cancelled()
        await clock.sleep(1)

    _run(scenario)


def test_the_clock_works_on_the_next_loop() -> None:
    clock = MovingClock()
    seen: list[str] = []

    async def first() -> None:
        clock.call_later(1_000, seen.append, "of a loop that has ended")

    async def second() -> None:
        clock.call_later(1_000, seen.append, "here")
        clock.advance(1_000)

    asyncio.run(first())
    clock.advance(10)
    asyncio.run(second())
    assert seen == ["here"]


def test_what_the_machine_takes_is_not_advanced() -> None:
    clock = MovingClock()
    monotonic_s, machine_s = clock.monotonic_s(), clock.machine_s()
    clock.advance(1_200_000)
    assert clock.monotonic_s() - monotonic_s >= 1_200
    assert clock.machine_s() - machine_s < 600
