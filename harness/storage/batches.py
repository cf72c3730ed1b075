"""Record batches as producers and coordinators write them, and a data directory of Apache Kafka 2.7.2."""

from pathlib import Path

from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition

START_MS = 1_700_000_000_000
PARTITION = TopicPartition("orders", 0)
GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "datadir-272"


def batch(count: int = 1, *, timestamp: int = START_MS, value: bytes = b"v", **fields: int) -> bytearray:
    """A batch of records one ms apart; the producer fields are as in ``encode_batch``."""
    records = [Record(b"k", value, timestamp + place) for place in range(count)]
    return bytearray(encode_batch(records, **fields))  # type: ignore[arg-type]  # ints only


def produced(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, transactional: bool = False,
             value: bytes = b"v") -> bytearray:  # fmt: skip
    """A batch of an idempotent or transactional producer."""
    records = [Record(None, value, START_MS)] * count
    return bytearray(
        encode_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def marker(*, commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> bytearray:
    """A marker that ends a transaction."""
    control = ControlType.COMMIT if commit else ControlType.ABORT
    return bytearray(encode_marker(control, Marker(producer_id, epoch, coordinator_epoch), START_MS))
