"""The segments of a log, by base offset: a list that is replaced and never changed.

Whoever reads or iterates holds the list of that moment. Deletion, truncation and compaction put another list in its
place, so that nobody is disturbed; a segment that has left the list stays readable until its files are removed
(``removal``). Appending changes the active segment and no list.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

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

    def _take(self, segments: list[Segment]) -> None:
        bases = [segment.base_offset for segment in segments]
        assert all(bases[place] < bases[place + 1] for place in range(len(bases) - 1)), bases
        self._bases, self._segments = bases, segments
        if segments:
            self.active = segments[-1]

    @property
    def first(self) -> Segment:
        """The oldest segment."""
        return self._segments[0]

    def add(self, segment: Segment) -> None:
        """Add a segment whose base offset is above all others'."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        self._bases, self._segments = [*self._bases, segment.base_offset], [*self._segments, segment]
        self.active = segment

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Put ``new`` in the place of ``old``, which are neighbours in the list; with no ``new`` they only leave it.

        The caller sees to the files, and that one segment is left or added.
        """
        at = self._segments.index(old[0])
        after = at + len(old)
        assert self._segments[at:after] == list(old), "the segments to replace are neighbours"
        self._take([*self._segments[:at], *new, *self._segments[after:]])

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
        self._take(self._segments[:number])
        return removed
