"""The engine of a mirror, between two brokers in this process."""

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.clients import configs
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, NoBrokerError, RequestFailedError
from kafkapy.clients.mirror import engine, reading
from kafkapy.clients.mirror.common import MirrorError, MirrorFencedError, MirrorOptions, Place, check_producer, passes
from kafkapy.clients.mirror.positions import Position, commit, positions
from kafkapy.clients.mirror.reading import SourceReader
from kafkapy.clients.mirror.writing import DEPTH
from kafkapy.clients.topics import TopicToCreate, create_topic, create_topics, grow_topic
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import PartitionData
from kafkapy.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from kafkapy.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkapy.records.forward import forwarded
from kafkapy.records.record import Record, encode_batch, encode_legacy
from kafkapy.testing import Broker
from tests.clients.mirrors import copied, mirrored

GROUP = "kafkapy-mirror"


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def _contents(broker: Broker, topic: str) -> list[tuple[Any, ...]]:
    found = broker.records(topic, read_committed=True)
    return sorted([(each.partition, each.key, each.value, each.timestamp, each.headers) for each in found], key=repr)


BOTH = pytest.mark.parametrize("transactional_id", [None, "mirror-1"], ids=["at-least-once", "exactly-once"])


@BOTH
def test_records_keep_all_that_they_are(source: Broker, target: Broker, transactional_id: str | None) -> None:
    name = f"whole-{transactional_id}"
    source.create_topic(name, 3)
    for at in range(30):
        source.produce(name, b"v%d" % at, key=b"k%d" % at, partition=at % 3, timestamp=1000 + at, headers=[("h", b"x")])
    found = copied(source, target, name, transactional_id=transactional_id)
    assert found.lines == [f"topic {name} is created on the target"]
    assert found.mirror.progress.records == 30
    assert found.mirror.progress.lag == 0
    assert _contents(target, name) == _contents(source, name)
    source.produce(name, b"more", partition=1)
    assert copied(source, target, name, transactional_id=transactional_id).mirror.progress.records == 1
    assert _contents(target, name) == _contents(source, name)
    with ClusterClient(target.bootstrap) as client:
        assert positions(client, GROUP)[name, 0].offset == 10


def test_configuration_is_copied_and_partitions_are_followed(source: Broker, target: Broker) -> None:
    with ClusterClient(source.bootstrap) as client:
        settings = {"retention.ms": "86400000", "kafkapy.flush": "ack"}
        create_topic(client, "grows", partitions=1, configs=settings)
    with mirrored(source, target, "grows", once=False, refresh_every_s=0) as running:
        grow_topic(running.clients[0], "grows", 4)
        source.produce("grows", b"new", partition=3)
        for _ in range(20):
            running.mirror.step()
            if target.topics()["grows"] == 4 and target.records("grows"):
                break
        own = {each.name: each.value for each in configs.describe(running.clients[1], "topic", "grows")}
    assert running.lines[-1] == "topic grows has 4 partitions on the target now, as on the source"
    assert own["retention.ms"] == "86400000"
    assert [each.partition for each in target.records("grows")] == [3]


def test_the_same_cluster_twice_is_refused(source: Broker) -> None:
    with pytest.raises(MirrorError, match="are the same cluster, with the id"):
        copied(source, source, "x")


def test_a_topic_that_the_target_refuses_is_named(source: Broker, target: Broker) -> None:
    source.create_topic("refused", 1)
    with pytest.raises(MirrorError, match=r"topic refused: .*create it there with 1 partitions, or leave it out"):
        copied(source, target, "refused", replication_factor=5)


def test_a_topic_that_came_from_the_target_is_not_copied_back(source: Broker, target: Broker) -> None:
    source.create_topic("one-way", 1)
    source.produce("one-way", b"v")
    copied(source, target, "one-way")
    target.produce("one-way", b"written on the copy")
    back = copied(target, source, "one-way")
    assert back.mirror.progress == (0, 0, 0, 0, 0, True)
    assert back.lines[0].startswith(
        "topic one-way is not copied: group kafkapy-mirror of the source says that it comes"
    )
    assert len(source.records("one-way")) == 1


def test_two_mirrors_that_begin_together_copy_one_way(source: Broker, target: Broker) -> None:
    ids = {}
    for broker in (source, target):
        broker.create_topic("mutual", 1)
        broker.produce("mutual", b"v")
        with ClusterClient(broker.bootstrap) as client:
            ids[broker] = client.metadata([]).cluster_id or ""
    for broker, other in ((source, target), (target, source)):
        with ClusterClient(broker.bootstrap) as client:
            commit(client, GROUP, {("mutual", 0): Position(0, ids[other])})
    first, second = sorted((source, target), key=lambda each: ids[each])
    assert copied(second, first, "mutual").mirror.progress.partitions == 0
    assert copied(first, second, "mutual").mirror.progress.records == 1


def test_a_chain_carries_the_path(source: Broker, target: Broker) -> None:
    source.create_topic("chained", 1)
    source.produce("chained", b"v")
    copied(source, target, "chained")
    with Broker() as third:
        assert copied(target, third, "chained").mirror.progress.records == 1
        assert copied(third, source, "chained").mirror.progress.partitions == 0
        with pytest.raises(MirrorError, match=r"has positions in cluster .* choose another --group"):
            copied(source, third, "chained")
        assert copied(source, third, "chained", group="another").mirror.progress.records == 1


@BOTH
def test_only_committed_records_are_copied(source: Broker, target: Broker, transactional_id: str | None) -> None:
    name = f"committed-{transactional_id}"
    source.create_topic(name, 1)
    with ClusterClient(source.bootstrap) as client:
        writer = engine.TransactionalWriter(client, "g", "producer-of-the-source")
        for value, committed in ((b"a", True), (b"b", False), (b"c", True)):
            writer.open()
            (passed,) = forwarded(memoryview(encode_batch([Record(None, value, timestamp=5)])), ())
            writer.write({(name, 0): engine.deque([passed])}, {(name, 0): 0}, lambda *_: None)
            if committed:
                writer.commit({})
        writer.open()
    found = copied(source, target, name, transactional_id=transactional_id)
    assert found.mirror.progress.records == 2
    assert [each.value for each in target.records(name, read_committed=True)] == [b"a", b"c"]
    with ClusterClient(target.bootstrap) as client:
        assert positions(client, GROUP)[name, 0].offset == 6


def _legacy_topic(source: Broker, name: str, magic: int) -> None:
    """A topic with a set of entries, and a compressed one, in the source's log as they are."""
    source.create_topic(name, 1)
    with ClusterClient(source.bootstrap) as client:
        configs.alter(client, "topic", name, {"message.format.version": "0.9.0" if magic == 0 else "0.10.2"})
        for values, compression in ((b"ab", 0), (b"cd", 1)):
            records = [Record(b"k", bytes([value]), timestamp=7, offset=at) for at, value in enumerate(values)]
            data = encode_legacy(records, magic, compression=compression)
            _produce_legacy(client, name, data)


def _produce_legacy(client: ClusterClient, name: str, data: bytes) -> None:
    passed = SimpleNamespace(data=bytearray(data), magic=0, next_offset=0, record_count=1)
    writer = engine.TargetWriter(client, "g")
    writer.write({(name, 0): engine.deque([passed])}, {(name, 0): 0}, lambda *_: None)


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_copied(source: Broker, target: Broker, magic: int) -> None:
    name = f"format-{magic}"
    _legacy_topic(source, name, magic)
    with pytest.raises(MirrorError, match=f"message format {magic}, which can't be in a transaction"):
        copied(source, target, name, transactional_id="old")
    assert copied(source, target, name).mirror.progress.records == 4
    assert _contents(target, name) == _contents(source, name)
    assert [each.value for each in target.records(name)] == [b"a", b"b", b"c", b"d"]


def test_a_batch_that_is_too_large_names_topic_and_option(source: Broker, target: Broker) -> None:
    source.create_topic("large", 1)
    source.produce("large", bytes(50_000))
    with mirrored(source, target, "large") as running:
        configs.alter(running.clients[1], "topic", "large", {"max.message.bytes": "1000"})
        with pytest.raises(MirrorError, match=r"topic large: a batch of 50,\d+ bytes is larger than max.message.bytes"):
            running.finish()


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_are_as_small_as_the_target_wants(source: Broker, target: Broker, magic: int) -> None:
    """Entries are joined, and a broker makes one batch of a set, which may be larger than its topic's limit."""
    name = f"small-sets-{magic}"
    with ClusterClient(source.bootstrap) as client:
        release = "0.9.0" if magic == 0 else "0.10.2"
        create_topic(client, name, partitions=1, configs={"message.format.version": release})
        for at in range(100):
            record = Record(b"%d" % at, bytes(500 if at % 3 else 50), timestamp=7 + at, offset=0)
            _produce_legacy(client, name, encode_legacy([record], magic))
    with ClusterClient(target.bootstrap) as client:
        create_topic(client, name, partitions=1, configs={"max.message.bytes": "700"})
    with target.faults.delay(1, api="Produce", topic=name) as requests:
        found = copied(source, target, name)
    assert found.mirror.progress.records == 100
    assert _contents(target, name) == _contents(source, name)
    assert [each.key for each in target.records(name)] == [b"%d" % at for at in range(100)]
    assert requests.fired < 120
    with ClusterClient(target.bootstrap) as client:
        configs.alter(client, "topic", name, {"max.message.bytes": "100"})
    source.produce(name, bytes(500))
    with pytest.raises(MirrorError, match=rf"topic {name}: a batch of \d+ bytes is larger than max.message.bytes"):
        copied(source, target, name)


def test_the_mirror_that_began_first_is_fenced(source: Broker, target: Broker) -> None:
    source.create_topic("fenced", 1)
    source.produce("fenced", b"v")
    with ExitStack() as stack:
        first = stack.enter_context(mirrored(source, target, "fenced", transactional_id="same"))
        second = stack.enter_context(mirrored(source, target, "fenced", transactional_id="same"))
        with pytest.raises(MirrorFencedError, match="another mirror with the same transactional id has taken over"):
            first.finish()
        second.finish()
    assert [each.value for each in target.records("fenced", read_committed=True)] == [b"v"]


@BOTH
def test_lost_connections_are_opened_again(
    source: Broker, target: Broker, transactional_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    name = f"anew-{transactional_id}"
    source.create_topic(name, 1)
    for at in range(20):
        source.produce(name, b"%d" % at)
    with mirrored(source, target, name, transactional_id=transactional_id) as running:
        write = running.mirror._writer.write
        failures = iter([True, False, True])

        def failing(*arguments: Any) -> None:
            write(*arguments)
            if next(failures, False):
                assert running.mirror.progress.records
                raise NoBrokerError("the connection broke")

        monkeypatch.setattr(running.mirror._writer, "write", failing)
        running.finish()
    assert running.lines[1:2] == ["the connection broke; the mirror connects again"]
    assert _contents(target, name) == _contents(source, name)


@BOTH
def test_connections_that_break_at_the_start_are_opened_again(
    source: Broker, target: Broker, transactional_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    name = f"early-{transactional_id}"
    source.create_topic(name, 1)
    source.produce(name, b"v")
    with target.faults.drop(api="InitProducerId", count=1), source.faults.drop(api="ListOffsets", count=1):
        found = copied(source, target, name, transactional_id=transactional_id)
    assert [line for line in found.lines if line.endswith("closed the connection; the mirror connects again")]
    assert _contents(target, name) == _contents(source, name)


def test_a_start_that_always_fails_ends(source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(engine, "ONCE_PATIENCE_S", 0.5)
    with target.faults.drop(api="InitProducerId"), pytest.raises(NoBrokerError, match="closed the connection"):
        copied(source, target, "never")


def test_a_start_that_fails_can_be_stopped(source: Broker, target: Broker) -> None:
    stop = threading.Event()
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        stop.set()

    options = MirrorOptions(topics=[re.compile("stopped")])
    with ClusterClient(source.bootstrap) as first, ClusterClient(target.bootstrap) as second:
        mirror = engine.Mirror((first, second), options, now_s=lambda: 0.0, report=report)
        with target.faults.drop(api="InitProducerId"):
            mirror.open(stop)
    assert [line.endswith("the mirror connects again") for line in lines] == [True]


def test_once_has_patience_with_an_end(source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(engine, "ONCE_PATIENCE_S", 0.5)
    source.create_topic("silent", 1)
    source.produce("silent", b"v")
    with mirrored(source, target, "silent") as running:

        def broken(*_: Any) -> None:
            raise NoBrokerError("gone")

        monkeypatch.setattr(running.mirror._reader, "fetch", broken)
        with pytest.raises(NoBrokerError, match="gone"):
            running.finish()
    assert running.lines[1:] == ["gone; the mirror connects again"]


def test_records_that_are_gone_are_reported(source: Broker, target: Broker) -> None:
    source.create_topic("short", 1)
    for at in range(5):
        source.produce("short", b"%d" % at)
    with mirrored(source, target, "short", once=False) as running:
        mirror = running.mirror
        mirror._positions["short", 0] = 99
        mirror.step()
        assert "the source ends before offset 99" in running.lines[-1]
        assert mirror._positions["short", 0] == 0
        mirror._positions["short", 0] = -5
        mirror._move_into_range(("short", 0))
        assert running.lines[-1] == "partition short-0: the source has removed 5 offsets before the copy"
        while len(target.records("short")) < 5:
            mirror.step()
    assert len(target.records("short")) == 5


def test_a_topic_that_is_deleted_is_no_longer_waited_for(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    for name in ("kept-here", "gone-here"):
        source.create_topic(name, 1)
        source.produce(name, b"v")
    with mirrored(source, target, "(kept|gone)-here") as running:
        source.delete_topic("gone-here")
        running.finish()
    assert len(target.records("kept-here")) == 1
    assert running.lines[-1] == "topic gone-here was deleted on the source; it is no longer copied"


def _listing(real: Callable[..., MetadataResponse], bootstrap: str, hidden: str) -> Callable[..., MetadataResponse]:
    """A broker that does not list some topics (a pattern), as after its start."""

    def metadata(client: ClusterClient, *arguments: Any, **options: Any) -> MetadataResponse:
        found = real(client, *arguments, **options)
        if client._bootstrap_text == bootstrap and not arguments:
            found.topics = [each for each in found.topics if not re.fullmatch(hidden, each.name or "")]
        return found

    return metadata


@BOTH
@pytest.mark.parametrize("hidden", [".*", "hidden-.*"], ids=["all-topics", "one-topic"])
def test_topics_that_the_source_does_not_list_are_not_taken_for_deleted(
    source: Broker, target: Broker, transactional_id: str | None, hidden: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a broker that has started again, and has not heard from the controller."""
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    real = ClusterClient.metadata
    names = [f"{each}-{transactional_id}-{len(hidden)}" for each in ("hidden", "listed")]
    for name in names:
        source.create_topic(name, 1)
        source.produce(name, b"1")
    pattern = "|".join(names)
    copied(source, target, pattern, transactional_id=transactional_id)
    for name in names:
        source.produce(name, b"2")
    with mirrored(source, target, pattern, transactional_id=transactional_id) as running:
        monkeypatch.setattr(ClusterClient, "metadata", _listing(real, source.bootstrap, hidden))
        progress: list[engine.MirrorProgress] = []

        def after(found: engine.MirrorProgress) -> None:
            progress.append(found)
            if len(progress) == 20:
                monkeypatch.setattr(ClusterClient, "metadata", real)

        with source.faults.drop(api="Fetch", count=1):
            running.mirror.run(threading.Event(), after)
    assert {each.partitions for each in progress} == {2}
    assert all(each.lag or not each.is_connected for each in progress[:20])
    assert progress[-1][3:] == (0, 2, True)
    for name in names:
        assert [each.value for each in target.records(name, read_committed=True)] == [b"1", b"2"]


@pytest.mark.parametrize("once", [True, False], ids=["once", "endless"])
def test_a_source_that_lists_nothing_at_the_start_is_asked_again(
    source: Broker, target: Broker, once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    real = ClusterClient.metadata
    name = f"asked-again-{once}"
    source.create_topic(name, 1)
    source.produce(name, b"v")
    empty = itertools.repeat(_listing(real, source.bootstrap, ".*"), 12)

    def metadata(*arguments: Any, **options: Any) -> MetadataResponse:
        return next(empty, real)(*arguments, **options)

    monkeypatch.setattr(ClusterClient, "metadata", metadata)
    with mirrored(source, target, name, once=once) as running:
        assert running.lines == [
            "the source lists no topics, as a broker does that has just started; the mirror connects again",
            f"topic {name} is created on the target",
        ]
        assert running.mirror.progress.partitions == 1


def test_a_source_without_topics_is_copied_too(target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    with Broker() as empty:
        found = copied(empty, target, ".*")
    assert found.mirror.progress == (0, 0, 0, 0, 0, True)
    assert found.lines[-1] == "no topic of the source matches --topics .*"


def _made_again(source: Broker, topic: str, values: list[bytes]) -> None:
    source.delete_topic(topic)
    source.create_topic(topic, 1)
    for value in values:
        source.produce(topic, value)


@BOTH
@pytest.mark.parametrize("values", [[b"new"], []], ids=["some", "none"])
def test_once_copies_a_topic_that_was_made_again_before(
    source: Broker, target: Broker, transactional_id: str | None, values: list[bytes]
) -> None:
    name = f"again-before-{transactional_id}-{len(values)}"
    source.create_topic(name, 1)
    for value in (b"1", b"2"):
        source.produce(name, value)
    copied(source, target, name, transactional_id=transactional_id)
    _made_again(source, name, values)
    with mirrored(source, target, name, transactional_id=transactional_id) as running:
        assert not running.mirror.is_done
        running.mirror.run(threading.Event(), _at_most(100))
    ends = "the source ends before offset 2, so its topic is another one now"
    assert running.lines == [f"partition {name}-0: {ends}; it is copied from its beginning"]
    assert [each.value for each in target.records(name, read_committed=True)] == [b"1", b"2", *values]
    assert copied(source, target, name, transactional_id=transactional_id).mirror.progress.records == 0


def test_once_believes_a_position_behind_the_last_stable_offset(source: Broker, target: Broker) -> None:
    """A new leader may answer with an end that is too low for a while; its answer to a fetch tells more."""
    source.create_topic("held", 1)
    source.produce("held", b"1")
    copied(source, target, "held")
    with ClusterClient(source.bootstrap) as client:
        writer = engine.TransactionalWriter(client, "g", "holds-back")
        writer.open()
        (passed,) = forwarded(memoryview(encode_batch([Record(None, b"open", timestamp=5)])), ())
        writer.write({("held", 0): engine.deque([passed])}, {("held", 0): 0}, lambda *_: None)
        with ClusterClient(target.bootstrap) as other:
            path = positions(other, GROUP)["held", 0].path
            commit(other, GROUP, {("held", 0): Position(2, path)})
        with mirrored(source, target, "held") as running:
            running.mirror.run(threading.Event(), _at_most(100))
        writer.open()
    assert running.lines == []
    assert running.mirror.progress.records == 0


def test_once_ends_if_a_topic_is_made_again_meanwhile(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    source.create_topic("meanwhile", 1)
    for at in range(3):
        source.produce("meanwhile", b"%d" % at)
    copied(source, target, "meanwhile")
    for at in range(3, 6):
        source.produce("meanwhile", b"%d" % at)
    with mirrored(source, target, "meanwhile") as running:
        _made_again(source, "meanwhile", [b"new"])
        running.mirror.run(threading.Event(), _at_most(100))
    assert running.lines[-1].startswith("partition meanwhile-0: the source ends before offset 3, so its topic is")
    assert [each.value for each in target.records("meanwhile")] == [b"0", b"1", b"2", b"new"]


def test_once_ends_if_a_topic_is_made_again_and_ends_behind_the_position(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fetch at the position does not show it; what the source had at the start will not come any more."""
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    source.create_topic("grown", 1)
    source.produce("grown", b"0")
    copied(source, target, "grown")
    for at in range(1, 6):
        source.produce("grown", b"%d" % at)
    with mirrored(source, target, "grown") as running:
        _made_again(source, "grown", [b"a", b"b", b"c"])
        running.mirror.run(threading.Event(), _at_most(2000))
    assert running.lines[-1].startswith(
        "partition grown-0: the source has ended at offset 3 for 60 s, before offset 6, at which it ended at the start,"
    )
    assert [each.value for each in target.records("grown")] == [b"0", b"b", b"c", b"a", b"b", b"c"]


def test_it_runs_until_it_is_stopped_and_keeps_positions(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    monkeypatch.setattr(engine, "KEEP_POSITIONS_S", 0.2)
    source.create_topic("endless", 1)
    stop, rounds = threading.Event(), itertools.count()
    with mirrored(source, target, "endless", once=False) as running:

        def after(found: engine.MirrorProgress) -> None:
            if next(rounds) == 5:
                source.produce("endless", b"v")
            if found.records:
                stop.set()

        running.mirror.run(stop, after)
    with mirrored(source, target, "no-topic-has-this-name", once=False) as running:
        running.mirror.step()
        assert running.mirror.progress.partitions == 0
        nothing = "no topic of the source matches --topics no-topic-has-this-name"
        assert running.lines == [f"{nothing}; the mirror waits for one"]
    with pytest.raises(MirrorError, match=nothing):
        copied(source, target, "no-topic-has-this-name")
    assert len(target.records("endless")) == 1


def _answer(topic: str, leader: int) -> MetadataResponse:
    part = MetadataResponsePartition(partition_index=0, leader_id=leader)
    return MetadataResponse(cluster_id="c", topics=[MetadataResponseTopic(name=topic, partitions=[part])])


def test_once_needs_a_leader_for_each_partition(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.create_topic("led", 1)
    monkeypatch.setattr(ClusterClient, "metadata", _without_leader(ClusterClient.metadata, source.bootstrap))
    with pytest.raises(MirrorError, match="partition led-0 has no leader"):
        copied(source, target, "led")


def _without_leader(real: Callable[..., MetadataResponse], bootstrap: str) -> Callable[..., MetadataResponse]:
    def metadata(client: ClusterClient, *arguments: Any, **options: Any) -> MetadataResponse:
        found = real(client, *arguments, **options)
        return _answer("led", -1) if client._bootstrap_text == bootstrap and not arguments else found

    return metadata


def test_once_waits_for_a_leader_that_is_lost(source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing fails while a partition has no leader: the mirror has to look for it, and not for ever."""
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    real = ClusterClient.metadata
    source.create_topic("led", 1)
    source.produce("led", b"v")
    with mirrored(source, target, "led", once=True) as running:
        monkeypatch.setattr(ClusterClient, "metadata", _without_leader(real, source.bootstrap))
        running.mirror._begin_anew()
        running.mirror.step()
        assert not running.mirror.is_done
        monkeypatch.setattr(ClusterClient, "metadata", real)
        running.mirror.run(threading.Event(), _at_most(2000))
        assert running.mirror.progress.records == 1
    source.produce("led", b"w")
    with mirrored(source, target, "led", once=True) as running:
        monkeypatch.setattr(ClusterClient, "metadata", _without_leader(real, source.bootstrap))
        running.mirror._begin_anew()
        with pytest.raises(MirrorError, match=r"partition led-0 has had no leader for 60 s.*start its brokers"):
            running.mirror.run(threading.Event(), _at_most(2000))


def _at_most(rounds: int) -> Callable[[engine.MirrorProgress], None]:
    left = itertools.count(rounds, -1)

    def after(_: engine.MirrorProgress) -> None:
        assert next(left), "the mirror does not end"

    return after


def test_fetched_records_are_bytes() -> None:
    with pytest.raises(ClientError, match="not read from the wire"):
        reading._batches(PartitionData(records=[]))  # type: ignore[arg-type]  # never from a broker
    assert reading._batches(PartitionData(high_watermark=4)).end == 4


def test_errors_that_pass() -> None:
    assert passes(NoBrokerError("x"))
    assert passes(RequestFailedError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert passes(RequestFailedError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert not passes(RequestFailedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert not passes(RequestFailedError(12345))
    assert not passes(MirrorError("x"))
    with pytest.raises(RequestFailedError):
        check_producer(ErrorCode.NOT_COORDINATOR, "x")


def test_a_duplicate_is_as_good_as_acknowledged(source: Broker, target: Broker) -> None:
    place: Place = ("again", 0)
    target.create_topic("again", 1)
    with ClusterClient(target.bootstrap) as client:
        writer = engine.TargetWriter(client, "g")
        writer.open()
        acknowledged: list[Place] = []
        for _ in range(2):
            writer._sequences.clear()
            (passed,) = forwarded(memoryview(encode_batch([Record(None, b"v", timestamp=5)])), ())
            writer.write({place: engine.deque([passed])}, {place: 0}, lambda *each: acknowledged.append(each[0]))
    assert acknowledged == [place, place]
    assert len(target.records("again")) == 1


def test_many_batches_of_many_partitions(source: Broker, target: Broker) -> None:
    """More batches than may be under way, and responses that have room for a part of the partitions only."""
    source.create_topic("many", 5)
    for at in range(100):
        source.produce("many", b"%d" % at * 100, partition=at % 5)
    found = copied(source, target, "many", fetch_bytes=4000)
    assert found.mirror.progress.batches == 100
    assert [each.value for each in target.records("many", partition=3)] == [
        each.value for each in source.records("many", partition=3)
    ]


def test_the_reader_asks_for_offsets_by_leader(source: Broker) -> None:
    source.create_topic("offsets", 2)
    source.produce("offsets", b"v", partition=1)
    with ExitStack() as stack:
        reader = SourceReader(stack.enter_context(ClusterClient(source.bootstrap)), 1000)
        places = [("offsets", 0), ("offsets", 1)]
        assert reader.offsets(places, dict.fromkeys(places, 0), -1) == {("offsets", 0): 0, ("offsets", 1): 1}


@BOTH
def test_a_topic_that_is_deleted_on_the_target_is_copied_again(
    source: Broker, target: Broker, transactional_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    name = f"deleted-there-{transactional_id}"
    source.create_topic(name, 1)
    source.produce(name, b"first")
    copied(source, target, name, transactional_id=transactional_id)
    target.delete_topic(name)
    source.produce(name, b"second")
    found = copied(source, target, name, transactional_id=transactional_id)
    assert found.mirror.progress.records == 2
    assert [each.value for each in target.records(name, read_committed=True)] == [b"first", b"second"]


def test_it_is_copied_from_its_beginning_also_if_the_mirror_fails_just_then(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old position of a topic that the mirror has created again does not count."""
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    source.create_topic("failing-just-then", 1)
    source.produce("failing-just-then", b"first")
    stop = threading.Event()
    with mirrored(source, target, "failing-just-then", once=False) as running:
        while not running.mirror.progress.records:
            running.mirror.step()
        target.delete_topic("failing-just-then")
        fault = source.faults.drop(api="ListOffsets", topic="failing-just-then", count=1)
        running.mirror.run(stop, lambda found: stop.set() if found.records > 1 else None)
    assert fault.fired == 1
    assert [each.value for each in target.records("failing-just-then")] == [b"first"]
    assert "the mirror is connected again, and copies" in running.lines


def test_a_topic_that_is_deleted_while_it_is_copied_begins_again(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    source.create_topic("deleted-below", 1)
    source.produce("deleted-below", b"first")
    stop = threading.Event()
    with mirrored(source, target, "deleted-below", once=False) as running:
        while not running.mirror.progress.records:
            running.mirror.step()
        target.delete_topic("deleted-below")
        source.produce("deleted-below", b"second")
        running.mirror.run(stop, lambda found: stop.set() if found.records > 2 else None)
    assert "topic deleted-below was deleted on the target; it is copied from its beginning" in running.lines
    assert [each.value for each in target.records("deleted-below")] == [b"first", b"second"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"message.timestamp.difference.max.ms": "1000"},
            r"INVALID_TIMESTAMP.*message\.timestamp\.difference\.max\.ms",
        ),
        ({"cleanup.policy": "compact"}, r"INVALID_RECORD.*Change cleanup\.policy of the topic"),
    ],
)
def test_a_record_that_the_target_refuses_names_the_key(
    source: Broker, target: Broker, settings: dict[str, str], message: str
) -> None:
    name = f"refuses-{next(iter(settings))}"
    source.create_topic(name, 1)
    source.produce(name, b"without a key", timestamp=1000)
    with ClusterClient(target.bootstrap) as client:
        create_topic(client, name, partitions=1, configs=settings)
    with pytest.raises(MirrorError, match=message):
        copied(source, target, name)


@pytest.mark.parametrize("bad", ["a", "z"], ids=["first", "last"])
def test_a_topic_that_can_not_be_written_does_not_double_the_others(
    source: Broker, target: Broker, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    names = [f"{each}-beside-{bad}" for each in "amz"]
    for name in names:
        source.create_topic(name, 1)
        for at in range(8):
            source.produce(name, b"%d" % at)
    refused = f"{bad}-beside-{bad}"
    with target.faults.error("NOT_ENOUGH_REPLICAS", api="Produce", topic=refused, count=DEPTH + 2) as fault:
        found = copied(source, target, f".-beside-{bad}")
    assert fault.fired == DEPTH + 2
    assert found.mirror.progress.records == 24
    for name in names:
        assert [each.value for each in target.records(name)] == [b"%d" % at for at in range(8)]


def test_the_first_batch_of_a_producer_is_alone_under_way(source: Broker, target: Broker) -> None:
    """A broker that has no batch of the producer takes any sequence number: those behind a refused one, too."""
    target.create_topic("first-alone", 1)
    place: Place = "first-alone", 0
    batches = [encode_batch([Record(None, b"%d" % at, timestamp=5)]) for at in range(4)]
    with ClusterClient(target.bootstrap) as client:
        writer = engine.TargetWriter(client, "g")
        queues = {place: engine.deque(forwarded(b"".join(batches)))}
        writer.open()
        with (
            target.faults.error("NOT_ENOUGH_REPLICAS", api="Produce", topic="first-alone", count=1),
            pytest.raises(RequestFailedError),
        ):
            writer.write(queues, {place: 0}, lambda *_: None)
        assert len(queues[place]) == 3
        assert target.records("first-alone") == []


def test_an_error_that_does_not_pass_is_told_beside_one_that_does(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    for name in ("both-1", "both-2"):
        source.create_topic(name, 1)
        source.produce(name, b"v")
    with (
        target.faults.error("NOT_ENOUGH_REPLICAS", api="Produce", topic="both-1"),
        target.faults.error("INVALID_RECORD", api="Produce", topic="both-2"),
        pytest.raises(MirrorError, match=r"topic both-2: .*Change cleanup\.policy"),
    ):
        copied(source, target, "both-.")


class _Leader:
    """A broker of the target whose connection may break; it takes what it is sent."""

    def __init__(self, *, breaks_at: str = "") -> None:
        self._breaks_at = breaks_at
        self._requests: list[ProduceRequest] = []

    def post(self, request: ProduceRequest, _at_most: int | None) -> None:
        if self._breaks_at == "post":
            raise NoBrokerError("broken at post")
        self._requests.append(request)

    def take(self, _: type[ProduceResponse]) -> ProduceResponse:
        if self._breaks_at == "take":
            raise NoBrokerError("broken at take")
        answer = ProduceResponse()
        for topic in self._requests.pop(0).topic_data:
            parts = [PartitionProduceResponse(each.index, base_offset=7) for each in topic.partition_data]
            answer.responses.append(TopicProduceResponse(topic.name, partition_responses=parts))
        return answer


def test_leaders_that_are_lost_do_not_double_what_the_others_have() -> None:
    leaders = [_Leader(breaks_at="post"), _Leader(breaks_at="take"), _Leader()]
    writer = engine.TargetWriter(SimpleNamespace(node=leaders.__getitem__), "g")  # type: ignore[arg-type]
    places = {("t", at): at for at in range(3)}
    queues = {
        place: engine.deque(forwarded(encode_batch([Record(None, b"1", timestamp=5)]) * 2)) for place in places
    }  # fmt: skip
    found: list[Place] = []
    with pytest.raises(NoBrokerError, match="broken at post"):
        writer.write(queues, places, lambda place, _passed, _offset: found.append(place))
    assert found == [("t", 2)]


def test_a_disk_that_fails_is_waited_for(source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    source.create_topic("on-disk", 1)
    source.produce("on-disk", b"v")
    with target.faults.error("KAFKA_STORAGE_ERROR", api="Produce", topic="on-disk", count=2):
        found = copied(source, target, "on-disk")
    assert "partition on-disk-0 on the target: its disk is full or has failed, see log.dirs" in found.lines[1]
    assert len(target.records("on-disk")) == 1


@BOTH
def test_it_stops_between_the_batches_of_one_fetch(
    source: Broker, target: Broker, transactional_id: str | None
) -> None:  # fmt: skip
    """A backlog of small batches takes long to write; what is written is committed when the mirror ends."""
    name = f"backlog-{transactional_id}"
    source.create_topic(name, 1)
    values = [b"%d" % at for at in range(60)]
    for value in values:
        source.produce(name, value)
    stop = threading.Event()
    seen: list[int] = []

    def after(found: engine.MirrorProgress) -> None:
        seen.append(found.records)
        stop.set()

    with mirrored(source, target, name, once=False, transactional_id=transactional_id) as running:
        running.mirror.run(stop, after)
        assert 0 < seen[0] == running.mirror.progress.records < len(values)
    assert len(target.records(name, read_committed=True)) == seen[0]
    copied(source, target, name, transactional_id=transactional_id)
    assert [each.value for each in target.records(name, read_committed=True)] == values


def test_a_mirror_is_connected_again_with_its_first_batch(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    source.create_topic("backlog-again", 1)
    for at in range(60):
        source.produce("backlog-again", b"%d" % at)
    stop = threading.Event()
    progress: list[engine.MirrorProgress] = []

    def after(found: engine.MirrorProgress) -> None:
        progress.append(found)
        if found.records:
            stop.set()

    with mirrored(source, target, "backlog-again", once=False) as running, source.faults.drop(api="Fetch", count=1):
        running.mirror.run(stop, after)
    assert [each.is_connected for each in progress[:2]] == [False, True]
    assert 0 < progress[1].records < 60
    assert running.lines[-1] == "the mirror is connected again, and copies"


def test_another_reason_is_told_after_some_time(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "RETRY_PAUSE_S", 0.0)
    source.create_topic("reasons", 1)
    stop = threading.Event()
    reasons = itertools.chain(["one"] * 200, ["two"] * 200, itertools.repeat("three"))
    with mirrored(source, target, "reasons", once=False) as running:

        def broken(*_: Any) -> None:
            raise NoBrokerError(next(reasons))

        monkeypatch.setattr(running.mirror._reader, "fetch", broken)
        running.mirror.run(stop, lambda _: stop.set() if len(running.lines) > 3 else None)
    assert running.lines[1] == "one; the mirror connects again"
    later = [
        re.fullmatch(r"(two|three); the mirror has not been connected for \d+ s", line) for line in running.lines[2:]
    ]
    assert [found[1] if found else None for found in later] == ["two", "three"]


def test_many_topics_are_created_with_few_requests(source: Broker, target: Broker) -> None:
    wanted = [TopicToCreate(f"few-{at:03}", 1, 1, {"retention.ms": f"{at + 1_000_000}"}) for at in range(120)]
    with ClusterClient(source.bootstrap) as client:
        assert set(create_topics(client, wanted).values()) == {None}
    with (
        target.faults.delay(1, api="CreateTopics") as requests,
        mirrored(source, target, r"few-\d+", once=False) as running,
    ):
        assert requests.fired == 2
        own = {each.name: each.value for each in configs.describe(running.clients[1], "topic", "few-119")}
        assert running.mirror.progress.partitions == 120
    assert own["retention.ms"] == "1000119"
    assert running.lines == [f"topic {each.name} is created on the target" for each in wanted]


def test_a_topic_that_is_refused_does_not_stop_the_others(source: Broker, target: Broker) -> None:
    for name in ("group-a", "group-b", "group-c"):
        source.create_topic(name, 1)
    with (
        target.faults.error("POLICY_VIOLATION", api="CreateTopics", topic="group-b"),
        pytest.raises(MirrorError, match=r"group-b: .*create it there with 1 partitions"),
    ):
        copied(source, target, "group-.")
    assert {"group-a", "group-c"} <= target.topics().keys()


def test_topics_are_created_when_the_controller_has_moved(source: Broker, target: Broker) -> None:
    source.create_topic("moved", 1)
    with target.faults.error("NOT_CONTROLLER", api="CreateTopics", count=1) as fault:
        assert copied(source, target, "moved").lines == ["topic moved is created on the target"]
    assert fault.fired == 1


def test_topics_are_looked_up_more_rarely_if_it_takes_long(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of this mirror passes with each look at it, so a look-up takes as long as its shortest interval."""
    monkeypatch.setattr(reading, "WAIT_MS", 1)
    source.create_topic("rarely", 1)
    rounds = 60
    with (
        mirrored(source, target, "rarely", once=False, refresh_every_s=0.1) as running,
        source.faults.delay(1, api="Metadata") as requests,
    ):
        for _ in range(rounds):
            running.mirror.step()
    assert 1 < requests.fired < rounds / 2
