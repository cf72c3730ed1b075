"""A pause before another try, which whoever knows better can end."""

import asyncio

from kafkapy.clock import Clock


class Retry:
    """One pause at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._over: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether somebody is in a pause."""
        return self._over is not None and not self._over.done()

    async def pause(self, duration_ms: int) -> None:
        """Wait for ``duration_ms``, or until ``now`` is called."""
        self._over = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(duration_ms, self.now)
        try:
            await self._over
        finally:
            timer.cancel()

    def now(self) -> None:
        """End the pause, if there is one."""
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
