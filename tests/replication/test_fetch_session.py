"""The partitions that the requests of a follower's fetch session name."""

from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse
from kafkapy.replication.fetching import FetchLimits, FetchWish
from kafkapy.replication.follower_session import FollowerSession, SessionRequest
from kafkapy.types import TopicPartition

LIMITS = FetchLimits(500, 1, 1000, replica_id=1)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def wish(offset: int) -> FetchWish:
    return FetchWish(offset, 100, 3, 0, 2)


def summary(request: FetchRequest) -> tuple[int, int, list[tuple[str, int, int]], list[tuple[str, list[int]]]]:
    return (
        request.session_id,
        request.session_epoch,
        [(topic.topic, each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions],
        [(topic.topic, topic.partitions) for topic in request.forgotten_topics_data],
    )


def request_for(session: FollowerSession, wishes: dict[TopicPartition, FetchWish]) -> SessionRequest:
    """The next request for these partitions, and no others."""
    for each in (A0, A1, B0):
        if each in wishes:
            session.fetch(each, wishes[each])
        else:
            session.leave_out(each)
    return session.request(LIMITS)


def test_a_session_names_what_has_changed() -> None:
    session = FollowerSession()
    first = request_for(session, {A0: wish(0), A1: wish(5), B0: wish(7)})
    assert first.is_full
    assert summary(first.request) == (0, 0, [("a", 0, 0), ("a", 1, 5), ("b", 0, 7)], [])
    session.answered(FetchResponse(session_id=9))
    second = request_for(session, {A0: wish(2), A1: wish(5), B0: wish(7)})
    assert not second.is_full
    assert summary(second.request) == (9, 1, [("a", 0, 2)], [])
    session.answered(FetchResponse(session_id=9))
    assert summary(request_for(session, {B0: wish(7)}).request) == (9, 2, [], [("a", [0, 1])])
    session.answered(FetchResponse(session_id=9))
    assert summary(request_for(session, {B0: wish(7), A1: wish(5)}).request) == (9, 3, [("a", 1, 5)], [])


def test_without_a_session_every_request_is_full() -> None:
    session = FollowerSession()
    for _ in range(2):
        assert summary(request_for(session, {A0: wish(0)}).request) == (0, 0, [("a", 0, 0)], [])
        session.answered(FetchResponse())


def test_a_session_that_the_leader_closes_is_over() -> None:
    session = FollowerSession()
    request_for(session, {A0: wish(0)})
    session.answered(FetchResponse(session_id=9))
    request_for(session, {A0: wish(0)})
    session.answered(FetchResponse(session_id=0))
    assert summary(request_for(session, {A0: wish(0)}).request) == (0, 0, [("a", 0, 0)], [])


def test_after_a_failure_the_session_is_replaced() -> None:
    session = FollowerSession()
    request_for(session, {A0: wish(0)})
    session.answered(FetchResponse(session_id=9))
    session.failed()
    assert summary(request_for(session, {A0: wish(0)}).request) == (9, 0, [("a", 0, 0)], [])
    session.failed(is_unknown=True)
    assert summary(request_for(session, {A0: wish(0)}).request) == (0, 0, [("a", 0, 0)], [])


def test_epochs_begin_again_after_the_last() -> None:
    session = FollowerSession()
    request_for(session, {A0: wish(0)})
    session.answered(FetchResponse(session_id=9))
    session._epoch = 0x7FFF_FFFF  # two thousand million requests later
    session.answered(FetchResponse(session_id=9))
    assert summary(request_for(session, {A0: wish(0)}).request)[:2] == (9, 1)
