"""The command line with all commands. A group of commands is imported when one of them runs, or for its help."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Final

import typer

from kafkapy.cli import show_version
from kafkapy.cli.completion import COMPLETION
from kafkapy.cli.connect import secured
from kafkapy.cli.output import examples

_GROUPS: Final = {
    "cluster": "Start several brokers of one cluster in one process.",
    "topics": "Create, list, describe, change, move and delete topics, and elect leaders.",
    "groups": "Show consumer groups, delete them, and change their offsets.",
    "transactions": "Show transactional ids, and abort open transactions.",
    "users": "Show, store and remove the SCRAM credentials of users.",
    "quotas": "Show, set and remove limits of what users and client ids take.",
    "tokens": "Create, renew, expire and show delegation tokens.",
    "certificates": "Make certificates for tests and small installations.",
    "acls": "Show, add and remove access control lists.",
    "configs": "Show and change the configuration of topics and brokers.",
    "metadata": "Copy a stopped broker's metadata to and from a ZooKeeper or a document.",
    "log": "Show, check and repair the files of a data directory.",
}
_COMMANDS: Final = {
    "brokers": "Show the brokers of a cluster.",
    "produce": "Write records from lines of text to a topic.",
    "consume": "Read the records of a topic and print them.",
    "mirror": "Copy topics from one cluster to another.",
}
_KAFKAS_NAMES: Final = {"bootstrap-server": "bootstrap", "max-messages": "max-records"}
"""The names that options have in the tools of Apache Kafka: they are accepted, too, but not listed."""
_SETTINGS: Final = {
    "help_option_names": ["--help", "-h"],
    "token_normalize_func": lambda name: _KAFKAS_NAMES.get(name, name),
}


def build(words: Sequence[str]) -> typer.Typer:
    """The application with the command or group that ``words`` begin with, or with all for help and completion."""
    app = typer.Typer(
        help="A Kafka broker in Python, and commands for any Kafka broker.",
        epilog=examples(
            "kafkapy start --data ./data",
            "kafkapy cluster start --brokers 3",
            "kafkapy topics create flights --partitions 4",
            "kafkapy produce flights < flights.csv",
            "kafkapy consume flights --from-beginning --max-records 5",
        ),
        no_args_is_help=True,
        context_settings=_SETTINGS,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    app.command(
        "start",
        help="Start a broker and keep it running until SIGTERM, SIGHUP or Ctrl-C.",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_start_options if COMPLETION in os.environ else _start)
    known = {*_GROUPS, *_COMMANDS}
    wanted = set(words[:1]) & known or known
    for name, text in _COMMANDS.items():
        if name in wanted:
            module = import_module(f"kafkapy.cli.{name}")
            app.command(name, help=text, epilog=module.EXAMPLES)(secured(module.run))
    for name, text in _GROUPS.items():
        if name in wanted:
            app.add_typer(_secured(import_module(f"kafkapy.cli.{name}").app), name=name, help=text)
    return app


def _secured(group: typer.Typer) -> typer.Typer:
    """Give the commands of a group the options of ``secured``, once."""
    for command in group.registered_commands:
        if command.callback is not None and "command_config" not in signature(command.callback).parameters:
            command.callback = secured(command.callback)
    return group


def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and which record scan runs.")] = False,
) -> None:
    if version:
        raise typer.Exit(show_version())


def _start(context: typer.Context) -> None:
    from kafkapy.cli.start_options import parse

    options = parse(context.args)
    from kafkapy.cli import start

    raise typer.Exit(start.run(options))


def _start_options(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    data: Annotated[Path | None, typer.Option("--data")] = None,
    port: Annotated[int | None, typer.Option("--port")] = None,
    config: Annotated[Path | None, typer.Option("--config")] = None,
    ephemeral: Annotated[bool, typer.Option("--ephemeral")] = False,
    print_bootstrap: Annotated[bool, typer.Option("--print-bootstrap")] = False,
    security: Annotated[str | None, typer.Option("--security")] = None,
    print_client_properties: Annotated[bool, typer.Option("--print-client-properties")] = False,
    act_as: Annotated[str | None, typer.Option("--act-as")] = None,
    log_level: Annotated[str, typer.Option("--log-level")] = "info",
    log_json: Annotated[bool, typer.Option("--log-json")] = False,
    trace: Annotated[str | None, typer.Option("--trace")] = None,
    trace_json: Annotated[str | None, typer.Option("--trace-json")] = None,
    control_port: Annotated[int | None, typer.Option("--control-port")] = None,
) -> None:
    """The options of ``start`` for completion in a shell; ``start`` parses its arguments itself, without typer."""


def run(words: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    app = build(words)
    try:
        app(args=list(words), prog_name="kafkapy", standalone_mode=True)
    except SystemExit as stopped:
        return stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    except BrokenPipeError:
        sys.stderr.close()  # the reader has closed the pipe
    return 0
