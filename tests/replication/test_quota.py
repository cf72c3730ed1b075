"""Rates of copied bytes on a clock that is moved by hand."""

import pytest

from kafkapy.replication.quota import UNLIMITED, ReplicationQuota
from kafkapy.testing.clock import ManualClock


def quota(limit: int, window_count: int = 11, window_s: int = 1) -> tuple[ReplicationQuota, ManualClock]:
    clock = ManualClock()
    made = ReplicationQuota(clock, window_count=window_count, window_s=window_s)
    made.limit = limit
    return made, clock


def test_nothing_is_exceeded_without_a_limit() -> None:
    made, _ = quota(UNLIMITED)
    made.record(10**15)
    assert not made.is_limited
    assert not made.is_exceeded
    assert made.bytes_per_second == 10**15


def test_a_quota_without_records_is_not_exceeded_even_if_nothing_is_allowed() -> None:
    made, _ = quota(0)
    assert made.is_limited
    assert not made.is_exceeded
    assert made.bytes_per_second == 0
    made.record(1)
    assert made.is_exceeded


def test_the_time_counts_from_the_first_look_at_the_rate() -> None:
    made, clock = quota(1000)
    assert not made.is_exceeded
    clock.advance(5000)
    made.record(10_000)
    assert made.bytes_per_second == 2000


def test_a_rate_equal_to_the_limit_does_not_exceed_it() -> None:
    made, _ = quota(1000)
    made.record(1000)
    assert not made.is_exceeded
    made.record(1)
    assert made.is_exceeded


def test_a_burst_is_divided_by_the_time_since_it_and_by_one_window_at_least() -> None:
    made, clock = quota(1000)
    made.record(5000)
    clock.advance(999)
    assert made.bytes_per_second == 5000
    clock.advance(1001)
    assert made.bytes_per_second == 2500
    clock.advance(2999)
    assert made.is_exceeded
    clock.advance(1)
    assert made.bytes_per_second == 1000
    assert not made.is_exceeded


def test_a_sample_counts_until_all_windows_are_over() -> None:
    made, clock = quota(100, window_count=3, window_s=2)
    made.record(6000)
    clock.advance(5999)
    assert made.is_exceeded
    clock.advance(1)
    assert made.bytes_per_second == 0


def test_each_window_has_a_sample() -> None:
    made, clock = quota(1000, window_count=3)
    for size in (600, 700, 800):
        made.record(size)
        clock.advance(1000)
    assert made.bytes_per_second == (700 + 800) / 2  # the first sample is three seconds old
    made.record(900)
    assert made.bytes_per_second == (700 + 800 + 900) / 2
    clock.advance(500)
    made.record(100)
    assert made.bytes_per_second == (700 + 800 + 900 + 100) / 2.5


def test_a_sample_that_was_emptied_begins_when_that_was_seen() -> None:
    made, clock = quota(1000)
    made.record(1000)
    clock.advance(20_000)
    assert not made.is_exceeded
    clock.advance(4000)
    made.record(8000)
    assert made.bytes_per_second == 2000


@pytest.mark.parametrize("limit", [1, 1000, 10**6, 10**12])
def test_the_average_stays_near_the_limit(limit: int) -> None:
    """Copies of half a second's bytes as soon as they are allowed."""
    made, clock = quota(limit)
    copied, size = 0, max(limit // 2, 1)
    for _ in range(10_000):
        if not made.is_exceeded:
            made.record(size)
            copied += size
        clock.advance(10)
    assert 0.95 * limit * 100 <= copied <= 1.1 * limit * 100 + 2 * size
