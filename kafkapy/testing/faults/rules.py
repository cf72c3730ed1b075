"""One fault rule: the requests that it matches, its effect on them, its counters."""

import random
from abc import ABC, abstractmethod
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypedDict

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import APIS
from kafkapy.server.dispatch.message_places import NamedResource, groups_in
from kafkapy.testing.faults.expired_members import Target
from kafkapy.testing.faults.gate import Waits

if TYPE_CHECKING:
    from kafkapy.server.dispatch.context import RequestContext

DEFAULT_SEED: Final = 0


class InvalidFaultError(ValueError):
    """A rule that is not valid, or could never match; the message says why."""


class FaultAction(Enum):
    """The effects of rules."""

    ERROR = "error"
    DELAY = "delay"
    DROP = "drop"
    HOLD = "hold"
    PAUSE = "pause"
    EXPIRE_MEMBER = "expire_member"


class When(Enum):
    """Whether a rule applies before or after the request is handled: after, a record is in the log."""

    BEFORE = "before"
    AFTER = "after"


class Match(TypedDict, total=False):
    """The requests that a rule matches; a field that is not given matches all.

    ``api``: the API's name (``"Produce"``) or key. ``topic``, its ``partition``, ``client_id``, ``group``: the exact
    value.
    The requests that match these are counted from 1. Of them ``nth`` selects one, or each of a list; ``count`` ends the
    rule after that many; ``probability`` (above 0, up to 1) selects each with that probability, the same ones in each
    run with the same ``seed``.
    """

    api: str | int
    topic: str
    partition: int
    client_id: str
    group: str
    nth: int | list[int]
    count: int
    probability: float
    seed: int


class Owner(Protocol):
    """The ``Faults`` that a rule belongs to."""

    def forget(self, rule: "Rule") -> None:
        """Stop applying the rule; may be called repeatedly."""
        ...

    def release(self, rule: "Rule") -> None:
        """Send the answers that the rule holds, and end its pause."""
        ...


class Removable(ABC):
    """A fault that has been set: as a context manager it is removed at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    @abstractmethod
    def remove(self) -> None:
        """End the fault; may be called repeatedly."""


class Rule(Removable):
    """A fault that has been set; ``Faults`` makes it. As a context manager it is removed at the end of the block."""

    def __init__(self, number: int, action: FaultAction, match: Match, owner: "Owner") -> None:
        self.id = number
        self.action = action
        self.when = When.BEFORE
        self.error: ErrorCode | None = None
        self.duration_ms: float | None = None
        self.target = Target()
        self.api: int | None = match.get("api")  # type: ignore[assignment]  # checked: it is the key by now
        self.topic = match.get("topic")
        self.partition = match.get("partition")
        self.client_id = match.get("client_id")
        self.group = match.get("group")
        nth = match.get("nth")
        self.nth = None if nth is None else frozenset([nth] if isinstance(nth, int) else nth)
        self.count = match.get("count")
        self.probability = match.get("probability", 1.0)
        self.matched = 0
        """How many requests it has matched, whether or not it was applied to them."""
        self.fired = 0
        """How many requests it has been applied to."""
        self.waits: Waits = set()
        """The answers that it holds."""
        self._owner = owner
        seed = match.get("seed", DEFAULT_SEED)
        self._random = random.Random(f"{seed}/{number}")  # noqa: S311  # it must be repeatable

    def __repr__(self) -> str:
        told = self.describe()
        return f"Rule({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def remove(self) -> None:
        """End the rule and its pause, and send the answers that it holds; may be called repeatedly."""
        self._owner.forget(self)
        self.release()

    def release(self) -> None:
        """Send the answers that the rule holds, and end its pause; the rule applies to later requests."""
        self._owner.release(self)

    @property
    def held(self) -> int:
        """How many answers it holds now."""
        return len(self.waits)

    @property
    def is_over(self) -> bool:
        """Whether the rule will not fire any more: ``count`` or the last of ``nth`` is reached."""
        if self.count is not None and (self.fired >= self.count or (self.nth and self.matched >= self.count)):
            return True
        return self.nth is not None and self.matched >= max(self.nth)

    def selects(self, named: NamedResource) -> bool:
        """Whether the rule sets the error code that is for ``named``."""
        if self.topic is not None and named.topic != self.topic:
            return False
        if self.group is not None and named.group not in (self.group, None):
            return False
        return self.partition is None or named.partition == self.partition

    def is_about(self, context: "RequestContext", request: Any, names: list[NamedResource]) -> bool:
        """Whether the rule counts the request; ``names`` are the request's names."""
        header = context.header
        if self.api is not None and header.api_key != self.api:
            return False
        if self.client_id is not None and header.client_id != self.client_id:
            return False
        if self.group is not None and self.group not in groups_in(header.api_key, request):
            return False
        return self.topic is None or any(self.selects(named) for named in names)

    def takes(self) -> bool:
        """Count one more matching request; return whether the rule applies to it."""
        if self.is_over:
            return False
        self.matched += 1
        if self.nth is not None and self.matched not in self.nth:
            return False
        if self.probability < 1 and self._random.random() >= self.probability:
            return False
        self.fired += 1
        return True

    def describe(self) -> dict[str, Any]:
        """The rule as JSON values; fields that were not given are left out."""
        told: dict[str, Any] = {"id": self.id, "action": self.action.value}
        if self.action is not FaultAction.HOLD:
            told["when"] = self.when.value
        if self.error is not None:
            told["error"] = self.error.name
        if self.duration_ms is not None:
            told["duration_ms"] = self.duration_ms
        told |= self.target.describe()
        if self.api is not None:
            told["api"] = APIS[self.api][1]
        for name in ("topic", "partition", "client_id", "group", "count"):
            if getattr(self, name) is not None:
                told[name] = getattr(self, name)
        if self.nth is not None:
            told["nth"] = sorted(self.nth)
        if self.probability < 1:
            told["probability"] = self.probability
        return told | {"matched": self.matched, "fired": self.fired, "held": self.held, "is_over": self.is_over}
