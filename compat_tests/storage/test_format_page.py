"""The page on the formats explains a directory that 2.7.2 writes now: while it runs, killed, and after a clean stop."""

import shutil
from pathlib import Path

import pytest

from compat_tests.storage.make_golden import SETTINGS, wait_for_cleaner, write
from harness.real_kafka import RealKafka
from harness.storage.format_page import Page, check_directory
from kafkapy.platform.files import Files
from kafkapy.storage.inspection.directory_check import check_directory as verify
from kafkapy.storage.inspection.findings import ERROR, Findings
from kafkapy.storage.inspection.partition_check import Options

pytestmark = pytest.mark.java


def _errors(directory: Path) -> list[str]:
    findings = Findings()
    verify(Files(), str(directory), findings, Options())
    return [f"{each.path}: {each.message}" for each in findings if each.severity == ERROR]


def test_the_page_explains_what_kafka_writes(tmp_path: Path) -> None:
    page = Page()
    with RealKafka("2.7.2", heap="256M", config=SETTINGS) as broker:
        write(broker)
        wait_for_cleaner(broker)
        broker.kill()
        killed = Path(shutil.copytree(broker.data, tmp_path / "killed"))
        counts = check_directory(page, killed)
        assert counts["message set entry 0, codec 3"] == 3
        assert (killed / "cut-0" / f"{0:020d}.index").stat().st_size == 10 * 1024 * 1024
        assert _errors(killed) == []
