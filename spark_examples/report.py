"""What the examples print: their steps with the time that each took, and errors that a user can act on."""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from harness.java import NoJavaError
from spark_examples.broker import running_broker

CONSOLE = Console()


def parsed_arguments(parser: argparse.ArgumentParser) -> Any:
    """The arguments; ends the program with a message for --resume without --bootstrap."""
    arguments = parser.parse_args()
    if arguments.resume and arguments.bootstrap is None:
        parser.error("--resume needs --bootstrap: a broker that a run has started ended with it, and so did its topics")
    return arguments


@dataclass
class Summary:
    """What ran and how long each part took."""

    steps: list[tuple[str, float, str]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Times a part of the job; what the part appends becomes its remark."""
        remarks: list[str] = []
        CONSOLE.print(f"[cyan]▸[/] {name} …")
        started = time.monotonic()
        yield remarks
        self.steps.append((name, time.monotonic() - started, ", ".join(remarks)))

    def print(self) -> None:
        """The closing table."""
        table = Table(title="What ran", title_justify="left")
        table.add_column("part")
        table.add_column("seconds", justify="right")
        table.add_column("result")
        for name, seconds, remark in self.steps:
            table.add_row(name, f"{seconds:.1f}", remark)
        table.add_section()
        table.add_row("[bold]together", f"[bold]{sum(seconds for _, seconds, _ in self.steps):.1f}", "")
        CONSOLE.print(table)


def number_table(title: str, first: str, *others: str) -> Table:
    """A table whose first column is text, the others numbers."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right")
    return table


def run_on_broker(bootstrap: str | None, job: Callable[[str, Summary], None]) -> int:
    """Runs the job on the given broker, or on one of its own; the exit status of the program."""
    summary = Summary()
    try:
        with ExitStack() as stack:
            with summary.step("start the broker") as remarks:
                address = stack.enter_context(running_broker(bootstrap))
                remarks.append(address)
            job(address, summary)
    except (NoJavaError, RuntimeError) as error:
        CONSOLE.print(f"[red]{error}", soft_wrap=True)
        return 1
    summary.print()
    return 0
