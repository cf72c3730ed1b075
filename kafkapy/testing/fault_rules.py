"""One fault: which requests it meets, what it does to them, how often it has."""

import random
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypedDict

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import APIS
from kafkapy.server.message_places import Named, groups_in
from kafkapy.testing.expired_members import Target
from kafkapy.testing.gate import Waits

if TYPE_CHECKING:
    from kafkapy.server.context import RequestContext

DEFAULT_SEED: Final = 0


class InvalidFaultError(ValueError):
    """A rule that can't be, or can never match; the sentence says why."""


class FaultAction(Enum):
    """What a rule does."""

    ERROR = "error"
    DELAY = "delay"
    DROP = "drop"
    HOLD = "hold"
    PAUSE = "pause"
    EXPIRE_MEMBER = "expire_member"


class When(Enum):
    """Whether the broker has handled the request by then: a record is in the log, a member has joined."""

    BEFORE = "before"
    AFTER = "after"


class Match(TypedDict, total=False):
    """Which requests a rule meets; what is not given does not matter.

    ``api``: the API's name (``"Produce"``) or key. ``topic``, ``partition`` of it, ``client_id``, ``group``:
    exactly.
    Of the requests that these let through, counted from 1: ``nth`` takes one, or each of a list; ``count`` ends the
    rule after so many; ``probability`` (above 0, up to 1) takes each with that chance, the same ones in each run with
    the same ``seed``.
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
    """Who has made a rule."""

    def forget(self, rule: "Rule") -> None:
        """Apply the rule no more; twice does nothing."""
        ...

    def release(self, rule: "Rule") -> None:
        """Let go of what the rule holds, and end its pause."""
        ...


class Rule:
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
        """How many requests it was about, whether or not it was their turn."""
        self.fired = 0
        """How many requests it has been applied to."""
        self.waits: Waits = set()
        """The answers that it holds."""
        self._owner = owner
        seed = match.get("seed", DEFAULT_SEED)
        self._random = random.Random(f"{seed}/{number}")  # noqa: S311  # repeatable is what it has to be

    def __repr__(self) -> str:
        told = self.describe()
        return f"Rule({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """End the rule and the pause that it has begun, and let go of what it holds; twice does nothing."""
        self._owner.forget(self)
        self.release()

    def release(self) -> None:
        """Send the answers that the rule holds, end the pause that it has begun; what comes later it meets again."""
        self._owner.release(self)

    @property
    def held(self) -> int:
        """How many answers it holds now."""
        return len(self.waits)

    @property
    def is_over(self) -> bool:
        """Whether it will not fire any more: ``count`` or the last of ``nth`` is reached."""
        if self.count is not None and (self.fired >= self.count or (self.nth and self.matched >= self.count)):
            return True
        return self.nth is not None and self.matched >= max(self.nth)

    def selects(self, named: Named) -> bool:
        """Whether an error code that is for ``named`` is the rule's to set."""
        if self.topic is not None and named.topic != self.topic:
            return False
        if self.group is not None and named.group not in (self.group, None):
            return False
        return self.partition is None or named.partition == self.partition

    def is_about(self, context: "RequestContext", request: Any, names: list[Named]) -> bool:
        """Whether the request is one of those that the rule counts; ``names`` is what it names."""
        header = context.header
        if self.api is not None and header.api_key != self.api:
            return False
        if self.client_id is not None and header.client_id != self.client_id:
            return False
        if self.group is not None and self.group not in groups_in(header.api_key, request):
            return False
        return self.topic is None or any(self.selects(named) for named in names)

    def takes(self) -> bool:
        """Count one more request that it is about; whether it is its turn."""
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
        """The rule as JSON has it; what was not given is left out."""
        told: dict[str, Any] = {"id": self.id, "action": self.action.value}
        if self.action is not FaultAction.HOLD:
            told["when"] = self.when.value
        if self.error is not None:
            told["error"] = self.error.name
        if self.duration_ms is not None:
            told["duration_ms"] = self.duration_ms
        told |= self.target.told()
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
