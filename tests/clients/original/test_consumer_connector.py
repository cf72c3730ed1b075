"""Consumer connectors on a broker in this process, with its own metadata tree as their registry."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkapy.clients.original import fetching
from kafkapy.clients.original.consumer_connector import (
    ConsumerConnector,
    ConsumerRebalanceFailedError,
    OffsetsLostError,
)
from kafkapy.clients.original.registry import Registry, RegistryError, Watch
from kafkapy.clients.original.settings import SettingsError
from kafkapy.clients.original.streams import ConsumerTimeoutError, KafkaStream, MessageAndMetadata, OwnedPartition
from kafkapy.clients.original.subscription import SubscriptionError, TopicFilter
from kafkapy.protocol.messages.fetch import PartitionData
from kafkapy.records.errors import CorruptRecordError
from kafkapy.records.record import Record, encode_batch
from kafkapy.testing.broker import Broker

SETTINGS = {
    "auto.offset.reset": "smallest",
    "consumer.timeout.ms": "5000",
    "rebalance.backoff.ms": "20",
    "rebalance.max.retries": "100",
    "fetch.wait.max.ms": "20",
    "refresh.leader.backoff.ms": "20",
}
Connect = Callable[..., ConsumerConnector]


@pytest.fixture
def connect(broker: Broker) -> Iterator[Connect]:
    made: list[ConsumerConnector] = []

    def start(group: str, **settings: str) -> ConsumerConnector:
        given = {"group.id": group, **SETTINGS, **{name.replace("_", "."): settings[name] for name in settings}}
        made.append(ConsumerConnector(given, registry=broker.registry()))
        return made[-1]

    yield start
    for each in made:
        each.shutdown()


def fill(broker: Broker, topic: str, partitions: int, records: int, first: int = 0) -> None:
    """Make the topic unless it exists; records with numbers as values, in turn to the partitions."""
    if topic not in broker.topics():
        broker.create_topic(topic, partitions)
    for number in range(first, first + records):
        broker.produce(topic, b"%d" % number, partition=number % partitions)


def take(stream: KafkaStream, count: int) -> list[MessageAndMetadata]:
    return [next(stream) for _ in range(count)]


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("not within 10 s")


def test_streams_get_whole_partitions_with_decoded_records(broker: Broker, connect: Connect) -> None:
    fill(broker, "decoded", 2, 10)
    streams = connect("decoded").create_message_streams({"decoded": 2}, value_decoder=int)["decoded"]
    for number, stream in enumerate(streams):
        found = take(stream, 5)
        assert [(each.topic, each.partition, each.offset) for each in found] == [
            ("decoded", number, offset) for offset in range(5)
        ]
        assert [each.message for each in found] == list(range(number, 10, 2))
        assert {each.key for each in found} == {None}


def test_the_registry_is_laid_out_as_by_the_original(broker: Broker, connect: Connect, registry: Registry) -> None:
    fill(broker, "laid-out", 2, 2)
    consumer = connect("laid-out", consumer_id="me")
    (stream,) = consumer.create_message_streams({"laid-out": 1})["laid-out"]
    take(stream, 2)
    consumer.commit_offsets()
    assert consumer.consumer_id == "laid-out_me"
    content = json.loads(registry.get("/consumers/laid-out/ids/laid-out_me") or b"")
    assert content.pop("timestamp").isdecimal()
    assert content == {"version": 1, "subscription": {"laid-out": 1}, "pattern": "static"}
    for partition in ("0", "1"):
        assert registry.get(f"/consumers/laid-out/owners/laid-out/{partition}") == b"laid-out_me-0"
        assert registry.get(f"/consumers/laid-out/offsets/laid-out/{partition}") == b"1"
    consumer.shutdown()
    assert registry.children("/consumers/laid-out/ids") == []
    assert registry.children("/consumers/laid-out/owners/laid-out") == []


def test_a_group_shares_partitions_and_continues_where_the_last_owner_was(broker: Broker, connect: Connect) -> None:
    fill(broker, "shared", 4, 40)
    first, second = connect("shared"), connect("shared")
    (one,) = first.create_message_streams({"shared": 1})["shared"]
    before = take(one, 23)
    (two,) = second.create_message_streams({"shared": 1})["shared"]
    until(lambda: len(first.owned) == len(second.owned) == 2)
    assert sorted(first.owned + second.owned) == [("shared", partition) for partition in range(4)]
    places = [(each.partition, each.offset) for each in before]
    left = {consumer: [place for _, place in consumer.owned] for consumer in (first, second)}
    for consumer, stream in ((first, one), (second, two)):
        count = sum(10 - sum(partition == place for place, _ in places) for partition in left[consumer])
        places += [(each.partition, each.offset) for each in take(stream, count)]
    assert sorted(places) == [(partition, offset) for partition in range(4) for offset in range(10)]
    second.shutdown()
    until(lambda: len(first.owned) == 4)
    assert list(two) == []
    fill(broker, "shared", 4, 4, first=40)
    assert sorted(each.partition for each in take(one, 4)) == [0, 1, 2, 3]


def test_lists_of_topics_follow_new_topics_and_partitions(broker: Broker, connect: Connect) -> None:
    fill(broker, "listed-a", 1, 1)
    fill(broker, "unlisted", 1, 1)
    consumer = connect("lists")
    (stream,) = consumer.create_message_streams_by_filter(TopicFilter.white_list("listed-.*"))
    assert next(stream).topic == "listed-a"
    fill(broker, "listed-b", 2, 2)
    assert {(each.topic, each.partition) for each in take(stream, 2)} == {("listed-b", 0), ("listed-b", 1)}
    assert consumer.owned == [("listed-a", 0), ("listed-b", 0), ("listed-b", 1)]


def test_a_topic_may_come_later(broker: Broker, connect: Connect) -> None:
    (stream,) = connect("later").create_message_streams({"later": 1})["later"]
    fill(broker, "later", 1, 1)
    assert next(stream).message == b"0"


def test_without_a_committed_offset_largest_starts_at_the_end(broker: Broker, connect: Connect) -> None:
    fill(broker, "end", 1, 3)
    consumer = connect("end", auto_offset_reset="largest", consumer_timeout_ms="100")
    (stream,) = consumer.create_message_streams({"end": 1})["end"]
    with pytest.raises(ConsumerTimeoutError):
        next(stream)
    fill(broker, "end", 1, 1, first=3)
    assert next(stream).offset == 3


def test_an_offset_that_the_log_does_not_have_is_reset(broker: Broker, connect: Connect, registry: Registry) -> None:
    fill(broker, "reset", 1, 2)
    registry.set("/consumers/reset/offsets/reset/0", b"700")
    (stream,) = connect("reset").create_message_streams({"reset": 1})["reset"]
    assert [each.offset for each in take(stream, 2)] == [0, 1]


def test_only_commits_count_without_auto_commit(broker: Broker, connect: Connect) -> None:
    fill(broker, "manual", 1, 6)
    for taken, commits, expected in ((3, True, 0), (2, False, 3), (3, False, 3)):
        consumer = connect("manual", auto_commit_enable="false")
        (stream,) = consumer.create_message_streams({"manual": 1})["manual"]
        assert [each.offset for each in take(stream, taken)] == list(range(expected, expected + taken))
        if commits:
            consumer.commit_offsets()
        consumer.shutdown()


def test_auto_commit_commits_what_was_returned(broker: Broker, connect: Connect, registry: Registry) -> None:
    fill(broker, "auto", 1, 6)
    (stream,) = connect("auto", auto_commit_interval_ms="10").create_message_streams({"auto": 1})["auto"]
    take(stream, 4)
    until(lambda: registry.get("/consumers/auto/offsets/auto/0") == b"4")


def test_a_stream_that_nobody_reads_does_not_stop_the_others(broker: Broker, connect: Connect) -> None:
    fill(broker, "idle", 2, 0)
    streams = connect("idle", queued_max_message_chunks="1").create_message_streams({"idle": 2})["idle"]
    for number in range(6):
        fill(broker, "idle", 2, 2, first=2 * number)
        assert next(streams[1]).message == b"%d" % (2 * number + 1)
    assert [each.message for each in take(streams[0], 6)] == [b"0", b"2", b"4", b"6", b"8", b"10"]


@pytest.mark.parametrize("in_kafka_first", [True, False])
def test_dual_commits_start_at_the_larger_offset(
    broker: Broker, connect: Connect, registry: Registry, in_kafka_first: bool
) -> None:
    topic = f"dual-{in_kafka_first}"
    fill(broker, topic, 1, 10)
    kafka = connect(topic, offsets_storage="kafka", dual_commit_enabled="false")
    take(kafka.create_message_streams({topic: 1})[topic][0], 3 if in_kafka_first else 7)
    kafka.shutdown()
    path = f"/consumers/{topic}/offsets/{topic}/0"
    assert registry.get(path) is None
    registry.set(path, b"7" if in_kafka_first else b"3")
    both = connect(topic, offsets_storage="kafka", dual_commit_enabled="true")
    assert next(both.create_message_streams({topic: 1})[topic][0]).offset == 7
    both.shutdown()
    assert registry.get(path) == b"8"
    after = connect(topic, offsets_storage="kafka", dual_commit_enabled="false")
    assert next(after.create_message_streams({topic: 1})[topic][0]).offset == 8


def test_a_partition_of_another_owner_is_not_taken(broker: Broker, connect: Connect, registry: Registry) -> None:
    fill(broker, "taken", 1, 1)
    assert registry.create_ephemeral("/consumers/taken/owners/taken/0", b"somebody-0")
    consumer = connect("taken", rebalance_max_retries="2")
    with pytest.raises(ConsumerRebalanceFailedError, match=r"taken-0 still has another owner.*rebalance\.backoff\.ms"):
        consumer.create_message_streams({"taken": 1})
    consumer.shutdown()
    assert registry.get("/consumers/taken/owners/taken/0") == b"somebody-0"


def test_the_node_of_an_owner_with_a_longer_name_stays(broker: Broker, connect: Connect, registry: Registry) -> None:
    """``prefixed_a`` must not take ``prefixed_a-1-0``, of the consumer ``prefixed_a-1``, for its own stream."""
    fill(broker, "prefixed", 1, 1)
    assert registry.create_ephemeral("/consumers/prefixed/owners/prefixed/0", b"prefixed_a-1-0")
    consumer = connect("prefixed", consumer_id="a", rebalance_max_retries="2")
    with pytest.raises(ConsumerRebalanceFailedError, match="prefixed-0 still has another owner"):
        consumer.create_message_streams({"prefixed": 1})
    assert registry.get("/consumers/prefixed/owners/prefixed/0") == b"prefixed_a-1-0"


def test_streams_report_a_rebalance_that_failed_until_one_succeeds(
    broker: Broker, connect: Connect, registry: Registry
) -> None:
    fill(broker, "failing", 1, 1)
    consumer = connect("failing", rebalance_max_retries="2")
    (stream,) = consumer.create_message_streams_by_filter(TopicFilter.white_list("failing.*"))
    assert next(stream).offset == 0
    assert registry.create_ephemeral("/consumers/failing/owners/failing-2/0", b"somebody-0")
    fill(broker, "failing-2", 1, 1)
    with pytest.raises(ConsumerRebalanceFailedError):
        next(stream)
    registry.delete("/consumers/failing/owners/failing-2/0")
    fill(broker, "failing-3", 1, 1)
    until(lambda: len(consumer.owned) == 3)

    def recovered() -> bool:
        try:
            found.append(next(stream).topic)
        except ConsumerRebalanceFailedError:
            return False
        return True

    found: list[str] = []
    until(recovered)
    assert {*found, next(stream).topic} == {"failing-2", "failing-3"}


class FailingOnce:
    """A registry whose ``delete`` fails once, as when ZooKeeper is away for a moment."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def delete(self, path: str) -> None:
        if not self.failures:
            self.failures += 1
            raise RegistryError("away")
        self._registry.delete(path)


class FlakyRegistry:
    """A registry below a chroot that can be away, and whose session can expire a second time.

    ``expires_again``: the next registration disappears at once, with the session in which it was made.
    """

    def __init__(self, registry: Registry, root: str = "") -> None:
        self._registry = registry
        self._root = root
        self.is_away = False
        self.expires_again = False
        self.expire: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._registry, name)
        return method if name == "close" else lambda path, *rest: method(self._root + path, *rest)

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        if self.is_away:
            raise RegistryError("away")
        return self._registry.children(self._root + path, watch)

    def create_ephemeral(self, path: str, data: bytes) -> bool:
        created = self._registry.create_ephemeral(self._root + path, data)
        if self.expires_again and "/ids/" in path:
            self.expires_again = False
            self._registry.delete(self._root + path)
            self.expire()
        return created

    def on_new_session(self, listener: Callable[[], None]) -> None:
        self.expire = listener


def test_a_consumer_recovers_without_another_change(broker: Broker, registry: Registry) -> None:
    fill(broker, "flaky", 1, 1)
    flaky = FlakyRegistry(broker.registry())
    given = {"group.id": "flaky", **SETTINGS, "rebalance.max.retries": "2"}
    with ConsumerConnector(given, registry=flaky) as consumer:
        (stream,) = consumer.create_message_streams({"flaky": 1})["flaky"]
        assert next(stream).offset == 0
        flaky.is_away = True
        registry.set("/consumers/flaky/ids/x", b"{}")
        with pytest.raises(ConsumerRebalanceFailedError, match="away"):
            next(stream)
        registry.delete("/consumers/flaky/ids/x")
        flaky.is_away = False
        until(lambda: consumer.owned == [("flaky", 0)])


@pytest.mark.parametrize("loss", ["expired twice", "deleted"])
def test_a_registration_that_is_lost_is_made_again(broker: Broker, registry: Registry, loss: str) -> None:
    topic = f"lost-{len(loss)}"
    fill(broker, topic, 1, 1)
    flaky = FlakyRegistry(broker.registry())
    with ConsumerConnector({"group.id": topic, **SETTINGS}, registry=flaky) as consumer:
        consumer.create_message_streams({topic: 1})
        path = f"/consumers/{topic}/ids/{consumer.consumer_id}"
        flaky.expires_again = loss == "expired twice"
        registry.delete(path)
        if flaky.expires_again:
            flaky.expire()
        until(lambda: not flaky.expires_again and registry.get(path) is not None)
        until(lambda: consumer.owned == [(topic, 0)])


def test_a_commit_after_the_end_of_the_session_raises_once(broker: Broker) -> None:
    fill(broker, "expired", 1, 4)
    flaky = FlakyRegistry(broker.registry())
    with ConsumerConnector({"group.id": "expired", **SETTINGS}, registry=flaky) as consumer:
        (stream,) = consumer.create_message_streams({"expired": 1})["expired"]
        take(stream, 1)
        consumer.commit_offsets()
        flaky.expire()
        until(lambda: consumer.owned == [("expired", 0)])
        consumer.commit_offsets()  # nothing was lost
        assert [each.offset for each in take(stream, 2)] == [1, 2]
        flaky.expire()
        with pytest.raises(OffsetsLostError, match="has given up expired-0 before a commit"):
            consumer.commit_offsets()
        until(lambda: consumer.owned == [("expired", 0)])
        assert [each.offset for each in take(stream, 2)] == [1, 2]
        consumer.commit_offsets()
        assert [each.offset for each in take(stream, 1)] == [3]


def test_a_consumer_may_start_before_the_first_broker(broker: Broker, registry: Registry) -> None:
    """Below an empty chroot; then the running broker's nodes appear there."""
    fill(broker, "early", 1, 1)
    with ConsumerConnector({"group.id": "early", **SETTINGS}, registry=FlakyRegistry(broker.registry(), "/e")) as own:
        (stream,) = own.create_message_streams({"early": 1})["early"]
        for path in ("/brokers/topics/early", *(f"/brokers/ids/{each}" for each in registry.children("/brokers/ids"))):
            registry.set(f"/e{path}", registry.get(path) or b"")
        assert next(stream).offset == 0


def test_nodes_that_could_not_be_deleted_are_deleted_later(broker: Broker, connect: Connect) -> None:
    fill(broker, "left-over", 2, 2)
    registry = FailingOnce(broker.registry())
    with ConsumerConnector({"group.id": "left-over", **SETTINGS}, registry=registry) as first:
        first.create_message_streams({"left-over": 1})
        second = connect("left-over")
        second.create_message_streams({"left-over": 1})
        until(lambda: len(first.owned) == len(second.owned) == 1)
        assert registry.failures == 1


def test_damaged_records_are_reported_and_not_skipped() -> None:
    def same(data: bytes) -> bytes:
        return data

    stream = KafkaStream(2, 100, (same, same), lambda: None)
    partition = OwnedPartition("damaged", 0, stream)
    partition.begin(0)
    damaged = bytearray(encode_batch([Record(None, b"1")], base_offset=1))
    damaged[-2] ^= 1
    good = [encode_batch([Record(None, b"%d" % offset)], base_offset=offset) for offset in (0, 2)]
    stream.put(partition, memoryview(good[0] + bytes(damaged) + good[1]), 3)
    assert next(stream).offset == 0
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=r"damaged-0: the batch at offset 1 has a wrong CRC"):
            next(stream)
        stream.fail(None)  # as after each change of the group that leaves the share as it is
    assert partition.consumed_offset == 1


def test_a_response_with_a_malformed_batch_reaches_the_reader(
    connect: Connect, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good records in front are returned, then the error; the fetcher goes on with other streams."""
    fill(broker, "malformed", 2, 4)
    take_records = fetching._BrokerFetcher._take

    def damaged(fetcher: Any, partition: OwnedPartition, data: PartitionData) -> bool:
        if data.records and partition.partition == 0:
            assert isinstance(data.records, memoryview | bytes)
            data.records = memoryview(bytes(data.records) + bytes(100))
        return take_records(fetcher, partition, data)

    monkeypatch.setattr(fetching._BrokerFetcher, "_take", damaged)
    streams = connect("malformed").create_message_streams({"malformed": 2})["malformed"]
    assert [each.offset for each in take(streams[0], 2)] == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="can't have a length of 0"):
            next(streams[0])
    fill(broker, "malformed", 2, 2, first=4)
    assert [each.offset for each in take(streams[1], 3)] == [0, 1, 2]


def test_wrong_uses_are_refused(broker: Broker, connect: Connect, registry: Registry) -> None:
    with pytest.raises(SettingsError, match=r"zookeeper\.connect is missing"):
        ConsumerConnector({"group.id": "g"})
    consumer = connect("twice")
    fill(broker, "twice", 1, 0)
    consumer.create_message_streams({"twice": 1})
    with pytest.raises(SubscriptionError, match="once for each connector"):
        consumer.create_message_streams({"twice": 1})
    registry.set("/consumers/odd/offsets/twice/0", b"x")
    with pytest.raises(ConsumerRebalanceFailedError, match="which is no offset"):
        connect("odd", rebalance_max_retries="1").create_message_streams({"twice": 1})
    assert registry.create_ephemeral("/consumers/same/ids/same_me", b"{}")
    same = connect("same", consumer_id="me", rebalance_max_retries="1", zookeeper_session_timeout_ms="10")
    with pytest.raises(RegistryError, match="belongs to another session"):
        same.create_message_streams({"twice": 1})


def test_a_leader_that_refuses_is_asked_after_pauses_and_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    given = {"group.id": "refusing", **SETTINGS, "refresh.leader.backoff.ms": "200"}
    with Broker(topics=["refusing"]) as own, own.faults.error("KAFKA_STORAGE_ERROR", api="Fetch") as rule:
        began_s = time.monotonic()
        with ConsumerConnector(given, registry=own.registry()) as consumer:
            consumer.create_message_streams({"refusing": 1})
            until(lambda: rule.fired >= 4)
    assert time.monotonic() - began_s > 0.55
    reports = [each.getMessage() for each in caplog.records if "KAFKA_STORAGE_ERROR" in each.getMessage()]
    assert len(reports) == 1
    assert "refusing-0" in reports[0]


@pytest.mark.parametrize("fault", ["drop", "error"])
def test_fetches_that_fail_are_repeated_at_the_leader(connect: Connect, fault: str) -> None:
    with Broker(topics=["again"]) as own:
        given = {"group.id": "again", **SETTINGS}
        with ConsumerConnector(given, registry=own.registry()) as consumer:
            (stream,) = consumer.create_message_streams({"again": 1})["again"]
            own.produce("again", b"before")
            assert next(stream).message == b"before"
            if fault == "drop":
                rule = own.faults.drop(api="Fetch", count=2)
            else:
                rule = own.faults.error("NOT_LEADER_OR_FOLLOWER", api="Fetch", count=2)
            until(lambda: rule.fired == 2)
            own.produce("again", b"after")
            found = next(stream)
            assert (found.offset, found.message) == (1, b"after")
