"""Consumers with a rack read from the replica in it (KIP-392): librdkafka, kafka-python and Kafka's own consumer."""

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as KafkaPythonPartition

from compat_tests.cluster.both import APACHE, KAFKAPY, cluster_of
from harness.cluster import WAIT_S, Cluster, eventually, read_values
from harness.java_tools import JavaTools
from harness.real_kafka import ZooKeeper
from harness.wire import Wire
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOOLS = JavaTools("2.7.2")
TOPIC = "near"
RECORD_SIZE, RECORDS = 10_000, 1_000
SIZE = RECORD_SIZE * RECORDS
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
RACKS = ("a", "b", "c")


@pytest.fixture(scope="module", params=[KAFKAPY, pytest.param(APACHE, marks=[pytest.mark.together, pytest.mark.long])])
def cluster(request: pytest.FixtureRequest, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with cluster_of(request.param, zookeeper, SELECTOR, racks=RACKS) as started:
        where = ("--zookeeper", started.zookeeper_connect, "--topic", TOPIC)
        TOOLS.run("TopicCommand", "--create", *where, "--replica-assignment", "1:2:3")
        eventually(lambda: all(started.led(number, TOPIC) == {0: 1} for number in started.brokers))
        started.produce(1, TOPIC, [b"v" * RECORD_SIZE] * RECORDS, [0])
        time.sleep(2)  # real time: the followers' next fetches bring them the high watermark
        yield started


def librdkafka(cluster: Cluster, rack: str) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.brokers[1].bootstrap, "group.id": "none", "client.rack": rack,
            "auto.offset.reset": "earliest", "fetch.message.max.bytes": 200_000, "queued.max.messages.kbytes": 1000,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = read_values(consumer, RECORDS)
    consumer.close()
    return sum(map(len, found))


def kafka_python(cluster: Cluster, rack: str) -> int:
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.brokers[1].bootstrap, client_rack=rack, consumer_timeout_ms=int(WAIT_S * 1000),
        max_partition_fetch_bytes=200_000,
    )  # fmt: skip
    consumer.assign([KafkaPythonPartition(TOPIC, 0)])
    consumer.seek_to_beginning()
    size = sum(len(record.value) for record in islice(consumer, RECORDS))
    consumer.close()
    return size


def console_consumer(cluster: Cluster, rack: str) -> int:
    output = TOOLS.run(
        "ConsoleConsumer", "--bootstrap-server", cluster.brokers[1].bootstrap, "--topic", TOPIC, "--from-beginning",
        "--max-messages", str(RECORDS), "--consumer-property", f"client.rack={rack}",
        "--consumer-property", "max.partition.fetch.bytes=200000",
    )  # fmt: skip
    return sum(len(line) for line in output.splitlines() if line.startswith("v"))


def _written(cluster: Cluster) -> list[int]:
    """Bytes that each broker's process has written to sockets and files.

    Linux counts sendfile() and write() there, but not send(), with which kafkapy sends short slices and all else.
    """
    counts = []
    for broker in cluster.brokers.values():
        lines = Path(f"/proc/{broker.pid}/io").read_text().splitlines()
        counts.append(next(int(line.split()[1]) for line in lines if line.startswith("wchar:")))
    return counts


@pytest.mark.parametrize("read", [librdkafka, kafka_python, console_consumer])
@pytest.mark.parametrize(("rack", "source"), [("a", 1), ("b", 2), ("c", 3), ("elsewhere", 1)])
def test_records_come_from_the_rack(
    cluster: Cluster, read: Callable[[Cluster, str], int], rack: str, source: int
) -> None:
    before = _written(cluster)
    assert read(cluster, rack) == SIZE
    sent = [after - each for after, each in zip(_written(cluster), before, strict=True)]
    print(f"{rack}: the brokers sent {sent}")
    assert [size > SIZE / 2 for size in sent] == [number == source for number in (1, 2, 3)]


def _fetch(cluster: Cluster, broker_id: int, offset: int, version: int = 11, **fields: Any) -> tuple[int, int, bool]:
    """Error code, preferred read replica and whether there are records."""
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=100_000, current_leader_epoch=-1)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[FetchTopic(TOPIC, partitions=[partition])], **fields
    )
    with Wire(cluster.brokers[broker_id].bootstrap) as wire:
        (found,) = wire.ask(request, version).responses[0].partitions
    return found.error_code, found.preferred_read_replica, bool(found.records)


def test_what_leader_and_followers_answer(cluster: Cluster) -> None:
    """Broker 1 leads, 2 and 3 follow."""
    out_of_range, not_leader = (1, -1, False), (6, -1, False)
    answers = [
        (_fetch(cluster, 1, 0, rack_id="a"), (0, -1, True)),
        (_fetch(cluster, 1, 0, rack_id="b"), (0, 2, False)),
        (_fetch(cluster, 1, RECORDS, rack_id="b"), (0, 2, False)),
        (_fetch(cluster, 1, 0, 12, rack_id="c"), (0, 3, False)),
        (_fetch(cluster, 1, 0, rack_id="d"), (0, -1, True)),
        (_fetch(cluster, 1, 0, rack_id=""), (0, -1, True)),
        (_fetch(cluster, 1, 0, 10), (0, -1, True)),
        (_fetch(cluster, 1, RECORDS + 1, rack_id="b"), out_of_range),
        (_fetch(cluster, 1, 0, replica_id=2, rack_id="b"), (0, -1, True)),
        (_fetch(cluster, 2, 0, rack_id="b"), (0, -1, True)),
        (_fetch(cluster, 2, 0, rack_id="c"), (0, -1, True)),
        (_fetch(cluster, 2, 0), (0, -1, True)),
        (_fetch(cluster, 2, RECORDS), (0, -1, False)),
        (_fetch(cluster, 2, RECORDS + 1), out_of_range),
        (_fetch(cluster, 2, -1), out_of_range),
        (_fetch(cluster, 2, 0, 10), not_leader),
        (_fetch(cluster, 2, 0, replica_id=3), not_leader),
        (_fetch(cluster, 2, 0, replica_id=-2), (0, -1, True)),
    ]
    assert [found for found, _ in answers] == [expected for _, expected in answers]
