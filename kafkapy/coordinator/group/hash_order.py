"""The order that Java's hashes give to the keys of Scala's maps, where that order decides."""

from collections.abc import Iterable, Sequence

from kafkapy.coordinator.placement import INT32_MASK, hash_code

_BITS = 5
"""How many bits of the hash each level of a map looks at, the lowest first."""


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """How an immutable ``HashMap`` of Scala 2.13 goes through ``keys``; equal hashes stay as they are."""
    return [key for _, key in _level([(_improved(hash_code(key)), key) for key in keys])]


def _level(keys: Sequence[tuple[int, str]], shift: int = 0) -> list[tuple[int, str]]:
    """A level of the map: first the keys that are alone in their places, then the places that hold more."""
    if shift >= INT32_MASK.bit_length():
        return list(keys)
    places: dict[int, list[tuple[int, str]]] = {}
    for key in keys:
        places.setdefault(key[0] >> shift & (1 << _BITS) - 1, []).append(key)
    ordered = [places[place] for place in sorted(places)]
    alone = [found[0] for found in ordered if len(found) == 1]
    return alone + [key for found in ordered if len(found) > 1 for key in _level(found, shift + _BITS)]


def _improved(value: int) -> int:
    """``scala.collection.Hashing.improve``."""
    value = value + ~(value << 9) & INT32_MASK
    value ^= value >> 14
    value = value + (value << 4) & INT32_MASK
    return value ^ value >> 10
