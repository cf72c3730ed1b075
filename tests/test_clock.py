import asyncio
import time

from kafkapy.clock import SystemClock


def test_wall_clock_counts_milliseconds_since_the_epoch() -> None:
    before = time.time()
    now_ms = SystemClock().now_ms()
    assert before - 1 <= now_ms / 1000 <= time.time() + 1


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.monotonic_s() <= clock.monotonic_s()


def test_timers_run_on_the_loop_unless_cancelled() -> None:
    async def scenario() -> list[str]:
        clock = SystemClock()
        ran: list[str] = []
        clock.call_later(1, ran.append, "kept")
        clock.call_later(1, ran.append, "cancelled").cancel()
        await clock.sleep(20)
        return ran

    assert asyncio.run(scenario()) == ["kept"]
