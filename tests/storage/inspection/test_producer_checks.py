from pathlib import Path

from harness.storage.batches import marker, produced
from kafkapy.platform.files import Files
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.inspection import log_scan
from kafkapy.storage.inspection.findings import Findings
from kafkapy.storage.inspection.log_scan import LogScan
from kafkapy.storage.inspection.producer_checks import SnapshotChecks, TransactionIndexCheck, Transactions
from kafkapy.storage.log.producer_state import ProducedBatch, ProducerEntry, encode_snapshot
from kafkapy.storage.log.transaction_index import ENTRY


def _at(offset: int, content: bytearray) -> bytes:
    content[:8] = offset.to_bytes(8, "big")
    return bytes(content)


ABORTED = [
    _at(10, produced(0, transactional=True)),
    _at(11, produced(0, producer_id=8, transactional=True)),
    _at(12, marker(commit=False)),
    _at(13, marker(commit=True, producer_id=8)),
]


def _check(path: Path, batches: list[bytes], *entries: tuple[int, ...], tail: bytes = b"") -> Findings:
    log, index = path / "f.log", path / "f.txnindex"
    log.write_bytes(b"".join(batches))
    if entries or tail:
        index.write_bytes(b"".join(ENTRY.pack(*each) for each in entries) + tail)
    found = Findings()
    checked = TransactionIndexCheck(Files(), str(index), Transactions(), found)
    for scanned in LogScan(Files(), str(log)):
        checked.batch(scanned, str(log))
    checked.finish()
    return found


def _messages(found: Findings) -> list[str]:
    return [each.message for each in found]


def test_right_entries(tmp_path: Path) -> None:
    assert _check(tmp_path, ABORTED, (0, 7, 10, 12, 11)) == []
    assert _check(tmp_path, ABORTED, (0, 7, 4, 12, 11)) == []  # compaction has taken the first records away
    (tmp_path / "f.txnindex").unlink()
    assert _check(tmp_path, [_at(0, produced(0))]) == []


def test_an_abort_of_a_transaction_that_began_before_the_log(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert _check(tmp_path / "a", ABORTED[2:]) == []
    assert _check(tmp_path, ABORTED[2:], (0, 7, 3, 12, 11)) == []


def test_a_missing_entry(tmp_path: Path) -> None:
    assert _messages(_check(tmp_path, ABORTED)) == ["no entry for the transaction of producer 7 from 10, aborted at 12"]


def test_entries_that_are_wrong(tmp_path: Path) -> None:
    for entry, message in (
        ((0, 8, 10, 12, 11), "producer 7 aborted there, from 10"),
        ((0, 7, 11, 12, 11), "producer 7 aborted there, from 10"),
    ):
        assert message in _messages(_check(tmp_path, ABORTED, entry))[0]
    strays = _messages(
        _check(tmp_path, ABORTED, (0, 7, 3, 5, 6), (0, 7, 10, 12, 11), (0, 8, 11, 13, 14), (0, 9, 1, 20, 1))
    )
    assert [message[-20:] for message in strays] == [": no marker is there"] * 3
    unordered = _messages(_check(tmp_path, ABORTED, (0, 7, 10, 12, 11), (0, 7, 10, 11, 11), (1, 7, 10, 15, 11)))
    assert unordered[0].endswith("is out of order")
    assert unordered[1] == "an entry of unknown version 1"
    assert "35 bytes are not whole entries of 34" in _messages(_check(tmp_path, ABORTED, (0, 7, 10, 12, 11), tail=b"x"))


def test_a_control_batch_that_can_not_be_read(tmp_path: Path, monkeypatch: object) -> None:
    odd = encode_batch([Record(b"k", b"", 1)], producer_id=7, producer_epoch=0, is_transactional=True, is_control=True)
    (found,) = _check(tmp_path, [odd])
    assert "a control batch that can't be read" in found.message
    damaged = bytearray(ABORTED[2])
    damaged[-1] ^= 1
    assert _check(tmp_path, [ABORTED[0], bytes(damaged)]) == []


def test_a_control_batch_too_large_for_memory_is_ignored(tmp_path: Path, monkeypatch: object) -> None:
    file = tmp_path / "f.log"
    file.write_bytes(ABORTED[2])
    (scanned,) = LogScan(Files(), str(file))
    assert log_scan.MAX_IN_MEMORY > 1_000_000
    assert Transactions().batch(scanned._replace(content=None), Findings(), "p") is None


def _entry(producer_id: int, *batches: ProducedBatch, epoch: int = 0) -> ProducerEntry:
    entry = ProducerEntry(producer_id)
    entry.producer_epoch = epoch
    entry.batches = list(batches)
    return entry


def _snapshots(path: Path, *entries: ProducerEntry) -> list[str]:
    file = path / "00000000000000000020.snapshot"
    file.write_bytes(encode_snapshot(entries))
    log = path / "f.log"
    log.write_bytes(b"".join(ABORTED))
    found = Findings()
    checked = SnapshotChecks(Files(), [(20, str(file))], found)
    for scanned in LogScan(Files(), str(log)):
        checked.batch(scanned)
    return _messages(found)


def test_snapshots(tmp_path: Path) -> None:
    right = _entry(7, ProducedBatch(0, 10, 0, 1))
    assert _snapshots(tmp_path, right, _entry(9), _entry(5, ProducedBatch(3, 2, 0, 1))) == []
    assert _snapshots(tmp_path, _entry(7, ProducedBatch(0, 10, 0, 1), epoch=1)) == []
    assert _snapshots(tmp_path, _entry(7, ProducedBatch(1, 10, 0, 1))) == [
        "says (producer, epoch, sequence) (7, 0, 1) at offset 10, there is (7, 0, 0)"
    ]
    assert _snapshots(tmp_path, _entry(7, ProducedBatch(0, 20, 0, 1))) == [
        "producer 7 wrote last at 20, after the snapshot"
    ]


def test_a_damaged_snapshot(tmp_path: Path) -> None:
    file = tmp_path / "00000000000000000020.snapshot"
    file.write_bytes(b"damaged")
    found = Findings()
    SnapshotChecks(Files(), [(20, str(file))], found)
    assert _messages(found) == ["7 bytes are no producer snapshot; a start ignores it"]
