"""Elects a partition's leader: pure functions from replicas, in-sync replicas and live brokers to a leader and ISR.

Rules of every election: a leader is live; unless the election is unclean it comes from the ISR; the ISR is never empty
and contains the leader. Each election that changes anything takes the next leader epoch.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from kafkapy import kafka_texts
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import InvalidPartitionsError, InvalidReplicationFactorError
from kafkapy.metadata.znodes import ReplicaAssignment
from kafkapy.types import NO_LEADER

INITIAL_LEADER_EPOCH: Final = 0


class Elected(NamedTuple):
    """The new leader and the in-sync replicas that come with it."""

    leader: int
    isr: tuple[int, ...]


def elect_offline(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean: bool
) -> Elected | None:
    """After the leader failed: the first live replica that is in sync; if ``unclean`` allows it, any live one."""
    in_sync = tuple(broker for broker in isr if broker in live)
    clean = next((broker for broker in replicas if broker in in_sync), None)
    if clean is not None:
        return Elected(clean, in_sync)
    if unclean:
        alive = next((broker for broker in replicas if broker in live), None)
        if alive is not None:
            return Elected(alive, (alive,))
    return None


def elect_preferred(replicas: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The first replica, if it is live and in sync; the ISR stays as it is."""
    first = next(iter(replicas), NO_LEADER)
    return Elected(first, tuple(isr)) if first in live and first in isr else None


def elect_reassigned(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The first of the ``target`` replicas that is live and in sync; the ISR stays as it is."""
    leader = next((broker for broker in target if broker in live and broker in isr), None)
    return None if leader is None else Elected(leader, tuple(isr))


def elect_controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], stopping: Collection[int]
) -> Elected | None:
    """A leader that is not stopping; stopping brokers leave the ISR, though ``live`` may still contain them."""
    leader = next((broker for broker in replicas if broker in live and broker in isr and broker not in stopping), None)
    return None if leader is None else Elected(leader, tuple(broker for broker in isr if broker not in stopping))


def without_replica(leader: int, isr: Sequence[int], replica: int) -> Elected:
    """Leader and ISR when ``replica`` goes offline: the last member stays in the ISR, since it has all records."""
    remaining = tuple(isr) if len(isr) == 1 else tuple(broker for broker in isr if broker != replica)
    return Elected(NO_LEADER if leader == replica else leader, remaining)


# The placement of the replicas of new partitions, as in Kafka, rack-aware or not. Pure; randomness is handed in.


class Placement(NamedTuple):
    """The number of partitions to place, their replication factor, and the start of the round over the brokers.

    ``start_index`` is the index of the first partition's leader among the brokers and also the distance to its first
    follower; None means that both are random. Partitions added later continue from ``first_partition``.
    """

    partitions: int
    replication_factor: int
    start_index: int | None = None
    first_partition: int = 0

    @property
    def replicas(self) -> int:
        """The number of replicas of all these partitions together."""
        return self.partitions * self.replication_factor


def check_placement(racks: Mapping[int, str | None], placement: Placement) -> None:
    """Raise an error if ``assign_replicas`` can't place the replicas on these brokers (each with its rack).

    InvalidPartitionsError, InvalidReplicationFactorError, and as in Apache Kafka an unknown error (-1) when only some
    brokers have a rack.
    """
    partitions, factor = placement.partitions, placement.replication_factor
    if partitions <= 0:
        raise InvalidPartitionsError(kafka_texts.NO_PARTITIONS)
    if factor <= 0:
        raise InvalidReplicationFactorError(kafka_texts.NO_REPLICAS)
    if factor > len(racks):
        raise InvalidReplicationFactorError(kafka_texts.too_few_brokers(factor, len(racks)))
    if len({rack is None for rack in racks.values()}) > 1:
        without = sorted(broker for broker, rack in racks.items() if rack is None)
        raise BrokerError(f"Replicas can't be spread over racks: the brokers {without} have no rack, the others have.")


def assign_replicas(
    racks: Mapping[int, str | None], placement: Placement, random: Random
) -> Iterator[tuple[int, ReplicaAssignment]]:
    """Generate partition and replicas, preferred leader first, spread evenly over brokers and, where known, racks.

    ``racks`` maps each live broker to its rack; ``check_placement`` has passed.
    """
    has_racks = None not in racks.values()
    rounds = _RackAware(racks, random, placement) if has_racks else _Plain(racks, random, placement)
    for index in range(placement.first_partition, placement.first_partition + placement.partitions):
        yield index, ReplicaAssignment(rounds.replicas(index, placement.replication_factor))


def interleave_racks(racks: Mapping[int, str | None]) -> list[int]:
    """The brokers, ordered so that neighbours are in different racks as long as that is possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    ordered = []
    for depth in range(max(map(len, queues))):
        ordered += [queue[depth] for queue in queues if depth < len(queue)]
    return ordered


class _Plain:
    """Round-robin: partition n's leader is the broker at index (start + n) modulo the number of brokers.

    After each round the distance from a leader to its first follower grows by one.
    """

    def __init__(self, racks: Mapping[int, str | None], random: Random, placement: Placement) -> None:
        self.brokers: Final[Sequence[int]] = self.order(racks)
        count = len(self.brokers)
        fixed = placement.start_index
        self._start = random.randrange(count) if fixed is None else fixed
        self._shift = random.randrange(count) if fixed is None else fixed

    def order(self, racks: Mapping[int, str | None]) -> Sequence[int]:
        """The brokers in the order in which they lead successive partitions."""
        return sorted(racks)

    def replicas(self, partition: int, replication_factor: int) -> tuple[int, ...]:
        """The replicas of the next partition; call it in ascending order."""
        count = len(self.brokers)
        if partition > 0 and partition % count == 0:
            self._shift += 1
        first = (partition + self._start) % count
        return tuple(self.choose(first, self._shift, replication_factor))

    def choose(self, first: int, shift: int, replication_factor: int) -> list[int]:
        """The leader at index ``first`` and its followers."""
        count = len(self.brokers)
        return [self.brokers[first]] + [
            self.brokers[_follower_index(first, shift, step, count)] for step in range(replication_factor - 1)
        ]


class _RackAware(_Plain):
    """As ``_Plain``, over the interleaved brokers; no rack or broker is used twice before all were used once."""

    def __init__(self, racks: Mapping[int, str | None], random: Random, placement: Placement) -> None:
        super().__init__(racks, random, placement)
        self._racks = racks
        self._rack_count = len(set(racks.values()))

    def order(self, racks: Mapping[int, str | None]) -> Sequence[int]:
        """See ``interleave_racks``."""
        return interleave_racks(racks)

    def choose(self, first: int, shift: int, replication_factor: int) -> list[int]:
        """The leader at index ``first`` and its followers."""
        count = len(self.brokers)
        chosen = [self.brokers[first]]
        racks = {self._racks[chosen[0]]}
        step = 0
        while len(chosen) < replication_factor:
            broker = self.brokers[_follower_index(first, shift * self._rack_count, step, count)]
            step += 1
            rack_is_fresh = self._racks[broker] not in racks or len(racks) == self._rack_count
            if broker not in chosen and rack_is_fresh:
                chosen.append(broker)
                racks.add(self._racks[broker])
        return chosen


def _follower_index(first: int, shift: int, step: int, count: int) -> int:
    """The index of a follower's broker: never the leader's; ``count - 1`` successive steps give all other brokers."""
    if count == 1:
        return first
    return (first + 1 + (shift + step) % (count - 1)) % count
