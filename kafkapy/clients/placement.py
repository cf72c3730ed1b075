"""A balanced placement of replicas on brokers, with few moves.

In this order: replicas stay where they are, as far as their brokers may have them; each partition's replicas are on as
many racks as possible; each topic's replicas, then all replicas, are as even over the brokers as racks allow; and so
are the preferred leaders, the first replicas.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from kafkapy.clients.errors import ClientError

Place = tuple[str, int]
"""A topic and a partition of it."""
Move = Callable[[int, int, int], int]
"""Moves things from a broker to another one, at most as many as the last argument says; returns how many."""


class _Placement:
    """The replicas that are chosen so far, and how many each broker has."""

    def __init__(self, racks: Mapping[int, str | None]) -> None:
        self.racks = racks
        self.replicas: dict[Place, list[int]] = {}
        self.load: Counter[int] = Counter()
        self.topic_load: dict[str, Counter[int]] = {}
        self.places: dict[str, list[Place]] = {}
        """The partitions of each topic."""

    def add(self, place: Place, brokers: Sequence[int]) -> None:
        """Place a partition that has no replicas so far."""
        self.replicas[place] = list(brokers)
        self.load.update(brokers)
        self.topic_load.setdefault(place[0], Counter()).update(brokers)
        self.places.setdefault(place[0], []).append(place)

    def fill(self, place: Place, count: int) -> None:
        """Choose brokers until a partition has so many replicas."""
        brokers = self.replicas[place]
        while len(brokers) < count:
            new = self.best(place)
            brokers.append(new)
            self.load[new] += 1
            self.topic_load[place[0]][new] += 1

    def replace(self, place: Place, old: int, new: int) -> None:
        """Move one replica."""
        brokers = self.replicas[place]
        brokers[brokers.index(old)] = new
        for load in (self.load, self.topic_load[place[0]]):
            load[old] -= 1
            load[new] += 1

    def best(self, place: Place) -> int:
        """The broker for one more replica: a rack without one first, then the broker with the fewest replicas."""
        taken = self.replicas[place]
        topic_load = self.topic_load[place[0]]
        used = {self.racks[broker] for broker in taken}
        free = [broker for broker in self.racks if broker not in taken]
        return min(free, key=lambda each: (self.racks[each] in used, topic_load[each], self.load[each], each))

    def spread(self, place: Place) -> int:
        """How many racks a partition's replicas are on."""
        return len({self.racks[broker] for broker in self.replicas[place]})

    def may_move(self, place: Place, old: int, new: int) -> bool:
        """Whether a replica may move from one broker to the other without fewer racks."""
        brokers = self.replicas[place]
        if old not in brokers or new in brokers:
            return False
        racks = {self.racks[new if broker == old else broker] for broker in brokers}
        return len(racks) >= self.spread(place)


def balanced(
    current: Mapping[Place, Sequence[int]], racks: Mapping[int, str | None], *, replication_factor: int | None = None
) -> dict[Place, list[int]]:
    """The replicas of each partition on the brokers of ``racks``, the preferred leader first.

    ``racks`` has the rack of each broker; if one of them has none, racks don't count. Without ``replication_factor``
    each partition keeps the number of its replicas. Raises ``ClientError`` if there are fewer brokers than that.
    """
    known = racks if all(rack is not None for rack in racks.values()) else {broker: str(broker) for broker in racks}
    placement = _Placement(known)
    wanted = {place: replication_factor or len(brokers) for place, brokers in current.items()}
    for place, count in sorted(wanted.items()):
        if count > len(racks):
            raise ClientError(
                f"partition {place[0]}-{place[1]} is to have {count} replicas: name at least as many brokers, not"
                f" {len(racks)}"
            )
        placement.add(place, [broker for broker in current[place] if broker in racks][:count])
    for place, count in sorted(wanted.items()):
        placement.fill(place, count)
    _spread_over_racks(placement)
    _even_out_replicas(placement)
    _even_out_leaders(placement)
    return placement.replicas


def _spread_over_racks(placement: _Placement) -> None:
    """Move replicas that share a rack with another one of their partition, while there are racks without one."""
    racks = len(set(placement.racks.values()))
    for place, brokers in sorted(placement.replicas.items()):
        while placement.spread(place) < min(len(brokers), racks):
            shared = Counter(placement.racks[broker] for broker in brokers)
            old = max(
                (broker for broker in brokers if shared[placement.racks[broker]] > 1), key=placement.load.__getitem__
            )
            placement.replace(place, old, placement.best(place))


def _even_out_replicas(placement: _Placement) -> None:
    def move(topics: Sequence[str], old: int, new: int, most: int) -> int:
        moved = 0
        for topic in topics:
            load = placement.topic_load[topic]
            for place in placement.places[topic] if load[old] > load[new] else ():
                if moved == most or load[old] <= load[new]:
                    break
                if placement.may_move(place, old, new):
                    placement.replace(place, old, new)
                    moved += 1
        return moved

    for topic, load in placement.topic_load.items():
        _even_out(load, placement.racks, partial(move, [topic]))
    _even_out(placement.load, placement.racks, partial(move, list(placement.places)))


def _even_out_leaders(placement: _Placement) -> None:
    leads = Counter(brokers[0] for brokers in placement.replicas.values())
    topic_leads = {
        topic: Counter(placement.replicas[place][0] for place in places) for topic, places in placement.places.items()
    }

    def move(topics: Sequence[str], old: int, new: int, most: int) -> int:
        moved = 0
        for topic in topics:
            count = topic_leads[topic]
            for place in placement.places[topic] if count[old] > count[new] else ():
                if moved == most or count[old] <= count[new]:
                    break
                brokers = placement.replicas[place]
                if brokers[0] == old and new in brokers:
                    brokers.remove(new)
                    brokers.insert(0, new)
                    for each in (leads, count):
                        each[old] -= 1
                        each[new] += 1
                    moved += 1
        return moved

    for topic, count in topic_leads.items():
        _even_out(count, placement.racks, partial(move, [topic]))
    _even_out(leads, placement.racks, partial(move, list(placement.places)))


def _even_out(counts: Counter[int], brokers: Mapping[int, object], move: Move) -> None:
    """Call ``move`` from brokers with many to brokers with few, until no move makes the numbers more even."""
    has_moved = True
    while has_moved:
        by_count = sorted(brokers, key=lambda broker: (counts[broker], broker))
        pairs = ((old, new) for old in reversed(by_count) for new in by_count if counts[old] - counts[new] > 1)
        has_moved = any(move(old, new, (counts[old] - counts[new]) // 2) for old, new in pairs)
