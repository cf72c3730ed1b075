"""A partition with everything in it, and damage."""

from collections.abc import Sequence
from pathlib import Path
from struct import Struct

from kafkapy.config.log_config import LogConfig
from kafkapy.platform.files import Files
from kafkapy.storage.inspection.findings import Finding, Findings
from kafkapy.storage.inspection.partition_check import Options, check_partition
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock
from tests.storage.support import PARTITION, START_MS, batch, marker, produced

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


def written(directory: Path) -> Path:
    """A partition with several segments, producers and transactions, stopped cleanly; its folder."""
    manager = LogManager(
        [str(directory)], LogConfig(segment_bytes=6000, index_interval_bytes=500), ManualClock(START_MS)
    )
    load_logs(manager)
    log = manager.get_or_create(PARTITION)
    for number in range(40):
        log.append_as_leader(batch(1 + number % 3, timestamp=START_MS + number, value=b"v" * 300), number // 30)
        log.append_as_leader(produced(number, transactional=True), number // 30)
        if number % 10 == 9:
            log.append_as_leader(marker(commit=number % 20 == 19), number // 30, from_client=False)
    log.update_high_watermark(log.log_end_offset)
    manager.shutdown()
    manager.directories.unlock()
    return directory / str(PARTITION)


def check(folder: Path, **options: bool) -> Findings:
    """The findings of a check of the partition."""
    findings = Findings()
    check_partition(Files(), str(folder), findings, Options(**options))  # type: ignore[arg-type]  # flags only
    return findings


def said(findings: Sequence[Finding]) -> list[tuple[str, str, str]]:
    """(severity, name of the file, message) of each."""
    return [(each.severity, Path(each.path).name, each.message) for each in findings]


def logs(folder: Path) -> list[Path]:
    """The ``.log`` files, oldest first."""
    return sorted(folder.glob("*.log"))


def change(path: Path, position: int, content: bytes) -> None:
    """Overwrite some bytes."""
    data = bytearray(path.read_bytes())
    position = position if position >= 0 else len(data) + position
    data[position : position + len(content)] = content
    path.write_bytes(data)
