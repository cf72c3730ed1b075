"""The original producer: it finds brokers in a real ZooKeeper, and the Java consumers of its time read its messages."""

import random
import uuid
from collections.abc import Callable

import pytest

from compat_tests.brokers.topics import create_topic
from compat_tests.original_clients.conftest import BrokerOnZooKeeper
from compat_tests.original_clients.originals import OriginalClasses, OriginalConsumers, Received
from harness.process import wait_for
from kafkapy.clients.original.keyed_messages import KeyedMessage, default_partitioner, string_encoder
from kafkapy.clients.original.producer import OriginalProducer, ProducerParts

pytestmark = [pytest.mark.java, pytest.mark.together]

RECORDS = 300


@pytest.mark.parametrize("version", ["0.8.2.2", pytest.param("0.9.0.1", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_java_consumers_read_what_the_producer_sends(
    on_zookeeper: BrokerOnZooKeeper, originals: Callable[[str], OriginalConsumers], version: str, kind: str
) -> None:
    topic = f"sent-{uuid.uuid4().hex[:8]}"
    create_topic(on_zookeeper.bootstrap, topic, partitions=5)
    given = {"zk.connect": on_zookeeper.zookeeper_connect, "producer.type": kind, "request.required.acks": "-1"}
    more = {"queue.time": "50", "batch.size": "40", "compression.codec": "gzip"}
    with OriginalProducer({**given, **more}, ProducerParts(encoder=string_encoder, key_encoder=string_encoder)) as own:
        for first in range(0, RECORDS, 10):
            own.send(*(KeyedMessage(topic, str(number), key=f"key {number}") for number in range(first, first + 10)))
    settings = {
        "zookeeper.connect": on_zookeeper.zookeeper_connect,
        "group.id": topic,
        "auto.offset.reset": "smallest",
    }
    member = originals(version).join(settings, topic=topic)
    received: list[Received] = []

    def is_read() -> bool:
        received.extend(member.poll())
        return len(received) >= RECORDS

    assert wait_for(is_read, 30, 0.05)
    member.leave()
    assert sorted(int(value) for *_, value in received) == list(range(RECORDS))
    for partition in range(5):
        values = [int(value) for _, place, _, value in received if place == partition]
        assert values == sorted(values)
        assert {default_partitioner(f"key {value}", 5) for value in values} == {partition}


def test_the_default_partitioner_chooses_as_the_originals(assignor: OriginalClasses) -> None:
    rng = random.Random(82)
    alphabet = "abcXYZ019 -_äßЖ漢😀"
    keys = ["", "polygenelubricants", *("".join(rng.choices(alphabet, k=rng.randint(1, 20))) for _ in range(500))]
    for count in (1, 2, 7, 100):
        expected = assignor.partitions(keys, count)
        assert [(default_partitioner(key, count), default_partitioner(key.encode(), count)) for key in keys] == expected
