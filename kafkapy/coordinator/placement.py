"""Which partition of a coordinators' topic keeps a group or a transactional id."""

from functools import lru_cache

INT32_MASK = 0xFFFFFFFF


def hash_code(text: str) -> int:
    """Java's ``String.hashCode``, its 32 bits as a number that is not negative."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & INT32_MASK
    return value


@lru_cache(maxsize=4096)
def absolute_hash(text: str) -> int:
    """The absolute value of Java's ``String.hashCode``, 0 for the one that has none, as Kafka's coordinators take it.

    Not what producers do with a key's hash, of which they drop the sign bit.
    """
    value = hash_code(text)
    return min(value, INT32_MASK + 1 - value) & 0x7FFFFFFF


def partition_for(name: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that keeps a group, of ``__transaction_state`` a transactional id."""
    return absolute_hash(name) % partition_count
