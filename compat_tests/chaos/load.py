"""An idempotent producer that keeps sending while its broker is killed, and the checks of the log afterwards."""

import threading
import time
from collections import defaultdict
from contextlib import suppress
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

PARTITIONS = 4
PAUSE_EVERY = 200
DEADLINE_S = 60


class Load:
    """Sends numbered records round the partitions until `finish`; keeps what the broker has acknowledged."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        pause_every: int = PAUSE_EVERY,
        queue: int = 10_000,
        timeout_s: int = DEADLINE_S,
        keys: int = 0,
    ) -> None:
        """`keys` is the number of keys, used in turn; with 0 records have no keys."""
        self.bootstrap = bootstrap
        self.topic = topic
        self.acknowledged: dict[int, dict[bytes, int]] = defaultdict(dict)
        self.failures: list[str] = []
        self.count = 0
        self._keys = keys
        self._pause_every = pause_every
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
                "queue.buffering.max.messages": queue,
                "message.timeout.ms": timeout_s * 1000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 20,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(str(error))

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset is not None
        self.acknowledged[partition][value] = offset

    def _send(self) -> None:
        while not self._stop.is_set() and not self.failures:
            try:
                value = b"%08d" % self.count + b"x" * (10 if self.count % 3 else 1000)
                self._producer.produce(
                    self.topic,
                    value,
                    key=self._key(self.count),
                    partition=self.count % PARTITIONS,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            except KafkaException as error:
                self.failures.append(str(error))
                return
            self.count += 1
            if self.count % self._pause_every == 0:
                self._producer.poll(0.004)

    def _key(self, number: int) -> bytes | None:
        return b"%d" % (number % self._keys) if self._keys else None

    @property
    def acknowledged_count(self) -> int:
        """Records that the broker has confirmed."""
        return sum(map(len, self.acknowledged.values()))

    def wait_for_more(self, count: int) -> None:
        """Return when `count` more records are acknowledged."""
        wanted = self.acknowledged_count + count
        deadline = time.monotonic() + DEADLINE_S
        while self.acknowledged_count < wanted:
            assert not self.failures, self.failures[:3]
            assert time.monotonic() < deadline, f"{wanted - self.acknowledged_count} of {count} records are missing"
            time.sleep(0.005)

    def finish(self) -> None:
        """Send no more; all sent records must be acknowledged."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0
        assert not self.failures, (len(self.failures), self.failures[:3])

    def check_suffix(self) -> None:
        """As `check`, for a topic whose oldest records are deleted: the log has the last of the sent records."""
        assert self.acknowledged_count == self.count
        for partition, records in read_all(self.bootstrap, self.topic).items():
            sent = sorted((offset, value) for value, offset in self.acknowledged[partition].items())
            assert records, partition
            assert records == sent[len(sent) - len(records) :], partition
            assert len(records) < len(sent), f"nothing of partition {partition} was deleted"

    def check_newest(self) -> None:
        """As `check`, for a compacted topic: the log has the newest record of each key, and not all others."""
        assert self.acknowledged_count == self.count
        for partition, records in read_all(self.bootstrap, self.topic).items():
            sent = self.acknowledged[partition]
            offsets = [offset for offset, _ in records]
            assert offsets == sorted(set(offsets)), partition
            assert all(sent[value] == offset for offset, value in records), partition
            newest = {self._key(int(value[:8])): (offset, value) for value, offset in sorted(sent.items())}
            assert set(newest.values()) <= set(records), partition
            assert len(records) < len(sent), f"nothing of partition {partition} was compacted"

    def check(self) -> None:
        """Each record is in the log once, at the offset that was acknowledged, in the order of sending."""
        assert self.acknowledged_count == self.count
        for partition, records in read_all(self.bootstrap, self.topic).items():
            assert [offset for offset, _ in records] == list(range(len(records))), partition
            values = [value for _, value in records]
            assert values == sorted(set(values)), partition
            assert {value: offset for offset, value in records} == self.acknowledged[partition], partition


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """Every (offset, value), by partition."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "chaos", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(10)
            assert message is not None, "the broker says nothing for 10 s"
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(partition)
                continue
            assert offset is not None
            assert value is not None
            found[partition].append((offset, value))
    finally:
        consumer.close()
    return found


class Commits:
    """A group that commits one offset after the other; each that was acknowledged must be there later."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "commits",
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def commit(self) -> None:
        """Commit the next offset; done when it is acknowledged."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with suppress(KafkaException):  # the coordinator is starting
                self._consumer.commit(offsets=[TopicPartition(self._topic, 0, self.count + 1)], asynchronous=False)
                self.count += 1
                return
        raise AssertionError(f"commit {self.count + 1} is never acknowledged")

    def check(self) -> None:
        """The last commit is what the group has."""
        (found,) = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=DEADLINE_S)
        assert found.error is None
        assert max(found.offset, 0) == self.count, (found.offset, self.count)
