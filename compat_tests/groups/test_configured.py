"""The configuration of groups: their size, the first rebalance, metadata, the retention of offsets."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.groups.test_offsets import by_member, commit, fetch
from compat_tests.groups.wire import Wire, create_topic, find_coordinator, join_request, sync_request
from harness.process import Broker
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

pytestmark = pytest.mark.together

DELAY_S = 0.6
CONFIG = {
    "group.max.size": "2",
    "group.initial.rebalance.delay.ms": f"{DELAY_S * 1000:.0f}",
    "group.min.session.timeout.ms": "500",
    "offset.metadata.max.bytes": "10",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "300",
}
CHECKED_S = 1.5
"""By then the check of the retention has run several times."""
RETENTION_MS = 60_000


@pytest.fixture(scope="module")
def configured(broker: Broker) -> Iterator[str]:
    with own_broker(broker, CONFIG) as started:
        with Wire(started.bootstrap) as wire:
            create_topic(wire, "t")
            create_topic(wire, "u")
        yield started.bootstrap


@pytest.fixture
def wire(configured: str, topic_name: str) -> Iterator[Wire]:
    with Wire(configured) as connection:
        find_coordinator(connection, topic_name)
        yield connection


@pytest.fixture
def second(configured: str) -> Iterator[Wire]:
    with Wire(configured) as connection:
        yield connection


@pytest.fixture
def group(topic_name: str) -> str:
    return topic_name


def settled(wire: Wire, group: str, **fields: Any) -> tuple[str, int]:
    joined = wire.ask(join_request(group, **fields), 1)
    assert joined.error_code == 0
    assert wire.ask(sync_request(group, joined.generation_id, joined.member_id), 0).error_code == 0
    return joined.member_id, joined.generation_id


NO_DATES = pytest.mark.differs(
    "kafka-4.4.0", reason="the version of OffsetCommit that tells when a commit was made, 1, is gone (KIP-896)"
)


def commit_dated(wire: Wire, group: str, topic: str, age_ms: int, **fields: Any) -> None:
    """Version 1 may say when the commit was made."""
    dated = OffsetCommitRequestPartition(0, 60, commit_timestamp=int(time.time() * 1000) - age_ms)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(topic, partitions=[dated])], **fields
    )
    assert wire.ask(request, 1).topics[0].partitions[0].error_code == 0


def committed(wire: Wire, group: str) -> set[str]:
    """The topics of which the group has an offset."""
    return {name for name, *_ in fetch(wire, group, topics=None)}


def test_each_new_member_extends_the_initial_delay(wire: Wire, second: Wire, group: str) -> None:
    started = time.monotonic()
    wire.send(join_request(group), 1)
    assert not wire.has_answer(DELAY_S / 2)
    second.send(join_request(group), 1)
    first, other = wire.receive(), second.receive()
    assert 1.8 * DELAY_S < time.monotonic() - started < 3 * DELAY_S
    assert (first.generation_id, other.generation_id, len(first.members) + len(other.members)) == (1, 1, 2)


def test_the_initial_delay_ends_at_the_rebalance_timeout(wire: Wire, second: Wire, group: str) -> None:
    started = time.monotonic()
    wire.send(join_request(group, rebalance_timeout_ms=700), 1)
    assert not wire.has_answer(DELAY_S / 2)
    second.send(join_request(group, rebalance_timeout_ms=700), 1)
    assert (wire.receive().generation_id, second.receive().generation_id) == (1, 1)
    assert 0.65 < time.monotonic() - started < 1.8 * DELAY_S


def test_a_group_has_a_size(configured: str, wire: Wire, second: Wire, group: str) -> None:
    first, _ = settled(wire, group)
    second.send(join_request(group), 1)
    assert not second.has_answer()
    assert wire.ask(join_request(group, first), 1).generation_id == second.receive().generation_id == 2
    with Wire(configured) as third:
        for member_id in "", "unknown":
            refused = third.ask(join_request(group, member_id), 1)
            assert (refused.error_code, refused.member_id, refused.generation_id, refused.members) == (81, "", -1, [])


def test_the_first_members_that_join_again_stay_in_a_full_group(
    configured: str, wire: Wire, second: Wire, group: str
) -> None:
    """During a rebalance only members that have joined count: a later one is refused if the group is full."""
    first, _ = settled(wire, group)
    second.send(join_request(group), 1)
    assert not second.has_answer()
    with Wire(configured) as third:
        third.send(join_request(group), 1)
        assert not third.has_answer()
        late = wire.ask(join_request(group, first), 1)
        assert (late.error_code, late.member_id) == (81, "")
        assert (second.receive().generation_id, third.receive().generation_id) == (2, 2)
    assert wire.ask(HeartbeatRequest(group, 2, first), 0).error_code == 25


def test_a_member_that_does_not_join_again_in_time_is_removed(wire: Wire, second: Wire, group: str) -> None:
    """The rebalance takes as long as the slowest member may, not as long as a session; static members stay in it."""
    fields: dict[str, Any] = {"rebalance_timeout_ms": 700, "session_timeout_ms": 20_000}
    first, _ = settled(wire, group, **fields)
    started = time.monotonic()
    second.send(join_request(group, **fields), 1)
    joined = second.receive()
    assert 0.6 < time.monotonic() - started < 3
    assert (joined.generation_id, joined.leader, len(joined.members)) == (2, joined.member_id, 1)
    assert wire.ask(HeartbeatRequest(group, 2, first), 0).error_code == 25
    assert wire.ask(join_request(group, first), 1).error_code == 25


def test_a_static_member_that_does_not_join_again_stays(wire: Wire, second: Wire, group: str) -> None:
    fields: dict[str, Any] = {"rebalance_timeout_ms": 700, "session_timeout_ms": 20_000}
    first = wire.ask(join_request(group, group_instance_id="i", **fields), 5).member_id
    assert wire.ask(sync_request(group, 1, first, group_instance_id="i"), 3).error_code == 0
    second.send(join_request(group, group_instance_id="j", **fields), 5)
    joined = second.receive()
    assert (joined.generation_id, joined.leader, len(joined.members)) == (2, joined.member_id, 2)
    assert wire.ask(HeartbeatRequest(group, 1, first, "i"), 3).error_code == 22
    assert wire.ask(HeartbeatRequest(group, 2, first, "i"), 3).error_code == 0


def test_a_member_without_heartbeats_is_removed_after_its_session(wire: Wire, second: Wire, group: str) -> None:
    """A heartbeat prolongs it, one of a wrong generation does not."""
    member_id, _ = settled(wire, group, session_timeout_ms=3_000, rebalance_timeout_ms=60_000)
    for wait_s, generation, code in (2, 1, 0), (2, 2, 22), (1.75, 1, 25):
        assert not wire.has_answer(wait_s)
        assert second.ask(HeartbeatRequest(group, generation, member_id), 0).error_code == code


def test_metadata_and_sessions_have_the_configured_limits(wire: Wire, group: str) -> None:
    assert (commit(wire, group, metadata="x" * 10), commit(wire, group, metadata="x" * 11)) == (0, 12)
    assert wire.ask(join_request(f"{group}-2", session_timeout_ms=499), 1).error_code == 26
    assert wire.ask(join_request(f"{group}-2", session_timeout_ms=500), 1).error_code == 0


@NO_DATES
def test_commits_without_members_expire(wire: Wire, group: str) -> None:
    commit_dated(wire, group, "t", RETENTION_MS + 5_000)
    commit_dated(wire, f"{group}-young", "t", RETENTION_MS - 20_000)
    assert not wire.has_answer(CHECKED_S)
    assert (committed(wire, group), committed(wire, f"{group}-young")) == (set(), {"t"})


def test_a_commit_may_name_a_retention_time(wire: Wire, group: str) -> None:
    versions = 2, 3, 4
    for version in versions:
        assert commit(wire, f"{group}-{version}", version, retention_time_ms=300) == 0
        assert commit(wire, f"{group}-{version}-long", version, retention_time_ms=600_000) == 0
    assert not wire.has_answer(CHECKED_S)
    for version in versions:
        assert committed(wire, f"{group}-{version}") == set(), version
        assert committed(wire, f"{group}-{version}-long") == {"t"}, version


def test_a_retention_time_that_overflows_is_over_at_once(wire: Wire, group: str) -> None:
    """The sum of the retention time and the present time wraps."""
    for version in 2, 4:
        assert commit(wire, f"{group}-{version}", version, retention_time_ms=2**63 - 1) == 0
    assert not wire.has_answer(CHECKED_S)
    for version in 2, 4:
        assert committed(wire, f"{group}-{version}") == set(), version


@NO_DATES
def test_only_offsets_of_unsubscribed_topics_expire(wire: Wire, group: str) -> None:
    """Members subscribe to t, not to u. The format of protocols other than the consumer's is not known: all is kept."""
    member_id, generation = settled(wire, group, session_timeout_ms=20_000)
    other = f"{group}-connect"
    other_id, other_generation = settled(wire, other, session_timeout_ms=20_000, protocol_type="connect")
    for name, who in (group, by_member(generation, member_id)), (other, by_member(other_generation, other_id)):
        for topic in "t", "u":
            commit_dated(wire, name, topic, 2 * RETENTION_MS, **{k: v for k, v in who.items() if v is not None})
    assert not wire.has_answer(CHECKED_S)
    assert (committed(wire, group), committed(wire, other)) == ({"t"}, {"t", "u"})


@NO_DATES
def test_offsets_of_an_empty_group_expire_from_when_it_became_empty(wire: Wire, group: str) -> None:
    member_id, generation = settled(wire, group, session_timeout_ms=20_000)
    commit_dated(wire, group, "t", 2 * RETENTION_MS, generation_id_or_member_epoch=generation, member_id=member_id)
    assert wire.ask(LeaveGroupRequest(group, members=[MemberIdentity(member_id)]), 3).error_code == 0
    assert not wire.has_answer(CHECKED_S)
    assert committed(wire, group) == {"t"}
