"""Nouns that every layer shares.

Offsets, epochs and broker ids are plain ints everywhere (a ``NewType`` costs a call for each value on the produce
and fetch paths); their names carry the meaning and the unit comes last: ``base_offset``, ``leader_epoch``,
``retention_ms``.
"""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A partition of a topic, as Kafka names it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
