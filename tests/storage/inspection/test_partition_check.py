import shutil
from pathlib import Path

import pytest

from harness.storage.batches import GOLDEN, START_MS, batch
from harness.storage.partition import change, written
from kafkapy.platform.files import Files
from kafkapy.records.record import Record, encode_batch, encode_legacy
from kafkapy.storage.inspection import log_scan
from kafkapy.storage.inspection.findings import ERROR, MAX_OF_A_FILE, NOTE, WARNING, Finding, Findings
from kafkapy.storage.inspection.partition_check import Extent, Options, check_file, check_partition
from tests.storage.inspection.support import check, logs, said


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("sample"))


@pytest.fixture
def folder(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / sample.name))


def _folder(tmp_path: Path, *batches: bytes | bytearray) -> Path:
    """A partition of one segment without index entries."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    for name in ("index", "timeindex"):
        (folder / f"00000000000000000000.{name}").write_bytes(b"")
    return folder


def test_partitions_of_kafkapy_and_kafka_have_no_findings(folder: Path) -> None:
    assert len(logs(folder)) > 3
    assert sorted(folder.glob("*.txnindex"))
    progress: list[int] = []
    findings = Findings()
    extent = check_partition(Files(), str(folder), findings, Options(progress=progress.append))
    assert findings == []
    assert extent.start_offset == 0
    assert extent.end_offset > 100
    assert extent.size == sum(progress) == sum(path.stat().st_size for path in logs(folder))
    for name in ("rf3-0", "seg-0", "cmp-0", "__transaction_state-0", "__consumer_offsets-1"):
        assert check(GOLDEN / name) == []
    assert {each.severity for each in check(GOLDEN / "segc-0")} == {NOTE}


def test_an_empty_folder(tmp_path: Path) -> None:
    findings = Findings()
    assert check_partition(Files(), str(tmp_path), findings, Options()) == Extent(0, 0, 0)
    assert findings == []


def test_a_flipped_bit_in_a_batch(folder: Path) -> None:
    change(logs(folder)[1], 300, b"\xff")
    (found,) = check(folder)
    assert (found.severity, found.path, found.message) == (ERROR, str(logs(folder)[1]), "the batch's CRC is wrong")
    assert found.position == 0


def test_garbage_in_an_old_segment_and_at_the_end(folder: Path) -> None:
    for number in (0, -1):
        with logs(folder)[number].open("ab") as log:
            log.write(b"torn")
    first, last = logs(folder)[0].name, logs(folder)[-1].name
    torn = "4 bytes are left, which are no whole batch"
    assert said(check(folder)) == [(ERROR, first, torn), (WARNING, last, torn + "; the next start cuts them off")]
    assert said(check(folder, is_in_use=True)) == [(ERROR, first, torn), (NOTE, last, torn + "; it is being written")]
    with logs(folder)[-1].open("ab") as log:
        log.write(b"garbage garbage garbage")
    assert check(folder)[-1].severity == ERROR


def test_offsets_that_go_back(folder: Path) -> None:
    log = logs(folder)[-1]
    log.write_bytes(log.read_bytes() + batch(1, base_offset=3))
    messages = [each.message for each in check(folder) if each.path == str(log)]
    assert messages[0].startswith("offset 3, at least ")


def test_segments_that_overlap_or_leave_a_gap(folder: Path) -> None:
    first = logs(folder)[0]
    first.write_bytes(first.read_bytes() + batch(1, base_offset=9000))
    assert any(each.message.startswith("begins before 9001") for each in check(folder))
    for path in folder.glob(f"{logs(folder)[1].stem}.*"):
        path.unlink()
    shutil.copy(folder / logs(folder)[1].name, folder / "x")
    first.write_bytes(first.read_bytes()[: -len(batch(1))])
    found = said(check(folder))
    assert any(kind == NOTE and "compacted, or a file is missing" in message for kind, _, message in found)
    assert (NOTE, "x", "no file of a log; brokers leave it alone") in found


def test_leftovers_and_orphans(tmp_path: Path) -> None:
    folder = _folder(tmp_path, batch(1))
    for name in ("1.log.deleted", "1.log.cleaned", "1.log.swap", "leader-epoch-checkpoint.tmp", f"{7:020d}.index"):
        (folder / name).write_bytes(b"")
    (folder / "00000000000000000000.timeindex").unlink()
    (folder / "00000000000000000000.index").unlink()
    kinds = {(kind, name) for kind, name, _ in said(check(folder))}
    assert kinds == {
        (NOTE, "1.log.deleted"), (NOTE, "1.log.cleaned"), (NOTE, "1.log.swap"), (NOTE, "leader-epoch-checkpoint.tmp"),
        (ERROR, f"{7:020d}.log"), (WARNING, f"{7:020d}.index"), (WARNING, f"{0:020d}.index"),
        (WARNING, f"{0:020d}.timeindex"),
    }  # fmt: skip


def test_records_that_are_not_what_the_header_says(tmp_path: Path) -> None:
    rising = [Record(None, b"v", START_MS, offset=5), Record(None, b"v", START_MS, offset=3)]
    wrong = encode_batch(rising, base_offset=0, keep_offsets=True)
    assert "the batch's records are not in the order of offsets" in {
        each.message for each in check(_folder(tmp_path, wrong))
    }
    early = encode_batch([Record(None, b"v", START_MS, offset=2)], base_offset=4, keep_offsets=True)
    (tmp_path / "b").mkdir()
    messages = {each.message for each in check(_folder(tmp_path / "b", early))}
    assert "the batch holds offsets 2 to 2" in messages
    cut = bytearray(batch(2))
    cut[57:61] = (3).to_bytes(4, "big")
    (tmp_path / "c").mkdir()
    folder = _folder(tmp_path / "c", cut)
    assert {each.message for each in check(folder)} == {"the batch's CRC is wrong",
        f"the last entry lacks the segment's largest timestamp, {START_MS + 1}"}  # fmt: skip


def test_records_that_can_not_be_unpacked(tmp_path: Path) -> None:
    broken = bytearray(encode_batch([Record(None, b"v" * 100, START_MS)], compression=1))
    broken = bytearray(_with_crc(broken[:70] + b"xxxxx" + broken[75:]))
    folder = _folder(tmp_path, broken)
    assert any(each.message.startswith("the batch's records can't be read") for each in check(folder))
    assert not any("can't be read" in each.message for each in check(folder, deep=False))


def _with_crc(content: bytes | bytearray) -> bytes:
    from crc32c import crc32c

    return bytes(content[:17]) + crc32c(content[21:]).to_bytes(4, "big") + bytes(content[21:])


def test_the_records_of_a_very_large_batch_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "MAX_IN_MEMORY", 64)
    monkeypatch.setattr(log_scan, "CHUNK_BYTES", 64)
    folder = _folder(tmp_path, batch(1, value=b"v" * 500))
    assert any("its records were not checked" in each.message for each in check(folder))


def test_message_sets(tmp_path: Path) -> None:
    records = [Record(b"k", b"v", START_MS + n, offset=n) for n in range(3)]
    folder = _folder(tmp_path, encode_legacy(records, 1, compression=1), bytes(batch(1, base_offset=3)))
    assert {each.severity for each in check(folder)} == {WARNING}  # the time index is empty
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 3\n")
    assert any("leader epoch" in each.message for each in check(folder)) is False


@pytest.mark.parametrize(
    ("text", "severity", "message"),
    [
        ("x", WARNING, "the next start makes it from the batches"),
        ("0\n1\none two\n", WARNING, "the next start makes it from the batches"),
        ("0\n2\n1 0\n0 5\n", ERROR, "epoch 0 from 5 does not follow (1, 0)"),
        ("0\n2\n0 0\n9 100000\n", WARNING, "epoch 9 begins at 100000, the log ends at "),
        ("0\n1\n7 0\n", ERROR, "leader epoch 0, leader-epoch-checkpoint says 7"),
    ],
)
def test_leader_epochs(folder: Path, text: str, severity: str, message: str) -> None:
    (folder / "leader-epoch-checkpoint").write_text(text)
    assert any(each.severity == severity and message in each.message for each in check(folder))


def test_one_file_that_is_not_the_last_may_not_be_torn(folder: Path) -> None:
    for number, severity in ((0, ERROR), (-1, WARNING)):
        path = logs(folder)[number]
        path.write_bytes(path.read_bytes() + b"torn")
        findings = Findings()
        check_file(Files(), str(path), findings, Options())
        assert [each.severity for each in findings] == [severity]


def test_one_file(folder: Path) -> None:
    index = sorted(folder.glob("*.index"))[1]
    change(index, 4, b"\0\0\1\1")
    log = logs(folder)[2]
    change(log, 200, b"\xff")
    snapshot = sorted(folder.glob("*.snapshot"))[-1]
    right = (index.with_suffix(".timeindex"), logs(folder)[0], folder / "leader-epoch-checkpoint", snapshot)
    for path, expected in ((index, 1), (log, 1), *((path, 0) for path in right)):
        findings = Findings()
        check_file(Files(), str(path), findings, Options())
        assert len(findings) == expected, (path, findings)


def test_folders_in_the_place_of_files(folder: Path) -> None:
    log = logs(folder)[1]
    for path in (log, log.with_suffix(".timeindex")):
        path.unlink()
        path.mkdir()
    (folder / "mine").mkdir()
    found = said(check(folder))
    assert (ERROR, log.name, "a folder in the place of a segment: the segment's records are lost") in found
    remade = "a folder in the place of a file, which the next start makes"
    assert (WARNING, log.with_suffix(".timeindex").name, remade) in found
    assert (NOTE, "mine", "a folder; brokers leave it alone") in found


def test_a_missing_log_is_an_error_unless_its_segment_was_being_deleted(folder: Path) -> None:
    log = logs(folder)[1]
    log.rename(f"{log}.deleted")
    missing = (ERROR, log.name, f"is missing: its records from {int(log.stem)} on are lost")
    assert missing not in said(check(folder))
    log.with_suffix(".log.deleted").unlink()
    assert missing in said(check(folder))


def test_only_the_first_findings_of_a_file_are_kept() -> None:
    found = Findings()
    for number in range(MAX_OF_A_FILE + 5):
        found.add(ERROR, "a", f"{number}", position=number)
    found.add(NOTE, "b", "other")
    assert len(found) == MAX_OF_A_FILE + 2
    assert found[MAX_OF_A_FILE] == Finding(ERROR, "a", "and more findings")
    assert (found.has(ERROR), found.has(WARNING), found.has(NOTE)) == (True, False, True)
