import asyncio

from kafkapy.clock import Clock
from kafkapy.testing.clock import ManualClock


def test_time_stands_still_until_advanced() -> None:
    clock: Clock = ManualClock(start_ms=5_000)
    assert (clock.now_ms(), clock.monotonic_s()) == (5_000, 0)


def test_advance_moves_wall_and_monotonic_time() -> None:
    clock = ManualClock(start_ms=5_000)
    clock.advance(1_500)
    assert (clock.now_ms(), clock.monotonic_s()) == (6_500, 1.5)


def test_timers_run_in_order_of_time_then_of_setting_each_at_its_instant() -> None:
    clock = ManualClock(start_ms=0)
    seen: list[tuple[str, int]] = []
    for name, delay_ms in (("late", 30), ("first", 10), ("second", 10), ("never", 31)):
        clock.call_later(delay_ms, lambda name=name: seen.append((name, clock.now_ms())))
    clock.advance(30)
    assert seen == [("first", 10), ("second", 10), ("late", 30)]
    assert clock.pending_timers() == 1
    assert clock.now_ms() == 30


def test_a_timer_set_by_a_timer_runs_in_the_same_advance_when_it_falls_within() -> None:
    clock = ManualClock(start_ms=0)
    seen: list[int] = []

    def again() -> None:
        seen.append(clock.now_ms())
        clock.call_later(10, again)

    clock.call_later(10, again)
    clock.advance(35)
    assert seen == [10, 20, 30]


def test_a_cancelled_timer_does_not_run() -> None:
    clock = ManualClock()
    seen: list[int] = []
    timer = clock.call_later(10, seen.append, 1)
    timer.cancel()
    timer.cancel()
    assert clock.pending_timers() == 0
    clock.advance(10)
    assert not seen


def test_a_timer_without_a_delay_runs_in_the_next_advance() -> None:
    clock = ManualClock()
    seen: list[int] = []
    clock.call_later(-5, seen.append, 1)
    assert not seen
    clock.advance(0)
    assert seen == [1]


def test_sleep_ends_when_the_clock_was_advanced() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        await clock.sleep(0)
        sleeper = asyncio.create_task(clock.sleep(100))
        await asyncio.sleep(0)
        clock.advance(99)
        await asyncio.sleep(0)
        assert not sleeper.done()
        clock.advance(1)
        await sleeper

    asyncio.run(scenario())


def test_a_cancelled_sleep_leaves_no_timer() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        sleeper = asyncio.create_task(clock.sleep(100))
        await asyncio.sleep(0)
        sleeper.cancel()
        await asyncio.gather(sleeper, return_exceptions=True)
        assert clock.pending_timers() == 0

    asyncio.run(scenario())
