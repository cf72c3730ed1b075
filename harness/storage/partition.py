"""A partition with segments, producers and transactions, written by kafkapy, and damage to its files."""

from pathlib import Path
from struct import Struct

from harness.storage.batches import PARTITION, START_MS, batch, marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.storage.log_manager import LogManager
from kafkapy.storage.log_manager_start import load_logs
from kafkapy.testing.clock import ManualClock

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


def change(path: Path, position: int, content: bytes) -> None:
    """Overwrite some bytes."""
    data = bytearray(path.read_bytes())
    position = position if position >= 0 else len(data) + position
    data[position : position + len(content)] = content
    path.write_bytes(data)
