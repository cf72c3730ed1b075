from pathlib import Path
from typing import Final, NamedTuple

import pytest

from harness.storage.batches import batch
from kafkapy.platform.files import Files
from kafkapy.records.batch import read_header
from kafkapy.storage.checkpoints import Checkpointed
from kafkapy.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from kafkapy.storage.recovery.recovery import RecoveredEpochs
from tests.storage.support import open_log

Entries = list[tuple[int, int]]


class Case(NamedTuple):
    """A log after an unclean stop: base offset → the (offset, leader epoch) of the segment's one-record batches."""

    segments: dict[int, Entries]
    in_file: Entries | None
    expected: Entries
    start: int = 0
    recovery_point: int = 0


# The epochs that Apache Kafka 2.7.2 leaves in the same directories, at each of three unclean starts in a row.
AS_KAFKA: Final = {
    "retention took the segment before a gap": Case({3: [(5, 0), (6, 0)]}, [(0, 3)], [(0, 3)]),
    "and a crash came before the epochs said so": Case({3: [(5, 0), (6, 0)]}, [(0, 0)], [(0, 3)]),
    "the file is lost": Case({3: [(5, 0), (6, 0)]}, None, [(0, 5)]),
    "the first batches are compacted": Case({0: [(5, 0), (6, 0)]}, [(0, 0)], [(0, 0)]),
    "and deleted": Case({0: [(5, 0), (6, 0)]}, [(0, 0)], [(0, 3)], start=3),
    "the first batches of a term are compacted": Case(
        {0: [(0, 0), (5, 1), (6, 1)]}, [(0, 0), (1, 3)], [(0, 0), (1, 3)]
    ),
    "and all of the one before": Case({0: [(0, 0), (5, 2)]}, [(0, 0), (1, 2), (2, 4)], [(0, 0), (1, 2), (2, 4)]),
    "in two segments": Case({0: [(0, 0)], 10: [(12, 1), (13, 1)]}, [(0, 0), (1, 7)], [(0, 0), (1, 7)]),
    "at the end": Case({0: [(0, 0)], 10: []}, [(0, 0), (1, 7)], [(0, 0), (1, 7)]),
}


def _epochs_after_starts(directory: Path, case: Case, starts: int) -> list[Entries]:
    folder = directory / "orders-0"
    folder.mkdir()
    for base_offset, batches in case.segments.items():
        records = b"".join(batch(base_offset=offset, partition_leader_epoch=epoch) for offset, epoch in batches)
        (folder / f"{base_offset:020d}.log").write_bytes(records)
    if case.in_file is not None:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in case.in_file)
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(case.in_file)}\n{lines}")
    found = []
    for _ in range(starts):
        log = open_log(directory, checkpointed=Checkpointed(False, case.recovery_point, case.start))
        found.append(list(map(tuple, log.leader_epochs.entries)))
        log.release()
    return found


@pytest.mark.parametrize("name", AS_KAFKA)
def test_each_start_uses_the_file_where_batches_are_missing(tmp_path: Path, name: str) -> None:
    case = AS_KAFKA[name]
    assert _epochs_after_starts(tmp_path, case, 3) == [case.expected] * 3


# Apache Kafka 2.7.2 keeps what these files say, whatever the batches do.
AS_THE_BATCHES: Final = {
    "a term that none of them has": Case(
        {0: [(0, 0), (1, 0), (2, 0), (3, 2)]}, [(0, 0), (1, 2), (2, 3)], [(0, 0), (2, 3)]
    ),
    "another term from the beginning": Case({3: [(3, 0), (4, 0)]}, [(5, 3)], [(0, 3)]),
    "a term that began before": Case({0: [(0, 0), (1, 1), (2, 1)]}, [(0, 0), (1, 2)], [(0, 0), (1, 1)]),
    "a start that a crash took back": Case({0: [(0, 0), (1, 0), (2, 1), (3, 1)]}, [(1, 3)], [(0, 0), (1, 2)]),
    "and below what is read": Case(
        {0: [(0, 0), (1, 0)], 2: [(2, 1), (3, 1)]}, [(1, 3)], [(0, 0), (1, 2)], recovery_point=2
    ),
}


@pytest.mark.parametrize("name", AS_THE_BATCHES)
def test_batches_override_the_file(tmp_path: Path, name: str) -> None:
    case = AS_THE_BATCHES[name]
    assert _epochs_after_starts(tmp_path, case, 3) == [case.expected] * 3


def test_the_file_stays_until_all_is_read(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n1 3\n")
    epochs = LeaderEpochs(Files(), str(path), lambda: 20)
    epochs.load()
    again = RecoveredEpochs(epochs, 0, ())
    for offset, epoch in [(0, 0), (5, 1), (9, 4), (12, -1)]:
        again.meet(read_header(batch(base_offset=offset, partition_leader_epoch=epoch)))
        assert (path.read_text(), epochs.entries) == ("0\n2\n0 0\n1 3\n", [(0, 0), (1, 3)])
    again.take()
    assert path.read_text() == "0\n3\n0 0\n1 3\n4 9\n"


@pytest.mark.parametrize("content", [None, "0\n0\n"])
def test_without_batches_the_file_is_not_written(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "orders-0" / "leader-epoch-checkpoint"
    open_log(tmp_path).release()
    if content is not None:
        path.write_text(content)
    assert open_log(tmp_path, checkpointed=Checkpointed(clean=False)).leader_epochs.entries == []
    assert (path.read_text() if path.exists() else None) == content


def test_epochs_below_that_batches_contradict_are_dropped(tmp_path: Path) -> None:
    epochs = LeaderEpochs(Files(), str(tmp_path / "leader-epoch-checkpoint"), lambda: 20)
    again = RecoveredEpochs(epochs, 2**63, [EpochEntry(0, 0), EpochEntry(2, 10)])
    again.meet(read_header(batch(base_offset=5, partition_leader_epoch=3)))
    again.take()
    assert epochs.entries == [(0, 0), (3, 5)]
