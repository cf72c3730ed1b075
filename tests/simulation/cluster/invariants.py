"""Invariants that must hold after every step of a simulated cluster.

The first three are the theorems of Kafka's published specification of its replication (``KafkaReplication`` and
``Kip320`` in TLA+ by Jason Gustafson); the others are what the documentation promises to clients.

- *LeaderInIsr*: the leader in the store is one of the in-sync replicas.
- *WeakIsr*: every replica in the ISR that a leader knows has all records below that leader's high watermark.
- *StrongIsr*: so has every replica in the ISR of the store, from which leaders are elected.
- A leader epoch has one leader; leader epochs, controller epochs and a leader's high watermark never go back.
- Below the high watermark all replicas have the same batches, byte for byte, whoever led when they were written.
- A record that was acknowledged with acks=all is below a leader's high watermark, at the offset that was answered.
- An idempotent producer's batches are there once, in its order.
- A consumer reads only what is below a high watermark.

The checks read logs as a reader does and keep their own copy of every replica, so that a replica whose process has
ended counts too: its records are those in its files.
"""

from bisect import bisect_left
from collections.abc import Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from kafkapy.metadata.znodes import ControllerEpochZNode, LeaderIsr, PartitionStateZNode
from kafkapy.replication.partition import Partition
from kafkapy.storage.log.log import Log
from kafkapy.types import TopicPartition
from tests.simulation.cluster.store import SimulatedStore

_HEADER: Final = Struct(">qiibIhiqqqhii")
"""The header of a batch of format 2, by Kafka's documentation."""


class Violation(Exception):
    """An invariant does not hold."""


class Batch(NamedTuple):
    """A batch in a log, ``end`` is the offset after its last record."""

    base: int
    end: int
    epoch: int
    producer: int
    sequence: int
    content: bytes


class Copy:
    """The checks' own copy of one replica, and what its broker said of it last."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.seen: tuple[int, bool, int, int] | None = None
        """(leader epoch, whether it leads, high watermark, log end offset) of the running broker."""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0


class Invariants:
    """The state that was seen, of one partition with ``replicas``; each method raises ``Violation``."""

    def __init__(self, store: SimulatedStore, partition: TopicPartition, note: Callable[[str], None]) -> None:
        self.partition: Final = partition
        self.copies: dict[int, Copy] = {}
        self.committed: list[Batch] = []
        """The records below the high watermark of a leader."""
        self.state: LeaderIsr | None = None
        self.isr_changes = 0
        self.truncations = 0
        self._ends: list[int] = []
        self._leaders: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        self.controller_epoch = 0
        self._store = store
        self._note = note
        self._path = PartitionStateZNode.path(partition)

    # the store

    def store_changed(self) -> None:
        """Look at the state of the partition in the store."""
        nodes = self._store.tree.nodes
        epoch_node = nodes.get(ControllerEpochZNode.PATH)
        if epoch_node is not None:
            epoch = ControllerEpochZNode.decode(epoch_node.data)
            if epoch < self.controller_epoch:
                raise Violation(f"the controller epoch went back from {self.controller_epoch} to {epoch}")
            self.controller_epoch = epoch
        node = nodes.get(self._path)
        if node is None or (self.state is not None and self.state.zk_version == node.version):
            return
        before, state = self.state, PartitionStateZNode.decode(node.data, node.version)
        self.isr_changes += before is not None and set(before.isr) != set(state.isr)
        self.state = state
        self._note(f"the store has leader {state.leader}, epoch {state.leader_epoch}, ISR {list(state.isr)}")
        if before is not None and state.leader_epoch < before.leader_epoch:
            raise Violation(f"the leader epoch went back from {before.leader_epoch} to {state.leader_epoch}")
        if not state.isr:
            raise Violation("the in-sync set is empty")
        if state.leader >= 0:
            self._note_leader(state.leader_epoch, state.leader)
            if state.leader not in state.isr:
                raise Violation(f"LeaderInIsr: leader {state.leader} is not in the ISR {list(state.isr)}")
        for member in state.isr:
            self._check_member(member, self.committed, "StrongIsr: ")

    def _note_leader(self, epoch: int, leader: int) -> None:
        if self._leaders.setdefault(epoch, leader) != leader:
            raise Violation(f"leader epoch {epoch} has two leaders, {self._leaders[epoch]} and {leader}")

    # a broker

    def broker_changed(self, broker: int, held: Partition) -> None:
        """Look at the replica of a broker after one of its calls."""
        log = held.log
        now = (held.leader_epoch, held.is_leader, log.high_watermark, log.log_end_offset)
        copy = self.copies.setdefault(broker, Copy())
        before = copy.seen
        if now == before:
            return
        copy.seen = now
        epoch, leads, high_watermark, end = now
        if high_watermark > end:
            raise Violation(f"broker {broker} has high watermark {high_watermark} above its end {end}")
        if before is not None:
            if epoch < before[0]:
                raise Violation(f"broker {broker} went back from leader epoch {before[0]} to {epoch}")
            if leads and before[1] and high_watermark < before[2]:
                raise Violation(f"the high watermark of leader {broker} went back from {before[2]} to {high_watermark}")
        if leads:
            self._note_leader(epoch, broker)
        if before is None or end != before[3] or epoch != before[0]:
            self._note(f"broker {broker} has {_told(now)}")
            self._follow(broker, copy, log, is_new=before is None)
        if leads and high_watermark > self._committed_end:
            self._commit(broker, copy, high_watermark)
        self._check_below(broker, copy, high_watermark)
        if leads:
            for member in held.isr.committed:
                self._check_member(member, copy.batches[: _count(copy.batches, high_watermark)], "WeakIsr: ")
        if self.state is not None and broker in self.state.isr:
            self._check_member(broker, self.committed, "StrongIsr: ")

    def broker_ended(self, broker: int) -> None:
        """The process has ended; its files stay."""
        copy = self.copies.get(broker)
        if copy is not None:
            copy.seen = None

    def _follow(self, broker: int, copy: Copy, log: Log, *, is_new: bool) -> None:
        end = log.log_end_offset
        if is_new:
            copy.batches = read_batches(log, 0)
        elif end < copy.end:
            self.truncations += 1
            del copy.batches[_count(copy.batches, end) :]
        elif end > copy.end:
            copy.batches += read_batches(log, copy.end)
        if copy.end != end:
            raise Violation(f"broker {broker} says that its log ends at {end}, its batches end at {copy.end}")

    @property
    def _committed_end(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _commit(self, broker: int, copy: Copy, high_watermark: int) -> None:
        self._check_below(broker, copy, self._committed_end)
        added = copy.batches[len(self.committed) : _count(copy.batches, high_watermark)]
        for batch in added:
            if batch.producer >= 0:
                expected = self._sequences.get(batch.producer, -1) + 1
                if batch.sequence != expected:
                    raise Violation(
                        f"producer {batch.producer} has sequence {batch.sequence} at offset {batch.base}, "
                        f"{expected} was to come: a batch is lost, twice there or out of order"
                    )
                self._sequences[batch.producer] = batch.sequence
        self.committed += added
        self._ends += [batch.end for batch in added]
        if self._committed_end != high_watermark:
            raise Violation(f"the high watermark {high_watermark} of leader {broker} is within a batch")
        self._note(f"leader {broker} has high watermark {high_watermark}")
        if self.state is not None:
            for member in self.state.isr:
                self._check_member(member, self.committed, "StrongIsr: ")

    def _check_below(self, broker: int, copy: Copy, offset: int) -> None:
        """The replica has what was committed, up to ``offset``."""
        count = _count(copy.batches, offset)
        if copy.batches[:count] != self.committed[:count] or offset > self._committed_end:
            raise Violation(
                f"broker {broker} has other batches below its high watermark {offset} than were committed: "
                f"{_ends_of(copy.batches[:count])} instead of {_ends_of(self.committed)}"
            )

    def _check_member(self, broker: int, batches: list[Batch], law: str) -> None:
        copy = self.copies.get(broker)
        found = [] if copy is None else copy.batches
        if found[: len(batches)] != batches:
            raise Violation(
                f"{law}replica {broker} is in the ISR and has {_ends_of(found[: len(batches)])}, "
                f"committed is {_ends_of(batches)}"
            )

    # clients

    def record_acknowledged(self, producer: int, sequence: int, offset: int) -> None:
        """A producer got an answer with acks=all."""
        found = self._at(offset)
        if found is None or (found.producer, found.sequence) != (producer, sequence):
            raise Violation(
                f"sequence {sequence} of producer {producer} was acknowledged at offset {offset} and is not below a "
                f"high watermark there: found {found and found[:5]}, committed up to {self._committed_end}"
            )

    def records_read(self, content: bytes) -> int:
        """A consumer got these batches; return the offset after them."""
        end = 0
        for batch in _batches(content):
            found = self._at(batch.base)
            if found != batch:
                raise Violation(
                    f"a consumer has read offset {batch.base}, which is not below a high watermark: "
                    f"{batch[:5]}, committed there is {found and found[:5]}"
                )
            end = batch.end
        return end

    def _at(self, offset: int) -> Batch | None:
        index = bisect_left(self._ends, offset + 1)
        found = self.committed[index] if index < len(self.committed) else None
        return found if found is not None and found.base == offset else None


def _told(now: tuple[int, bool, int, int]) -> str:
    epoch, leads, high_watermark, end = now
    return f"epoch {epoch} as {'leader' if leads else 'follower'}, high watermark {high_watermark}, end {end}"


def _ends_of(batches: list[Batch]) -> str:
    return " ".join(f"{batch.base}-{batch.end - 1}@{batch.epoch}" for batch in batches[-4:]) or "nothing"


def _count(batches: list[Batch], offset: int) -> int:
    """The number of batches that begin below ``offset``."""
    return bisect_left(batches, offset, key=lambda batch: batch.base)


def read_batches(log: Log, start: int) -> list[Batch]:
    """Return all batches of a log from an offset on."""
    found: list[Batch] = []
    while start < log.log_end_offset:
        records: Any = log.read(start, 1 << 24).records
        found += _batches(bytes(records) if isinstance(records, bytes) else records.read())
        if not found or found[-1].end <= start:
            raise Violation(f"offset {start} of {log} can't be read, the log ends at {log.log_end_offset}")
        start = found[-1].end
    return found


def _batches(content: bytes) -> list[Batch]:
    """The whole batches of ``content``; a consumer's last one may be cut."""
    found, position = [], 0
    while position + _HEADER.size <= len(content):
        fields = _HEADER.unpack_from(content, position)
        size = 12 + fields[1]
        if position + size > len(content):
            break
        base = fields[0]
        found.append(
            Batch(base, base + fields[6] + 1, fields[2], fields[9], fields[11], content[position : position + size])
        )
        position += size
    return found
