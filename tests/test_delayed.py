"""Operations that wait under keys, with a time-out on the clock."""

import asyncio
import weakref
from collections.abc import Callable

import pytest

from kafkapy.clock import SystemClock
from kafkapy.delayed import Delayed, Purgatory, hurry
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


@pytest.mark.parametrize("when", ["check", "expiry"])
def test_an_attempt_may_change_what_it_waits_for(when: str) -> None:
    """As a follower's fetch does when it moves the high watermark."""

    def test(purgatory: Purgatory[str], clock: ManualClock) -> None:
        changes: list[str | None] = []

        def attempt(changed: str | None) -> int:
            changes.append(changed)
            if len(changes) == 1:
                purgatory.check("a")
            return len(changes)

        future = purgatory.wait(["a"], attempt, 1000)
        if when == "check":
            purgatory.check("a")
        else:
            clock.advance(1000)
        assert future.result() == 2
        assert changes == ["a" if when == "check" else None, "a"]
        assert not clock.pending_timers()

    scenario(test)


def test_a_hurried_operation_finishes_with_its_present_result() -> None:
    async def inside() -> None:
        purgatory: Purgatory[str] = Purgatory(SystemClock())
        future = purgatory.wait(["a"], lambda changed: "early" if changed is None else None, 60_000)
        future.hurry()
        assert future.result() == "early"
        future.hurry()
        assert len(purgatory) == 0
        await asyncio.sleep(0)
        gone = weakref.ref(future)
        del future
        assert gone() is None, "it holds open files, which must not wait for the collector"

    asyncio.run(inside())


def test_hurry_and_cancellation_reach_the_task_of_a_future() -> None:
    async def inside() -> None:
        purgatory: Purgatory[str] = Purgatory(ManualClock())

        async def loud(waited_for: Delayed[str]) -> str:
            return (await waited_for).upper()

        def wait() -> tuple[Delayed[str], asyncio.Task[str], Delayed[str]]:
            waited_for = purgatory.wait(["a"], lambda changed: "early" if changed is None else None, 1000)
            task = asyncio.create_task(loud(waited_for))
            return waited_for, task, Delayed.of(task, waited_for)

        _, task, hurried = wait()
        hurry(task)
        await asyncio.sleep(0)
        assert not hurried.done()
        hurry(hurried)
        assert await hurried == "EARLY"
        waited_for, task, given_up = wait()
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.wait([task])
        assert waited_for.cancelled()
        waited_for, task, failed = wait()
        waited_for.set_exception(KeyError("a bug"))
        with pytest.raises(KeyError):
            await failed
        waited_for, task, lost = wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lost
        Delayed.of(task, "nothing to wait for").hurry()

    asyncio.run(inside())


def test_a_stopping_broker_finishes_all_operations() -> None:
    def test(purgatory: Purgatory[str], clock: ManualClock) -> None:
        futures = [purgatory.wait([key, "shared"], lambda changed: changed is None or None, 1000) for key in "abc"]
        purgatory.expire_all()
        assert [future.result() for future in futures] == [True] * 3
        assert len(purgatory) == 0

    scenario(test)


def test_a_watched_key_is_told_of_each_check_until_it_is_watched_no_more() -> None:
    purgatory: Purgatory[str] = Purgatory(ManualClock())
    seen: list[str] = []
    purgatory.watch("a", seen.append)
    purgatory.watch("a", seen.append)
    purgatory.check("a")
    purgatory.check("b")
    assert seen == ["a"]
    purgatory.unwatch("a", seen.append)
    purgatory.unwatch("a", seen.append)
    purgatory.check("a")
    assert seen == ["a"]
    assert len(purgatory) == 0
