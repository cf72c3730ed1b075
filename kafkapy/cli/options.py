"""Options that several commands have."""

from typing import Annotated

import typer

from kafkapy.clients.cluster import DEFAULT_BOOTSTRAP

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="KAFKAPY_BOOTSTRAP", metavar="HOST:PORT", help="A broker, or several with commas."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]

__all__ = ["DEFAULT_BOOTSTRAP", "Bootstrap", "Json", "Yes"]
