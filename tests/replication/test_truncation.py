"""Where a follower's log leaves its leader's."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.replication.truncation import Truncation, truncation_of


class Epochs(NamedTuple):
    """The epoch of each record of a log, by offset."""

    of_record: Sequence[int]

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        known = [each for each in self.of_record if each <= epoch]
        if not self.of_record or epoch > self.of_record[-1]:
            return -1, -1
        return (known[-1] if known else epoch), len(known)


class FakeLog(NamedTuple):
    leader_epochs: Epochs
    log_end_offset: int
    high_watermark: int


def log(*of_record: int, high_watermark: int = 0) -> FakeLog:
    return FakeLog(Epochs(of_record), len(of_record), high_watermark)


@pytest.mark.parametrize(
    ("own", "answer", "expected"),
    [
        (log(0, 0, 1, high_watermark=2), (-1, -1), Truncation(2)),
        (log(0, 0, high_watermark=2), (-1, -1), Truncation(2)),
        (log(0, 0, 1), (-1, 2), Truncation(2)),
        (log(0, 0, 1), (-1, 9), Truncation(3)),
        (log(0, 0, 1), (1, 9), Truncation(3)),
        (log(0, 0, 1), (0, 1), Truncation(1)),
        (log(0, 0, 1), (0, 9), Truncation(2)),
        (log(0, 0, 4), (2, 9), Truncation(2, is_final=False)),
        (log(0, 0), (3, 1), Truncation(1)),
    ],
)
def test_the_leaders_answer_leads_to_a_truncation(own: FakeLog, answer: tuple[int, int], expected: Truncation) -> None:
    assert truncation_of(own, *answer) == expected


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs with a common beginning, whose epochs after it are different: each epoch has one leader."""
    common = sorted(draw(st.lists(st.integers(0, 2), max_size=5)))
    rest = [sorted(draw(st.lists(st.sampled_from(kind), max_size=6))) for kind in ((3, 5, 7, 9), (4, 6, 8, 10))]
    return common + rest[0], common + rest[1]


@given(histories())
def test_the_truncated_log_is_a_prefix_of_the_leaders_log(logs: tuple[list[int], list[int]]) -> None:
    follower, leader = logs
    for _ in range(len(follower) + 1):
        if not follower:
            break
        asked = Epochs(leader).end_offset_for(follower[-1])
        common = next(
            (at for at, pair in enumerate(zip(follower, leader, strict=False)) if pair[0] != pair[1]),
            min(len(follower), len(leader)),
        )
        found = truncation_of(log(*follower, high_watermark=common), *asked)
        follower = follower[: found.offset]
        if found.is_final:
            break
    assert follower == leader[: len(follower)]
