"""Consumers that commit as fast as they can while the broker is killed."""

import threading
import time
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

DEADLINE_S = 60.0


class Commits:
    """One group's commits to one partition: ascending offsets, each waited for."""

    def __init__(self, bootstrap: str, group: str, topic: str, partition: int) -> None:
        self.sent = self.acknowledged = -1
        self.count = 0
        self.group, self.topic, self.partition = group, topic, partition
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(DEADLINE_S)
        self._consumer.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.sent += 1
            try:
                self._consumer.commit(
                    offsets=[TopicPartition(self.topic, self.partition, self.sent)], asynchronous=False
                )
            except KafkaException:
                continue  # its outcome is not known; the next one is sent
            self.acknowledged = self.sent
            self.count += 1

    def wait_for_more(self, count: int) -> None:
        """Return when ``count`` more commits are acknowledged."""
        wanted = self.count + count
        deadline = time.monotonic() + DEADLINE_S
        while self.count < wanted:
            assert time.monotonic() < deadline, f"{wanted - self.count} of {count} commits are missing"
            time.sleep(0.005)
