"""``kafkapy log repair``."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import typer

from kafkapy.clock import SystemClock
from kafkapy.cluster.metadata_file import metadata_path, read_file_tree
from kafkapy.cluster.metadata_tree import MetadataError
from kafkapy.cluster.sqlite_file import StoreFileError
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.log_config import LogConfig
from kafkapy.server.commands.output import done, fail, show
from kafkapy.storage.errors import KafkaStorageError, LogDirectoryError
from kafkapy.storage.files import Files
from kafkapy.storage.inspection.overlay import CUT, Action
from kafkapy.storage.inspection.repair import Repaired, repair


class RepairOptions(NamedTuple):
    """What the user wants of it."""

    whole: bool
    dry_run: bool
    yes: bool
    as_json: bool


def run(directories: Sequence[str], options: RepairOptions) -> None:
    """Try it, ask when something would be cut off, do it, say what was done."""
    files = Files()
    for directory in directories:
        if not files.exists(directory):
            fail(f"there is no data directory {directory}")
    try:
        configs = _topic_configs(directories)
        planned = _repair(directories, configs, options, dry_run=True)
        if options.dry_run:
            _report(planned, options)
            return
        if not options.yes and any(action.kind == CUT for action in planned.actions):
            _report(planned, options._replace(dry_run=True, as_json=False), to_terminal=True)
            typer.confirm("Do that?", abort=True, err=True)
        _report(_repair(directories, configs, options, dry_run=False), options)
    except (LogDirectoryError, KafkaStorageError, StoreFileError, MetadataError) as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")


def _topic_configs(directories: Sequence[str]) -> Callable[[str], LogConfig]:
    """Each topic's own settings where kafkapy's metadata is there: they say how dense the indexes are."""
    config = BrokerConfig.from_properties({})
    overrides: Mapping[str, Mapping[str, str]] = read_file_tree(metadata_path(directories[0])).configs("topics")
    return lambda topic: LogConfig.resolve(config, overrides.get(topic, {}))


def _repair(
    directories: Sequence[str], configs: Callable[[str], LogConfig], options: RepairOptions, *, dry_run: bool
) -> Repaired:
    return repair(directories, SystemClock(), configs, whole=options.whole, dry_run=dry_run)


def _report(found: Repaired, options: RepairOptions, *, to_terminal: bool = False) -> None:
    if options.as_json:
        listed = [action._asdict() for action in found.actions]
        done("", as_json=True, dry_run=options.dry_run, actions=listed, reasons=found.reasons)
        return
    if found.actions:
        show([_row(action, options) for action in found.actions], as_json=False, title="repair")
    for reason in found.reasons:
        typer.echo(f"kafkapy: {reason}", err=to_terminal)
    cuts = sum(1 for action in found.actions if action.kind == CUT)
    would = "would be" if options.dry_run else "were"
    typer.echo(f"{len(found.actions)} files {would} changed, {cuts} of them logs that {would} cut")


def _row(action: Action, options: RepairOptions) -> dict[str, str]:
    return {("would be" if options.dry_run else "was"): action.kind, "file": action.path, "how": action.detail}
