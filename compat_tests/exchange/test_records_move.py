"""A data directory moves from kafkapy to Apache Kafka 2.7.2 and back, and the reverse, while clients keep running."""

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat_tests.clients.java_tools.tools import ToolsOf
from compat_tests.exchange.contents import (
    QUIET,
    READ_TIMEOUT_S,
    Contents,
    committed,
    configs,
    log_starts,
    partitions,
    read_all,
)
from compat_tests.exchange.dumped import nothing_is_wrong
from compat_tests.exchange.home import Home

kafka_admin: Any = confluent_kafka.admin  # exports its names without saying so to type checkers

START_MS = 1_700_000_000_000
GROUPS = ("group", "orders", " \U0001f642/%日本\n" * 60)
"""Java's hash of the first is positive, of the others negative."""
MEMBERS = "members \U0001f642"
"""A group with a member that stays; negative, too."""
DOOMED = "deleted-before-the-move." * 10 + "-delete-0"
"""As long as a topic's name may be."""
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (3, {}),
    "gzip": (1, {"compression.type": "gzip"}),
    "snappy": (1, {"compression.type": "snappy"}),
    "lz4": (1, {"compression.type": "lz4"}),
    "zstd": (1, {"compression.type": "zstd"}),
    "format0": (1, {"message.format.version": "0.9.0"}),
    "format0-lz4": (1, {"message.format.version": "0.9.0", "compression.type": "lz4"}),
    "format1": (1, {"message.format.version": "0.10.2"}),
    "format1-snappy": (1, {"message.format.version": "0.10.2", "compression.type": "snappy"}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.bytes": "4096"}),
    "cut": (1, {}),
    "x-1-2": (2, {}),
}
FAR = 2**62
"""A timestamp for some records of the last one."""


class Clients:
    """Producers that outlive every move, idempotent where the format allows it, a group, and what was acknowledged."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._acknowledged: dict[tuple[str, int], list[bytes]] = {}
        self.producer, self._old = self._connected(idempotent=True), self._connected(idempotent=False)
        self._number = self._consumed = 0
        self.assigned: list[int] = []
        self.member = Consumer(
            {
                "bootstrap.servers": home.bootstrap,
                "group.id": MEMBERS,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 200,
                **QUIET,
            }
        )

    def _connected(self, *, idempotent: bool) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.home.bootstrap,
                "enable.idempotence": idempotent,
                "max.in.flight.requests.per.connection": 1,
                "linger.ms": 5,
                "batch.num.messages": 20,
                "reconnect.backoff.max.ms": 200,
                **QUIET,
            }
        )

    def create(self) -> None:
        admin = kafka_admin.AdminClient({"bootstrap.servers": self.home.bootstrap, **QUIET})
        topics = [kafka_admin.NewTopic(name, count, 1, config=config) for name, (count, config) in TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result()

    def produce(self, count: int) -> None:
        """``count`` records to each partition, with everything that a record may have."""
        for _ in range(count):
            self._number += 1
            for name, (partition_count, _) in TOPICS.items():
                for index in range(partition_count):
                    value = None if name == "compacted" and self._number % 7 == 0 else b"%d " % self._number * 30
                    is_old = name.startswith("format")
                    (self._old if is_old else self.producer).produce(
                        name,
                        value,
                        key=b"%d" % (self._number % 5) if self._number % 3 or name == "compacted" else None,
                        partition=index,
                        timestamp=self._timestamp(name),
                        headers=None if is_old else [("number", b"%d" % self._number), ("null", None)],
                        on_delivery=self._delivered,
                    )
        assert self.producer.flush(30) + self._old.flush(30) == 0

    def _timestamp(self, topic: str) -> int:
        if topic == "x-1-2" and self._number % 10 == 1:
            return FAR
        return START_MS + self._number * 10 - self._number % 4 * 25

    def _delivered(self, error: object, message: Any) -> None:
        assert error is None, error
        self._acknowledged.setdefault((message.topic(), message.partition()), []).append(message.value())

    def expect_every_record_once(self, contents: Contents) -> None:
        """Every acknowledged record is there once and in order, where nothing was deleted or compacted."""
        for place, values in self._acknowledged.items():
            if place[0] not in ("compacted", "cut"):
                assert [record.value for record in contents[place]] == values
                assert [record.offset for record in contents[place]] == list(range(len(values)))

    def consume(self) -> str:
        """The member reads all that there is of one topic; its id."""
        if not self.assigned:
            self.member.subscribe(["x-1-2"], on_assign=lambda _, given: self.assigned.append(len(given)))
        expected = sum(len(values) for (topic, _), values in self._acknowledged.items() if topic == "x-1-2")
        while self._consumed < expected:
            message = self.member.poll(READ_TIMEOUT_S)
            assert message is not None, f"{self._consumed} of {expected} records came to the member"
            assert message.error() is None, message.error()
            self._consumed += 1
        return str(self.member.memberid())

    def delete_topic(self) -> None:
        """Create and delete a topic, right before a move."""
        admin = kafka_admin.AdminClient({"bootstrap.servers": self.home.bootstrap, **QUIET})
        admin.create_topics([kafka_admin.NewTopic(DOOMED, 3, 1)])[DOOMED].result()
        admin.delete_topics([DOOMED])[DOOMED].result()

    def commit(self, offset: int) -> None:
        """The groups commit ``offset`` everywhere in ``plain``."""
        for group in GROUPS:
            consumer = Consumer({"bootstrap.servers": self.home.bootstrap, "group.id": group, **QUIET})
            offsets = [TopicPartition("plain", index, offset, metadata=f"at {offset} \U0001f642") for index in range(3)]
            consumer.commit(offsets=offsets, asynchronous=False)
            consumer.close()

    def delete_records(self, offset: int) -> None:
        """The partition ``cut`` begins at ``offset``, within a segment."""
        admin = kafka_admin.AdminClient({"bootstrap.servers": self.home.bootstrap, **QUIET})
        for deleted in admin.delete_records([TopicPartition("cut", 0, offset)]).values():
            assert deleted.result().low_watermark == offset


def _seen(home: Home) -> dict[str, object]:
    """The content that must be equal after a move; either broker may compact further."""
    contents = read_all(home.bootstrap)
    compacted = contents.pop(("compacted", 0))
    return {
        "records": contents,
        "last of each key": {record.key: record for record in compacted},
        "offsets": {group: committed(home.bootstrap, group) for group in GROUPS},
        "bounds": {place: found for place, found in log_starts(home.bootstrap).items() if place[0] in TOPICS},
        "configs": {name: configs(home.bootstrap, name) for name in TOPICS},
    }


def _unchanging(home: Home, value: Callable[[Home], dict[str, object]] = _seen) -> dict[str, object]:
    """The content when two successive reads are equal, since the cleaner works in between."""
    seen = value(home)
    for _ in range(20):
        time.sleep(0.5)
        before, seen = seen, value(home)
        if seen == before:
            return seen
    raise AssertionError("the broker's contents do not stop changing")


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("first", ["kafkapy", "kafka"])
def test_records_survive_moves_of_a_directory_in_both_directions(
    home: Home, first: str, kill: bool, tools_of: ToolsOf
) -> None:
    clients = Clients(home)
    home.start(home.ours if first == "kafkapy" else home.theirs)
    moves = [home.to_kafka, home.to_kafkapy] if first == "kafkapy" else [home.to_kafkapy, home.to_kafka]
    clients.create()
    clients.produce(150)
    clients.commit(40)
    clients.delete_records(33)
    if first == "kafka":
        # 2.7.2 notes log start offsets down 30 s after its start at the earliest; before that a crash loses them.
        home.leave()
        home.start(home.theirs)
    for turn, move in enumerate(moves):
        member = clients.consume()
        before, compacted = _unchanging(home), read_all(home.bootstrap)["compacted", 0]
        clients.delete_topic()
        move(kill=kill)
        assert _seen(home) == before
        assert DOOMED not in {name for name, _ in partitions(home.bootstrap)}
        assert set(read_all(home.bootstrap)["compacted", 0]) <= set(compacted)
        clients.produce(60)
        assert (clients.consume(), clients.assigned) == (member, [2])
        clients.commit(50 + turn)
        for group in GROUPS:
            assert {offset for offset, _ in committed(home.bootstrap, group).values()} == {50 + turn}
    contents = read_all(home.bootstrap)
    clients.expect_every_record_once(contents)
    assert contents[("cut", 0)][0].offset == 33
    assert contents[("cut", 0)][-1].offset == 269
    assert configs(home.bootstrap, "gzip") == {"compression.type": "gzip"}
    clients.member.close()
    home.leave(kill=kill)
    if not kill:  # a crash may leave files that the next start repairs
        nothing_is_wrong(home.data, tools_of, ["2.7.2"])
