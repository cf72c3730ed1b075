"""Offsets and sizes on both sides of the mirror while it and the query run."""

import threading
import time
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from spark_examples.mirror_then_analyse import mirror

EVERY_S = 0.25


class Sample(NamedTuple):
    """The sums over the partitions at a moment; offsets that nobody has committed are 0."""

    seconds: float
    source_end: int
    target_end: int
    target_bytes: int
    mirrored: int
    """Where the mirror is, as an offset of the source."""
    source_read: int
    target_read: int
    """Where the query of each side is."""


class _Broker:
    """A connection to one of the sides."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._consumer: Any = KafkaConsumer(bootstrap_servers=bootstrap, allow_auto_create_topics=False)
        self._admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)

    def end(self) -> int:
        indexes = self._consumer.partitions_for_topic(self._topic) or ()
        return sum(self._consumer.end_offsets([TopicPartition(self._topic, index) for index in indexes]).values())

    def committed(self, group: str) -> int:
        offsets = self._admin.list_group_offsets(group)[group]
        return sum(held.offset for place, held in offsets.items() if place.topic == self._topic)

    def size(self) -> int:
        """The bytes of the log, of one replica."""
        sizes: dict[int, int] = {}
        for broker in self._admin.describe_log_dirs([self._topic]):
            own = [
                topic for log_dir in broker["log_dirs"] for topic in log_dir["topics"] if topic["name"] == self._topic
            ]
            for partition in (each for topic in own for each in topic["partitions"]):
                sizes[partition["partition_index"]] = partition["partition_size"]
        return sum(sizes.values())

    def close(self) -> None:
        self._consumer.close()
        self._admin.close()


class Watcher:
    """Takes samples in a thread of its own, from the start of its context to the end."""

    def __init__(self, source: str, target: str, topic: str, group: str) -> None:
        self.samples: list[Sample] = []
        self.steps: list[tuple[float, str]] = []
        """When a step of the run began, and its name."""
        self._source, self._target, self._topic, self._group = source, target, topic, group
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def note(self, step: str) -> None:
        """A step begins."""
        self.steps.append((time.monotonic() - self._began, step))

    def _run(self) -> None:
        source, target = (_Broker(address, self._topic) for address in (self._source, self._target))
        is_last = False
        while not is_last:
            is_last = self._stop.wait(EVERY_S)
            try:
                self.samples.append(self._sample(source, target))
            except KafkaError:
                continue  # a broker that is away for a moment leaves a gap in the chart, no more
        source.close()
        target.close()

    def _sample(self, source: _Broker, target: _Broker) -> Sample:
        return Sample(
            time.monotonic() - self._began,
            source_end=source.end(),
            target_end=target.end(),
            target_bytes=target.size(),
            mirrored=target.committed(mirror.GROUP),
            source_read=source.committed(self._group),
            target_read=target.committed(self._group),
        )
