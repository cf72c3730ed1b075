"""The map of offsets of a mirror, against a list of every record that was copied."""

import random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkapy.clients.mirror.offset_map import STRETCHES, MirrorOffsetMap

SEEDS = range(40)


class Copied(NamedTuple):
    source: int
    target: int


class World:
    """A source with gaps and a target with markers; ``copies`` has the last copy of each record, in order."""

    def __init__(self, seed: int, *, gaps: bool) -> None:
        self.random = random.Random(seed)
        self.has_gaps = gaps
        self.position = 0
        self.target_end = self.random.randrange(3) * 1000
        self.map = MirrorOffsetMap(0, self.target_end)
        self.copies: list[Copied] = []

    def batch(self) -> None:
        """Copy a batch; the offsets of its records may have gaps."""
        pick = self.random
        base = self.position + (pick.choice([0, 0, 1, 7]) if self.has_gaps else 0)
        offsets = [base]
        for _ in range(pick.randrange(20)):
            offsets.append(offsets[-1] + (pick.choice([1, 1, 1, 4]) if self.has_gaps else 1))
        self.copies += [Copied(offset, self.target_end + at) for at, offset in enumerate(offsets)]
        self.map.add(base, offsets[-1] + 1, self.target_end, len(offsets))
        self.target_end += len(offsets)
        self.position = offsets[-1] + 1

    def marker(self) -> None:
        """Something that is not of the mirror takes an offset of the target."""
        self.target_end += 1

    def restart(self) -> None:
        """Go back to an earlier position, with the map that was stored, as after a kill."""
        restored = MirrorOffsetMap.decode(self.map.encode())
        assert restored is not None
        self.map = restored
        if self.copies:
            self.position = self.random.choice(self.copies[-30:]).source
            self.copies = [each for each in self.copies if each.source < self.position]

    def right(self, offset: int) -> int:
        """The target's offset of the first record that a consumer at ``offset`` must still read."""
        return next((each.target for each in self.copies if each.source >= offset), self.target_end)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_is_skipped(seed: int, *, gaps: bool) -> None:
    world = World(seed, gaps=gaps)
    for _ in range(150):
        world.random.choice([world.batch, world.batch, world.batch, world.marker, world.restart])()
        assert world.map.size <= STRETCHES
    translated = [world.map.translate(offset) for offset in range(world.position + 5)]
    assert all(at is not None for at in translated)
    assert translated == sorted(translated, key=lambda at: at or 0)
    for offset, at in enumerate(translated):
        assert at is not None
        assert at <= world.right(offset)


def test_batches_without_gaps_are_exact_and_one_stretch() -> None:
    found = MirrorOffsetMap(0, 500)
    for at in range(1000):
        found.add(at * 10, at * 10 + 10, 500 + at * 10, 10)
    assert found.size == 1
    assert [found.translate(offset) for offset in (0, 1, 4321, 9999, 10_000, 20_000)] == [
        500, 501, 4821, 10_499, 10_500, 10_500,
    ]  # fmt: skip
    assert found.encode() == "0.2710.1f4"


def test_a_marker_after_each_transaction_costs_a_part_of_the_lag() -> None:
    """As with --exactly-once: the error is less than half of the transactions in the lag."""
    found, size, count = MirrorOffsetMap(0, 0), 100, 50_000
    for at in range(count):
        found.add(at * size, (at + 1) * size, at * (size + 1), size)
    assert found.size == STRETCHES
    assert len(found.encode()) < 1000
    for lag in (0, 1, 10, 60, 3600, 40_000):
        offset = (count - lag) * size + 3
        right = (count - lag) * (size + 1) + 3 if lag else found.target_end
        at = found.translate(offset)
        assert at is not None
        assert right - lag * 0.5 <= at <= right, lag


def test_a_map_that_begins_late_knows_nothing_of_before() -> None:
    found = MirrorOffsetMap(100, 7)
    found.add(100, 110, 7, 10)
    assert found.begin == 100
    assert found.translate(99) is None
    assert found.translate(105) == 12


def test_what_was_removed_before_the_copy_maps_to_its_first_record() -> None:
    found = MirrorOffsetMap(0, 40)
    found.add(1000, 1010, 40, 10)
    assert [found.translate(offset) for offset in (0, 999, 1000, 1004)] == [40, 40, 40, 44]


def test_records_that_are_copied_again_count_where_they_are_last() -> None:
    found = MirrorOffsetMap(0, 0)
    found.add(0, 10, 0, 10)
    found.add(4, 14, 10, 10)
    assert [found.translate(offset) for offset in (0, 3, 4, 9, 14)] == [0, 3, 10, 15, 20]


def test_a_target_that_was_made_again_ends_what_is_known() -> None:
    found = MirrorOffsetMap(0, 0)
    assert found.add(0, 10, 0, 10)
    assert not found.add(10, 20, 3, 10)
    assert found.translate(9) is None
    assert found.translate(12) == 5


TOO_MANY = ",".join(["0.1.1"] * (STRETCHES + 1))
TOO_LARGE = f"{'f' * 17}.0.0"


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "1.2.-3", "x.y.z", "1.2.3.4.9", TOO_MANY, TOO_LARGE])
def test_other_texts_are_no_map(text: str) -> None:
    assert MirrorOffsetMap.decode(text) is None


@settings(max_examples=300)
@given(st.text(alphabet="0123456789abcdef.,-_ ", max_size=60))
def test_any_text_is_a_map_or_none(text: str) -> None:
    found = MirrorOffsetMap.decode(text)
    if found is not None:
        again = MirrorOffsetMap.decode(found.encode())
        assert again is not None
        assert again.encode() == found.encode()
