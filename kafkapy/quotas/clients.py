"""What clients take, measured against their quotas."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kafkapy.clock import Clock
from kafkapy.quotas.limits import Limit, QuotaEntity, QuotaKind, QuotaLimits, quotas_of
from kafkapy.quotas.rates import Rate, TokenBucket

T = TypeVar("T")

MOST_MEASURED: Final = 10_000
"""Sharers of a quota that are measured for one kind: a client may use ever new client ids. The one that sent nothing
for the longest time is forgotten, and so is what it has taken."""


class Windows:
    """How amounts are measured: the keys ``quota.window.*``, or ``controller.quota.window.*``."""

    __slots__ = ("count", "size_s")

    def __init__(self, count: int, size_s: int) -> None:
        self.count = count
        self.size_s = size_s

    @property
    def size_ms(self) -> int:
        """The length of a window."""
        return self.size_s * 1000


class ClientQuotas:
    """Answers, for everything that a client takes, how long it has to wait.

    ``user`` and ``client_id`` are names in the tree.
    """

    __slots__ = ("_clock", "_windows", "_mutation_windows", "_limits", "_rates", "_buckets")

    def __init__(
        self, clock: Clock, windows: Windows, mutation_windows: Windows, client_defaults: Mapping[QuotaKind, float]
    ) -> None:
        self._clock = clock
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._limits = QuotaLimits(client_defaults)
        self._rates: dict[QuotaKind, OrderedDict[QuotaEntity, Rate]] = {kind: OrderedDict() for kind in QuotaKind}
        self._buckets: OrderedDict[QuotaEntity, TokenBucket] = OrderedDict()

    def set(self, entity: QuotaEntity, overrides: Mapping[str, str]) -> None:
        """Take over the configuration of an entity, as it is now."""
        self._limits.set(entity, quotas_of(entity, overrides))

    def record(self, kind: QuotaKind, user: str, client_id: str, amount: float) -> int:
        """Count what a client has taken; return how many milliseconds it has to wait, 0 if it need not."""
        limit = self._limits.limit(kind, user, client_id)
        if limit is None:
            return 0
        rate, now_ms = self._rate(kind, limit), self._now_ms()
        rate.record(amount, now_ms)
        throttle_ms = rate.throttle_ms(limit.bound, now_ms)
        return min(throttle_ms, self._windows.size_ms) if kind == QuotaKind.REQUEST else throttle_ms

    def take_back(self, kind: QuotaKind, user: str, client_id: str, amount: float) -> None:
        """The client has not got what was recorded last."""
        limit = self._limits.limit(kind, user, client_id)
        if limit is not None:
            self._rate(kind, limit).record(-amount, self._now_ms())

    def most_in_windows(self, kind: QuotaKind, user: str, client_id: str) -> float | None:
        """Return the largest amount that a client may ever take at once, None without a limit."""
        limit = self._limits.limit(kind, user, client_id)
        return None if limit is None else limit.bound * (self._windows.count - 1) * self._windows.size_s

    def mutations(self, user: str, client_id: str) -> "MutationQuota | None":
        """Return what limits the changes of topics by a client (KIP-599); None if nothing does."""
        limit = self._limits.limit(QuotaKind.MUTATION, user, client_id)
        if limit is None:
            return None
        bucket = _measured(self._buckets, limit.sharers, TokenBucket, self._mutation_windows)
        return MutationQuota(self._clock, bucket, limit.bound)

    def _rate(self, kind: QuotaKind, limit: Limit) -> Rate:
        return _measured(self._rates[kind], limit.sharers, Rate, self._windows)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


class MutationQuota:
    """The created and deleted partitions of one client, during one request."""

    __slots__ = ("_clock", "_bucket", "_bound")

    def __init__(self, clock: Clock, bucket: TokenBucket, bound: float) -> None:
        self._clock = clock
        self._bucket = bucket
        self._bound = bound

    def take(self, partitions: int) -> None:
        """Count partitions that are created or deleted."""
        self._bucket.take(partitions, self._bound, self._now_ms())

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait until it may change more; 0 if it need not."""
        return self._bucket.throttle_ms(self._bound, self._now_ms())

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


def _measured(
    known: OrderedDict[QuotaEntity, T], sharers: QuotaEntity, make: Callable[[int, int], T], windows: Windows
) -> T:
    """Return what measures the sharers of a quota, a new one if they are not known."""
    found = known.get(sharers)
    if found is None:
        found = known[sharers] = make(windows.count, windows.size_ms)
        if len(known) > MOST_MEASURED:
            known.popitem(last=False)
    known.move_to_end(sharers)
    return found
