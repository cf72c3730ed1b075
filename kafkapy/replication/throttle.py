"""Throttled replication (KIP-73): which copies a quota limits, on the leader and on the follower.

The topic's keys ``leader.replication.throttled.replicas`` and ``follower.replication.throttled.replicas`` name the
replicas, the broker's keys ``leader.replication.throttled.rate`` and ``follower.replication.throttled.rate`` have the
limits. While the rate is above its limit

- a leader answers the fetch of a throttled partition without records;
- a follower leaves throttled partitions out of its fetches.

Only replicas that are not in sync wait in this way, since the others would leave the in-sync set; but the bytes of all
throttled partitions count for the rate. As in Apache Kafka a limit is taken from the broker's own configuration alone:
one that is set for all brokers has no effect.
"""

from collections.abc import Callable, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_keys import DYNAMIC_ONLY_KEYS
from kafkapy.config.keys import BLANKS
from kafkapy.config.log_config import LogConfig
from kafkapy.replication.partition import Partition
from kafkapy.replication.quota import UNLIMITED, ReplicationQuota

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
ALL_REPLICAS: Final = "*"
_LONGEST_INT32: Final = 10
"""Digits of the largest partition or broker id."""

PartitionRule = Callable[[int], bool]
"""Tells whether a partition, by its number, is throttled."""


class ReplicationThrottle:
    """The throttled replicas of one broker in one direction, and their quota.

    ``replicas_of`` returns the names of throttled replicas in a topic's configuration.
    """

    __slots__ = ("quota", "_broker_id", "_replicas_of", "_rules")

    def __init__(
        self, broker_id: int, quota: ReplicationQuota, replicas_of: Callable[[LogConfig], tuple[str, ...]]
    ) -> None:
        self.quota = quota
        self._broker_id = broker_id
        self._replicas_of = replicas_of
        self._rules: WeakKeyDictionary[LogConfig, PartitionRule] = WeakKeyDictionary()

    def covers(self, partition: Partition) -> bool:
        """Tell whether this broker's replica of the partition is throttled, whatever the rate is."""
        config = partition.log.config
        names = self._replicas_of(config)
        if not names:
            return False
        rule = self._rules.get(config)
        if rule is None:
            rule = self._rules[config] = throttled_partitions(names, self._broker_id)
        return rule(partition.topic_partition.partition)

    def is_exceeded_for(self, partition: Partition) -> bool:
        """Tell whether this broker's replica is throttled and the quota is exceeded; replicas in sync need not wait."""
        return self.quota.is_limited and self.covers(partition) and self.quota.is_exceeded


def throttled_partitions(names: tuple[str, ...], broker_id: int) -> PartitionRule:
    """Return the partitions whose replica on ``broker_id`` is among ``names``: ``partition:broker``, or ``*`` first.

    ``config.keys.ThrottledReplicas`` has checked the names. Numbers that no partition or broker has are ignored.
    """
    if names[0].strip(BLANKS) == ALL_REPLICAS:
        return lambda _: True
    partitions: set[int] = set()
    for name in names:
        index, separator, broker = (word.lstrip("0") for word in name.strip(BLANKS).partition(":"))
        is_possible = bool(separator) and max(len(index), len(broker)) <= _LONGEST_INT32
        if is_possible and int(broker or 0) == broker_id:
            partitions.add(int(index or 0))
    return partitions.__contains__


class ReplicationThrottles:
    """Both throttles of a broker; as a ``ConfigListener`` it takes over changes of the limits."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self.leader = ReplicationThrottle(
            config.broker_id, self._quota(clock), lambda topic: topic.leader_replication_throttled_replicas
        )
        self.follower = ReplicationThrottle(
            config.broker_id, self._quota(clock), lambda topic: topic.follower_replication_throttled_replicas
        )
        self._set_limits(config.dynamic.broker_texts)

    def _quota(self, clock: Clock) -> ReplicationQuota:
        return ReplicationQuota(
            clock,
            window_count=self._config.integer("replication.quota.window.num"),
            window_s=self._config.integer("replication.quota.window.size.seconds"),
        )

    def _set_limits(self, overrides: Mapping[str, str]) -> None:
        self.leader.quota.limit = _limit(LEADER_RATE, overrides)
        self.follower.quota.limit = _limit(FOLLOWER_RATE, overrides)

    def topic_config_changed(self, topic: str, overrides: Mapping[str, str]) -> None:
        """See ``ConfigListener``; does nothing, since the replicas are read from the configuration of their logs."""

    def broker_config_changed(self, broker_id: int | None, overrides: Mapping[str, str]) -> None:
        """See ``ConfigListener``."""
        if broker_id is not None:
            self._set_limits(overrides)


def _limit(name: str, overrides: Mapping[str, str]) -> int:
    if name not in overrides:
        return UNLIMITED
    limit = DYNAMIC_ONLY_KEYS[name].parse(overrides[name])
    assert isinstance(limit, int), "the key has whole numbers"
    return limit
