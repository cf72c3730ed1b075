"""The findings of a check of a partition, and its segments."""

from collections.abc import Sequence
from pathlib import Path

from kafkapy.platform.files import Files
from kafkapy.storage.inspection.findings import Finding, Findings
from kafkapy.storage.inspection.partition_check import Options, check_partition


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
