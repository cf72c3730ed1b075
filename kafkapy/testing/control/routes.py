"""The requests of a broker's control port, one line each; its page and its OpenAPI description are made from them.

``control_cluster`` has those of a cluster's control port.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kafkapy.observe.http.messages import HttpError
from kafkapy.testing.clock.moving import MovingClock
from kafkapy.testing.faults import Faults
from kafkapy.testing.faults.checks import FIELDS
from kafkapy.testing.faults.expired_members import UnknownMemberError
from kafkapy.testing.faults.rules import FaultAction, Rule
from kafkapy.text import nearest

MOST_RULES: Final = 1_000
"""Rules that requests may set at a time; more are refused until some are removed."""
JsonValue = Any
Answer = tuple[HTTPStatus, JsonValue]
Of = TypeVar("Of")


class RuleKind(NamedTuple):
    """The method that sets rules of one kind, and the fields that only this kind has."""

    set: Callable[..., Rule]
    needed: tuple[str, ...] = ()
    others: tuple[str, ...] = ("when",)


_KINDS: Final[Mapping[FaultAction, RuleKind]] = {
    FaultAction.ERROR: RuleKind(Faults.error, ("error",)),
    FaultAction.DELAY: RuleKind(Faults.delay, ("duration_ms",)),
    FaultAction.DROP: RuleKind(Faults.drop),
    FaultAction.HOLD: RuleKind(Faults.hold, others=()),
    FaultAction.PAUSE: RuleKind(Faults.pause_on, others=("duration_ms", "when")),
    FaultAction.EXPIRE_MEMBER: RuleKind(
        Faults.expire_member_on, others=("member_of", "member_id", "instance_id", "when")
    ),
}


class Controllable(Protocol):
    """A broker or a cluster, as its control port uses it."""

    @property
    def title(self) -> str:
        """The purpose of the port, in a few words."""
        ...

    @property
    def example(self) -> str:
        """A path and a JSON body for the page's example, with a space between."""
        ...

    @property
    def routes(self) -> "Sequence[ControlRoute[Any]]":
        """All kinds of requests."""
        ...


class Controlled(NamedTuple):
    """The objects of one broker that a control port controls."""

    faults: Faults
    clock: MovingClock
    bootstrap: Callable[[], str]

    @property
    def title(self) -> str:
        """See ``Controllable``."""
        return "Faults and the clock of one kafkapy broker"

    @property
    def example(self) -> str:
        """See ``Controllable``."""
        return '/faults {"action": "error", "error": "NOT_LEADER_OR_FOLLOWER", "api": "Produce", "count": 2}'

    @property
    def routes(self) -> "Sequence[ControlRoute[Controlled]]":
        """See ``Controllable``."""
        return ROUTES


class ControlRequest(NamedTuple):
    """A request to the port; ``body`` is its JSON object."""

    method: str
    path: str
    body: dict[str, Any]


class Call(NamedTuple, Generic[Of]):
    """One request: the objects that it controls, the numbers in its path, its body."""

    of: Of
    numbers: Mapping[str, int]
    body: dict[str, Any]


class ControlRoute(NamedTuple, Generic[Of]):
    """One kind of request. ``fields`` of the body: name, JSON type, whether it is needed, what it means."""

    method: str
    path: str
    does: str
    answer: Callable[[Call[Of]], Answer | Awaitable[Answer]]
    fields: tuple[tuple[str, str, bool, str], ...] = ()

    @property
    def parameters(self) -> list[str]:
        """The names of the numbers in the path."""
        return re.findall(r"{(\w+)}", self.path)

    def matches(self, path: str) -> Mapping[str, int] | None:
        """The numbers in ``path`` by name if this is its route, else None."""
        found = re.fullmatch(re.sub(r"{(\w+)}", r"(?P<\1>[0-9]{1,18})", self.path), path)
        return None if found is None else {name: int(text) for name, text in found.groupdict().items()}


BrokerCall = Call[Controlled]


def refused(sentence: str) -> HttpError:
    """The error for an invalid request."""
    return HttpError(HTTPStatus.BAD_REQUEST, sentence)


def _broker(call: BrokerCall) -> Answer:
    return HTTPStatus.OK, {"bootstrap": call.of.bootstrap(), "is_paused": call.of.faults.is_paused}


def _pause(call: BrokerCall) -> Answer:
    call.of.faults.pause()
    return _broker(call)


def _resume(call: BrokerCall) -> Answer:
    call.of.faults.resume()
    return _broker(call)


def _clock(call: Call[Any]) -> Answer:
    clock: MovingClock = call.of.clock
    return HTTPStatus.OK, {"now_ms": clock.now_ms(), "added_ms": clock.added_ms}


def _advance(call: Call[Any]) -> Answer:
    duration_ms = call.body["duration_ms"]
    if not isinstance(duration_ms, int | float) or isinstance(duration_ms, bool):
        raise refused(f"duration_ms must be a number, not {duration_ms!r}")
    call.of.clock.advance(duration_ms)
    return _clock(call)


def _faults(call: BrokerCall) -> Answer:
    return HTTPStatus.OK, {"faults": [rule.describe() for rule in call.of.faults.rules]}


def _add_fault(call: BrokerCall) -> Answer:
    fields = dict(call.body)
    name = fields.pop("action")
    known = [each.value for each in FaultAction]
    if name not in known:
        raise refused(f"there is no action {name!r}; there are {', '.join(known)}")
    kind = _KINDS[FaultAction(name)]
    own = (*kind.needed, *kind.others)
    for field, value in fields.items():
        if field not in FIELDS and field not in own:
            raise refused(f"{name} has no {field}{nearest(field, own)}")
        if value is None:
            raise refused(f"{field} is null: leave it out instead")
    if len(call.of.faults.rules) >= MOST_RULES:
        raise HttpError(HTTPStatus.CONFLICT, f"there are {MOST_RULES} rules already: remove some")
    missing = [field for field in kind.needed if field not in fields]
    if missing:
        raise refused(f"{name} needs {missing[0]}")
    return HTTPStatus.CREATED, kind.set(call.of.faults, **fields).describe()


def _clear_faults(call: BrokerCall) -> Answer:
    answer = _faults(call)
    call.of.faults.clear()
    return answer


def _rule(call: BrokerCall) -> Rule:
    for rule in call.of.faults.rules:
        if rule.id == call.numbers["id"]:
            return rule
    raise HttpError(HTTPStatus.NOT_FOUND, f"there is no fault {call.numbers['id']}: it was removed, or never set")


def _fault(call: BrokerCall) -> Answer:
    return HTTPStatus.OK, _rule(call).describe()


def _remove_fault(call: BrokerCall) -> Answer:
    rule = _rule(call)
    told = rule.describe()
    rule.remove()
    return HTTPStatus.OK, told


def _release_fault(call: BrokerCall) -> Answer:
    rule = _rule(call)
    rule.release()
    return HTTPStatus.OK, rule.describe()


def _expire_member(call: BrokerCall) -> Answer:
    for name, value in call.body.items():
        if not isinstance(value, str):
            raise refused(f"{name} must be a string, not {value!r}")
    try:
        return HTTPStatus.OK, {"member_id": call.of.faults.expire_member(**call.body)}
    except UnknownMemberError as error:
        raise HttpError(HTTPStatus.NOT_FOUND, str(error)) from error
    except RuntimeError as error:
        raise HttpError(HTTPStatus.CONFLICT, str(error)) from error


_RULE_FIELDS: Final = (
    ("action", "string", True, "error, delay, drop, hold, pause or expire_member"),
    ("error", "string", False, "error: Kafka's name of it, as NOT_LEADER_OR_FOLLOWER"),
    (
        "duration_ms",
        "number",
        False,
        "delay, pause: how long, by the broker's clock; a pause without it lasts until it is resumed",
    ),
    ("member_of", "string", False, "expire_member: the member's group; without it the request's group"),
    (
        "member_id",
        "string",
        False,
        "expire_member: which member; without ids the request's sender, or all of member_of",
    ),
    ("instance_id", "string", False, "expire_member: which static member, by group.instance.id"),
    ("when", "string", False, "before or after the handling; before unless it is a delay"),
    ("api", "string", False, "the API, as Produce or Fetch; required for error"),
    ("topic", "string", False, "only requests that name the topic"),
    ("partition", "integer", False, "only requests that name this partition of the topic"),
    ("client_id", "string", False, "only requests with this client id"),
    ("group", "string", False, "only requests that name the consumer group"),
    ("nth", "integer or list", False, "of these requests only the nth, from 1, or each of a list"),
    ("count", "integer", False, "the rule ends after this many requests"),
    ("probability", "number", False, "each request with this probability, above 0 and at most 1"),
    ("seed", "integer", False, "the seed of the random choice, which is the same in each run"),
)

CLOCK_ROUTES: Final[tuple[ControlRoute[Any], ...]] = (
    ControlRoute("GET", "/clock", "The broker's time, and how far it is ahead of the machine's time", _clock),
    ControlRoute(
        "POST", "/clock/advance", "Advance the broker's clock; due timers have run when this is answered", _advance,
        (("duration_ms", "number", True, "by how many milliseconds"),),
    ),
)  # fmt: skip

FAULT_ROUTES: Final[tuple[ControlRoute[Controlled], ...]] = (
    ControlRoute("GET", "/faults", "The rules that are set, and how often each has fired", _faults),
    ControlRoute("POST", "/faults", "Set a rule", _add_fault, _RULE_FIELDS),
    ControlRoute("DELETE", "/faults", "Remove all rules; the answer describes them", _clear_faults),
    ControlRoute("GET", "/faults/{id}", "One rule, and how often it has fired", _fault),
    ControlRoute("DELETE", "/faults/{id}", "Remove a rule; the answer describes it", _remove_fault),
    ControlRoute("POST", "/faults/{id}/release", "Send the answers that a rule holds, end its pause", _release_fault),
    ControlRoute(
        "POST", "/members/expire", "End the session of a group's member now", _expire_member,
        (
            ("group", "string", True, "the group"),
            ("member_id", "string", False, "which member; not needed if there is only one"),
            ("instance_id", "string", False, "which static member, by group.instance.id"),
        ),
    ),
)  # fmt: skip

ROUTES: Final[tuple[ControlRoute[Controlled], ...]] = (
    ControlRoute("GET", "/broker", "The broker's address for clients, and whether it is paused", _broker),
    ControlRoute("POST", "/broker/pause", "Pause the broker: requests and answers wait, its clock runs on", _pause),
    ControlRoute("POST", "/broker/resume", "Resume the broker, and end the pauses of rules", _resume),
    *CLOCK_ROUTES,
    *FAULT_ROUTES,
)


def answer(of: Controllable, request: ControlRequest) -> Answer | Awaitable[Answer]:
    """Execute the request; return its answer, at once or as an awaitable. Raises ``HttpError``, the awaitable too."""
    found = [(route, numbers) for route in of.routes if (numbers := route.matches(request.path)) is not None]
    if not found:
        raise HttpError(HTTPStatus.NOT_FOUND, f"there is nothing at {request.path[:80]}; / lists the paths")
    for route, numbers in found:
        if route.method == request.method:
            try:
                _check_fields(route, request.body)
                return route.answer(Call(of, numbers, request.body))
            except ValueError as error:
                raise refused(str(error)) from error
    methods = " or ".join(route.method for route, _ in found)
    raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} supports {methods}")


def _check_fields(route: ControlRoute[Any], body: Mapping[str, Any]) -> None:
    known = [name for name, *_ in route.fields]
    for name in body:
        if name not in known:
            raise refused(f"{route.path} has no field {name!r}{nearest(name, known)}")
    for name, _, is_needed, meaning in route.fields:
        if is_needed and name not in body:
            raise refused(f"{route.path} needs {name}: {meaning}")
