import asyncio
import threading

import pytest

from kafkapy.testing.loop import calls as loop_calls
from kafkapy.testing.loop.calls import call_on


def test_without_another_threads_loop_the_function_is_called_at_once() -> None:
    async def scenario() -> None:
        assert call_on(asyncio.get_running_loop(), lambda: 5) == 5

    asyncio.run(scenario())
    assert call_on(None, lambda: 6) == 6
    ended = asyncio.new_event_loop()
    ended.close()
    assert call_on(ended, lambda: 7) == 7


def test_a_call_from_another_thread_runs_on_the_loops_thread() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        assert await asyncio.to_thread(call_on, loop, threading.get_ident) == threading.get_ident()

        def fail() -> None:
            raise LookupError("there")

        with pytest.raises(LookupError, match="there"):
            await asyncio.to_thread(call_on, loop, fail)

    asyncio.run(scenario())


def test_a_call_fails_if_the_loop_ends_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_calls, "PATIENCE_S", 0.01)

    class Ending:
        """A loop that ends before it makes a call."""

        running = True

        def is_running(self) -> bool:
            return self.running

        def call_soon_threadsafe(self, _: object) -> None:
            self.running = False

    with pytest.raises(RuntimeError, match="the broker has stopped"):
        call_on(Ending(), lambda: 1)  # type: ignore[arg-type]  # it has the methods that are used
