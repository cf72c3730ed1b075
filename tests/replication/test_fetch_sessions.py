"""The cache of fetch sessions: opening, displacement, and the contents of incremental responses."""

import random

import pytest

from kafkapy.replication.fetch_sessions import (
    EVICTION_MS,
    FetchSession,
    FetchSessionCache,
    SessionPartition,
    next_epoch,
)
from kafkapy.replication.fetching import FetchWish
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition


def wishes(count: int) -> dict[TopicPartition, FetchWish]:
    return {TopicPartition("t", at): FetchWish(0, 100) for at in range(count)}


def make(slots: int) -> tuple[FetchSessionCache, ManualClock]:
    clock = ManualClock()
    return FetchSessionCache(clock, slots, random.Random(1)), clock


def opened(cache: FetchSessionCache, count: int, *, is_follower: bool = False) -> FetchSession:
    session = cache.create(count, is_follower=is_follower)
    assert session is not None
    assert cache.remember(session, wishes(count).items())
    return session


def test_sessions_are_found_until_removed() -> None:
    cache, _ = make(10)
    session = opened(cache, 2)
    assert session.session_id > 0
    assert cache.get(session.session_id) is session
    assert (session.epoch, len(session.partitions)) == (1, 2)
    cache.remove(session.session_id)
    cache.remove(session.session_id)
    assert cache.get(session.session_id) is None
    assert len(cache) == 0


def test_epochs_wrap_to_1() -> None:
    assert (next_epoch(1), next_epoch(0x7FFFFFFE), next_epoch(0x7FFFFFFF)) == (2, 0x7FFFFFFF, 1)


def test_a_new_session_displaces_one_that_was_idle_for_long() -> None:
    cache, clock = make(2)
    old, used = opened(cache, 50), opened(cache, 50)
    clock.advance(EVICTION_MS)
    cache.touch(used)
    cache.touch(old)
    clock.advance(1)
    assert cache.create(1, is_follower=False) is None
    clock.advance(EVICTION_MS)
    opened(cache, 1)
    assert cache.get(used.session_id) is None
    assert cache.get(old.session_id) is old


def test_a_consumer_displaces_only_smaller_consumers_that_lived_long_enough() -> None:
    cache, clock = make(2)
    small, follower = opened(cache, 2), opened(cache, 1, is_follower=True)
    assert cache.create(9, is_follower=False) is None
    clock.advance(EVICTION_MS)
    cache.touch(small)
    cache.touch(follower)
    clock.advance(1)
    assert cache.create(1, is_follower=False) is None
    opened(cache, 2)
    assert cache.get(small.session_id) is None
    assert cache.get(follower.session_id) is follower


def test_a_follower_displaces_any_consumer_and_smaller_old_followers() -> None:
    cache, clock = make(2)
    consumer, follower = opened(cache, 99), opened(cache, 5, is_follower=True)
    second = opened(cache, 1, is_follower=True)
    assert cache.get(consumer.session_id) is None
    assert cache.create(9, is_follower=True) is None
    clock.advance(EVICTION_MS)
    cache.touch(follower)
    cache.touch(second)
    clock.advance(1)
    opened(cache, 1, is_follower=True)
    assert cache.get(second.session_id) is None
    assert cache.get(follower.session_id) is follower


def test_an_incremental_response_carries_partitions_that_have_changed() -> None:
    partition = SessionPartition(FetchWish(0, 100))

    def is_news(size: int = 0, error_code: int = 0, high_watermark: int = 5, log_start_offset: int = 0) -> bool:
        return partition.is_news(
            size=size, error_code=error_code, high_watermark=high_watermark, log_start_offset=log_start_offset
        )

    assert is_news()
    assert not is_news()
    assert is_news(size=1)
    assert is_news(high_watermark=6)
    assert is_news(high_watermark=6, log_start_offset=2)
    assert is_news(error_code=6, high_watermark=-1, log_start_offset=-1)
    assert is_news(error_code=6, high_watermark=-1, log_start_offset=-1)
    assert is_news(high_watermark=6, log_start_offset=2)
    assert not is_news(high_watermark=6, log_start_offset=2)


def test_partitions_are_added_changed_removed_and_reordered_in_a_session() -> None:
    cache, _ = make(1)
    session = opened(cache, 3)
    first, second, third = session.partitions
    changed = {second: FetchWish(7, 100), TopicPartition("u", 0): FetchWish(1, 1)}
    assert cache.remember(session, changed.items())
    cache.forget(session, [third])
    assert list(session.wishes([third, second])) == [second]
    session.move_to_end(first)
    assert list(session.due) == [second, TopicPartition("u", 0), first]
    assert session.partitions[second].wish.offset == 7


def test_all_sessions_together_remember_a_limited_number_of_partitions() -> None:
    cache = FetchSessionCache(ManualClock(), 10, random.Random(1), max_partitions=10)
    first, second = opened(cache, 4), opened(cache, 4)
    assert cache.create(3, is_follower=False) is None
    assert cache.refused == 1
    more = {TopicPartition("u", at): FetchWish(0, 1) for at in range(2)}
    assert cache.remember(first, more.items())
    assert cache.create(1, is_follower=False) is None
    cache.forget(first, more)
    third = opened(cache, 2)
    assert not cache.remember(first, more.items())  # one too many: the session is closed
    assert cache.get(first.session_id) is None
    assert cache.refused == 3
    for session in (second, third):
        cache.remove(session.session_id)
    assert len(opened(cache, 10).partitions) == 10


@pytest.mark.parametrize(
    ("topic", "count"),
    [("t" * 249, 1), ("t" * 799, 1), ("t" * 800, 2), ("t" * 32_000, 80), ("\U0001f642" * 1_000, 10)],
)
def test_a_partition_with_a_long_name_counts_as_several(topic: str, count: int) -> None:
    cache = FetchSessionCache(ManualClock(), 10, random.Random(1), max_partitions=100)
    named = {TopicPartition(topic, 0): FetchWish(0, 1)}
    session = opened(cache, 100 - count)
    assert cache.remember(session, named.items())
    assert cache.create(1, is_follower=False) is None
    cache.forget(session, named)
    assert cache.create(count + 1, is_follower=False) is None
    assert cache.remember(session, named.items())
    cache.remove(session.session_id)
    assert len(opened(cache, 100).partitions) == 100


def test_a_session_whose_names_are_too_long_is_closed() -> None:
    cache = FetchSessionCache(ManualClock(), 10, random.Random(1), max_partitions=100)
    session = opened(cache, 21)
    assert not cache.remember(session, {TopicPartition("t" * 32_000, 0): FetchWish(0, 1)}.items())
    assert cache.get(session.session_id) is None
    assert cache.refused == 1
    assert len(opened(cache, 100).partitions) == 100


def test_a_session_that_is_closed_while_it_is_opened_or_changed() -> None:
    cache = FetchSessionCache(ManualClock(), 10, random.Random(1), max_partitions=10)
    session = opened(cache, 2)
    cache.remove(session.session_id)
    assert not cache.remember(session, {TopicPartition("u", 0): FetchWish(0, 1)}.items())
    assert len(opened(cache, 10).partitions) == 10


def test_partitions_displace_sessions_that_were_idle_for_long() -> None:
    clock = ManualClock()
    cache = FetchSessionCache(clock, 10, random.Random(1), max_partitions=10)
    for _ in range(2):
        opened(cache, 5)
    assert cache.create(6, is_follower=False) is None
    clock.advance(EVICTION_MS + 1)
    grown = opened(cache, 6)
    assert len(cache) == 1
    clock.advance(EVICTION_MS + 1)
    other = opened(cache, 4)
    assert cache.remember(other, {TopicPartition("u", 0): FetchWish(0, 1)}.items())
    assert cache.get(grown.session_id) is None
