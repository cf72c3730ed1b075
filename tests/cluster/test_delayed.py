"""Waiting under keys, with a time-out on the clock."""

import asyncio
from collections.abc import Callable

from kafkapy.cluster.delayed import Purgatory
from kafkapy.testing.clock import ManualClock


def scenario(test: Callable[[Purgatory[str], ManualClock], None]) -> None:
    async def inside() -> None:
        clock = ManualClock()
        test(Purgatory(clock), clock)

    asyncio.run(inside())


def test_an_attempt_that_succeeds_ends_the_waiting_under_every_key() -> None:
    def test(purgatory: Purgatory[str], clock: ManualClock) -> None:
        changes: list[str | None] = []

        def attempt(changed: str | None) -> str | None:
            changes.append(changed)
            return f"done by {changed}" if len(changes) == 3 else None

        future = purgatory.wait(["a", "b"], attempt, 1000)
        assert len(purgatory) == 1
        purgatory.check("a")
        purgatory.check("elsewhere")
        purgatory.check("b")
        assert not future.done()
        purgatory.check("a")
        assert future.result() == "done by a"
        purgatory.check("b")
        assert changes == ["a", "b", "a"]
        assert len(purgatory) == 0
        assert not clock.pending_timers()

    scenario(test)


def test_when_the_time_is_over_the_attempt_must_give_a_result() -> None:
    def test(purgatory: Purgatory[str], clock: ManualClock) -> None:
        future = purgatory.wait(["a"], lambda changed: "late" if changed is None else None, 1000)
        clock.advance(999)
        assert not future.done()
        clock.advance(1)
        assert future.result() == "late"
        assert len(purgatory) == 0

    scenario(test)


def test_cancelling_the_future_ends_the_waiting() -> None:
    async def inside() -> None:
        clock = ManualClock()
        purgatory: Purgatory[str] = Purgatory(clock)
        future: asyncio.Future[str] = purgatory.wait(["a"], lambda _: None, 1000)
        future.cancel()
        purgatory.check("a")
        await asyncio.sleep(0)
        assert len(purgatory) == 0
        clock.advance(2000)

    asyncio.run(inside())


def test_a_stopping_broker_lets_everybody_go() -> None:
    def test(purgatory: Purgatory[str], clock: ManualClock) -> None:
        futures = [purgatory.wait([key, "shared"], lambda changed: changed is None or None, 1000) for key in "abc"]
        purgatory.expire_all()
        assert [future.result() for future in futures] == [True] * 3
        assert len(purgatory) == 0

    scenario(test)
