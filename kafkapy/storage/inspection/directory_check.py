"""Checks a whole data directory: its partitions, its checkpoints, its identity, and whether a broker is using it."""

import os

from kafkapy.platform.errors import LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START_OFFSET, RECOVERY_POINT, OffsetCheckpoint
from kafkapy.storage.data_directory import (
    CLEAN_SHUTDOWN_NAME,
    LOCK_NAME,
    META_PROPERTIES_NAME,
    DataDirectory,
    parse_partition,
)
from kafkapy.storage.errors import MalformedCheckpointError
from kafkapy.storage.inspection.findings import ERROR, NOTE, WARNING, Findings
from kafkapy.storage.inspection.partition_check import Extent, Options, check_partition
from kafkapy.types import TopicPartition


def is_data_directory(files: Files, directory: str, *, by_name: bool = True) -> bool:
    """Whether the folder is a data directory: it has a broker's files, or (``by_name``) no partition's name."""
    names = {name for name, _ in files.list_directory(directory)}
    known = {META_PROPERTIES_NAME, RECOVERY_POINT, HIGH_WATERMARK, CLEAN_SHUTDOWN_NAME, LOCK_NAME}
    return bool(names & known) or (by_name and parse_partition(os.path.basename(directory)) is None)


def list_logs(files: Files, directory: str) -> list[TopicPartition]:
    """The partitions that have a folder in the data directory."""
    listed = ((parse_partition(name), size) for name, size in files.list_directory(directory))
    return sorted(partition for partition, size in listed if partition is not None and size < 0)


def check_directory(files: Files, directory: str, findings: Findings, options: Options) -> dict[TopicPartition, Extent]:
    """Check a data directory and everything in it; return the extent of each partition."""
    options.is_in_use = files.is_locked(f"{directory}/{LOCK_NAME}")
    options.is_clean = files.exists(f"{directory}/{CLEAN_SHUTDOWN_NAME}")
    if options.is_in_use:
        findings.add(NOTE, directory, "a broker is using it: files that it is writing now may look unfinished")
    elif not options.is_clean:
        findings.add(NOTE, directory, "the last stop was not clean: the next start reads the ends of the logs")
    _check_identity(files, directory, findings)
    futures = _check_folders(files, directory, findings)
    copies = {partition: check_partition(files, path, findings, options) for partition, path in futures.items()}
    extents = {
        partition: check_partition(files, f"{directory}/{partition}", findings, options)
        for partition in list_logs(files, directory)
    }
    for name in (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET, CLEANER):
        _check_checkpoint(files, f"{directory}/{name}", {**copies, **extents}, findings, options)
    return extents


def _check_identity(files: Files, directory: str, findings: Findings) -> None:
    path = f"{directory}/{META_PROPERTIES_NAME}"
    if files.is_directory(path):
        return  # reported with the other folders
    try:
        identity = DataDirectory(files, directory).read_identity()
    except LogDirectoryError as error:
        findings.add(ERROR, path, str(error))
        return
    if identity is None:
        findings.add(NOTE, path, "is missing: the next start writes it")
    elif identity.broker_id is None or identity.cluster_id is None:
        findings.add(WARNING, path, "lacks the broker's or the cluster's id")


def _check_folders(files: Files, directory: str, findings: Findings) -> dict[TopicPartition, str]:
    """Report unusual folders; return those of future replicas."""
    try:
        found = DataDirectory(files, directory).list_partitions()
    except LogDirectoryError as error:
        findings.add(ERROR, directory, f"{error}; no broker starts with it")
        return {}
    for path in found.leftovers:
        findings.add(NOTE, path, "a deleted partition; it is removed some time after the next start")
    for partition, path in found.futures.items():
        findings.add(NOTE, path, f"a copy of {partition}, which is being moved here; it goes on after the next start")
    return found.futures


def _check_checkpoint(
    files: Files, path: str, extents: dict[TopicPartition, Extent], findings: Findings, options: Options
) -> None:
    try:
        offsets = OffsetCheckpoint(files, path).read()
    except MalformedCheckpointError as error:
        findings.add(WARNING, path, f"{error}; the next start goes on without it")
        return
    for partition, offset in offsets.items():
        extent = extents.get(partition)
        is_lost = options.is_clean and not options.is_in_use and path.endswith(RECOVERY_POINT) and offset > 0
        if extent is None:
            findings.add(ERROR if is_lost else NOTE, path, f"{partition} {offset}: there is no such folder")
        elif offset > extent.end_offset and not options.is_in_use:
            severity = ERROR if is_lost else WARNING
            findings.add(severity, path, f"{partition} {offset}: the log ends at {extent.end_offset}")
        elif offset < 0:
            findings.add(ERROR, path, f"{partition} {offset}: an offset can't be negative")
