"""Mirrors from several sources into one target, between brokers in this process."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafkapy.clients import groups as client_groups
from kafkapy.clients import topics as client_topics
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.mirror import engine
from kafkapy.clients.mirror.common import MirrorError
from kafkapy.clients.mirror.groups import GroupOffsetSync
from kafkapy.clients.mirror.positions import Position, commit, positions
from kafkapy.clients.topics import grow_topic
from kafkapy.testing import Broker
from tests.clients.mirrors import copied, mirrored, patterns

BOTH = pytest.mark.parametrize("transactional_id", [None, "a-mirror"], ids=["at-least-once", "exactly-once"])


@pytest.fixture(scope="module")
def sources() -> Iterator[tuple[Broker, Broker]]:
    with Broker() as first, Broker() as second:
        yield first, second


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


def _fill(broker: Broker, topic: str, partitions: int, count: int, prefix: bytes) -> None:
    broker.create_topic(topic, partitions)
    for at in range(count):
        broker.produce(topic, prefix + b"%d" % at, partition=at % partitions)


def _set(broker: Broker, group: str, topic: str, offset: int, metadata: str = "") -> None:
    with ClusterClient(broker.bootstrap) as client:
        commit(client, group, {(topic, 0): Position(offset, metadata)})


def _get(broker: Broker, group: str, topic: str) -> int | None:
    with ClusterClient(broker.bootstrap) as client:
        return client_groups.committed(client, group).get((topic, 0))


def _cluster_id(broker: Broker) -> str:
    with ClusterClient(broker.bootstrap) as client:
        return client.metadata([]).cluster_id or ""


def _values(broker: Broker, topic: str, *, partition: int = 0, first: int = 0) -> list[bytes | None]:
    found = broker.records(topic, read_committed=True)
    return [each.value for each in found if each.partition == partition and each.offset >= first]


@BOTH
def test_no_record_is_skipped_after_a_mirror_from_another_source(
    sources: tuple[Broker, Broker], target: Broker, transactional_id: str | None
) -> None:
    topic = f"skips-{transactional_id}"
    for source, prefix, read in zip(sources, (b"a", b"b"), (2, 10), strict=True):
        _fill(source, topic, 1, 10, prefix)
        _set(source, topic, topic, read)
    first, second = (
        {
            "groups": patterns(topic),
            "group": f"{topic}-{name}",
            "transactional_id": transactional_id and f"{topic}-{name}",
        }
        for name in "ab"
    )
    copied(sources[0], target, topic, **first)
    with pytest.raises(MirrorError, match=f"all is copied, but not the offsets of groups, .* prevent: {topic}"):
        copied(sources[1], target, topic, **second)
    unread = _values(target, topic, first=_get(target, topic, topic) or 0)
    assert unread == [b"a%d" % at for at in range(2, 10)] + [b"b%d" % at for at in range(10)]
    with mirrored(sources[1], target, topic, once=False, refresh_every_s=0, **second) as running:
        running.mirror.step()
        (line,) = running.lines
    assert line.startswith(
        f"topic {topic}: a mirror with the group {topic}-a copies it from cluster {_cluster_id(sources[0])}"
    )


def test_a_mirror_that_runs_stops_translating_when_another_begins(
    sources: tuple[Broker, Broker], target: Broker
) -> None:
    """The second one has no groups, but its records would be skipped too."""
    _fill(sources[0], "joined", 1, 4, b"a")
    _fill(sources[1], "joined", 1, 4, b"b")
    _set(sources[0], "reader", "joined", 2)
    options: dict[str, Any] = {"groups": patterns("reader"), "group": "joined-a", "once": False, "refresh_every_s": 0}
    with mirrored(sources[0], target, "joined", **options) as running:
        running.mirror.step()
        assert _get(target, "reader", "joined") == 2
        copied(sources[1], target, "joined", group="joined-b")
        sources[0].produce("joined", b"a4", partition=0)
        _set(sources[0], "reader", "joined", 5)
        while len(_values(target, "joined")) < 9:
            running.mirror.step()
        running.mirror.step()
        assert _get(target, "reader", "joined") == 2, "offset 9 would skip the records of the other source"
        assert [line for line in running.lines if "joined-b" in line] == running.lines[1:]
        with ClusterClient(target.bootstrap) as client:
            client_groups.delete_group(client, "joined-b")
        running.mirror.step()
        assert _get(target, "reader", "joined") == 2, "what was found is remembered"


def test_records_of_a_mirror_that_begins_meanwhile_are_behind_what_is_committed(
    sources: tuple[Broker, Broker], target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins after the look-up and before the commit."""
    _fill(sources[0], "meanwhile", 1, 4, b"a")
    _fill(sources[1], "meanwhile", 1, 4, b"b")
    _set(sources[0], "walker", "meanwhile", 4)
    commit_offsets = GroupOffsetSync._commit

    def after_the_other(self: GroupOffsetSync, *arguments: Any, **named: Any) -> None:
        copied(sources[1], target, "meanwhile", group="meanwhile-b")
        commit_offsets(self, *arguments, **named)

    monkeypatch.setattr(GroupOffsetSync, "_commit", after_the_other)
    copied(sources[0], target, "meanwhile", groups=patterns("walker"), group="meanwhile-a")
    assert _values(target, "meanwhile", first=_get(target, "walker", "meanwhile") or 0) == [
        b"b%d" % at for at in range(4)
    ]


def test_an_offset_that_stays_is_kept(
    sources: tuple[Broker, Broker], target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers forget offsets that are old: a consumer without one may begin at the end."""
    for source, prefix in zip(sources, (b"a", b"b"), strict=True):
        _fill(source, "keeps", 1, 4, prefix)
    _set(sources[0], "idle", "keeps", 1)
    _set(sources[0], "absent", "keeps", 1)
    copied(sources[0], target, "keeps", groups=patterns("idle"), group="keeps-a")
    copied(sources[1], target, "keeps", group="keeps-b")
    _set(sources[0], "idle", "keeps", 4, "a text of the source")
    monkeypatch.setattr(engine, "KEEP_POSITIONS_S", 0.0)
    sent: list[tuple[str, dict[Any, Any]]] = []
    monkeypatch.setattr(GroupOffsetSync, "_commit", lambda _self, group, changed: sent.append((group, changed)))
    options: dict[str, Any] = {"group": "keeps-a", "once": False, "refresh_every_s": 0}
    with mirrored(sources[0], target, "keeps", groups=patterns("idle|absent"), **options) as running:
        running.mirror.step()
    assert sent == [("idle", {("keeps", 0): (1, "")})]


def test_a_mirror_that_has_just_marked_its_topic_is_waited_for(
    sources: tuple[Broker, Broker], target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first position is in a transaction that is not complete: whose it is can't be told."""
    monkeypatch.setattr(engine, "ONCE_PATIENCE_S", 1.0)
    _fill(sources[0], "marked", 1, 4, b"a")
    _set(sources[0], "waits", "marked", 3)
    target.create_topic("marked", 1)
    with ClusterClient(target.bootstrap) as client:
        writer = engine.TransactionalWriter(client, "marked-b", "marked-b")
        writer.open()
        with monkeypatch.context() as patched:
            patched.setattr(writer, "_end", lambda **_: None)
            writer.commit({("marked", 0): Position(0, _cluster_id(sources[1]), "0.0.0")})
        found = copied(sources[0], target, "marked", groups=patterns("waits"))
        assert found.lines == ["the offsets of some groups are not on the target, as brokers could not answer for them"]
        assert _get(target, "waits", "marked") is None
        writer._end(committed=False)
    copied(sources[0], target, "marked", groups=patterns("waits"))
    assert _get(target, "waits", "marked") == 3


@pytest.mark.parametrize(
    ("name", "metadata"), enumerate(["", "a text", "a;text", "a,b;c;d", ";", "x;0.0", "x;-1.0.0", "x;" + "0.0.0," * 33])
)
def test_texts_of_consumers_are_not_those_of_mirrors(
    sources: tuple[Broker, Broker], target: Broker, name: int, metadata: str
) -> None:
    topic = f"texts-{name}"
    _fill(sources[0], topic, 1, 4, b"a")
    target.create_topic(topic, 1)
    _set(sources[0], topic, topic, 3)
    _set(target, "a-consumer", topic, 0, metadata)
    assert copied(sources[0], target, topic, groups=patterns(topic)).lines == []
    assert _get(target, topic, topic) == 3


def test_another_mirror_from_the_same_source_does_not_count(sources: tuple[Broker, Broker], target: Broker) -> None:
    _fill(sources[0], "twice", 1, 4, b"a")
    _set(sources[0], "double", "twice", 3)
    copied(sources[0], target, "twice", group="twice-before")
    copied(sources[0], target, "twice", groups=patterns("double"))
    assert _values(target, "twice", first=_get(target, "double", "twice") or 0) == [b"a3"]


def test_positions_without_maps_are_found(sources: tuple[Broker, Broker]) -> None:
    """The target refuses the metadata with the map."""
    with Broker(settings={"offset.metadata.max.bytes": "26"}) as target:
        for source, prefix in zip(sources, (b"a", b"b"), strict=True):
            _fill(source, "short", 1, 4, prefix)
            _set(source, "brief", "short", 3)
        copied(sources[0], target, "short", groups=patterns("brief"), group="short-a")
        with pytest.raises(MirrorError, match="not the offsets of groups"):
            copied(sources[1], target, "short", groups=patterns("brief"), group="short-b")
        assert _get(target, "brief", "short") == 3
        with ClusterClient(target.bootstrap) as client:
            assert positions(client, "short-b")["short", 0].origin == _cluster_id(sources[1])


@pytest.mark.parametrize("counts", [(1, 3), (3, 1), (2, 2)], ids=str)
@BOTH
def test_sources_of_other_partition_counts_fill_one_topic(
    sources: tuple[Broker, Broker], target: Broker, transactional_id: str | None, counts: tuple[int, int]
) -> None:
    topic = f"uneven-{counts[0]}-{counts[1]}-{transactional_id}"
    for source, count, prefix in zip(sources, counts, (b"a", b"b"), strict=True):
        _fill(source, topic, count, 6, prefix)
    first, second = ({"group": f"{topic}-{name}", "transactional_id": transactional_id} for name in "ab")
    with mirrored(sources[0], target, topic, once=False, refresh_every_s=0, **first) as running:
        running.mirror.step()
        lines = copied(
            sources[1], target, topic, **{**second, "transactional_id": transactional_id and f"{topic}-b"}
        ).lines
        sources[0].produce(topic, b"a6", partition=0)
        while b"a6" not in _values(target, topic):
            running.mirror.step()
    assert target.topics()[topic] == max(counts)
    for partition in range(max(counts)):
        wanted = [value for source in sources for value in _values_of(source, topic, partition)]
        assert sorted(map(str, _values(target, topic, partition=partition))) == sorted(map(str, wanted))
    if counts[0] == counts[1]:
        assert lines == []
        assert len(running.lines) == 1
    else:
        assert len(lines) == 1
        assert lines[0].endswith(
            f"; a mirror with the group {topic}-a copies it from cluster {_cluster_id(sources[0])} too"
        )
    if counts[0] < counts[1]:
        assert f"topic {topic} has 3 partitions on the target and 1 on the source, so producers" in running.lines[-1]
        assert running.lines[-1].endswith(
            f"a mirror with the group {topic}-b copies it from cluster {_cluster_id(sources[1])} too"
        )


def _values_of(source: Broker, topic: str, partition: int) -> list[bytes | None]:
    return _values(source, topic, partition=partition) if partition < source.topics()[topic] else []


def test_more_partitions_on_the_target_are_told_once(sources: tuple[Broker, Broker], target: Broker) -> None:
    _fill(sources[0], "narrow", 1, 2, b"a")
    target.create_topic("narrow", 2)
    with mirrored(sources[0], target, "narrow", once=False, refresh_every_s=0) as running:
        for _ in range(3):
            running.mirror.step()
        (line,) = running.lines
        assert line.startswith(
            "topic narrow has 2 partitions on the target and 1 on the source, so producers that move"
        )
        assert line.endswith("(kafkapy topics alter narrow --partitions 2)")
        grow_topic(running.clients[1], "narrow", 3)
        running.mirror.step()
        assert running.lines[1].startswith("topic narrow has 3 partitions on the target and 1 on the source")
    assert _values(target, "narrow") == [b"a0", b"a1"]


def test_a_topic_that_another_has_grown_meanwhile_is_copied(
    sources: tuple[Broker, Broker], target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(sources[0], "races", 2, 4, b"a")
    target.create_topic("races", 1)

    def after_the_other(client: ClusterClient, name: str, partitions: int) -> None:
        grow_topic(client, name, 3)
        grow_topic(client, name, partitions)

    monkeypatch.setattr(client_topics, "grow_topic", after_the_other)
    found = copied(sources[0], target, "races")
    assert all(
        line.startswith("topic races has 3 partitions on the target and 2 on the source") for line in found.lines
    )
    assert found.mirror.progress.records == 4
    assert target.topics()["races"] == 3


def test_two_mirrors_run_beside_each_other(sources: tuple[Broker, Broker], target: Broker) -> None:
    """Both begin with a topic that the target does not have, and both translate offsets until they see the other."""
    threads, errors = [], []

    def run(source: Broker, name: str) -> None:
        try:
            copied(source, target, "beside", groups=patterns("both"), group=f"beside-{name}")
        except MirrorError as error:
            errors.append(str(error))

    for source, name, partitions in zip(sources, "ab", (1, 3), strict=True):
        _fill(source, "beside", partitions, 30, name.encode())
        _set(source, "both", "beside", 5)
        threads.append(threading.Thread(target=run, args=(source, name)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all("not the offsets of groups" in error for error in errors)
    unread = _values(target, "beside", first=_get(target, "both", "beside") or 0)
    assert {b"a%d" % at for at in range(5, 30)} | {b"b%d" % at for at in range(15, 30, 3)} <= set(unread)
