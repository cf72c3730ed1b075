"""``kafkapy log repair``."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import typer

from kafkapy.cli.output import bytes_progress, counted, done, fail, fail_with, say, show
from kafkapy.clock import SystemClock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.log_config import LogConfig
from kafkapy.metadata.exchange.metadata_file import metadata_path, read_file_tree
from kafkapy.metadata.exchange.metadata_tree import MetadataError
from kafkapy.metadata.store import StoreFileError
from kafkapy.platform.errors import KafkaStorageError, LogDirectoryError
from kafkapy.platform.files import Files
from kafkapy.storage.data_directory import LOCK_NAME, parse_partition
from kafkapy.storage.inspection.directory_check import is_data_directory, list_logs
from kafkapy.storage.inspection.overlay import CUT, REMOVED, RENAMED, Action
from kafkapy.storage.inspection.repair import Repaired, repair
from kafkapy.storage.log.segment import LOG_SUFFIX


class RepairOptions(NamedTuple):
    """The options of ``kafkapy log repair``."""

    whole: bool
    dry_run: bool
    yes: bool
    as_json: bool


def run(directories: Sequence[str], options: RepairOptions) -> None:
    """Plan the repair, ask for confirmation if records would be lost, repair, and list the changes."""
    for directory in directories:
        _require_data_directory(directory)
        if Files().is_locked(f"{directory}/{LOCK_NAME}"):
            fail(f"{directory} is in use by a broker (lock file {directory}/{LOCK_NAME}); stop it first")
    try:
        configs = _topic_configs(directories)
        planned = _repair(directories, configs, options, dry_run=True)
        if options.dry_run:
            _report(planned, options)
            return
        if not options.yes and any(_may_lose(action) for action in planned.actions):
            _report(planned, options._replace(dry_run=True, as_json=False), to_error=True)
            typer.confirm("Do that?", abort=True, err=True)
        _report(_repair(directories, configs, options, dry_run=False), options)
    except (LogDirectoryError, KafkaStorageError, StoreFileError, MetadataError, InvalidConfigError) as error:
        fail(str(error))
    except OSError as error:
        fail_with(error)


def _require_data_directory(directory: str) -> None:
    """End the command unless ``directory`` is a data directory: others must not get a lock file and checkpoints."""
    files, given = Files(), f"{directory}: "
    if not files.exists(directory):
        fail(f"data directory {directory} does not exist")
    if not os.path.isdir(directory):
        fail(given + "not a directory; give a broker's data directories, all of log.dirs")
    if parse_partition(os.path.basename(os.path.abspath(directory))) and not files.exists(f"{directory}/{LOCK_NAME}"):
        fail(given + "a partition's folder; give the data directory around it, with the broker's others")
    if not is_data_directory(files, directory, by_name=False) and not _has_segments(files, directory):
        fail(given + "no data directory: it has neither a broker's files nor partitions")


def _has_segments(files: Files, directory: str) -> bool:
    folders = (files.list_directory(f"{directory}/{partition}") for partition in list_logs(files, directory))
    return any(name.endswith(LOG_SUFFIX) for folder in folders for name, _ in folder)


def _may_lose(action: Action) -> bool:
    """Whether the action cuts off batches, or takes a whole segment out of the log."""
    return action.kind == CUT or (action.kind in (RENAMED, REMOVED) and action.path.endswith(LOG_SUFFIX))


def _topic_configs(directories: Sequence[str]) -> Callable[[str], LogConfig]:
    """Each topic's settings, if kafkapy's metadata exists: they determine how dense the indexes are."""
    config = BrokerConfig.from_properties({})
    overrides: Mapping[str, Mapping[str, str]] = read_file_tree(metadata_path(directories[0])).configs("topics")
    return lambda topic: LogConfig.resolve(config, overrides.get(topic, {}))


def _repair(
    directories: Sequence[str], configs: Callable[[str], LogConfig], options: RepairOptions, *, dry_run: bool
) -> Repaired:
    with bytes_progress() as bar:
        task = bar.add_task("checking" if dry_run else "repairing", total=None)
        return repair(
            directories, SystemClock(), configs, whole=options.whole, dry_run=dry_run,
            progress=lambda count: bar.advance(task, count),
        )  # fmt: skip


def _report(found: Repaired, options: RepairOptions, *, to_error: bool = False) -> None:
    if options.as_json:
        listed = [action._asdict() for action in found.actions]
        done("", as_json=True, dry_run=options.dry_run, actions=listed, reasons=found.reasons)
        return
    if found.actions:
        show([_row(action, options) for action in found.actions], as_json=False, title="repair", to_error=to_error)
    for reason in found.reasons:
        say(f"kafkapy: {reason}", to_error=to_error)
    cuts = sum(1 for action in found.actions if action.kind == CUT)
    changed, cut = ("would change", "to cut") if options.dry_run else ("changed", "cut")
    typer.echo(f"{changed} {counted(len(found.actions), 'file')}; logs {cut}: {cuts}", err=to_error)


def _row(action: Action, options: RepairOptions) -> dict[str, str]:
    return {("would be" if options.dry_run else "was"): action.kind, "file": action.path, "how": action.detail}
