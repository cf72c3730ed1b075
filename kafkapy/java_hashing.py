"""The hashes of Java and Scala that Kafka's behaviour depends on: the partition of a name, and the order of a map."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final

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
    buckets = _buckets(len(keys))
    return sorted(keys, key=lambda key: _spread(key) & buckets - 1)


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
