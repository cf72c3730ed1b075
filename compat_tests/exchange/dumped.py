"""Kafka's own tool, and ours, over a whole data directory that has moved."""

from collections.abc import Sequence
from pathlib import Path

from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools
from kafkapy.storage.files import Files
from kafkapy.storage.inspection.directory_check import check_directory
from kafkapy.storage.inspection.findings import NOTE, Findings
from kafkapy.storage.inspection.partition_check import Options


def nothing_is_wrong(data: Path, versions: Sequence[str]) -> None:
    """``kafka-dump-log`` of each release, with its decoders and index checks, and ``log verify`` find nothing."""
    findings = Findings()
    check_directory(Files(), str(data), findings, Options())
    assert [each for each in findings if each.severity != NOTE] == []
    for version in versions:
        with Tools(version) as tools:
            _dump_all(tools, data)


def _dump_all(tools: Tools, data: Path) -> None:
    dump(tools, _files(data, ".log"), "--deep-iteration")
    dump(tools, _files(data, ".log", "__consumer_offsets-*"), "--deep-iteration", "--offsets-decoder")
    dump(tools, _files(data, ".log", "__transaction_state-*"), "--deep-iteration", "--transaction-log-decoder")
    for suffix in (".index", ".timeindex"):
        dump(tools, _files(data, suffix), "--index-sanity-check")
        dump(tools, _files(data, suffix), "--verify-index-only")
    for suffix in (".snapshot", ".txnindex"):
        dump(tools, _files(data, suffix))


def _files(data: Path, suffix: str, folders: str = "*-*") -> list[Path]:
    found = sorted(data.glob(f"{folders}/*{suffix}"))
    assert found, (suffix, folders)
    return found
