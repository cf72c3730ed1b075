"""A coordinator's response, which may be set later.

The state machines answer most requests at once, and some only when other members have joined (JoinGroup, SyncGroup) or
the log has the records. An ``Answer`` is that value without an event loop, so that the state machines need none;
``respond`` turns an answer that is not set yet into a future for the handler.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from kafkapy.turns import Steps, in_turns

T = TypeVar("T")
R = TypeVar("R")


class Answer(Generic[T]):
    """A value that is set exactly once; one callback gets it."""

    __slots__ = ("value", "_callback", "is_set")

    value: T
    """The value, once it is set."""

    def __init__(self) -> None:
        self._callback: Callable[[T], None] | None = None
        self.is_set = False

    @classmethod
    def of(cls, value: T) -> "Answer[T]":
        """An answer that is set from the start."""
        answer = cls.__new__(cls)  # nearly all answers are set from the start: they need no ``_callback``
        answer.value = value
        answer.is_set = True
        return answer

    def set(self, value: T) -> None:
        """Set the value; a second call would answer a request twice."""
        assert not self.is_set
        self.value = value
        self.is_set = True
        if self._callback is not None:
            self._callback(value)

    def on_set(self, callback: Callable[[T], None]) -> None:
        """Call ``callback(value)``: at once if the value is set, else when it is."""
        if self.is_set:
            callback(self.value)
        else:
            assert self._callback is None
            self._callback = callback


def respond(answer: Answer[T], build: Callable[[T], R]) -> R | Awaitable[R]:
    """Return ``build(value)`` if the answer is set, else a future of it, for a handler to return."""
    if answer.is_set:
        return build(answer.value)
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def deliver(value: T) -> None:
        if not future.done():  # cancelled if its connection was closed
            future.set_result(build(value))

    answer.on_set(deliver)
    return future


async def respond_in_turns(answer: Answer[T], build: Callable[[T], Steps[R]]) -> R:
    """Wait for ``answer``, then ``build`` the response in steps."""
    return await in_turns(build(await future_of(answer)))


def future_of(answer: Answer[T]) -> "asyncio.Future[T]":
    """Return a future of the value."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def deliver(value: T) -> None:
        if not future.done():  # cancelled if its connection was closed
            future.set_result(value)

    answer.on_set(deliver)
    return future
