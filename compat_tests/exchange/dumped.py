"""Kafka's own tool, and ours, over a whole data directory that has moved."""

from collections.abc import Sequence
from pathlib import Path

from compat_tests.clients.java_tools.dump import dump
from compat_tests.clients.java_tools.tools import Tools, ToolsOf
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import DELETE_SUFFIX
from kafkapy.storage.inspection.directory_check import check_directory
from kafkapy.storage.inspection.findings import NOTE, Findings
from kafkapy.storage.inspection.partition_check import Options

# What the tool reports of Apache Kafka's own files too: gaps are what compaction leaves, and the index of a segment of
# formats 0 and 1 names the last message of an append at the position of the first, which the tool takes for a batch.
GAPS = ("compacted",)
SINGLE_MESSAGES = ("format0", "format1")


def nothing_is_wrong(data: Sequence[Path], tools_of: ToolsOf, versions: Sequence[str]) -> None:
    """``kafka-dump-log`` of each release, with its decoders and index checks, and ``log verify`` find nothing."""
    findings = Findings()
    for directory in data:
        check_directory(Files(), str(directory), findings, Options())
    assert [each for each in findings if each.severity != NOTE] == []
    for version in versions:
        _dump_all(tools_of(version), data)


def _dump_all(tools: Tools, data: Sequence[Path]) -> None:
    dump(tools, _files(data, ".log", without=GAPS), "--deep-iteration")
    dump(tools, _files(data, ".log", "__consumer_offsets-*"), "--deep-iteration", "--offsets-decoder")
    if states := _files(data, ".log", "__transaction_state-*"):
        dump(tools, states, "--deep-iteration", "--transaction-log-decoder")
    for suffix in (".index", ".timeindex"):
        dump(tools, _files(data, suffix), "--index-sanity-check")
        dump(tools, _files(data, suffix, without=SINGLE_MESSAGES), "--verify-index-only")
    for suffix in (".snapshot", ".txnindex"):
        dump(tools, _files(data, suffix))


def _files(data: Sequence[Path], suffix: str, folders: str = "*-*", without: Sequence[str] = ()) -> list[Path]:
    found = sorted(path for directory in data for path in directory.glob(f"{folders}/*{suffix}"))
    kept = (path for path in found if not path.parent.name.endswith(DELETE_SUFFIX))
    return [path for path in kept if not path.parent.name.startswith(tuple(without))]
