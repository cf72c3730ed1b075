import pytest

from harness.storage.batches import produced
from kafkapy.records.batch import read_header
from kafkapy.storage.errors import InvalidProducerEpochError, InvalidTxnStateError, OutOfOrderSequenceError
from kafkapy.storage.log.producer_state import ProducerEntry


def _entry(*sequences: int, epoch: int = 3) -> ProducerEntry:
    entry = ProducerEntry(7)
    for offset, sequence in enumerate(sequences):
        entry.add(read_header(produced(sequence, epoch=epoch)), offset)
    return entry


def test_the_last_five_batches_are_remembered() -> None:
    entry = _entry(*range(7))
    assert [batch.last_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    duplicate = entry.find_duplicate(read_header(produced(4, epoch=3)))
    assert duplicate is not None
    assert duplicate.first_offset == 4
    assert entry.find_duplicate(read_header(produced(1, epoch=3))) is None
    assert entry.find_duplicate(read_header(produced(4, 2, epoch=3))) is None
    assert entry.find_duplicate(read_header(produced(4, epoch=4))) is None


def test_sequences_follow_each_other() -> None:
    entry = _entry(0)
    entry.check_sequence(read_header(produced(1, epoch=3)))
    for sequence in (0, 2):
        with pytest.raises(OutOfOrderSequenceError, match="does not follow 0"):
            entry.check_sequence(read_header(produced(sequence, epoch=3)))


def test_after_the_largest_sequence_comes_0() -> None:
    entry = _entry(2**31 - 1)
    entry.check_sequence(read_header(produced(0, epoch=3)))
    with pytest.raises(OutOfOrderSequenceError):
        entry.check_sequence(read_header(produced(1, epoch=3)))
    entry.add(read_header(produced(2**31 - 2, 4, epoch=3)), 10)
    assert (entry.last_sequence, entry.batches[-1].first_sequence) == (1, 2**31 - 2)


def test_a_new_epoch_begins_with_0() -> None:
    entry = _entry(5)
    entry.check_sequence(read_header(produced(0, epoch=4)))
    with pytest.raises(OutOfOrderSequenceError, match="begins epoch 4 with sequence 6"):
        entry.check_sequence(read_header(produced(6, epoch=4)))
    entry.add(read_header(produced(0, epoch=4)), 9)
    assert len(entry.batches) == 1


def test_an_unknown_producer_may_begin_anywhere() -> None:
    ProducerEntry(7).check_sequence(read_header(produced(42)))
    assert ProducerEntry(7).last_sequence == -1


def test_older_epochs_are_fenced() -> None:
    entry = _entry(0)
    entry.check_epoch(3)
    with pytest.raises(InvalidProducerEpochError, match="smaller than the last one seen, 3"):
        entry.check_epoch(2)


def test_plain_data_within_a_transaction_is_refused() -> None:
    entry = _entry(0)
    entry.check_transaction(read_header(produced(1, epoch=3)))
    entry.current_txn_first_offset = 0
    entry.check_transaction(read_header(produced(1, epoch=3, transactional=True)))
    with pytest.raises(InvalidTxnStateError):
        entry.check_transaction(read_header(produced(1, epoch=3)))
