"""Where the records of a source partition are on the target: a map of offsets with a bounded size.

Records are copied in order, so the map is a list of stretches, each of which says: these source offsets were copied to
these target offsets, and so many records are in them. Batches that follow one another without a gap on either side are
one stretch, in which every offset is exact. A gap begins another stretch. It comes from a transaction marker or a
record that compaction has removed (on the source), or from a marker or the record of another producer (on the target).

``translate`` never returns an offset behind a record that must still be read: from it on, the target has every record
that the source has from the given offset on. That holds in a stretch with gaps too, so neighbours may be merged when
there are too many, which costs some exactness only: inside of a merged stretch the result may be too low, by at most
as many offsets as it has without a copied record.

If records are copied again, as after a restart, the map has the last copy: everything behind it follows it.
"""

from bisect import bisect_right
from itertools import pairwise
from typing import Final, NamedTuple, Self

from kafkapy.types import maker

STRETCHES: Final = 32
"""The most stretches of a map. Old stretches are merged first: the error grows with the distance to the end."""
_WORD: Final = ","
_NUMBER: Final = "."
_DENSE_NUMBERS: Final = 3
_NUMBERS: Final = 5
_HIGHEST: Final = (1 << 63) - 1


class Stretch(NamedTuple):
    """``records`` records with source offsets from ``source`` to before ``source_end``, and target offsets likewise."""

    source: int
    source_end: int
    target: int
    target_end: int
    records: int

    @property
    def missing(self) -> int:
        """Source offsets of which no record was copied."""
        return self.source_end - self.source - self.records

    @property
    def gaps(self) -> int:
        """Offsets of both sides that have no copied record: by so much a translation may be too low."""
        return self.missing + self.target_end - self.target - self.records


_stretch_of = maker(Stretch)


class MirrorOffsetMap:
    """The stretches of one partition, at least one, in the order of both sides' offsets."""

    def __init__(self, source: int, target: int) -> None:
        """Records from ``source`` on will be at ``target`` or behind it; those before are not known."""
        self._stretches = [Stretch(source, source, target, target, 0)]

    @property
    def target_end(self) -> int:
        """The target's offset behind the last record that was copied."""
        return self._stretches[-1].target_end

    @property
    def begin(self) -> int:
        """The first source offset that can be translated."""
        return self._stretches[0].source

    @property
    def size(self) -> int:
        """How many stretches there are."""
        return len(self._stretches)

    def add(self, source: int, source_end: int, target: int, records: int) -> bool:
        """Some records were copied to ``target`` and the offsets behind it; earlier copies of them no longer count.

        If the target has another record there than the map has, its log was cut or made again: the map is dropped.
        Returns whether it is known still.
        """
        new = Stretch(source, source_end, target, target + records, records)
        if target < self.target_end:
            self._stretches = [new]
            return False
        self._cut(source)
        if self._stretches and _touches(self._stretches[-1], new):
            self._stretches[-1] = _merged(self._stretches[-1], new)
            return True
        self._stretches.append(new)
        if len(self._stretches) > STRETCHES:
            self._merge_cheapest()
        return True

    def translate(self, offset: int) -> int | None:
        """The target's offset at which a consumer goes on that has read the source up to ``offset``.

        None if the map begins behind it.
        """
        at = bisect_right(self._stretches, offset, key=lambda each: each.source) - 1
        if at < 0:
            return None
        found = self._stretches[at]
        if offset >= found.source_end:
            return found.target_end
        return found.target + max(0, offset - found.source - found.missing)

    def _cut(self, source: int) -> None:
        """Forget the copies of records from ``source`` on."""
        while self._stretches and self._stretches[-1].source >= source:
            self._stretches.pop()
        if self._stretches and self._stretches[-1].source_end > source:
            last = self._stretches[-1]
            records = max(0, source - last.source - last.missing)
            self._stretches[-1] = Stretch(last.source, source, last.target, last.target + records, records)

    def _merge_cheapest(self) -> None:
        """Merge the two neighbours whose gaps weigh least, measured by how far they are from the end."""
        end = self._stretches[-1].source_end + 1
        costs = [
            (
                second.source_end - first.source + second.target_end - first.target
                - 2 * (first.records + second.records)
            ) / (end - second.source_end)
            for first, second in pairwise(self._stretches)
        ]  # fmt: skip
        at = costs.index(min(costs))
        self._stretches[at : at + 2] = [_merged(self._stretches[at], self._stretches[at + 1])]

    def encode(self) -> str:
        """The map as text of digits, ``.`` and ``,``: for each stretch how far it is behind the one before."""
        words, source_end, target_end = [], 0, 0
        for each in self._stretches:
            numbers = [each.source - source_end, each.source_end - each.source, each.target - target_end]
            if each.gaps:
                numbers += [each.target_end - each.target, each.records]
            words.append(_NUMBER.join(f"{number:x}" for number in numbers))
            source_end, target_end = each.source_end, each.target_end
        return _WORD.join(words)

    @classmethod
    def decode(cls, text: str) -> Self | None:
        """The map that ``encode`` has made a text of; None for another text."""
        stretches, source, target = [], 0, 0
        for word in text.split(_WORD)[: STRETCHES + 1]:
            numbers = _numbers(word)
            if numbers is None:
                return None
            source += numbers[0]
            target += numbers[2]
            width, records = numbers[3], numbers[4]
            stretch = _stretch_of((source, source + numbers[1], target, target + width, records))
            source, target = stretch.source_end, stretch.target_end
            if records > min(width, numbers[1]) or source > _HIGHEST or target > _HIGHEST:
                return None
            stretches.append(stretch)
        if len(stretches) > STRETCHES:
            return None
        found = cls(0, 0)
        found._stretches = stretches
        return found


def _numbers(word: str) -> list[int] | None:
    """The five numbers of a stretch; a short one is dense."""
    try:
        numbers = [int(part, 16) for part in word.split(_NUMBER)]
    except ValueError:
        return None
    if len(numbers) == _DENSE_NUMBERS:
        numbers += [numbers[1]] * (_NUMBERS - _DENSE_NUMBERS)
    return numbers if len(numbers) == _NUMBERS and min(numbers) >= 0 else None


def _touches(first: Stretch, second: Stretch) -> bool:
    """Whether both are one stretch without a gap."""
    is_next = first.source_end == second.source and first.target_end == second.target
    return is_next and not first.gaps and not second.gaps


def _merged(first: Stretch, second: Stretch) -> Stretch:
    return _stretch_of(
        (first.source, second.source_end, first.target, second.target_end, first.records + second.records)
    )
