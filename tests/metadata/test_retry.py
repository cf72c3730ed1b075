import asyncio

from kafkapy.metadata.embedded import Retry
from kafkapy.testing.clock import ManualClock


def test_a_pause_ends_by_the_clock_or_at_once() -> None:
    async def main() -> None:
        clock = ManualClock()
        retry = Retry(clock)
        retry.now()
        assert not retry.is_waiting
        for end in (lambda: clock.advance(100), retry.now):
            pause = asyncio.create_task(retry.pause(100))
            await asyncio.sleep(0)
            clock.advance(99)
            assert retry.is_waiting
            end()
            retry.now()
            await pause
            assert not retry.is_waiting
            assert clock.pending_timers() == 0

    asyncio.run(main())
