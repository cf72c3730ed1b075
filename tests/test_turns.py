import asyncio
from collections.abc import Generator

import pytest

from kafkapy import turns
from kafkapy.turns import OneByOne, at_once_or_in_turns, finish, in_turns, while_true
from tests.server.harness import run


def steps(count: int, done: list[int]) -> Generator[None, None, int]:
    for number in range(count):
        done.append(number)
        yield
    return count


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each step longer than a slice."""
    monkeypatch.setattr(turns, "UNTIMED_STEPS", 1)
    monkeypatch.setattr(turns, "FIRST_SLICE_S", 0)
    monkeypatch.setattr(turns, "SLICE_S", 0)


def test_short_steps_end_within_the_first_slice() -> None:
    async def scenario() -> None:
        done: list[int] = []
        assert at_once_or_in_turns(steps(3, done)) == 3
        assert at_once_or_in_turns(steps(0, done)) == 0
        assert await in_turns(steps(2, done)) == 2
        assert done == [0, 1, 2, 0, 1]

    run(scenario())


@pytest.mark.usefixtures("no_patience")
def test_other_work_runs_after_each_slice() -> None:
    async def scenario() -> None:
        done: list[int] = []
        seen: list[int] = []

        def look() -> None:
            seen.append(len(done))
            if len(seen) < 20:
                asyncio.get_running_loop().call_soon(look)

        look()
        assert await in_turns(steps(5, done)) == 5
        assert {1, 2, 3, 4, 5} <= set(seen)
        later = at_once_or_in_turns(steps(5, done))
        assert isinstance(later, asyncio.Task)
        assert len(done) == 6
        assert await later == 5
        assert len(done) == 10

    run(scenario())


@pytest.mark.usefixtures("no_patience")
def test_an_awaitable_result_of_steps_is_awaited() -> None:
    async def scenario() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def ending_so() -> Generator[None, None, asyncio.Future[int]]:
            yield
            return future

        later = at_once_or_in_turns(ending_so())
        asyncio.get_running_loop().call_soon(future.set_result, 7)
        assert isinstance(later, asyncio.Future)
        assert await later == 7

    run(scenario())


@pytest.mark.usefixtures("no_patience")
def test_an_error_of_the_steps_is_raised() -> None:
    def failing() -> Generator[None, None, int]:
        yield
        raise LookupError

    async def scenario() -> None:
        with pytest.raises(LookupError):
            await in_turns(failing())
        later = at_once_or_in_turns(failing())
        assert isinstance(later, asyncio.Future)
        with pytest.raises(LookupError):
            await later

    run(scenario())


def test_steps_end_after_the_pause_in_which_their_condition_ends() -> None:
    done: list[int] = []
    finish(while_true(lambda: len(done) < 2, steps(4, done)))
    assert done == [0, 1]
    finish(while_true(lambda: True, steps(4, done)))
    assert done == [0, 1, 0, 1, 2, 3]


@pytest.mark.usefixtures("no_patience")
def test_other_work_runs_between_two_elements_but_not_before_the_first() -> None:
    async def scenario() -> None:
        order: list[int | str] = []
        asyncio.get_running_loop().call_soon(order.append, "other work")
        async for element in OneByOne([1, 2]):
            order.append(element)
        assert order == [1, "other work", 2]
        assert [element async for element in OneByOne(range(0))] == []

    run(scenario())
