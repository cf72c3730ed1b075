import asyncio
import threading

import pytest

from kafkapy.testing import loop_calls
from kafkapy.testing.loop_calls import call_on


def test_on_the_loops_own_thread_and_without_a_loop_it_is_a_plain_call() -> None:
    async def scenario() -> None:
        assert call_on(asyncio.get_running_loop(), lambda: 5) == 5

    asyncio.run(scenario())
    assert call_on(None, lambda: 6) == 6
    ended = asyncio.new_event_loop()
    ended.close()
    assert call_on(ended, lambda: 7) == 7


def test_from_another_thread_it_runs_on_the_loops() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert await asyncio.to_thread(call_on, loop, threading.get_ident) == threading.get_ident()

        def fail() -> None:
            raise LookupError("there")

        with pytest.raises(LookupError, match="there"):
            await asyncio.to_thread(call_on, loop, fail)

    asyncio.run(scenario())


def test_a_loop_that_ends_before_the_call_is_made_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_calls, "PATIENCE_S", 0.01)

    class Ending:
        """A loop that ends when it is asked to call."""

        running = True

        def is_running(self) -> bool:
            return self.running

        def call_soon_threadsafe(self, _: object) -> None:
            self.running = False

    with pytest.raises(RuntimeError, match="the broker has stopped"):
        call_on(Ending(), lambda: 1)  # type: ignore[arg-type]  # what is used of a loop
