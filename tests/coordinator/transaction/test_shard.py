from kafkapy.coordinator.loading import LoadProgress
from kafkapy.coordinator.transaction.records import transaction_record
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.states import TransactionState
from kafkapy.coordinator.transaction.transaction import TransactionData
from kafkapy.metrics import Counters
from kafkapy.records.batch import iterate_headers
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.record import Record, encode_batch
from kafkapy.turns import finish
from tests.coordinator.transaction.world import SHARD

FIRST = TransactionData(1, 0, 10)
THEN = TransactionData(1, 1, 10, TransactionState.ONGOING)


def replay(shard: TransactionShard, batch: bytes) -> None:
    for position, header in iterate_headers(batch):
        finish(shard.replay_batch(batch, header, position, LoadProgress(SHARD, Counters())))


def test_the_last_record_counts() -> None:
    shard = TransactionShard(SHARD, 3)
    replay(shard, encode_batch([transaction_record("x", FIRST, 0), transaction_record("y", FIRST, 0)]))
    kept = shard.transactions["x"]
    replay(shard, encode_batch([transaction_record("x", THEN, 0), transaction_record("y", None, 0)]))
    assert shard.transactions == {"x": kept}
    assert kept.data == THEN


def test_a_replayed_record_ends_a_fencing() -> None:
    shard = TransactionShard(SHARD, 3)
    shard.replay_record(transaction_record("x", FIRST, 0))
    shard.transactions["x"].fenced_at = 1
    shard.replay_record(transaction_record("x", THEN, 0))
    assert shard.transactions["x"].fenced_at is None


def test_records_of_other_kinds_are_skipped() -> None:
    shard = TransactionShard(SHARD, 3)
    replay(shard, encode_marker(ControlType.COMMIT, Marker(1, 0, 0), 0))
    replay(shard, encode_batch([Record(None, b"v", 0), Record(b"\x00\x09x", b"v", 0), Record(b"", b"v", 0)]))
    shard.replay_record(transaction_record("gone", None, 0))
    assert shard.transactions == {}
