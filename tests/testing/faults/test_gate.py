import asyncio
from typing import Any

import pytest

from kafkapy.delayed import Delayed, Purgatory
from kafkapy.testing.clock import ManualClock
from kafkapy.testing.faults.gate import Gate


def _open(clock: ManualClock) -> Gate:
    gate = Gate()
    gate.open(clock)
    return gate


async def _round() -> None:
    """Run all ready callbacks of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_requests_wait_until_the_last_pause_ends() -> None:
    async def scenario() -> None:
        gate = _open(ManualClock())
        await gate.served()
        gate.pause("test")
        gate.pause("rule")
        waiting = asyncio.ensure_future(gate.served())
        await _round()
        gate.resume("test")
        gate.resume("nobody")
        await _round()
        assert gate.is_paused
        assert not waiting.done()
        gate.resume("rule")
        await waiting
        gate.pause("test")
        gate.pause("rule")
        gate.resume_all()
        assert not gate.is_paused

    asyncio.run(scenario())


def test_a_pause_with_a_duration_ends_and_starts_again_when_it_is_set_again() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        gate = _open(clock)
        gate.pause("rule", 100)
        clock.advance(60)
        gate.pause("rule", 100)
        clock.advance(60)
        assert gate.is_paused
        clock.advance(40)
        assert not gate.is_paused
        assert clock.pending_timers() == 0
        gate.pause("rule", 100)
        gate.resume("rule")
        assert clock.pending_timers() == 0

    asyncio.run(scenario())


def test_a_stop_ends_all_waits_and_pauses_with_a_duration() -> None:
    async def scenario() -> None:
        clock = ManualClock()
        gate = _open(clock)
        held: set[asyncio.Future[None]] = set()
        gate.pause("test")
        gate.pause("rule", 100)
        waiting = [asyncio.ensure_future(each) for each in (
            gate.served(), gate.wait(held), gate.wait(gate.delayed, 1000),
        )]  # fmt: skip
        await _round()
        gate.close([held])
        await asyncio.gather(*waiting)
        assert not gate.is_open
        assert clock.pending_timers() == 0
        gate.pause("other", 5)
        await gate.wait(held)
        await gate.served()
        gate.open(clock)
        assert gate.is_paused, "what was paused without an end still is"
        gate.resume("test")
        assert not gate.is_paused

    asyncio.run(scenario())


def test_answers_and_failures_wait_for_the_end_of_the_pause() -> None:
    async def scenario() -> None:
        gate = _open(ManualClock())
        loop = asyncio.get_running_loop()
        results: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(3)]
        answer, failure = gate.gated(results[0]), gate.gated(results[1])
        passed = asyncio.ensure_future(gate.passed(results[2]))
        gate.pause("test")
        results[0].set_result(None)
        results[1].set_exception(OSError("no disk"))
        results[2].set_result(None)
        await _round()
        assert not any(each.done() for each in (answer, failure, passed))
        gate.resume("test")
        assert await answer is None
        assert await passed is None
        with pytest.raises(OSError, match="no disk"):
            await failure

    asyncio.run(scenario())


def test_a_gated_answer_can_be_hurried() -> None:
    async def scenario() -> None:
        gate = _open(ManualClock())
        purgatory: Purgatory[str] = Purgatory(ManualClock())
        waited_for: Delayed[Any] = purgatory.wait(["a"], lambda _: "now", 1000)
        answer = gate.gated(waited_for)
        assert isinstance(answer, Delayed)
        assert answer.can_be_hurried
        answer.hurry()
        assert await answer == "now"
        assert not answer.can_be_hurried

    asyncio.run(scenario())


def test_a_cancelled_answer_does_not_wait() -> None:
    async def scenario() -> None:
        gate = _open(ManualClock())
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        gate.gated(result).cancel()
        await _round()
        assert result.cancelled()

    asyncio.run(scenario())
