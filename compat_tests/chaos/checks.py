"""Clients' views of a topic, compared with the log that it has in the end: Jepsen's checks of a queue, as functions.

The kinds of violation are those of jepsen.kafka: lost writes, moved and inconsistent offsets, duplicates, reordering,
skipped and repeated reads, aborted reads, and reads of records that the log does not keep (past the high watermark).
Each function returns one sentence per violation. Values are `name.number|padding`; the numbers of a name ascend.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

Log = Mapping[int, list[tuple[int, bytes]]]
"""Partition → (offset, value), in the order of the log."""
MOST = 5
"""The examples that a sentence names."""


def make_value(name: str, number: int, padding: int) -> bytes:
    """A value that no other call makes."""
    return f"{name}.{number}|".encode() + b"x" * padding


def author(value: bytes) -> tuple[str, int]:
    """Name and number of a value."""
    name, _, number = value.partition(b"|")[0].decode().rpartition(".")
    return name, int(number)


def short(value: bytes) -> str:
    """A value without its padding."""
    return value.partition(b"|")[0].decode()


class Observations:
    """The records that all consumers have read, by offset; an offset must never have another value."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.seen: dict[int, dict[int, bytes]] = defaultdict(dict)
        self.violations: list[str] = []

    def add(self, partition: int, offset: int, value: bytes) -> None:
        """A consumer got this record."""
        before = self.seen[partition].setdefault(offset, value)
        if before != value:
            self.violations.append(
                f"inconsistent offset: {self.topic}-{partition}@{offset} was {short(before)}, then {short(value)}"
            )

    def not_in(self, log: Log) -> list[str]:
        """Records that were read and are not in the log: the read was past the high watermark, or the log lost them."""
        return [
            f"read of what is not kept: {self.topic}-{partition}@{offset} was {short(value)}"
            for partition, seen in self.seen.items()
            for offset, value in sorted(set(seen.items()) - set(log.get(partition, [])))[:MOST]
        ]


@dataclass
class Position:
    """Where a consumer is in a partition: its reads have to ascend, and to skip nothing where the log has no gaps.

    With `may_repeat` it may go back, as librdkafka does when it takes a log for truncated.
    """

    name: str
    has_gaps: bool
    may_repeat: bool = False
    next_offset: int | None = None
    violations: list[str] = field(default_factory=list)

    def read(self, offset: int) -> None:
        """The consumer got the record of this offset."""
        expected, self.next_offset = self.next_offset, offset + 1
        if expected is None:
            return
        if offset < expected and not self.may_repeat:
            self.violations.append(f"repeated read: {self.name} got {offset} where {expected} is next")
        elif offset > expected and not self.has_gaps:
            self.violations.append(f"skipped read: {self.name} got {offset} where {expected} is next")


def lost_and_moved(topic: str, acknowledged: Mapping[int, Mapping[bytes, int | None]], log: Log) -> list[str]:
    """Each acknowledged record is in the log, at the offset of its acknowledgement if that named one."""
    found: list[str] = []
    for partition, values in acknowledged.items():
        offsets = {value: offset for offset, value in log.get(partition, [])}
        wrong = [
            (value, offset)
            for value, offset in values.items()
            if value not in offsets or offset not in (None, offsets[value])
        ]
        lost = [short(value) for value, _ in wrong if value not in offsets]
        moved = [f"{short(value)} from {offset} to {offsets[value]}" for value, offset in wrong if value in offsets]
        if lost:
            found.append(f"lost: {len(lost)} acknowledged records of {topic}-{partition}, such as {lost[:MOST]}")
        if moved:
            found.append(f"moved: {len(moved)} acknowledged records of {topic}-{partition}, such as {moved[:MOST]}")
    return found


def doubled_and_reordered(topic: str, log: Log) -> list[str]:
    """Each value is there once, and those of a name in the order of their numbers."""
    found: list[str] = []
    for partition, records in log.items():
        seen: dict[bytes, int] = {}
        newest: dict[str, int] = {}
        doubled, reordered = list[str](), list[str]()
        for offset, value in records:
            if value in seen:
                doubled.append(f"{short(value)} at {seen[value]} and {offset}")
                continue
            seen[value] = offset
            name, number = author(value)
            if number < newest.get(name, -1):
                reordered.append(f"{short(value)} at {offset} after {newest[name]}")
            newest[name] = max(number, newest.get(name, -1))
        if doubled:
            found.append(f"duplicates: {len(doubled)} in {topic}-{partition}, such as {doubled[:MOST]}")
        if reordered:
            found.append(f"reordered: {len(reordered)} in {topic}-{partition}, such as {reordered[:MOST]}")
    return found


def gaps(topic: str, log: Log) -> list[str]:
    """Without compaction and transaction markers the offsets of a log are 0, 1, 2, …"""
    return [
        f"gap: {topic}-{partition} has {len(records)} records at offsets from {records[0][0]} to {records[-1][0]}"
        for partition, records in log.items()
        if records and [offset for offset, _ in records] != list(range(len(records)))
    ]


class Outcome(Enum):
    """The outcome of a producer's transaction, as far as the producer can tell."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Transaction:
    """The records that it wrote, as (partition, value), and how it ended."""

    records: list[tuple[int, bytes]]
    outcome: Outcome = Outcome.UNKNOWN


def broken_transactions(topic: str, transactions: Mapping[str, Transaction], committed: Log) -> list[str]:
    """The committed view has all records of committed transactions, none of aborted ones, all or none of the others.

    The values of two transactions differ.
    """
    there = {(partition, value) for partition, records in committed.items() for _, value in records}
    found: list[str] = []
    for name, transaction in transactions.items():
        present = [short(value) for partition, value in transaction.records if (partition, value) in there]
        if transaction.outcome is Outcome.ABORTED and present:
            found.append(f"aborted read: {topic} shows {present[:MOST]} of aborted {name}")
        elif len(present) < len(transaction.records) and (present or transaction.outcome is Outcome.COMMITTED):
            found.append(
                f"torn: {topic} shows {len(present)} of {len(transaction.records)} records of {name}, "
                f"which is {transaction.outcome.value}"
            )
    return found


def not_copied_once(source: Log, copies: Log) -> list[str]:
    """Each partition of the copies has the first values of its source, in order, whatever their padding."""
    found: list[str] = []
    for partition, records in copies.items():
        values = [short(value) for _, value in records]
        expected = [short(value) for _, value in source.get(partition, [])][: len(values)]
        if values != expected:
            at = next(
                (index for index, pair in enumerate(zip(values, expected, strict=False)) if pair[0] != pair[1]),
                len(expected),
            )
            found.append(
                f"not exactly once: from {at} on partition {partition} has {values[at : at + 3]}, "
                f"its source {expected[at : at + 3]}"
            )
    return found


def not_processed(processed: Mapping[int, Iterable[int]], log: Log) -> list[str]:
    """A group that committed everything has processed every record."""
    found: list[str] = []
    for partition, records in log.items():
        missing = sorted({offset for offset, _ in records} - set(processed.get(partition, ())))
        if missing:
            found.append(
                f"skipped: the group never got {len(missing)} offsets of {partition}, such as {missing[:MOST]}"
            )
    return found


def partition_of(name: str, partition_count: int) -> int:
    """The partition of an internal topic that keeps a name: Java's `String.hashCode` of ASCII, as Kafka takes it."""
    value = 0
    for character in name:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count


def wrong_coordinators(topic: str, leaders: Mapping[int, int], answers: Mapping[int, Mapping[str, int]]) -> list[str]:
    """Each broker's answers name the leader of each name's partition.

    The sentence has the partition counts that explain what a broker answered.
    """
    found: list[str] = []
    for broker, answered in answers.items():
        right = {name: leaders[partition_of(name, len(leaders))] for name in answered}
        wrong = {name: answer for name, answer in answered.items() if answer != right[name]}
        if wrong:
            explained = [
                count
                for count in range(1, len(leaders))
                if all(leaders.get(partition_of(name, count)) == answer for name, answer in answered.items())
            ]
            examples = [f"{name}: {answer} instead of {right[name]}" for name, answer in wrong.items()]
            found.append(
                f"wrong coordinators: broker {broker} names {len(wrong)} of {len(answered)} of {topic} with "
                f"{len(leaders)} partitions, such as {examples[:MOST]}; {explained} partitions explain them all"
            )
    return found


def misplaced(topic: str, partition_count: int, names: Mapping[int, Iterable[str]]) -> list[str]:
    """Each name's records are in its own partition of an internal topic."""
    found: list[str] = []
    for partition, there in names.items():
        wrong = sorted({name for name in there if partition_of(name, partition_count) != partition})
        if wrong:
            found.append(f"misplaced: {topic}-{partition} has records of {len(wrong)} names, such as {wrong[:MOST]}")
    return found


@dataclass
class Committed:
    """The newest offsets of a group that were acknowledged, and that were sent; -1 is none."""

    acknowledged: int = -1
    sent: int = -1


def lost_commit(group: str, told: Committed, found: int) -> list[str]:
    """The group's offset is one that the client was told, or a later one whose outcome it does not know."""
    if told.acknowledged <= found <= told.sent:
        return []
    return [f"lost commit: {group} is at {found}, {told.acknowledged} was acknowledged, {told.sent} sent"]


def changed_producer(name: str, told: tuple[int, int] | None, found: tuple[int, int]) -> list[str]:
    """A transactional id keeps its producer id, and each initialisation raises the epoch."""
    if told is None or (found[0] == told[0] and found[1] > told[1]):
        return []
    return [f"not fenced: {name} had producer id and epoch {told} and now has {found}"]
