"""A model of a log as a list of batches, with those that survive a kill of the process or a crash of the machine."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kafkapy.records.batch import MAGIC, BatchHeader, read_header
from kafkapy.records.record import Record, read_records
from kafkapy.storage.log.log import Log
from tests.simulation.compacted import Missing, is_shortened


@lru_cache(10_000)
def _records(content: bytes) -> tuple[Record, ...]:
    return tuple(read_records(content))


class Stored(NamedTuple):
    """A batch, or an entry of a message set, as it is on the disk; an entry's header has its last offset only."""

    first_offset: int
    last_offset: int
    content: bytes

    @classmethod
    def of(cls, content: bytes) -> "Stored":
        header = read_header(content)
        return cls(header.base_offset, header.last_offset, content)

    @property
    def header(self) -> BatchHeader:
        return read_header(self.content)

    @property
    def records(self) -> tuple[Record, ...]:
        return _records(self.content)


def stored_in(log: Log) -> list[Stored]:
    """Every batch of a log, without a check of its CRC."""
    return [
        Stored(header.base_offset, header.last_offset, bytes(content))
        for segment in log.segments
        for _, header, content in segment.batches(0, segment.size)
    ]


class Aborted(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int


@dataclass
class Change:
    """An operation that may be interrupted: the batches that it may add and remove."""

    adds: set[bytes] = field(default_factory=set)
    keeps_below: int | None = None
    """Batches that reach this offset may be gone; None: no batch may."""
    drops_below: int = 0
    """Batches that end below this offset may be gone."""


@dataclass
class Model:
    """The log according to the results that its users got."""

    batches: list[Stored] = field(default_factory=list)
    start: int = 0
    high_watermark: int = 0
    end: int = 0
    stable: int = 0
    """The last stable offset: compaction uses the records below it."""
    once_stable: int = 0
    """The highest one so far. The death of a process may lower it; then a power failure may bring compacted segments
    back that were dropped before."""
    aborted: list[Aborted] = field(default_factory=list)
    history: dict[int, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    """All batches ever written at an offset: a power cut may bring one back, unless a newer one was fsynced."""
    refused: set[bytes] = field(default_factory=set)
    """Batches that were not acknowledged because of an error of the disk: they may be there or not."""
    has_lost_beginning: bool = False
    """The first batches were removed: snapshots may have producers that a replay can't find any more."""
    has_old_formats: bool = False
    """Message sets of format 0 or 1 were written, or only configured: leader epochs are forgotten then."""
    is_compacted: bool = False
    """Records were superseded and are gone."""
    deletes_go: bool = False
    """``delete.retention.ms`` was 0 at some time, so that tombstones and markers may be gone."""

    def add(self, contents: Iterable[bytes]) -> None:
        """Append batches."""
        for content in contents:
            stored = Stored.of(content)
            self.batches.append(stored)
            self.history[stored.first_offset].add(content)
            self.has_old_formats |= stored.header.magic < MAGIC
            self.end = stored.last_offset + 1

    def truncate(self, offset: int) -> None:
        """Remove everything from ``offset`` on; an empty log begins there."""
        # Compaction has kept only the last batch of each producer, and that may have been another one.
        self.has_lost_beginning |= self.is_compacted and offset < self.end
        self.batches = [each for each in self.batches if each.last_offset < offset]
        self.aborted = [each for each in self.aborted if each.last_offset < offset]
        self.end = offset
        self.start = min(self.start, offset)
        self.high_watermark = min(max(self.high_watermark, self.start), self.end)

    def restart_at(self, offset: int) -> None:
        """Remove everything; the next record gets ``offset``."""
        self.has_lost_beginning = self.has_lost_beginning or bool(self.batches) or offset > 0
        self.batches = []
        self.aborted = []
        self.start = self.high_watermark = self.end = offset

    def dropped_to(self, log: Log) -> None:
        """Remove the batches that retention has deleted: whole segments, the oldest first, below the high watermark."""
        first = log.segments.first.base_offset
        dropped = [each for each in self.batches if each.last_offset < first]
        self.batches = self.batches[len(dropped) :]
        self.has_lost_beginning |= bool(dropped)
        assert not dropped or dropped[-1].last_offset < self.high_watermark
        self.start = max(self.start, first)

    def compacted(self, log: Log) -> None:
        """Apply the changes of compacted segments that may have replaced others."""
        found = stored_in(log)
        if found != self.batches:
            self._check(found, lambda _: True, self.end, frozenset())
            self.is_compacted = True
            self.batches = found
            for each in found:
                self.history[each.first_offset].add(each.content)

    def visible(self) -> list[Stored]:
        """The batches that may be read."""
        return [each for each in self.batches if each.last_offset >= self.start]

    def from_offset(self, offset: int, limit: int) -> bytes:
        """The bytes that a read from ``offset`` finds below ``limit``."""
        return b"".join(
            each.content for each in self.batches if each.last_offset >= offset and each.last_offset < limit
        )

    # after a crash or stop

    def check_survivors(self, log: Log, change: Change, promised: int | None) -> None:
        """Check the log of a new process: everything below ``promised`` was fsynced; None: only a kill."""
        found = stored_in(log)
        known = {content for contents in self.history.values() for content in contents} if promised is not None else ()
        end_offset = found[-1].last_offset + 1 if found else 0
        self.once_stable = max(self.once_stable, self.stable)
        if promised is not None:
            self.stable = self.once_stable
        self._check(
            found,
            lambda each: self._must_be_there(each, change, promised),
            end_offset,
            self.refused.union(known),
            change.adds,
        )

    def _check(
        self,
        found: list[Stored],
        must_be_there: Callable[[Stored], bool],
        end_offset: int,
        *known: "frozenset[bytes] | set[bytes]",
    ) -> None:
        """Check that no batch is missing that must be there, and that no batch is there that was never written."""
        offsets = [each[:2] for each in found]
        assert all(before[1] < after[0] for before, after in pairwise(offsets)), offsets
        here = set(found)
        missing = Missing(self, found, min(self.stable, end_offset))
        for each in self.batches:
            if each not in here and must_be_there(each):
                missing.check(each)
        written = {each.content for each in self.batches}
        for each in found:
            is_known = each.content in written or any(each.content in contents for contents in known)
            assert is_known or any(
                is_shortened(each, Stored.of(content)) for contents in (written, *known) for content in list(contents)
            ), ("appeared", each[:2], "of", offsets)

    def _must_be_there(self, each: Stored, change: Change, promised: int | None) -> bool:
        if promised is not None and each.last_offset >= promised:
            return False
        if change.keeps_below is not None and each.last_offset >= change.keeps_below:
            return False
        return each.last_offset >= change.drops_below

    def take_over(self, log: Log) -> None:
        """Take the content of the log, after it was checked."""
        found = stored_in(log)
        # Compaction has removed or changed the batches between the first and the last that differ.
        ends = (found[0].first_offset, found[-1].last_offset) if found else (0, 0)
        self.is_compacted |= any(
            each not in found and ends[0] <= each.first_offset and each.last_offset <= ends[1] for each in self.batches
        )
        self.has_lost_beginning |= self.is_compacted and log.log_end_offset < self.end
        self.has_lost_beginning |= bool(found) and any(each.last_offset < ends[0] for each in self.batches)
        self.batches = found
        for each in self.batches:
            self.history[each.first_offset].add(each.content)
        self.start, self.high_watermark, self.end = log.log_start_offset, log.high_watermark, log.log_end_offset
        self.stable = log.last_stable_offset
        self.aborted = [
            Aborted(entry.producer_id, entry.first_offset, entry.last_offset)
            for segment in log.segments
            for entry in segment.transaction_index
        ]
