"""What a partition remembers of one producer: its laws are here, the map of them in ``producer_state``.

- A batch of a lower epoch than the last one is refused (47); replication only takes note of it.
- A new epoch begins with sequence 0, unless the producer is unknown here: then any sequence will do.
- Within an epoch a batch's first sequence follows the last one; after 2^31-1 comes 0. Else 45.
- One of the last five batches, sent again, is a duplicate: answered as it was then, not written.
- The first transactional batch opens a transaction; until its marker, non-transactional data is refused (48).
"""

from typing import Final, NamedTuple

from kafkapy.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, SEQUENCE_MODULUS, BatchHeader
from kafkapy.storage.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError

BATCHES_TO_KEEP: Final = 5
NO_OFFSET: Final = -1


class ProducedBatch(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        """The offset that the producer was told."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record."""
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULUS


class ProducerEntry:
    """One producer's last batches, epoch and open transaction (``current_txn_first_offset``, -1 none)."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "last_timestamp",
        "current_txn_first_offset",
        "batches",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset = NO_OFFSET
        self.batches: list[ProducedBatch] = []

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, header: BatchHeader) -> ProducedBatch | None:
        """Return the remembered batch that ``header`` repeats."""
        if header.producer_epoch == self.producer_epoch:
            first, last = header.base_sequence, header.last_sequence
            for batch in self.batches:
                if batch.last_sequence == last and batch.first_sequence == first:
                    return batch
        return None

    def check_epoch(self, producer_epoch: int) -> None:
        """Raise ``InvalidProducerEpochError`` if a newer instance has written here."""
        if producer_epoch < self.producer_epoch:
            raise InvalidProducerEpochError(
                f"Epoch {producer_epoch} of producer {self.producer_id} is smaller than the last one seen, "
                f"{self.producer_epoch}"
            )

    def check_sequence(self, header: BatchHeader) -> None:
        """Raise ``OutOfOrderSequenceError`` unless the batch follows the last one."""
        first = header.base_sequence
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return
        if header.producer_epoch != self.producer_epoch:
            if first != 0:
                raise OutOfOrderSequenceError(
                    f"Producer {self.producer_id} begins epoch {header.producer_epoch} with sequence {first}, not 0"
                )
        elif first != self.last_sequence + 1 and not (first == 0 and self.last_sequence == SEQUENCE_MODULUS - 1):
            raise OutOfOrderSequenceError(
                f"Sequence {first} of producer {self.producer_id} does not follow {self.last_sequence}"
            )

    def check_transaction(self, header: BatchHeader) -> None:
        """Raise ``InvalidTxnStateError`` for plain data inside an open transaction."""
        if self.current_txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise InvalidTxnStateError(
                f"Producer {self.producer_id} has a transaction open from offset {self.current_txn_first_offset} "
                "and wrote outside of it"
            )

    def adopt_epoch(self, producer_epoch: int) -> None:
        """Take over an epoch; a new one has no batches yet."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches = []

    def add(self, header: BatchHeader, first_offset: int) -> None:
        """Remember a batch that was written at ``first_offset``."""
        if header.producer_epoch != self.producer_epoch:
            self.adopt_epoch(header.producer_epoch)
        batches = self.batches
        if len(batches) == BATCHES_TO_KEEP:
            del batches[0]
        delta = header.last_offset_delta
        batches.append(ProducedBatch(header.last_sequence, first_offset + delta, delta, header.max_timestamp))
        self.last_timestamp = header.max_timestamp
