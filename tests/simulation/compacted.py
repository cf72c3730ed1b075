"""The records that compaction may remove from a log, by rules that don't depend on how far it has come."""

from typing import TYPE_CHECKING

from kafkapy.records.batch import MAGIC, BatchHeader
from kafkapy.records.record import Record

if TYPE_CHECKING:
    from tests.simulation.model import Model, Stored


def is_shortened(found: "Stored", whole: "Stored") -> bool:
    """Whether compaction can have made ``found`` of ``whole``: with fewer records, or none, and no other change."""
    left, header = found.header, whole.header
    if left.magic != header.magic:
        return left.magic == MAGIC and not found.records and left.next_offset == header.next_offset
    if header.magic == MAGIC and _identity(left) != _identity(header):
        return False
    records = iter(whole.records)
    return (header.magic == MAGIC or bool(found.records)) and all(record in records for record in found.records)


def _identity(header: BatchHeader) -> tuple[int, ...]:
    """The fields that compaction keeps; an empty batch has no codec."""
    return (
        header.base_offset,
        header.last_offset,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.partition_leader_epoch,
        header.is_control,
        header.is_transactional,
    )


class Missing:
    """Checks the batches of ``model`` that ``found`` lacks; only records below ``stable`` supersede others."""

    def __init__(self, model: "Model", found: "list[Stored]", stable: int) -> None:
        self._model = model
        self._stable = stable
        self._found = {record.offset: record for each in found if not each.header.is_control for record in each.records}
        self._controls = {each.first_offset for each in found if each.header.is_control}
        self._newest: dict[bytes | None, int] = {}
        for each in model.batches:
            if not each.header.is_control:
                for record in each.records:
                    if record.offset < stable and not self._is_void(each, record):
                        self._newest[record.key] = record.offset

    def check(self, each: "Stored") -> None:
        """Fail if ``each`` lacks a record that must be there."""
        if each.header.is_control:
            is_there = each.first_offset in self._controls
            assert is_there or self._model.deletes_go or not each.records, ("marker lost", each[:2])
            return
        for record in each.records:
            if self._found.get(record.offset) != record:
                assert self._may_go(each, record), ("lost", each[:2], record, self._stable)

    def _may_go(self, each: "Stored", record: Record) -> bool:
        if record.offset >= self._stable:
            return False
        if self._is_void(each, record) or self._newest[record.key] > record.offset:
            return True
        return record.value is None and self._model.deletes_go and not self._comes_back(record)

    def _is_void(self, each: "Stored", record: Record) -> bool:
        return each.header.is_transactional and any(
            aborted.producer_id == each.header.producer_id
            and aborted.first_offset <= record.offset < aborted.last_offset
            for aborted in self._model.aborted
        )

    def _comes_back(self, tombstone: Record) -> bool:
        """Whether an older record of the tombstone's key is still there."""
        return any(
            record.key == tombstone.key and self._model.start <= offset < tombstone.offset
            for offset, record in self._found.items()
        )
