"""The laws of the in-sync set, each with its borderline."""

from hypothesis import given
from hypothesis import strategies as st

from kafkapy.replication.partition import InSyncReplicas, RemoteReplica, high_watermark, lagging, may_join

LAG = 1000
REPLICAS = st.tuples(st.integers(2, 5), st.integers(-1, 50), st.integers(0, 100))


def replica(broker_id: int, end: int, caught_up: int = 0) -> RemoteReplica:
    made = RemoteReplica(broker_id, caught_up)
    made.log_end_offset = end
    return made


def test_a_fetch_at_the_leaders_end_is_caught_up_now() -> None:
    follower = RemoteReplica(2)
    follower.fetched(10, 0, 10, 500)
    assert (follower.log_end_offset, follower.last_caught_up_ms) == (10, 500)
    assert follower.is_caught_up(10, 99_999, LAG)
    assert follower.is_caught_up(11, 1500, LAG)
    assert not follower.is_caught_up(11, 1501, LAG)


def test_a_fetch_at_what_was_the_end_before_is_caught_up_then() -> None:
    follower = RemoteReplica(2)
    follower.fetched(5, 0, 10, 500)
    assert follower.last_caught_up_ms == 0
    follower.fetched(10, 0, 20, 800)
    assert follower.last_caught_up_ms == 500
    follower.fetched(15, 3, 30, 900)
    assert (follower.last_caught_up_ms, follower.log_start_offset) == (500, 3)


def test_the_high_watermark_is_the_lowest_end_that_counts() -> None:
    remotes = [replica(2, 7), replica(3, 4), replica(4, 1, caught_up=9000)]
    assert high_watermark(9, remotes, frozenset({1, 2}), now_ms=20_000, lag_max_ms=LAG) == 7
    assert high_watermark(9, remotes, frozenset({1, 2, 3}), now_ms=20_000, lag_max_ms=LAG) == 4
    assert high_watermark(9, remotes, frozenset({1, 2}), now_ms=10_000, lag_max_ms=LAG) == 1
    assert high_watermark(9, [], frozenset({1}), now_ms=0, lag_max_ms=LAG) == 9


def test_the_maximal_set_holds_what_is_proposed_and_what_is_being_dropped() -> None:
    assert InSyncReplicas((1, 2)).maximal == (1, 2)
    assert InSyncReplicas((1, 2), (1, 2, 3)).maximal == {1, 2, 3}
    assert InSyncReplicas((1, 2), (1,)).maximal == {1, 2}


def test_a_follower_lags_after_the_time_limit() -> None:
    remotes = [replica(2, 10, 0), replica(3, 9, 9500), replica(4, 9, 0), replica(5, 0, 0)]
    isr = InSyncReplicas((1, 2, 3, 4))
    assert lagging(isr, remotes, 10, now_ms=10_000, lag_max_ms=LAG) == (4,)
    assert lagging(InSyncReplicas((1, 2, 3, 4), (1, 2, 3)), remotes, 10, now_ms=10_000, lag_max_ms=LAG) == ()


def test_a_follower_joins_when_it_has_the_records_of_the_epoch() -> None:
    isr = InSyncReplicas((1, 2))

    def joins(end: int, isr: InSyncReplicas = isr, broker_id: int = 3) -> bool:
        return may_join(isr, replica(broker_id, end), leader_high_watermark=5, epoch_start_offset=7)

    assert not joins(6)
    assert joins(7)
    assert not joins(7, broker_id=2)
    assert not joins(7, InSyncReplicas((1, 2), (1, 2, 4)))


@given(
    st.lists(REPLICAS, max_size=4, unique_by=lambda one: one[0]),
    st.frozensets(st.integers(1, 5)),
    st.integers(0, 50),
)  # fmt: skip
def test_in_sync_replicas_have_all_records_below_the_high_watermark(
    found: list[tuple[int, int, int]], maximal: frozenset[int], end: int
) -> None:
    remotes = [replica(*one) for one in found]
    reached = high_watermark(end, remotes, maximal, now_ms=100, lag_max_ms=10)
    assert reached <= end
    assert all(one.log_end_offset >= reached for one in remotes if one.broker_id in maximal)
