"""Rates and buckets at their edges; ``compat_tests/security/test_quotas.py`` compares them with Apache Kafka's."""

import pytest

from kafkapy.quotas.rates import LONGEST_THROTTLE_MS, Rate, TokenBucket


def test_a_rate_counts_all_windows_from_the_beginning() -> None:
    rate = Rate(11, 1000)
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 0, "1000 in ten seconds"
    rate.record(1000, 0)
    assert rate.throttle_ms(100, 0) == 10_000


def test_what_is_older_than_all_windows_counts_no_more() -> None:
    rate = Rate(3, 1000)
    rate.record(1_000_000, 0)
    assert rate.throttle_ms(1, 2999) > 0
    assert rate.throttle_ms(1, 3000) == 0


def test_a_negative_amount_takes_an_earlier_one_back() -> None:
    rate = Rate(3, 1000)
    rate.record(5000, 0)
    rate.record(-5000, 0)
    assert rate.throttle_ms(1, 0) == 0


@pytest.mark.parametrize("limit", [0.0, -1.0, 1e-300])
def test_the_longest_wait_is_what_a_response_can_say(limit: float) -> None:
    rate = Rate(3, 1000)
    rate.record(1e300, 0)
    assert rate.throttle_ms(limit, 0) == LONGEST_THROTTLE_MS
    bucket = TokenBucket(3, 1000)
    bucket.take(1e300, limit, 0)
    assert bucket.throttle_ms(limit, 0) == LONGEST_THROTTLE_MS


def test_a_single_window_that_has_just_begun_lets_nothing_more_pass() -> None:
    rate = Rate(1, 1000)
    assert rate.throttle_ms(5, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_ms(5, 0) == LONGEST_THROTTLE_MS
    assert rate.throttle_ms(5, 500) == 0


def test_a_bucket_saves_what_is_not_used_and_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(11, 1000)
    bucket.take(30, 2, 0)
    assert bucket.throttle_ms(2, 0) == 4_000, "22 of 30 were saved"
    assert bucket.throttle_ms(2, 3_999) == 1
    assert bucket.throttle_ms(2, 4_000) == 0
    bucket.take(1, 2, 1_000_000)
    assert bucket.throttle_ms(2, 1_000_000) == 0
