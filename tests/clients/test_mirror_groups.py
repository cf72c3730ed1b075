"""Offsets of groups that a mirror translates, between two brokers in this process."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafkapy.clients import groups as client_groups
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.mirror import engine
from kafkapy.clients.mirror.positions import Position, commit, positions
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkapy.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafkapy.testing import Broker
from tests.clients.mirrors import Running, copied, mirrored, patterns

BEFORE_MEMBER_IDS_ARE_REQUIRED = 3
BEFORE_SEVERAL_LEAVE = 2


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


def _fill(broker: Broker, topic: str, count: int, first: int = 0) -> None:
    for at in range(first, first + count):
        broker.produce(topic, b"%d" % at, partition=0)


def _prepare(source: Broker, target: Broker, topic: str, *, ahead: int = 3, count: int = 10) -> None:
    """A topic of ``count`` records whose copy will begin at offset ``ahead``."""
    for broker in (source, target):
        broker.create_topic(topic, 1)
    _fill(target, topic, ahead, first=1000)
    _fill(source, topic, count)


def _set(broker: Broker, group: str, topic: str, offset: int, metadata: str = "") -> None:
    with ClusterClient(broker.bootstrap) as client:
        commit(client, group, {(topic, 0): Position(offset, metadata)})


def _get(broker: Broker, group: str, topic: str) -> int | None:
    with ClusterClient(broker.bootstrap) as client:
        return client_groups.committed(client, group).get((topic, 0))


def _mirrored(source: Broker, target: Broker, topic: str, groups: str, **options: Any) -> Running:
    return copied(source, target, topic, groups=patterns(groups), **options)


@pytest.mark.parametrize("transactional_id", [None, "mirror-of-groups"], ids=["at-least-once", "exactly-once"])
def test_each_offset_is_translated(source: Broker, target: Broker, transactional_id: str | None) -> None:
    topic = f"each-{transactional_id}"
    _prepare(source, target, topic)
    for offset in range(11):
        _set(source, f"{topic}-{offset}", topic, offset, metadata=f"text {offset}")
    _set(source, "unasked", topic, 5)
    found = _mirrored(source, target, topic, f"{topic}-.*", transactional_id=transactional_id)
    assert found.lines == []
    assert [_get(target, f"{topic}-{offset}", topic) for offset in range(11)] == list(range(3, 14))
    assert _get(target, "unasked", topic) is None
    with ClusterClient(target.bootstrap) as client:
        assert positions(client, f"{topic}-7")[topic, 0].path == "text 7"


def test_positions_of_mirrors_are_not_offsets_of_records(source: Broker, target: Broker) -> None:
    """A mirror in the other direction has a group of the same name on the source."""
    source.create_topic("back", 1)
    _prepare(source, target, "there")
    _set(source, "kafkapy-mirror", "back", 5)
    with mirrored(source, target, "there", groups=patterns(".*")) as running:
        groups = running.finish().mirror._groups
    assert groups is not None
    assert "kafkapy-mirror" not in groups._listed()


def test_the_map_survives_a_restart(source: Broker, target: Broker) -> None:
    _prepare(source, target, "restarted")
    copied(source, target, "restarted")
    _fill(source, "restarted", 5, first=10)
    _set(source, "late", "restarted", 4)
    _set(source, "latest", "restarted", 12)
    _mirrored(source, target, "restarted", "late,latest")
    assert (_get(target, "late", "restarted"), _get(target, "latest", "restarted")) == (7, 15)


def test_offsets_never_go_back_and_a_reset_stays(source: Broker, target: Broker) -> None:
    _prepare(source, target, "forward")
    _set(source, "walker", "forward", 4)
    _set(target, "walker", "forward", 9)
    with mirrored(source, target, "forward", groups=patterns("walker"), once=False, refresh_every_s=0) as running:
        running.mirror.step()
        assert _get(target, "walker", "forward") == 9
        _set(source, "walker", "forward", 8)
        running.mirror.step()
        assert _get(target, "walker", "forward") == 11
        _set(target, "walker", "forward", 0)
        running.mirror.step()
        assert _get(target, "walker", "forward") == 0, "the source's group did not go on"
        _set(source, "walker", "forward", 2)
        running.mirror.step()
        assert _get(target, "walker", "forward") == 0
        _set(source, "walker", "forward", 9)
        running.mirror.step()
        assert _get(target, "walker", "forward") == 12


def test_records_that_are_not_copied_yet_are_read_again(source: Broker, target: Broker) -> None:
    _prepare(source, target, "behind", count=0)
    with mirrored(source, target, "behind", groups=patterns("quick"), once=False, refresh_every_s=0) as running:
        _set(source, "quick", "behind", 6)
        running.mirror.step()
        assert _get(target, "quick", "behind") == 3
        _fill(source, "behind", 8)
        while len(target.records("behind")) < 11:
            running.mirror.step()
        assert _get(target, "quick", "behind") == 9


def test_a_group_with_members_stays(source: Broker, target: Broker) -> None:
    _prepare(source, target, "used")
    _set(source, "busy", "used", 4)
    with (
        ClusterClient(target.bootstrap) as client,
        mirrored(source, target, "used", groups=patterns("busy"), once=False, refresh_every_s=0) as running,
    ):
        protocols = [JoinGroupRequestProtocol("range", b"")]
        join = JoinGroupRequest("busy", 60_000, 60_000, "", protocol_type="consumer", protocols=protocols)
        joined = client.coordinator("busy").call(join, JoinGroupResponse, BEFORE_MEMBER_IDS_ARE_REQUIRED)
        for _ in range(3):
            running.mirror.step()
        assert _get(target, "busy", "used") is None
        assert running.lines == [
            "group busy on the target has members: its offsets there stay as they are until it has none"
        ]
        leave = LeaveGroupRequest("busy", joined.member_id)
        client.coordinator("busy").call(leave, LeaveGroupResponse, BEFORE_SEVERAL_LEAVE)
        running.mirror.step()
    assert _get(target, "busy", "used") == 7


def test_what_the_target_has_removed_is_not_asked_for(source: Broker, target: Broker) -> None:
    _prepare(source, target, "removed")
    copied(source, target, "removed")
    topic = DeleteRecordsTopic("removed", [DeleteRecordsPartition(0, 8)])
    with ClusterClient(target.bootstrap) as client:
        client.node(client.node_ids()[0]).call(DeleteRecordsRequest([topic], 5000), DeleteRecordsResponse)
    _set(source, "slow", "removed", 2)
    _mirrored(source, target, "removed", "slow")
    assert _get(target, "slow", "removed") == 8


def test_offsets_before_the_map_are_reported(source: Broker, target: Broker) -> None:
    """As with positions that were committed by something that knows no maps, or after the target lost the records."""
    _prepare(source, target, "unknown", ahead=10)
    _set(target, "kafkapy-mirror", "unknown", 5)
    for group, offset in (("before", 4), ("at", 5), ("after", 8)):
        _set(source, group, "unknown", offset)
    found = _mirrored(source, target, "unknown", "before|at|after")
    (line,) = found.lines
    assert line.startswith("group before: its offset of unknown-0 is before those of which the mirror knows where")
    assert [_get(target, group, "unknown") for group in ("before", "at", "after")] == [None, 10, 13]


def test_a_target_that_has_lost_the_copies_gets_a_new_map(source: Broker, target: Broker) -> None:
    _prepare(source, target, "lost")
    copied(source, target, "lost")
    with ClusterClient(target.bootstrap) as client:
        path = positions(client, "kafkapy-mirror")["lost", 0].path
        commit(client, "kafkapy-mirror", {("lost", 0): Position(10, path, "0.a.64")})
    _set(source, "unlucky", "lost", 10)
    found = _mirrored(source, target, "lost", "unlucky")
    (line,) = found.lines
    assert line.startswith("partition lost-0: the target ends at offset 13, before offset 110, to which records were")
    assert _get(target, "unlucky", "lost") == 13


@pytest.mark.parametrize("transactional_id", [None, "short"], ids=["at-least-once", "exactly-once"])
def test_a_target_that_limits_metadata_is_named(source: Broker, transactional_id: str | None) -> None:
    topic = f"long-text-{transactional_id}"
    with Broker(settings={"offset.metadata.max.bytes": "26"}) as target:
        _prepare(source, target, topic)
        _set(source, "wordy", topic, 6, metadata="x" * 40)
        found = _mirrored(source, target, topic, "wordy", transactional_id=transactional_id)
        assert _get(target, "wordy", topic) == 9
        assert _get(target, "kafkapy-mirror", topic) == 10
        assert len(found.lines) == 2
        assert all("offset.metadata.max.bytes" in line for line in found.lines)


def test_an_offset_in_an_open_transaction_is_left_alone(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ONCE_PATIENCE_S", 1.0)
    _prepare(source, target, "unstable")
    _set(source, "pending", "unstable", 4)
    with ClusterClient(target.bootstrap) as client:
        writer = engine.TransactionalWriter(client, "pending", "a-producer")
        writer.open()
        monkeypatch.setattr(writer, "_end", lambda **_: None)
        writer.commit({("unstable", 0): Position(12, "")})
        monkeypatch.undo()
        monkeypatch.setattr(engine, "ONCE_PATIENCE_S", 1.0)
        found = _mirrored(source, target, "unstable", "pending")
        assert found.lines == ["the offsets of some groups are not on the target, as brokers could not answer for them"]
        writer._end(committed=True)
        _mirrored(source, target, "unstable", "pending")
    assert _get(target, "pending", "unstable") == 12


def test_offsets_are_committed_again_before_they_are_forgotten(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    _prepare(source, target, "kept")
    _set(source, "still", "kept", 4)
    with mirrored(source, target, "kept", groups=patterns("still"), once=False, refresh_every_s=0) as running:
        running.mirror.step()
        groups = running.mirror._groups
        assert groups is not None
        sent: list[str] = []
        monkeypatch.setattr(groups, "_commit", lambda group, _changed: sent.append(group))
        running.mirror.step()
        assert sent == []
        monkeypatch.setattr(engine, "KEEP_POSITIONS_S", 0.0)
        running.mirror.step()
        assert sent == ["still"]


@pytest.mark.parametrize("transactional_id", [None, "mirror-after-delete"], ids=["at-least-once", "exactly-once"])
def test_offsets_are_translated_again_after_the_topic_was_deleted_there(
    source: Broker, target: Broker, transactional_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target's brokers forget the offsets with the topic."""
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    topic = f"deleted-{transactional_id}"
    source.create_topic(topic, 1)
    _fill(source, topic, 10)
    _set(source, topic, topic, 10)
    options: dict[str, Any] = {"groups": patterns(topic), "transactional_id": transactional_id, "refresh_every_s": 0}
    with mirrored(source, target, topic, once=False, **options) as running:
        while _get(target, topic, topic) != 10:
            running.mirror.step()
        target.delete_topic(topic)
        rounds = itertools.count(1)
        stop = threading.Event()

        def after(_: engine.MirrorProgress) -> None:
            assert next(rounds) < 100
            if _get(target, topic, topic) == 10:
                stop.set()

        running.mirror.run(stop, after)
    assert len(target.records(topic, read_committed=True)) == 10


def test_offsets_are_translated_again_after_the_target_has_lost_records(source: Broker, target: Broker) -> None:
    """Somebody else may delete the topic there and make it again: the copies are at lower offsets then."""
    _prepare(source, target, "remade", ahead=100, count=3)
    _set(source, "again", "remade", 3)
    with mirrored(source, target, "remade", groups=patterns("again"), once=False, refresh_every_s=0) as running:
        while _get(target, "again", "remade") != 103:
            running.mirror.step()
        target.delete_topic("remade")
        target.create_topic("remade", 1)
        running.mirror._begin_anew()
        _fill(source, "remade", 5, first=3)
        _set(source, "again", "remade", 8)
        while len(target.records("remade")) < 5:
            running.mirror.step()
        running.mirror.step()
        assert _get(target, "again", "remade") == 5
