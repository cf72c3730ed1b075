"""Faults on the wire: what may happen between a client and a broker, made to happen when a test wants it.

    with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="orders", count=2) as rule:
        producer.send("orders", b"…").get()
    assert rule.fired == 2

A rule says which requests it meets (``Match``) and what happens to them. All rules that meet a request apply, in the
order in which they were set. Everything here may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Unpack

from kafkapy.protocol.message import Message
from kafkapy.server.context import RequestContext, Services
from kafkapy.server.errors import RefusedError
from kafkapy.server.interception import Handle, Result
from kafkapy.server.message_places import named_in
from kafkapy.testing import fault_checks
from kafkapy.testing.error_answers import ErrorAnswer, has_place, refusing, release_bodies, result_of
from kafkapy.testing.expired_members import UnknownMemberError, expire
from kafkapy.testing.fault_rules import Action, InvalidFaultError, Match, Rule, Waits, When, let_go
from kafkapy.testing.loop_calls import call_on

__all__ = ["Faults", "InvalidFaultError", "Match", "Rule", "UnknownMemberError"]

BEFORE: Final = "before"
AFTER: Final = "after"


class InjectedDropError(RefusedError):
    """A rule closes the connection."""


class Faults:
    """The faults of one broker, an ``Interceptor`` of its requests."""

    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()
        """Those that are set, in order; also those that are over."""
        self._lock = threading.Lock()
        self._count = 0
        self._services: Services | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The broker's, once it has started."""
        self._is_paused = False
        self._paused: Waits = set()
        self._delayed: Waits = set()

    # what a test sets

    def error(self, error: str | int, *, when: str = BEFORE, **match: Unpack[Match]) -> Rule:
        """Answer an error, by Kafka's name (``"NOT_LEADER_OR_FOLLOWER"``) or code, in that API's own place for it.

        ``when="after"`` handles the request first: its record is written, its member has joined, and the client is told
        otherwise. Raises ``InvalidFaultError`` for a rule that could never match, as all of these do.
        """
        code, moment = fault_checks.error_code(error), fault_checks.moment(when)
        return self._add(Action.ERROR, match, error=code, when=moment)

    def delay(self, duration_ms: float, *, when: str = AFTER, **match: Unpack[Match]) -> Rule:
        """Answer ``duration_ms`` later; ``when="before"`` handles the request that much later too.

        It is the broker's clock that counts: ``advance`` ends a delay.
        """
        moment, duration = fault_checks.moment(when), fault_checks.duration(duration_ms)
        return self._add(Action.DELAY, match, duration_ms=duration, when=moment)

    def drop(self, *, when: str = BEFORE, **match: Unpack[Match]) -> Rule:
        """Close the connection in place of an answer, before the request is handled or after it."""
        return self._add(Action.DROP, match, when=fault_checks.moment(when))

    def hold(self, **match: Unpack[Match]) -> Rule:
        """Handle, but keep the answers until ``rule.release()`` or ``rule.remove()``."""
        return self._add(Action.HOLD, match, when=When.AFTER)

    def clear(self) -> None:
        """Remove every rule."""
        for rule in self.rules:
            rule.remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """``pause`` for the length of a block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Serve nobody: requests that arrive wait, and so do answers that are not sent; the broker's time goes on."""
        self._is_paused = True

    def resume(self) -> None:
        """Serve again, beginning with what has waited."""
        self._is_paused = False
        call_on(self.loop, lambda: let_go(self._paused))

    @property
    def is_paused(self) -> bool:
        """Whether nobody is served."""
        return self._is_paused

    def expire_member(self, group: str, *, member_id: str | None = None, instance_id: str | None = None) -> str:
        """End the session of a group's member now, as if it had sent no heartbeat for too long; its member id.

        The member may be named by either id; a group of one need not name it. Raises ``UnknownMemberError``, and
        ``RuntimeError`` when the broker does not run.
        """
        services = self._services
        if services is None:
            raise RuntimeError("the broker does not run: it has no members")
        return call_on(self.loop, lambda: expire(services.group_coordinator, group, member_id, instance_id))

    def _add(self, action: Action, match: Match, **fields: Any) -> Rule:
        match = fault_checks.checked(action, match)
        with self._lock:
            self._count += 1
            rule = Rule(self._count, action, match, self)
            for name, value in fields.items():
                setattr(rule, name, value)
            self.rules = (*self.rules, rule)
        return rule

    def forget(self, rule: Rule) -> None:
        """See ``Owner``; ``rule.remove()`` is what tests call."""
        with self._lock:
            self.rules = tuple(each for each in self.rules if each is not rule)

    # the broker's side: Interceptor

    def start(self, services: Services) -> None:
        """See ``Interceptor``."""
        self._services = services
        self.loop = asyncio.get_running_loop()

    def stop(self) -> None:
        """See ``Interceptor``."""
        self._services = None
        for waits in (self._paused, self._delayed, *(rule.waits for rule in self.rules)):
            let_go(waits)

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        """See ``Interceptor``."""
        rules = self._met(context, request) if self.rules else []
        if rules or self._is_paused:
            return self._apply(rules, context, request, handle)
        result = handle(context, request)
        if result is None or isinstance(result, Message):
            return result
        if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
            return self._gated(result)
        return self._when_served(result)

    def _met(self, context: RequestContext, request: Any) -> list[Rule]:
        """The rules whose turn it is; what an earlier one refuses is no later one's to refuse."""
        names = named_in(context, request)
        left, is_refused = names, False
        met = []
        for rule in self.rules:
            if not rule.is_about(context, names):
                continue
            if rule.error is not None and (is_refused or not has_place(context, request, rule, left)):
                continue
            if not rule.takes():
                continue
            met.append(rule)
            if rule.error is not None and rule.when is When.BEFORE:
                left = [named for named in left if not rule.selects(named)]
                is_refused = not left
        return met

    async def _apply(self, rules: list[Rule], context: RequestContext, request: Any, handle: Handle) -> Message | None:
        await self._served()
        for rule in rules:
            if rule.when is When.BEFORE and rule.action is Action.DELAY:
                await self._wait(self._delayed, rule.duration_ms)
            elif rule.when is When.BEFORE and rule.action is Action.DROP:
                raise InjectedDropError(f"fault rule {rule.id} drops the request")
        if self._services is None:
            raise InjectedDropError("the broker stops before a fault rule lets it handle the request")
        for rule in rules:
            if rule.action is Action.ERROR and rule.when is When.BEFORE:
                handle = refusing(rule, handle)
        response: Message | None = await result_of(handle(context, request))
        for rule in rules:
            if rule.when is When.AFTER:
                response = await self._apply_after(rule, context, request, response)
        await self._served()
        return response

    async def _when_served(self, result: Awaitable[Message | None]) -> Message | None:
        response = await result
        await self._served()
        return response

    async def _apply_after(
        self, rule: Rule, context: RequestContext, request: Any, response: Message | None
    ) -> Message | None:
        if rule.error is not None:
            return ErrorAnswer(context, request, rule).replacing(response)
        if rule.action is Action.DELAY:
            await self._wait(self._delayed, rule.duration_ms)
        elif rule.action is Action.HOLD and rule in self.rules:
            await self._wait(rule.waits)
        elif rule.action is Action.DROP:
            release_bodies(response)
            raise InjectedDropError(f"fault rule {rule.id} drops the answer")
        return response

    async def _wait(self, waits: Waits, duration_ms: float | None = None) -> None:
        """Until somebody lets go of ``waits``, or the time is over, or the broker stops."""
        if self._services is None:
            return
        future = asyncio.get_running_loop().create_future()
        waits.add(future)
        timer = None
        if duration_ms is not None:
            timer = self._services.clock.call_later(duration_ms, let_go, {future})
        try:
            await future
        finally:
            waits.discard(future)
            if timer is not None:
                timer.cancel()

    async def _served(self) -> None:
        while self._is_paused and self._services is not None:
            await self._wait(self._paused)

    def _gated(self, result: "asyncio.Future[Message | None]") -> "asyncio.Future[Message | None]":
        """A future of the same answer, which does not come while the broker is paused."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()

        def give_up(done: "asyncio.Future[Message | None]") -> None:
            if done.cancelled():
                result.cancel()

        def pass_on(_: object) -> None:
            if answer.done() or result.cancelled():
                return
            if self._is_paused and self._services is not None:
                waiting = asyncio.ensure_future(self._served())
                waiting.add_done_callback(pass_on)
                answer.add_done_callback(lambda _: waiting.cancel())
            elif (error := result.exception()) is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result.result())

        answer.add_done_callback(give_up)
        result.add_done_callback(pass_on)
        return answer
