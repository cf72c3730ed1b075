"""What compaction must know of transactions as it passes over a log: whose data are void, which markers must stay.

An aborted transaction's batches are void; its marker stays while one of them does (a producer's last batch stays, as an
empty one), and then its entry goes into the new transaction index. A committed one's marker stays until a pass has met
no batch of it. Whether a marker that is free to go does go is a question of ``delete.retention.ms``.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop

from kafkapy.records.batch import BatchHeader, ReadableBuffer
from kafkapy.records.control import ControlType, read_control
from kafkapy.storage.transaction_index import AbortedTransaction


def _forget(_entry: AbortedTransaction) -> None:
    """Where no index is written."""


class CleanedTransactions:
    """State of a pass; batches are shown in the order of their offsets. ``retained`` is told which entries stay."""

    def __init__(self) -> None:
        self.retained: Callable[[AbortedTransaction], object] = _forget
        self._coming: list[tuple[int, AbortedTransaction]] = []
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()

    def add(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Aborted transactions that the next batches may belong to; again does no harm."""
        self._coming += [(entry.first_offset, entry) for entry in aborted]
        heapify(self._coming)

    def _go_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, entry = heappop(self._coming)
            self._aborted.setdefault(entry.producer_id, entry)

    def is_void(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._go_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._seen.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def may_go(self, header: BatchHeader, content: ReadableBuffer) -> bool:
        """Whether no batch is left that a control batch is needed for; raises ``InvalidRecordError``."""
        self._go_to(header.last_offset)
        if header.record_count == 0:
            return True
        producer_id = header.producer_id
        control = read_control(content, header).type
        if control == ControlType.ABORT:
            entry = self._aborted.pop(producer_id, None)
            if entry is None or producer_id not in self._seen:
                return True
            self._seen.remove(producer_id)
            self.retained(entry)
            return False
        if control == ControlType.COMMIT and producer_id not in self._committed:
            return True
        self._committed.discard(producer_id)
        return False
