"""Records the conversations of real clients with Apache Kafka 2.7.2.

python -m compat_tests.differential.recordings.record [client…]
"""

import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from compat_tests.clients.agents import Agents
from compat_tests.clients.client import Client, KafkaCodeError, ProduceOptions, Sent, Transaction, wait_until
from compat_tests.clients.conftest import new_client
from compat_tests.differential.brokers import warm_up
from compat_tests.differential.recordings.proxy import Proxy
from compat_tests.differential.recordings.recording import path_of
from harness.process import HOST, free_port
from harness.real_kafka import RealKafka

VERSION = "2.7.2"
RECORDED = (
    "kafka-python", "confluent-kafka", "aiokafka", "franz-go", "sarama", "kafkajs", "java-2.7.2", "java-4.4.0",
)  # fmt: skip
START_MS = 1_700_000_000_000


def _sent(count: int, first: int = 0) -> list[Sent]:
    return [Sent(b"value %d" % at, b"key %d" % (at % 3), timestamp=START_MS + at) for at in range(first, first + count)]


def produce_and_consume(client: Client, topic: str) -> None:
    """Several codecs, with and without sequence numbers, from the start, from a time, from the end."""
    for codec in ("none", "gzip", "lz4"):
        with suppress(pytest.skip.Exception):  # not every library has every codec
            client.produce(topic, _sent(3), ProduceOptions(codec))
    client.produce(topic, _sent(3, 10), ProduceOptions(idempotent=True))
    client.produce(topic, _sent(1, 20), ProduceOptions(acks=1))
    _, end = client.watermarks(topic)
    client.consume(topic, end)
    client.consume(topic, 3, offset=5)
    client.offset_for_time(topic, START_MS + 2)


def consume_in_a_group(client: Client, topic: str) -> None:
    """Two members, one after the other; offsets; the group looked at."""
    group = f"{topic}-group"
    _, end = client.watermarks(topic)
    first = client.join(group, topic)
    wait_until(lambda: len(first.received) >= end, "the records")
    first.commit()
    second = client.join(group, topic)
    wait_until(lambda: {0, 1} == first.assignment | second.assignment and len(second.assignment) == 1, "one each")
    client.describe_group(group)
    client.groups()
    second.close()
    first.close()
    client.committed(group, topic)
    client.commit(group, topic, {0: 2})
    client.committed(group, topic)


def transact(client: Client, topic: str) -> None:
    """Committed, aborted, with offsets, and read back."""
    group = f"{topic}-offsets"
    history = [Transaction((b"a", b"b"), group=group, offset=3), Transaction((b"c",), commit=False)]
    _, start = client.watermarks(topic)
    client.transact(topic, f"{topic}-writer", [*history, Transaction((b"d",))])
    client.consume(topic, start + 3, committed=True)
    client.committed(group, topic)


def administer(client: Client, topic: str) -> None:
    """Partitions, configurations, records deleted, a refusal, the topic's end."""
    client.add_partitions(topic, 3)
    client.configs(topic)
    client.set_config(topic, "max.message.bytes", "2000000")
    client.delete_records(topic, 4)
    with suppress(KafkaCodeError):
        client.create_topic(topic)
    client.delete_topic(topic)


PARTS: tuple[Callable[[Client, str], None], ...] = (produce_and_consume, consume_in_a_group, transact, administer)


def scenario(client: Client, topic: str) -> None:
    """All parts; those that a library does not support are left out."""
    client.create_topic(topic, 2, {"retention.ms": "-1"})
    wait_until(lambda: topic in client.topics(), f"topic {topic}")
    for part in PARTS:
        try:
            part(client, topic)
        except pytest.skip.Exception as missing:
            print(f"{topic}: {part.__name__}: {missing}")


def listeners(kafka_port: int, proxy_port: int, inner_port: int) -> dict[str, str]:
    """Clients are sent to the proxy, the broker itself is not."""
    return {
        "listeners": f"PLAINTEXT://{HOST}:{kafka_port},INNER://{HOST}:{inner_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{proxy_port},INNER://{HOST}:{inner_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
    }


def main() -> None:
    wanted = sys.argv[1:] or RECORDED
    proxy_port = free_port()
    kafka = RealKafka(VERSION)
    kafka.overrides |= listeners(kafka.port, proxy_port, free_port())
    agents = Agents()
    with kafka, Proxy(kafka.port, proxy_port) as proxy:
        warm_up(f"{HOST}:{proxy_port}")
        for name in wanted:
            proxy.restart()
            bootstrap = f"{HOST}:{proxy_port}"
            scenario(new_client(name, bootstrap, agents), f"recorded-{name}")
            proxy.recording.write(path_of(name))
            print(f"{name}: {len(proxy.recording.frames)} frames, {path_of(name).stat().st_size} bytes", flush=True)
        agents.close()


if __name__ == "__main__":
    main()
