"""The order in which Apache Kafka goes through the members of a group."""

from collections.abc import Iterable

from kafkapy.java_hashing import hash_code, in_map_order, in_timeline_order
from kafkapy.turns import Steps


def member_order(member_ids: Iterable[str]) -> Steps[list[str]]:
    """Return the ids in the order of a hash map that is filled from the group's table of members.

    ``member_ids`` are in the order in which they joined.
    """
    hashes: dict[str, int] = {}
    for member_id in member_ids:
        yield
        hashes[member_id] = hash_code(member_id)
    return in_map_order(in_timeline_order(hashes, hashes.__getitem__), hashes.__getitem__)
