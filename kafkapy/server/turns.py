"""Work on the loop that may take long, in steps: after some milliseconds others have their turn.

The steps are a generator: each ``yield`` is a place to pause, what it returns is the result.
"""

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_S: Final = 0.005
"""How long steps go on before the loop serves whoever is ready."""


class _Turn:
    """Awaited, it lets the loop serve whoever is ready."""

    def __await__(self) -> Generator[None]:
        yield


async def in_turns(steps: Generator[None, None, T]) -> T:
    """Go through ``steps``, pausing now and then; raises what they raise."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if loop.time() >= until:
            await _Turn()
            until = loop.time() + SLICE_S


def at_once_or_in_turns(
    steps: "Generator[None, None, T | asyncio.Future[T]]",
) -> "T | asyncio.Future[T]":
    """Go through ``steps``: at once if that is soon done, else the rest in a task; raises what the first ones raise.

    A future that the steps return is the result's.
    """
    try:
        next(steps)
        loop = asyncio.get_running_loop()
        until = loop.time() + SLICE_S
        while loop.time() < until:
            next(steps)
    except StopIteration as end:
        result: T | asyncio.Future[T] = end.value
        return result
    return asyncio.ensure_future(_rest(steps))


async def _rest(steps: "Generator[None, None, T | asyncio.Future[T]]") -> T:
    await _Turn()
    result = await in_turns(steps)
    return await result if isinstance(result, asyncio.Future) else result
