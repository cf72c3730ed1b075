"""What the demonstrations print: their steps with the time that each took, and errors that a user can act on."""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from harness.java import NoJavaError
from spark_examples.common.broker import running_broker

CONSOLE = Console()


def at_least(smallest: int) -> Callable[[str], int]:
    """The type of an option whose value is a whole number of this size or larger."""

    def number(text: str) -> int:
        value = int(text)
        if value < smallest:
            raise argparse.ArgumentTypeError(f"{value} is too small: {smallest} is the smallest value")
        return value

    return number


def demonstration_options(name: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with the options of all demonstrations."""
    parser = argparse.ArgumentParser(
        prog=f"python -m spark_examples {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this broker instead of starting kafkapy")
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory of the results (default: out)")
    parser.add_argument("--master", metavar="URL", help="run on this Spark cluster, spark://HOST:PORT")
    return parser


def add_resume(parser: argparse.ArgumentParser, description: str) -> None:
    """Adds --resume, which needs a broker that has the topics of an earlier run."""
    parser.add_argument("--resume", action="store_true", help=description)


def parsed(parser: argparse.ArgumentParser, words: list[str]) -> Any:
    """The arguments, with the directory of the results made; ends the program with a message for bad ones."""
    arguments = parser.parse_args(words)
    if getattr(arguments, "resume", False) and arguments.bootstrap is None:
        parser.error("--resume needs --bootstrap: a broker that a run has started ended with it, and so did its topics")
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {arguments.out} is no directory that can be written: {error.strerror}")
    return arguments


@dataclass
class Summary:
    """What ran and how long each part took."""

    steps: list[tuple[str, float, str]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        """Times a part of the run; what the part appends becomes its remark."""
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


def run_on_broker(arguments: Any, run: Callable[[str, Summary], None]) -> int:
    """Runs the demonstration on the given broker, or on one of its own; the exit status of the program."""
    summary = Summary()
    try:
        with ExitStack() as stack:
            with summary.step("start the broker" if arguments.bootstrap is None else "reach the broker") as remarks:
                address = stack.enter_context(running_broker(arguments.bootstrap, arguments.out / "broker.log"))
                remarks.append(address)
            run(address, summary)
    except (NoJavaError, RuntimeError, OSError) as error:
        CONSOLE.print(f"[red]{error}", soft_wrap=True)
        return 1
    except KafkaError as error:
        CONSOLE.print(f"[red]The broker (--bootstrap) did not answer as expected: {error}", soft_wrap=True)
        return 1
    summary.print()
    return 0
