"""A compaction's ``.swap`` file: the next start puts it in the place of the segments that it was made from."""

from typing import Final

from kafkapy.storage.inspection.findings import ERROR, Findings
from kafkapy.storage.inspection.log_scan import LogScan
from kafkapy.storage.io.files import Files
from kafkapy.storage.log.segment import LOG_SUFFIX
from kafkapy.storage.recovery.replace import SWAP_SUFFIX

LOG_SWAP_SUFFIX: Final = LOG_SUFFIX + SWAP_SUFFIX
_THEN: Final = "; the next start puts this file in the place of whole ones, unless they are all there"


def check_swap(files: Files, path: str, findings: Findings) -> None:
    """Each batch of a ``.log.swap``: damage there is worse than in the segments that it is about to replace."""
    scan = LogScan(files, path)
    next_offset = 0
    for scanned in scan:
        header = scanned.header
        where = {"position": scanned.position, "offset": header.base_offset}
        if not scanned.crc_is_valid:
            findings.add(ERROR, path, f"the batch's CRC is wrong{_THEN}", **where)
        elif header.base_offset < next_offset:
            findings.add(
                ERROR, path, f"offset {header.base_offset} where at least {next_offset} was due{_THEN}", **where
            )
        next_offset = max(next_offset, header.next_offset)
    if scan.problem is not None:
        findings.add(ERROR, path, scan.problem + _THEN, position=scan.position)
