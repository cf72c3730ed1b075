"""Void data of transactions, and markers that must stay."""

from harness.storage.batches import marker
from kafkapy.records.batch import BatchHeader, read_header
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.compaction.batch_filter import CleanedTransactions
from kafkapy.storage.log.transaction_index import AbortedTransaction


def data(offset: int, producer_id: int = 7, *, transactional: bool = True) -> BatchHeader:
    return read_header(
        encode_batch(
            [Record(b"k", b"v")], base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0,
            is_transactional=transactional,
        )
    )  # fmt: skip


def ended(transactions: CleanedTransactions, offset: int, *, commit: bool, producer_id: int = 7) -> bool:
    content = bytes(marker(commit=commit, producer_id=producer_id))
    return transactions.may_go(read_header(content)._replace(base_offset=offset), content)


def test_a_commit_marker_stays_while_there_are_data_of_its_transaction() -> None:
    transactions = CleanedTransactions()
    assert not transactions.is_void(data(0))
    assert not ended(transactions, 1, commit=True)
    assert ended(transactions, 2, commit=True), "nothing since the last one"


def test_an_abort_marker_and_its_entry_stay_while_there_are_data() -> None:
    transactions = CleanedTransactions()
    retained: list[AbortedTransaction] = []
    transactions.retained = retained.append
    entry = AbortedTransaction(7, 3, 5, 6)
    transactions.add([entry, AbortedTransaction(8, 9, 11, 12)])
    transactions.add([entry])
    assert not transactions.is_void(data(2)), "before it began"
    assert transactions.is_void(data(3))
    assert not transactions.is_void(data(4, 8))
    assert not ended(transactions, 5, commit=False)
    assert retained == [entry]
    assert not transactions.is_void(data(6))
    assert ended(transactions, 11, commit=False, producer_id=8)
    assert retained == [entry], "the other one's data are gone"


def test_an_abort_marker_without_an_entry_may_go() -> None:
    assert ended(CleanedTransactions(), 4, commit=False)


def test_data_outside_of_transactions_are_never_void() -> None:
    transactions = CleanedTransactions()
    transactions.add([AbortedTransaction(7, 0, 5, 6)])
    assert not transactions.is_void(data(1, transactional=False))


def test_a_marker_that_was_emptied_before_may_go() -> None:
    header = read_header(bytes(marker(commit=True)))._replace(record_count=0)
    assert CleanedTransactions().may_go(header, b"")
