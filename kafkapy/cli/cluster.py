"""``kafkapy cluster``, for help and completion; ``kafkapy/cli/main.py`` runs ``cluster start`` without typer."""

import os
from pathlib import Path
from typing import Annotated

import typer

from kafkapy.cli.completion import COMPLETION

app = typer.Typer(no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Without a callback typer would make the only command the group itself."""


def _start(context: typer.Context) -> None:
    """Start a cluster of brokers in one process and keep it running until SIGTERM, SIGHUP or Ctrl-C."""
    from kafkapy.cli.cluster_options import parse

    options = parse(context.args)
    from kafkapy.cli import cluster_start

    raise typer.Exit(cluster_start.run(options))


def start_options(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    brokers: Annotated[int | None, typer.Option("--brokers")] = None,
    data: Annotated[Path | None, typer.Option("--data")] = None,
    port: Annotated[int | None, typer.Option("--port")] = None,
    racks: Annotated[str | None, typer.Option("--racks")] = None,
    print_bootstrap: Annotated[bool, typer.Option("--print-bootstrap")] = False,
    control_port: Annotated[int | None, typer.Option("--control-port")] = None,
    log_level: Annotated[str, typer.Option("--log-level")] = "error",
    log_json: Annotated[bool, typer.Option("--log-json")] = False,
) -> None:
    """The options of ``cluster start`` for completion in a shell."""


app.command(
    "start",
    help="Start a cluster of brokers in one process and keep it running until SIGTERM, SIGHUP or Ctrl-C.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(start_options if COMPLETION in os.environ else _start)
