"""Faults on the wire: errors, delays, lost connections and pauses between a client and a broker, set by a test.

    with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="orders", count=2) as rule:
        producer.send("orders", b"…").get()
    assert rule.fired == 2

A rule has the requests that it matches (``Match``) and an effect. All rules that match a request apply, in the order in
which they were set. The public methods may be called from any thread.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Unpack

from kafkapy.network.errors import RefusedError
from kafkapy.protocol.message import Message
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.message_places import names_in
from kafkapy.server.dispatch.result import Handle, Result
from kafkapy.testing.faults import checks
from kafkapy.testing.faults.error_answers import ErrorAnswer, has_place, refusing, release_bodies, result_of
from kafkapy.testing.faults.expired_members import Target, expire, may_have_joined, targeted
from kafkapy.testing.faults.gate import Gate
from kafkapy.testing.faults.rules import FaultAction, Match, Rule, When
from kafkapy.testing.loop.calls import call_on, check_loop, is_inherited

if TYPE_CHECKING:
    from kafkapy.testing.faults.connections import ConnectionFault, ConnectionFaults, SecuredBroker

BEFORE: Final = "before"
AFTER: Final = "after"


class InjectedDropError(RefusedError):
    """A rule closes the connection."""


class Faults:
    """The faults of one broker, an ``Interceptor`` of its requests."""

    def __init__(self, security: "SecuredBroker | None" = None) -> None:
        self.rules: tuple[Rule, ...] = ()
        """The rules that are set, in order; also those that are over."""
        self._lock = threading.Lock()
        self._count = 0
        self._services: Services | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        """The broker's event loop, once it has started."""
        self.gate = Gate()
        """Where requests and answers wait."""
        self._security = security
        self._connections: ConnectionFaults | None = None

    # what a test sets

    def error(self, error: str | int, *, when: str = BEFORE, **match: Unpack[Match]) -> Rule:
        """Answer with an error, by Kafka's name (``"NOT_LEADER_OR_FOLLOWER"``) or code, in the API's field for it.

        ``when="after"`` handles the request first: its record is written, its member has joined, but the client gets
        the error. Raises ``InvalidFaultError`` for a rule that could never match, as all these methods do.
        """
        code, moment = checks.error_code(error), checks.moment(when)
        return self._add(FaultAction.ERROR, match, error=code, when=moment)

    def delay(self, duration_ms: float, *, when: str = AFTER, **match: Unpack[Match]) -> Rule:
        """Answer ``duration_ms`` later; ``when="before"`` also handles the request later.

        The delay is measured by the broker's clock: ``advance`` ends it.
        """
        moment, duration = checks.moment(when), checks.duration(duration_ms)
        return self._add(FaultAction.DELAY, match, duration_ms=duration, when=moment)

    def drop(self, *, when: str = BEFORE, **match: Unpack[Match]) -> Rule:
        """Close the connection in place of an answer, before the request is handled or after it."""
        return self._add(FaultAction.DROP, match, when=checks.moment(when))

    def hold(self, **match: Unpack[Match]) -> Rule:
        """Handle the requests, but hold the answers until ``rule.release()`` or ``rule.remove()``."""
        return self._add(FaultAction.HOLD, match, when=When.AFTER)

    def pause_on(self, duration_ms: float | None = None, *, when: str = BEFORE, **match: Unpack[Match]) -> Rule:
        """Pause the broker at a request, before it is handled or after, for ``duration_ms`` of the broker's clock.

        ``resume``, ``rule.release()`` and ``rule.remove()`` end the pause earlier, or at all if it has no duration.
        """
        moment = checks.moment(when)
        duration = None if duration_ms is None else checks.duration(duration_ms, "pause")
        return self._add(FaultAction.PAUSE, match, duration_ms=duration, when=moment)

    def expire_member_on(
        self,
        member_of: str | None = None,
        *,
        member_id: str | None = None,
        instance_id: str | None = None,
        when: str = BEFORE,
        **match: Unpack[Match],
    ) -> Rule:
        """End a member's session at a request, before it is handled or after.

        By default it is the member that sends the request. With an id it is that member of the group that the request
        names. With ``member_of`` it is the member of that group with the id, or without an id all its members, at any
        request. The rule does not count a request at which there is no such member.
        """
        target, moment = Target(member_of, member_id, instance_id), checks.moment(when)
        checks.check_target(target, match.get("api"), moment)
        return self._add(FaultAction.EXPIRE_MEMBER, match, target=target, when=moment)

    def expired_certificate(self) -> "ConnectionFault":
        """Show a certificate that has expired to clients that connect from now on; the open connections stay.

        Raises ``InvalidFaultError`` for a broker without TLS.
        """
        return call_on(self.loop, lambda: self.connections.expired_certificate(self._forget_connection))

    def slow_handshake(self, duration_ms: float) -> "ConnectionFault":
        """Answer the first message of TLS ``duration_ms`` later, by the broker's clock; ``advance`` ends it.

        Raises ``InvalidFaultError`` for a broker without TLS: there ``delay(…, api="SaslHandshake")`` delays a login.
        """
        duration = checks.duration(duration_ms)
        return call_on(self.loop, lambda: self.connections.slow_handshake(duration, self._forget_connection))

    def revoke(self, user: str) -> "ConnectionFault":
        """End the open connections of a user, and refuse the user's password, token or certificate from now on.

        Raises ``InvalidFaultError`` for a broker whose clients don't prove who they are, and for an unknown user.
        """
        return call_on(self.loop, lambda: self.connections.revoke(user, self._forget_connection))

    def clear(self) -> None:
        """Remove every rule and fault."""
        for rule in self.rules:
            rule.remove()
        for fault in self._connections.all if self._connections is not None else ():
            fault.remove()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """``pause`` for the length of a block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def pause(self) -> None:
        """Stop serving: new requests wait, and so do answers that are not sent yet; the broker's clock runs on."""
        call_on(self.loop, lambda: self.gate.pause(self))

    def resume(self) -> None:
        """Serve again, waiting requests first; ends all pauses, also those of rules."""
        if not is_inherited(self.loop):
            call_on(self.loop, self.gate.resume_all)

    @property
    def is_paused(self) -> bool:
        """Whether the broker is paused."""
        return self.gate.is_paused

    def expire_member(self, group: str, *, member_id: str | None = None, instance_id: str | None = None) -> str:
        """End the session of a group's member now, as if its heartbeats had stopped; return its member id.

        Either id selects the member; in a group of one neither is needed. Raises ``UnknownMemberError``, and
        ``RuntimeError`` when the broker does not run.
        """
        services = self._services
        if services is None:
            raise RuntimeError("the broker does not run: it has no members")
        return call_on(self.loop, lambda: expire(services.group_coordinator, group, member_id, instance_id))

    @property
    def connections(self) -> "ConnectionFaults":
        """Those that are not of requests; their module is imported with a broker that has security."""
        if self._connections is None:
            from kafkapy.testing.faults.connections import ConnectionFaults

            self._connections = ConnectionFaults(self._security, self.gate)
        return self._connections

    def _forget_connection(self, fault: "ConnectionFault") -> None:
        if not is_inherited(self.loop):
            call_on(self.loop, lambda: self.connections.forget(fault))

    def _add(self, action: FaultAction, match: Match, **fields: Any) -> Rule:
        check_loop(self.loop)
        match = checks.checked(action, match)
        with self._lock:
            self._count += 1
            rule = Rule(self._count, action, match, self)
            for name, value in fields.items():
                setattr(rule, name, value)
            self.rules = (*self.rules, rule)
        return rule

    def forget(self, rule: Rule) -> None:
        """See ``Owner``; tests call ``rule.remove()`` instead."""
        with self._lock:
            self.rules = tuple(each for each in self.rules if each is not rule)

    def release(self, rule: Rule) -> None:
        """See ``Owner``; tests call ``rule.release()`` instead."""
        if not is_inherited(self.loop):
            call_on(self.loop, lambda: self.gate.release(rule, rule.waits))

    # the broker's side: Interceptor

    def start(self, services: Services) -> None:
        """See ``Interceptor``."""
        self._services = services
        self.loop = asyncio.get_running_loop()
        self.gate.open(services.clock)

    def stop(self) -> None:
        """See ``Interceptor``."""
        self._services = None
        self.gate.close(rule.waits for rule in self.rules)

    def handle(self, context: RequestContext, request: Any, handle: Handle) -> Result:
        """See ``Interceptor``."""
        rules = self._matching(context, request) if self.rules else []
        if rules or self.gate.is_paused:
            return self._apply(rules, context, request, handle)
        result = handle(context, request)
        if result is None or isinstance(result, Message):
            return result
        if isinstance(result, asyncio.Future) and not isinstance(result, asyncio.Task):
            return self.gate.gated(result)
        return self.gate.passed(result)

    def _matching(self, context: RequestContext, request: Any) -> list[Rule]:
        """The rules that apply to the request; a later rule does not refuse what an earlier one refuses."""
        names = names_in(context, request)
        left, is_refused = names, False
        met = []
        for rule in self.rules:
            if not rule.is_about(context, request, names):
                continue
            if rule.action is FaultAction.EXPIRE_MEMBER and not _ends_a_session(rule, context, request):
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
        await self.gate.served()
        for rule in rules:
            if rule.when is When.BEFORE:
                await self._apply_before(rule, context, request)
        await self.gate.served()
        if self._services is None:
            raise InjectedDropError("the broker stops before a fault rule lets it handle the request")
        for rule in rules:
            if rule.action is FaultAction.ERROR and rule.when is When.BEFORE:
                handle = refusing(rule, handle)
        response: Message | None = await result_of(handle(context, request))
        for rule in rules:
            if rule.when is When.AFTER:
                response = await self._apply_after(rule, context, request, response)
        await self.gate.served()
        return response

    async def _apply_before(self, rule: Rule, context: RequestContext, request: Any) -> None:
        if rule.action is FaultAction.DELAY:
            await self.gate.wait(self.gate.delayed, rule.duration_ms)
        elif rule.action is FaultAction.DROP:
            raise InjectedDropError(f"fault rule {rule.id} drops the request")
        else:
            self._happen(rule, context, request, None)

    async def _apply_after(
        self, rule: Rule, context: RequestContext, request: Any, response: Message | None
    ) -> Message | None:
        if rule.error is not None:
            return ErrorAnswer(context, request, rule).replacing(response)
        if rule.action is FaultAction.DELAY:
            await self.gate.wait(self.gate.delayed, rule.duration_ms)
        elif rule.action is FaultAction.HOLD and rule in self.rules:
            await self.gate.wait(rule.waits)
        elif rule.action is FaultAction.DROP:
            release_bodies(response)
            raise InjectedDropError(f"fault rule {rule.id} drops the answer")
        else:
            self._happen(rule, context, request, response)
        return response

    def _happen(self, rule: Rule, context: RequestContext, request: Any, response: Any) -> None:
        """Pause the broker, or end a member's session."""
        if rule.action is FaultAction.PAUSE and rule in self.rules and self.gate.is_open:
            self.gate.pause(rule, rule.duration_ms)
        elif rule.action is FaultAction.EXPIRE_MEMBER:
            found = targeted(rule.target, context, request, response)
            for group, member_id in found:
                context.services.group_coordinator.classic.expire_member(group, member_id)
            if not found:  # the member has left since: by this request, or before it was handled
                rule.fired -= 1


def _ends_a_session(rule: Rule, context: RequestContext, request: Any) -> bool:
    """Whether there is a member whose session the rule could end at this request."""
    joins = rule.when is When.AFTER and rule.target == Target() and may_have_joined(context, request)
    return joins or bool(targeted(rule.target, context, request))
