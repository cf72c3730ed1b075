"""Many members of one group, of three client libraries, all with the range assignor."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from harness.process import wait_for

SESSION_MS = 30_000
HEARTBEAT_MS = 500
JOIN_S = 60
CLOSE_S = 20
PYTHON_SETTINGS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": HEARTBEAT_MS,
}


class Crowd(Protocol):
    """Some members that poll until they are closed; ``received`` counts what they got."""

    received: Counter[bytes]

    def close(self) -> None: ...


def join_all(threads: Sequence[threading.Thread], timeout_s: float) -> None:
    """Waits until all of them have ended, together not longer than that."""
    wait_for(lambda: not any(thread.is_alive() for thread in threads), timeout_s)


class LibrdkafkaCrowd:
    """librdkafka: one thread polls them in turn."""

    def __init__(self, bootstrap: str, group: str, topic: str, count: int) -> None:
        self.received: Counter[bytes] = Counter()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "partition.assignment.strategy": "range",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "log_level": 0,
        }
        self._consumers = [Consumer(settings) for _ in range(count)]
        for consumer in self._consumers:
            consumer.subscribe([topic])
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.005):
            for consumer in self._consumers:
                while (message := consumer.poll(0)) is not None:
                    if message.error() is None:
                        self.received[message.value() or b""] += 1

    def close(self) -> None:
        """Close each member in its own thread; threads that are left after a time-out are not joined.

        Some calls never return: where a heartbeat tells of a rebalance just then, librdkafka 2.16 now and then waits
        for ever for the answer to its LeaveGroup (seen with Apache Kafka 2.7.2).
        """
        self._stop.set()
        self._thread.join(JOIN_S)
        closing = [threading.Thread(target=consumer.close, daemon=True) for consumer in self._consumers]
        for thread in closing:
            thread.start()
        join_all(closing, CLOSE_S)


class KafkaPythonCrowd:
    """kafka-python: a thread for each, since joining blocks."""

    def __init__(self, bootstrap: str, group: str, topic: str, count: int) -> None:
        self.received: Counter[bytes] = Counter()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(bootstrap, group, topic), daemon=True) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, bootstrap: str, group: str, topic: str) -> None:
        consumer = KafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, partition_assignment_strategy=[RangePartitionAssignor],
            **PYTHON_SETTINGS,
        )  # fmt: skip
        while not self._stop.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                with self._lock:
                    self.received.update(record.value for record in records)
        consumer.close(autocommit=False)

    def close(self) -> None:
        self._stop.set()
        join_all(self._threads, JOIN_S)


class AiokafkaCrowd:
    """aiokafka: all on one event loop, in a thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, count: int) -> None:
        self.received: Counter[bytes] = Counter()
        self._stopping = False
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run_all(bootstrap, group, topic, count)), daemon=True
        )
        self._thread.start()

    async def _run_all(self, bootstrap: str, group: str, topic: str, count: int) -> None:
        await asyncio.gather(*(self._run(bootstrap, group, topic) for _ in range(count)))

    async def _run(self, bootstrap: str, group: str, topic: str) -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, partition_assignment_strategy=[AiokafkaRange],
            **PYTHON_SETTINGS,
        )  # fmt: skip
        await consumer.start()
        while not self._stopping:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                self.received.update(record.value for record in records)
        await consumer.stop()

    def close(self) -> None:
        self._stopping = True
        self._thread.join(JOIN_S)


def crowds(bootstrap: str, group: str, topic: str, count: int) -> list[Crowd]:
    """``count`` members, a third of each library."""
    third = count // 3
    return [
        LibrdkafkaCrowd(bootstrap, group, topic, count - 2 * third),
        KafkaPythonCrowd(bootstrap, group, topic, third),
        AiokafkaCrowd(bootstrap, group, topic, third),
    ]


def total(members: list[Crowd]) -> Counter[bytes]:
    """The records of all members."""
    counted: Counter[bytes] = Counter()
    for crowd in members:
        counted += crowd.received
    return counted
