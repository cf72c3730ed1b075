"""The segments of a log, by base offset."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kafkapy.storage.segment import Segment


class Segments:
    """Sorted; the last one is active, and there is always one once the log is loaded."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: list[Segment] = []
        self.active: Segment

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    def add(self, segment: Segment) -> None:
        """Add a segment whose base offset is above all others'."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        self._bases.append(segment.base_offset)
        self._segments.append(segment)
        self.active = segment

    def floor(self, offset: int) -> int:
        """Return the number of the segment that ``offset`` falls into, or -1 below the first."""
        return bisect_right(self._bases, offset) - 1

    def starting_at(self, number: int) -> list[Segment]:
        """Return the segments from ``number`` on."""
        return self._segments[max(number, 0) :]

    def between(self, start_offset: int, end_offset: int) -> list[Segment]:
        """Return the segments that hold offsets from ``start_offset`` up to, not with, ``end_offset``."""
        return self._segments[max(self.floor(start_offset), 0) : bisect_left(self._bases, end_offset)]

    def cut(self, number: int) -> list[Segment]:
        """Take out and return the segments from ``number`` on; the caller sees to it that one is left or added."""
        removed = self._segments[number:]
        del self._segments[number:], self._bases[number:]
        if self._segments:
            self.active = self._segments[-1]
        return removed
