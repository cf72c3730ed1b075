"""Brokers and the ZooKeeper are killed, stopped and paused in turn while an idempotent producer writes.

In the end every broker agrees on the cluster, and each acknowledged record is there once.
"""

import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaException, Producer

from harness.cluster import SESSION_MS, Cluster, eventually
from harness.process import ChildProcess
from harness.real_kafka import ZooKeeper

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(900)]

SECONDS = int(os.environ.get("KAFKAPY_CLUSTER_SECONDS", "120"))
SEED = int(os.environ.get("KAFKAPY_CLUSTER_SEED", "1"))
LONGEST_S = SESSION_MS / 1000 * 2


class Load:
    """A producer in a thread of its own, and what was acknowledged."""

    def __init__(self, cluster: Cluster) -> None:
        self.acknowledged: dict[str, set[bytes]] = defaultdict(set)
        self.failed: list[str] = []
        self.partitions: dict[str, int] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": ",".join(broker.bootstrap for broker in cluster.brokers.values()),
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
            }
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        yield
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self.failed == []

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            for topic, partitions in list(self.partitions.items()):
                number += 1
                self._producer.produce(
                    topic, b"%d" % number, partition=number % partitions, on_delivery=self._delivered
                )
            self._producer.poll(0.02)

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[message.topic()].add(message.value())  # type: ignore[attr-defined]


class Ends:
    """The faults of the cluster; each method leaves all of it running again."""

    def __init__(self, zookeeper: ZooKeeper, cluster: Cluster, chance: random.Random) -> None:
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._chance = chance

    def one(self) -> None:
        some: list[Callable[[], None]] = [
            self.kill, self.kill_two, self.stop, self.pause, self.kill_zookeeper, self.pause_zookeeper, self.kill_both
        ]  # fmt: skip
        self._chance.choice(some)()

    def kill(self) -> None:
        broker = self._broker()
        broker.kill()
        self._wait()
        broker.start()

    def kill_two(self) -> None:
        pair = self._chance.sample(list(self._cluster.brokers.values()), 2)
        for broker in pair:
            broker.kill()
        self._wait()
        for broker in pair:
            broker.start(wait=False)
        for broker in pair:
            broker.wait_ready()

    def stop(self) -> None:
        broker = self._broker()
        assert broker.stop() == 0
        self._wait()
        broker.start()

    def pause(self) -> None:
        self._pause(self._broker())

    def kill_zookeeper(self) -> None:
        self._zookeeper.kill()
        self._wait()
        self._zookeeper.start()

    def pause_zookeeper(self) -> None:
        self._pause(self._zookeeper)

    def kill_both(self) -> None:
        broker = self._broker()
        self._zookeeper.kill()
        broker.kill()
        self._wait()
        self._zookeeper.start()
        broker.start()

    def _pause(self, process: ChildProcess) -> None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        self._wait()
        os.kill(process.pid, signal.SIGCONT)

    def _broker(self) -> ChildProcess:
        return self._chance.choice(list(self._cluster.brokers.values()))

    def _wait(self) -> None:
        time.sleep(self._chance.random() * LONGEST_S)


def _create(cluster: Cluster, topic: str, partitions: int) -> None:
    """The controller may have changed just now, and then it is another broker's to create the topic."""

    def exists() -> bool:
        try:
            cluster.create(cluster.controller(1), topic, partitions)
        except (KafkaException, KeyError):  # no controller, not any more, or the topic exists by now
            return len(cluster.led(1, topic)) == partitions
        return True

    eventually(exists, 60)


def _is_whole(cluster: Cluster, topics: dict[str, int]) -> bool:
    return cluster.agrees(cluster.brokers) and all(
        len(cluster.led(broker, topic)) == partitions
        for broker in cluster.brokers
        for topic, partitions in topics.items()
    )


def test_acknowledged_records_are_there_once() -> None:
    chance = random.Random(SEED)
    print(f"KAFKAPY_CLUSTER_SEED={SEED}")
    with ZooKeeper() as zookeeper, Cluster(zookeeper) as cluster:
        load, ends = Load(cluster), Ends(zookeeper, cluster, chance)
        deadline = time.monotonic() + SECONDS
        with load.running():
            while time.monotonic() < deadline:
                topic, partitions = f"t{len(load.partitions)}", chance.randint(1, 6)
                _create(cluster, topic, partitions)
                load.partitions[topic] = partitions
                ends.one()
                eventually(lambda: _is_whole(cluster, load.partitions), 60)
        for topic, partitions in load.partitions.items():
            expected = sorted(load.acknowledged[topic])
            assert cluster.consume(1, topic, range(partitions), len(expected)) == expected
        for broker in cluster.brokers.values():
            log = broker.log_path.read_text()
            assert "Traceback" not in log
            assert " ERROR " not in log
