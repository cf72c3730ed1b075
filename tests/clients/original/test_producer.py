"""The original producer on a broker in this process, which it finds in the broker's own metadata tree."""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError
from kafkapy.clients.original.event_handler import FailedToSendError
from kafkapy.clients.original.keyed_messages import (
    KeyedMessage,
    default_partitioner,
    java_hash,
    string_encoder,
)
from kafkapy.clients.original.producer import (
    CallbackHandler,
    OriginalProducer,
    ProducerClosedError,
    ProducerParts,
    QueueFullError,
)
from kafkapy.clients.original.settings import OriginalProducerSettings, SettingsError
from kafkapy.clients.topics import grow_topic
from kafkapy.testing.broker import Broker

ACKS = {"request.required.acks": "-1", "retry.backoff.ms": "20"}
ASYNC = {**ACKS, "producer.type": "async"}


class Collecting:
    """An event handler that keeps the batches; ``gate`` lets it go on."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.is_closed = False

    def handle(self, messages: Sequence[KeyedMessage]) -> None:
        self.entered.set()
        assert self.gate.wait(10)
        self.batches.append([each.message for each in messages])

    def close(self) -> None:
        self.is_closed = True


def message(text: str) -> KeyedMessage:
    return KeyedMessage("any", text)


def test_messages_go_to_the_partition_that_the_partitioner_chooses(broker: Broker) -> None:
    broker.create_topic("keyed", 3)
    parts = ProducerParts(encoder=string_encoder, key_encoder=string_encoder, partitioner=lambda key, count: int(key))
    with OriginalProducer(ACKS, parts, registry=broker.registry()) as producer:
        producer.send(*(KeyedMessage("keyed", f"m{key}", key=str(key)) for key in (2, 0, 1)))
        producer.send(KeyedMessage("keyed", "by another key", key="x", partition_key="1"))
        producer.send(KeyedMessage("keyed", None, key="2"))
    assert [(each.partition, each.key, each.value) for each in broker.records("keyed")] == [
        (0, b"0", b"m0"),
        (1, b"1", b"m1"),
        (1, b"x", b"by another key"),
        (2, b"2", b"m2"),
        (2, b"2", None),
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_without_keys_messages_are_spread_over_all_partitions(broker: Broker, codec: str) -> None:
    topic = f"spread-{codec}"
    broker.create_topic(topic, 4)
    with OriginalProducer(
        {**ACKS, "compression.codec": codec}, registry=broker.registry(), rng=random.Random(1)
    ) as producer:
        producer.send(*(KeyedMessage(topic, b"%d" % number) for number in range(80)))
    found = broker.records(topic)
    assert sorted(int(each.value or b"") for each in found) == list(range(80))
    counts = [sum(each.partition == partition for each in found) for partition in range(4)]
    assert min(counts) > 8


def test_a_missing_topic_is_created_and_new_partitions_are_noticed(broker: Broker) -> None:
    with OriginalProducer(ACKS, registry=broker.registry()) as producer, ClusterClient(broker.bootstrap) as admin:
        producer.send(KeyedMessage("grows", b"first"))
        assert broker.topics()["grows"] == 1
        grow_topic(admin, "grows", 2)

        def reaches_the_new_partition() -> bool:
            producer.send(KeyedMessage("grows", b"more"))
            return bool(broker.records("grows", partition=1))

        until(reaches_the_new_partition)


def test_the_broker_list_serves_without_a_registry(broker: Broker) -> None:
    with OriginalProducer({**ACKS, "broker.list": broker.bootstrap}) as producer:
        producer.send(KeyedMessage("by-list", b"1", key=b"k"), KeyedMessage("by-list", b"2", key=b"k"))
    assert [each.value for each in broker.records("by-list")] == [b"1", b"2"]


@pytest.mark.parametrize("fault", ["NOT_LEADER_OR_FOLLOWER", "drop"])
def test_what_fails_is_sent_again(broker: Broker, fault: str) -> None:
    topic = f"again-{fault}"
    broker.create_topic(topic)
    with OriginalProducer(ACKS, registry=broker.registry()) as producer:
        if fault == "drop":
            broker.faults.drop(api="Produce", topic=topic, count=2)
        else:
            broker.faults.error(fault, api="Produce", topic=topic, count=2)
        producer.send(KeyedMessage(topic, b"1"), KeyedMessage(topic, b"2"))
    assert [each.value for each in broker.records(topic)] == [b"1", b"2"]


def test_what_can_not_be_sent_is_reported(broker: Broker) -> None:
    broker.create_topic("refused")
    broker.create_topic("served")
    messages = [KeyedMessage("refused", b"1"), KeyedMessage("served", b"2"), KeyedMessage("refused", b"3")]
    with OriginalProducer({**ACKS, "message.send.max.retries": "1"}, registry=broker.registry()) as producer:
        with (
            broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="refused") as rule,
            pytest.raises(FailedToSendError, match="2 messages were not sent") as raised,
        ):
            producer.send(*messages)
        assert rule.fired == 2
    assert list(raised.value.messages) == [messages[0], messages[2]]
    assert broker.records("refused") == []


def test_batches_end_with_their_number_or_their_time() -> None:
    handler = Collecting()
    handler.gate.set()
    given = {**ASYNC, "batch.size": "3", "queue.time": "50"}
    with OriginalProducer(given, ProducerParts(event_handler=handler)) as producer:
        producer.send(*map(message, "abcdefg"))
        until(lambda: sum(map(len, handler.batches)) == 7)
        assert handler.batches[:2] == [["a", "b", "c"], ["d", "e", "f"]]
        assert not handler.is_closed
    assert handler.is_closed


def test_a_full_queue_refuses_or_waits() -> None:
    handler = Collecting()
    given = {**ASYNC, "batch.size": "1", "queue.size": "2", "queue.enqueue.timeout.ms": "0"}
    producer = OriginalProducer(given, ProducerParts(event_handler=handler))
    producer.send(message("a"))
    assert handler.entered.wait(10)
    producer.send(message("b"), message("c"))
    with pytest.raises(QueueFullError, match=r"queue\.buffering\.max\.messages"):
        producer.send(message("d"))
    handler.gate.set()
    producer.close()
    assert handler.batches == [["a"], ["b"], ["c"]]
    with pytest.raises(ProducerClosedError):
        producer.send(message("e"))


def test_callbacks_see_and_change_messages() -> None:
    seen: list[str] = []

    class Hooks(CallbackHandler):
        def before_enqueue(self, message: KeyedMessage) -> KeyedMessage:
            return message._replace(message=message.message.upper())

        def after_enqueue(self, message: KeyedMessage, *, added: bool) -> None:
            seen.append(f"{message.message} {added}")

        def after_dequeuing(self, message: KeyedMessage | None) -> Sequence[KeyedMessage]:
            return () if message is None else (message, message._replace(message=message.message * 2))

        def before_sending(self, messages: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
            return [each for each in messages if each.message != "B"]

        def last_batch_before_close(self) -> Sequence[KeyedMessage]:
            return [message("last")]

    handler = Collecting()
    handler.gate.set()
    parts = ProducerParts(event_handler=handler, callback_handler=Hooks())
    with OriginalProducer({**ASYNC, "queue.time": "20"}, parts) as producer:
        producer.send(message("a"), message("b"))
    assert [text for batch in handler.batches for text in batch] == ["A", "AA", "BB", "last"]
    assert seen == ["A True", "B True"]


def test_an_asynchronous_producer_drops_what_can_not_be_sent_and_goes_on(broker: Broker) -> None:
    broker.create_topic("drops")
    with OriginalProducer(
        {**ASYNC, "queue.time": "10", "message.send.max.retries": "0"}, registry=broker.registry()
    ) as producer:
        rule = broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic="drops", count=1)
        producer.send(KeyedMessage("drops", b"dropped"))
        until(lambda: rule.fired == 1)
        producer.send(KeyedMessage("drops", b"sent"))
    assert [each.value for each in broker.records("drops")] == [b"sent"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_of_a_callback_ends_the_producer() -> None:
    class Failing(CallbackHandler):
        def before_sending(self, messages: Sequence[KeyedMessage]) -> Sequence[KeyedMessage]:
            raise RuntimeError("a bug")

    handler = Collecting()
    producer = OriginalProducer(
        {**ASYNC, "queue.time": "0"}, ProducerParts(event_handler=handler, callback_handler=Failing())
    )

    def is_closed() -> bool:
        with suppress(QueueFullError):
            producer.send(message("a"))
        return False

    with pytest.raises(ProducerClosedError) as raised:
        until(is_closed)
    assert isinstance(raised.value.__cause__, RuntimeError)
    with pytest.raises(ProducerClosedError):
        producer.close()
    producer.close()


def test_an_asynchronous_producer_leaves_out_what_can_not_be_encoded_or_placed(broker: Broker) -> None:
    broker.create_topic("left-out", 2)
    parts = ProducerParts(encoder=string_encoder, key_encoder=string_encoder, partitioner=lambda key, count: int(key))
    with OriginalProducer({**ASYNC, "queue.time": "10"}, parts, registry=broker.registry()) as producer:
        keys = ("1", "7", "no number", "0")
        producer.send(*(KeyedMessage("left-out", f"key {key}", key=key) for key in keys))
        producer.send(KeyedMessage("left-out", b"no text", key="0"), KeyedMessage("left-out", "\ud800", key="0"))
        producer.send(KeyedMessage("left-out", "last", key="0"))
    assert [each.value for each in broker.records("left-out")] == [b"key 0", b"last", b"key 1"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_batch_that_is_too_large_is_divided(broker: Broker, kind: str) -> None:
    topic = f"divided-{kind}"
    broker.create_topic(topic, configs={"max.message.bytes": "1000"})
    values = [b"%03d" % number + bytes(200) for number in range(40)]
    values[17] = bytes(2000)
    given = {**ASYNC, "producer.type": kind, "message.send.max.retries": "0"}
    with OriginalProducer(given, registry=broker.registry()) as producer:
        messages = [KeyedMessage(topic, value, key=b"k") for value in values]
        if kind == "async":
            producer.send(*messages)
        else:
            with pytest.raises(FailedToSendError, match="MESSAGE_TOO_LARGE") as raised:
                producer.send(*messages)
            assert list(raised.value.messages) == [messages[17]]
    assert [each.value for each in broker.records(topic)] == values[:17] + values[18:]


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("not within 10 s")


def test_hashes_are_those_of_java() -> None:
    """From the documentation of ``String.hashCode`` and ``Arrays.hashCode``, computed by hand."""
    assert java_hash("") == 0
    assert java_hash("ab") == 31 * 97 + 98
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash(b"") == 1
    assert java_hash(b"\x01\xff") == 31 * (31 + 1) - 1
    assert default_partitioner("polygenelubricants", 7) == 0
    with pytest.raises(ClientError, match="pass a partitioner"):
        default_partitioner(7.5, 3)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"queue.time": "1", "queue.buffering.max.ms": "1"}, "are the same setting"),
        ({"zk.connect": "a:1", "broker.list": "b:2"}, "give one of them"),
        ({"producer.type": "both"}, "one of sync, async"),
        ({"batch.size": "0"}, r"batch\.num\.messages='0'"),
    ],
)
def test_bad_settings_of_producers_are_named(given: dict[str, str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        OriginalProducerSettings.from_properties(given)


def test_bad_messages_are_refused(broker: Broker) -> None:
    broker.create_topic("bad")
    refusing = ProducerParts(partitioner=lambda key, count: count)
    with OriginalProducer(ACKS, refusing, registry=broker.registry()) as own:
        with pytest.raises(ClientError, match="it must be from 0 to 0"):
            own.send(KeyedMessage("bad", b"1", key=b"k"))
        with pytest.raises(ClientError, match="pass an encoder"):
            own.send(KeyedMessage("bad", "text"))
