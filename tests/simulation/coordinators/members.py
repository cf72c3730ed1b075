"""A client of a consumer group (KIP-848), which sends heartbeats and reacts to the responses as clients do."""

from collections.abc import Callable
from uuid import UUID

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.group.consumer.calls import (
    JOIN_EPOCH,
    UNCHANGED_MS,
    HeartbeatCall,
    HeartbeatResult,
)
from kafkapy.protocol.errors import ErrorCode
from tests.simulation.coordinators.history import require
from tests.simulation.coordinators.rights import FENCED, NOTHING, RETRIED, Owned, flat

FATAL = frozenset({ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})

Send = Callable[[HeartbeatCall], Answer[HeartbeatResult]]


class Subscription:
    """What a member asks for."""

    def __init__(self, topic_names: tuple[str, ...], topic_regex: str = "", assignor: str | None = None) -> None:
        self.topic_names = topic_names
        self.topic_regex = topic_regex
        self.assignor = assignor


class GroupMember:
    """One client process. ``owned`` is what it reads, ``assigned`` what the last response that it got has."""

    def __init__(self, member_id: str, instance_id: str | None, rebalance_ms: int, subscription: Subscription) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rebalance_ms = rebalance_ms
        self.subscription = subscription
        self.epoch = JOIN_EPOCH
        self.owned: Owned = NOTHING
        self.assigned: Owned = NOTHING
        self.is_slow = False
        """It does not revoke or take partitions now."""
        self.is_silent = False
        self.is_gone = False
        self._is_full = True
        self._said: Owned | None = None
        self._waiting: Answer[HeartbeatResult] | None = None
        self._sent = subscription

    def beat(self, send: Send) -> None:
        """Take the response if there is one, else send a heartbeat if none is waiting."""
        self.take()
        if self._waiting is None and not self.is_gone:
            self._waiting = send(self._call())
            self.take()

    def take(self) -> None:
        """Take the response if there is one, and revoke and take partitions."""
        if self._waiting is not None and self._waiting.is_set:
            result, self._waiting = self._waiting.value, None
            self._take(result)
        if not self.is_slow:
            self.owned = self.assigned

    def lose_response(self, send: Send) -> bool:
        """Send a heartbeat whose response does not arrive; False if one is waiting already."""
        self.take()
        if self._waiting is not None or self.is_gone:
            return False
        send(self._call())
        self._is_full = True
        return True

    def reconnect(self) -> bool:
        """Give up the request that is waiting; False if there is none."""
        self.take()
        if self._waiting is None:
            return False
        self._waiting, self._is_full = None, True
        return True

    def subscribe(self, subscription: Subscription) -> None:
        """Ask for other topics with the next heartbeat; without an assignor the earlier one stays."""
        assignor = subscription.assignor or self.subscription.assignor
        self.subscription = Subscription(subscription.topic_names, subscription.topic_regex, assignor)
        self._is_full = True

    def leave(self, send: Send, epoch: int) -> None:
        """Leave the group, for a while if the epoch is -2."""
        self.take()
        self.end()
        send(HeartbeatCall("g", self.member_id, epoch, instance_id=self.instance_id))

    def end(self) -> None:
        """Stop without a request."""
        self.is_gone, self.owned, self.assigned, self._waiting = True, NOTHING, NOTHING, None

    def _call(self) -> HeartbeatCall:
        is_full = self._is_full or self.epoch == JOIN_EPOCH
        if self.epoch == JOIN_EPOCH:
            self.owned = self.assigned = NOTHING
        owned: dict[UUID, frozenset[int]] | None = None
        if is_full or self.owned != self._said:
            self._said, owned = self.owned, grouped(self.owned)
        subscription = self._sent = self.subscription
        return HeartbeatCall(
            "g",
            self.member_id,
            self.epoch,
            "client",
            "/127.0.0.1",
            self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if is_full else UNCHANGED_MS,
            topic_names=subscription.topic_names if is_full else None,
            topic_regex=subscription.topic_regex if is_full else None,
            server_assignor=subscription.assignor if is_full else None,
            owned=owned,
        )

    def _take(self, result: HeartbeatResult) -> None:
        code = result.error_code
        if code in FATAL:
            self.end()
        elif code in FENCED:
            self.epoch, self.owned, self.assigned, self._is_full = JOIN_EPOCH, NOTHING, NOTHING, True
        elif code:
            require(code in RETRIED, f"{self.member_id} got {result}")
            self._is_full = True
        else:
            self.epoch, self._is_full = result.member_epoch, self._sent is not self.subscription
            if result.assignment is not None:
                self.assigned = flat(result.assignment)


def grouped(owned: Owned) -> dict[UUID, frozenset[int]]:
    """The partitions by topic id."""
    topic_ids = sorted({topic_id for topic_id, _ in owned})
    return {each: frozenset(number for topic_id, number in owned if topic_id == each) for each in topic_ids}
