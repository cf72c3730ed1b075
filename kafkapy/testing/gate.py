"""Where requests and answers wait: while the broker is paused, for a time, until somebody lets them go."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from kafkapy.delayed import Delayed
from kafkapy.protocol.message import Message

if TYPE_CHECKING:
    from kafkapy.clock import Clock, TimerHandle

Waits = set["asyncio.Future[None]"]
"""What waits for somebody to let it go."""


class Gate:
    """What waits in one broker; everything here runs on its loop, or while it does not run."""

    def __init__(self) -> None:
        self._clock: Clock | None = None
        self._pauses: dict[object, TimerHandle | None] = {}
        self.paused: Waits = set()
        """What waits until nobody pauses the broker."""
        self.delayed: Waits = set()
        """What waits for its time."""

    # the broker's life

    def open(self, clock: "Clock") -> None:
        """The broker is about to serve; its clock counts."""
        self._clock = clock

    def close(self, held: Iterable[Waits] = ()) -> None:
        """The broker stops: whatever waits goes on, and pauses for a time are over, since its clock goes no further."""
        self._clock = None
        for by, timer in tuple(self._pauses.items()):
            if timer is not None:
                self.resume(by)
        for waits in (self.paused, self.delayed, *held):
            let_go(waits)

    @property
    def is_open(self) -> bool:
        """Whether the broker runs."""
        return self._clock is not None

    # pauses

    @property
    def is_paused(self) -> bool:
        """Whether anybody pauses the broker."""
        return bool(self._pauses)

    def pause(self, by: object, duration_ms: float | None = None) -> None:
        """Serve nobody until ``resume``, or for a time from now on; ``by`` is whose pause it is."""
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
        """End this pause; what has waited goes on when there is no other."""
        timer = self._pauses.pop(by, None)
        if timer is not None:
            timer.cancel()
        if not self._pauses:
            let_go(self.paused)

    def release(self, by: object, held: Waits) -> None:
        """Let go of what is held, and end this pause."""
        let_go(held)
        self.resume(by)

    def resume_all(self) -> None:
        """End every pause."""
        for by in tuple(self._pauses):
            self.resume(by)

    # waiting

    async def wait(self, waits: Waits, duration_ms: float | None = None) -> None:
        """Until somebody lets go of ``waits``, or the time is over, or the broker stops."""
        if self._clock is None:
            return
        future = asyncio.get_running_loop().create_future()
        waits.add(future)
        timer = None
        if duration_ms is not None:
            timer = self._clock.call_later(duration_ms, let_go, {future})
        try:
            await future
        finally:
            waits.discard(future)
            if timer is not None:
                timer.cancel()

    async def served(self) -> None:
        """Until nobody pauses the broker."""
        while self._pauses and self._clock is not None:
            await self.wait(self.paused)

    async def passed(self, result: Awaitable[Message | None]) -> Message | None:
        """An answer, once it is there and nobody pauses the broker."""
        response = await result
        await self.served()
        return response

    def gated(self, result: "asyncio.Future[Message | None]") -> "asyncio.Future[Message | None]":
        """A future of the same answer, which does not come while the broker is paused; it costs no task."""
        answer: Delayed[Message | None] = Delayed()
        if isinstance(result, Delayed):
            answer.hurry = result.hurry

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


def let_go(waits: Waits) -> None:
    """Let whoever waits go on; called on the loop."""
    for future in tuple(waits):
        if not future.done():
            future.set_result(None)
