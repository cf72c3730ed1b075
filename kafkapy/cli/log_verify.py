"""``kafkapy log verify``."""

import os
from collections.abc import Sequence

import typer

from kafkapy.cli.output import bytes_progress, counted, done, fail, fail_with, show
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import parse_partition
from kafkapy.storage.inspection.directory_check import check_directory, is_data_directory, list_logs
from kafkapy.storage.inspection.findings import ERROR, WARNING, Findings
from kafkapy.storage.inspection.partition_check import Options, check_file, check_partition
from kafkapy.storage.log.leader_epochs import LEADER_EPOCHS_NAME
from kafkapy.storage.log.segment import BASE_DIGITS, LOG_SUFFIX

ERRORS_FOUND = 1
WARNINGS_FOUND = 3


def run(paths: Sequence[str], *, headers_only: bool, as_json: bool) -> None:
    """Check the files and show the findings; the exit code is by their severity."""
    files, findings = Files(), Findings()
    checked = [os.path.normpath(path) for path in paths]
    for path in checked:
        if os.path.exists(path) and not os.path.isdir(path) and not _is_of_a_partition(path):
            fail(f"{path} is not a file of a partition's log: to check a checkpoint, give the data directory")
    try:
        total = sum(_bytes(files, path) for path in checked)
        with bytes_progress() as bar:
            task = bar.add_task("verifying", total=total)
            for path in checked:
                options = Options(deep=not headers_only, progress=lambda count: bar.advance(task, count))
                _check(files, path, findings, options)
    except OSError as error:
        fail_with(error)
    rows = [finding._asdict() for finding in findings]
    counts = {kind: sum(1 for each in findings if each.severity == kind) for kind in (ERROR, WARNING)}
    if as_json:
        done("", as_json=True, bytes=total, findings=rows, **{f"{kind}s": count for kind, count in counts.items()})
    else:
        if rows:
            show(rows, as_json=False, title="problems")
        problems = ", ".join(counted(counts[kind], kind) for kind in (ERROR, WARNING))
        typer.echo(f"{counted(total, 'byte')} of batches checked: {problems}")
    if counts[ERROR] or counts[WARNING]:
        raise typer.Exit(ERRORS_FOUND if counts[ERROR] else WARNINGS_FOUND)


def _check(files: Files, path: str, findings: Findings, options: Options) -> None:
    if not os.path.isdir(path):
        check_file(files, os.path.abspath(path) if os.sep not in path else path, findings, options)
    elif is_data_directory(files, path):
        check_directory(files, path, findings, options)
    else:
        _annotate(files, path, options)
        check_partition(files, path, findings, options)


def _annotate(files: Files, path: str, options: Options) -> None:
    """Set the options that depend on the partition's data directory: it is in use, its last stop was clean."""
    parent = os.path.dirname(os.path.abspath(path))
    options.is_in_use = files.is_locked(f"{parent}/.lock")
    options.is_clean = files.exists(f"{parent}/.kafka_cleanshutdown") or not files.exists(f"{parent}/meta.properties")


def _bytes(files: Files, path: str) -> int:
    if not os.path.isdir(path):
        files.size(path)  # raises OSError if the file is missing
        return _bytes_read_for(files, path)
    if parse_partition(os.path.basename(os.path.abspath(path))) is None or is_data_directory(files, path):
        return sum(_bytes_of_logs(files, f"{path}/{partition}") for partition in list_logs(files, path))
    return _bytes_of_logs(files, path)


def _is_of_a_partition(path: str) -> bool:
    name = os.path.basename(path)
    return name[:BASE_DIGITS].isdecimal() or name == LEADER_EPOCHS_NAME


def _bytes_read_for(files: Files, path: str) -> int:
    """The sizes of the logs that are read: for an index the ``.log`` beside it, for the leader epochs every one."""
    directory, name = os.path.split(path)
    base = name[:BASE_DIGITS] if name[:BASE_DIGITS].isdecimal() else ""
    logs = files.list_directory(directory or os.curdir)
    return sum(size for other, size in logs if other.endswith(LOG_SUFFIX) and other.startswith(base))


def _bytes_of_logs(files: Files, path: str) -> int:
    return sum(size for name, size in files.list_directory(path) if name.endswith(LOG_SUFFIX))
