"""Lets requests and answers wait: while the broker is paused, for a time, or until they are released."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from kafkapy.delayed import Delayed
from kafkapy.protocol.message import Message

if TYPE_CHECKING:
    from kafkapy.clock import Clock, TimerHandle

Waits = set["asyncio.Future[None]"]
"""Futures of requests and answers that wait until they are released."""


class Gate:
    """The waiting requests and answers of one broker; used on its event loop, or while it does not run."""

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._pauses: dict[object, TimerHandle | None] = {}
        self.paused: Waits = set()
        """Waits for the end of all pauses."""
        self.delayed: Waits = set()
        """Waits for a time."""

    # the broker's life

    def open(self, clock: "Clock") -> None:
        """Called before the broker serves; ``clock`` measures delays and pauses."""
        self._clock = clock

    def close(self, held: Iterable[Waits] = ()) -> None:
        """Called when the broker stops: end all waits, and the pauses with a duration, since its clock stops."""
        self._clock = None
        for by, timer in tuple(self._pauses.items()):
            if timer is not None:
                self.resume(by)
        for waits in (self.paused, self.delayed, *held):
            end_waits(waits)

    @property
    def is_open(self) -> bool:
        """Whether the broker runs."""
        return self._clock is not None

    # pauses

    @property
    def is_paused(self) -> bool:
        """Whether there is a pause."""
        return bool(self._pauses)

    def pause(self, by: object, duration_ms: float | None = None) -> None:
        """Pause the broker until ``resume``, or for a time from now on; ``by`` is the pause's owner."""
        earlier = self._pauses.get(by)
        if earlier is not None:
            earlier.cancel()
        timer = None
        if duration_ms is not None:
            if self._clock is None:
                return
            timer = self._clock.call_later(duration_ms, self.resume, by)
        self._pauses[by] = timer

    def resume(self, by: object) -> None:
        """End the pause of ``by``; the waits end if there is no other pause."""
        timer = self._pauses.pop(by, None)
        if timer is not None:
            timer.cancel()
        if not self._pauses:
            end_waits(self.paused)

    def release(self, by: object, held: Waits) -> None:
        """End the waits in ``held``, and the pause of ``by``."""
        end_waits(held)
        self.resume(by)

    def resume_all(self) -> None:
        """End every pause."""
        for by in tuple(self._pauses):
            self.resume(by)

    # waiting

    async def wait(self, waits: Waits, duration_ms: float | None = None) -> None:
        """Wait until ``waits`` are released, the time is over, or the broker stops."""
        if self._clock is None:
            return
        future = asyncio.get_running_loop().create_future()
        waits.add(future)
        timer = None
        if duration_ms is not None:
            timer = self._clock.call_later(duration_ms, end_waits, {future})
        try:
            await future
        finally:
            waits.discard(future)
            if timer is not None:
                timer.cancel()

    async def served(self) -> None:
        """Wait until there is no pause."""
        while self._pauses and self._clock is not None:
            await self.wait(self.paused)

    async def passed(self, result: Awaitable[Message | None]) -> Message | None:
        """Return an answer once it is there and the broker is not paused."""
        response = await result
        await self.served()
        return response

    def gated(self, result: "asyncio.Future[Message | None]") -> "asyncio.Future[Message | None]":
        """Return a future of the same answer that is not done while the broker is paused; without a task."""
        answer: Delayed[Message | None] = Delayed()
        if isinstance(result, Delayed):
            answer.waited_for = result

        def give_up(done: "asyncio.Future[Message | None]") -> None:
            if done.cancelled():
                result.cancel()

        def pass_on(_: object) -> None:
            if answer.done() or result.cancelled():
                return
            if self._pauses and self._clock is not None:
                waiting = asyncio.ensure_future(self.served())
                waiting.add_done_callback(pass_on)
                answer.add_done_callback(lambda _: waiting.cancel())
            elif (error := result.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result.result())

        answer.add_done_callback(give_up)
        result.add_done_callback(pass_on)
        return answer


def end_waits(waits: Waits) -> None:
    """End the waits; called on the loop."""
    for future in tuple(waits):
        if not future.done():
            future.set_result(None)
