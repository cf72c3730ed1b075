"""Groups with members of both protocols, and groups that were converted, are loaded from the log of the other broker.

The records of ``__consumer_offsets`` are copied between kafkapy and Apache Kafka 4.4.0, and the copy is loaded.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from harness.cases.consumer_group_cases import AT_ONCE, A, coordinated_topics
from harness.cases.group_cases import comparable, make_topics
from harness.cases.migration_cases import HEARTBEAT, SYNC, talking, without_config_operations
from harness.kafkapy_process import KafkapyProcess
from harness.process import ChildProcess
from harness.real_kafka import RealKafka
from harness.wire import Wire

CONFIG: Final = {**AT_ONCE, "offsets.topic.num.partitions": "1"}
OFFSETS: Final = "__consumer_offsets"
ADMIN: Final = "__admin_client"
"""The client id whose records Apache Kafka takes for its own topics."""
TIMEOUT_S: Final = 30
REBALANCE_IN_PROGRESS: Final = 27
MIXED, STATIC, DOWNGRADED = "mixed", "static", "downgraded"


def kafkapy() -> ChildProcess:
    return KafkapyProcess(config=CONFIG)


def kafka() -> ChildProcess:
    return RealKafka("4.4.0", config=CONFIG)


def make_groups(bootstrap: str) -> str:
    """A mixed group, one with a static member of each protocol, and one that is a classic group again.

    Returns the id of the classic member of the first one.
    """
    with talking(bootstrap, MIXED) as talk:
        one = talk.classic()
        talk.commit(one, 1)
        talk.first_beat(A, "t")
        talk.again(one, owned={"t": [0, 1]})
    with talking(bootstrap, STATIC) as talk:
        talk.first_beat(A, "t", instance_id="i")
        talk.enter("u", group_instance_id="j")
    with talking(bootstrap, DOWNGRADED) as talk:
        two = talk.classic()
        talk.first_beat(A, "t")
        talk.beat(A, -1)
        joined = talk.again(two)
        talk.sync(SYNC, joined.generation_id, two, parts={two: b"\0\0\0\0\0\0\xff\xff\xff\xff"})
    return one


def described(bootstrap: str) -> dict[str, Any]:
    """The groups as both describing requests and OffsetFetch show them."""
    found = {}
    for name in (MIXED, STATIC, DOWNGRADED):
        with talking(bootstrap, name) as talk:
            talk.overview()
            talk.fetch(None, -1)
            found[name] = comparable(without_config_operations(talk.transcript))
    return found


def records(bootstrap: str) -> list[tuple[bytes, bytes | None]]:
    """The keys and values of the topic of offsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "x", "enable.partition.eof": True})
    consumer.assign([TopicPartition(OFFSETS, 0, 0)])
    found: list[tuple[bytes, bytes | None]] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        key = message.key()
        assert isinstance(key, bytes)
        value = message.value()
        found.append((key, None if value is None else bytes(value)))


def copy(source: str, target: str) -> None:
    """Append the records of one broker to the topic of the other, with the ids that the topics have there."""
    names = {topic_id: name for name, topic_id in topic_ids(source).items()}
    there = topic_ids(target)
    # not idempotent: Apache Kafka takes a commit with a producer's id for one in a transaction
    producer = Producer({"bootstrap.servers": target, "client.id": ADMIN, "acks": "all", "max.in.flight": 1})
    for key, value in records(source):
        copied = value
        for topic_id, name in names.items():
            copied = copied and copied.replace(topic_id.bytes, there[name].bytes)
        producer.produce(OFFSETS, copied, key, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def topic_ids(bootstrap: str) -> Mapping[str, UUID]:
    with Wire(bootstrap) as wire:
        return coordinated_topics(wire, MIXED)


@pytest.mark.parametrize("makes_source", [kafka, kafkapy], ids=["from-kafka", "from-kafkapy"])
def test_groups_are_loaded_as_they_were(makes_source: Any) -> None:
    makes_target = kafkapy if makes_source is kafka else kafka
    with ExitStack() as stack:
        source, target = (stack.enter_context(each()) for each in (makes_source, makes_target))
        for broker in (source, target):
            with Wire(broker.bootstrap) as wire:
                make_topics(wire)
        classic = make_groups(source.bootstrap)
        before = described(source.bootstrap)
        copy(source.bootstrap, target.bootstrap)
        target.stop()
        target.start()
        after = described(target.bootstrap)
        for name, transcript in before.items():
            assert after[name] == transcript
        with talking(target.bootstrap, MIXED) as talk:
            assert talk.heartbeat(HEARTBEAT, 1, classic).error_code == REBALANCE_IN_PROGRESS
            assert talk.beat(A, 2, owned={}).error_code == 0
