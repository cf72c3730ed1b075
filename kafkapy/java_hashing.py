"""The hashes of Java and Scala that Kafka's behaviour depends on: the partition of a name, and the order of a map."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeVar
from uuid import UUID

K = TypeVar("K")

INT32_MASK: Final = 0xFFFFFFFF
LONGEST_KNOWN: Final = 256
"""Characters of a name whose hash is cached: requests that are refused may have 32 kB."""


def hash_code(text: str) -> int:
    """Java's ``String.hashCode``, its 32 bits as a number that is not negative."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & INT32_MASK
    return value


@lru_cache(maxsize=4096)
def absolute_hash(text: str) -> int:
    """The absolute value of Java's ``String.hashCode`` as Kafka's coordinators compute it: 0 for the smallest int.

    Producers clear the sign bit of a key's hash instead.
    """
    value = hash_code(text)
    return min(value, INT32_MASK + 1 - value) & 0x7FFFFFFF


def partition_for(name: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that keeps a group, of ``__transaction_state`` a transactional id."""
    if len(name) > LONGEST_KNOWN:
        return absolute_hash.__wrapped__(name) % partition_count
    return absolute_hash(name) % partition_count


_BITS: Final = 5
"""Bits of the hash that each level of a map uses, the lowest first."""


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """The order of ``keys`` in an immutable ``HashMap`` of Scala 2.13; keys of one hash stay in their order."""
    return [key for _, key in _level([(_improved(hash_code(key)), key) for key in keys])]


def _level(keys: Sequence[tuple[int, str]], shift: int = 0) -> list[tuple[int, str]]:
    """Return the keys of one level of the map: first those whose bits no other key has, then the colliding ones.

    The colliding ones are ordered by the next level.
    """
    if shift >= INT32_MASK.bit_length():
        return list(keys)
    by_bits: dict[int, list[tuple[int, str]]] = {}
    for key in keys:
        by_bits.setdefault(key[0] >> shift & (1 << _BITS) - 1, []).append(key)
    ordered = [by_bits[bits] for bits in sorted(by_bits)]
    alone = [found[0] for found in ordered if len(found) == 1]
    return alone + [key for found in ordered if len(found) > 1 for key in _level(found, shift + _BITS)]


def _improved(value: int) -> int:
    """``scala.collection.Hashing.improve``."""
    value = value + ~(value << 9) & INT32_MASK
    value ^= value >> 14
    value = value + (value << 4) & INT32_MASK
    return value ^ value >> 10


_FIRST_TABLE: Final = 16
"""Buckets of a small hash map of Java, and of a mutable one of Scala; the number doubles at three quarters."""


def in_table_order(keys: Collection[str]) -> list[str]:
    """The order of ``keys`` in a mutable ``HashMap`` of Scala 2.13; keys of one hash stay in their order."""
    buckets = _buckets(len(keys))
    return sorted(keys, key=lambda key: (_spread(key) & buckets - 1, _signed(_spread(key))))


def in_java_order(keys: Collection[str]) -> list[str]:
    """The order of ``keys`` in Java's ``HashMap``; keys of one bucket stay in their order."""
    return in_set_order(keys, hash_code)


def uuid_hash_code(uuid: UUID) -> int:
    """The hash of Kafka's ``Uuid``, its 32 bits as a number that is not negative."""
    folded = uuid.int >> 64 ^ uuid.int
    return (folded >> 32 ^ folded) & INT32_MASK


def in_set_order(keys: Collection[K], hash_of: Callable[[K], int]) -> list[K]:
    """The order of ``keys`` in a ``HashSet`` that is a copy of a collection, by Java 17.

    Keys of one bucket stay in their order. ``hash_of`` returns the 32 bits of Java's ``hashCode``.
    """
    return _by_bucket(keys, hash_of, _buckets(len(keys)))


def in_map_order(keys: Collection[K], hash_of: Callable[[K], int]) -> list[K]:
    """The order of ``keys`` in a ``HashMap`` that has grown by one entry at a time; see ``in_set_order``."""
    buckets = _FIRST_TABLE
    while 4 * len(keys) > 3 * buckets:
        buckets *= 2
    return _by_bucket(keys, hash_of, buckets)


def _by_bucket(keys: Collection[K], hash_of: Callable[[K], int], buckets: int) -> list[K]:
    def bucket(key: K) -> int:
        value = hash_of(key)
        return (value ^ value >> 16) & buckets - 1

    return sorted(keys, key=bucket)


_FIBONACCI: Final = -7046029254386353131
"""The factor of the hash of Kafka's ``TimelineHashMap``, whose highest bits are the slot."""


def in_timeline_order(keys: Collection[K], hash_of: Callable[[K], int]) -> list[K]:
    """The order of ``keys`` in a ``TimelineHashMap`` of Kafka that never had more: the last one of a slot is first."""
    bits = 1
    while 3 * len(keys) > 4 << bits:
        bits += 1

    def slot(key: K) -> int:
        return (_signed(hash_of(key)) * _FIBONACCI & (1 << 64) - 1) >> 64 - bits

    last_first = list(keys)
    last_first.reverse()
    return sorted(last_first, key=slot)


def _buckets(count: int) -> int:
    buckets = _FIRST_TABLE
    while 4 * count >= 3 * buckets:
        buckets *= 2
    return buckets


def _spread(key: str) -> int:
    value = hash_code(key)
    return value ^ value >> 16


def _signed(value: int) -> int:
    return value - (INT32_MASK + 1) if value > INT32_MASK >> 1 else value
