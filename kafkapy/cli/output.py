"""The output of the commands: rich tables for people, JSON for machines; rich is imported for the first table.

Names and messages come from a broker or from files. All output is escaped, so that they can't send escape sequences to
the terminal; JSON keeps their characters as ``\\uXXXX``.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from kafkapy.clients.errors import ClientError, RequestFailedError
from kafkapy.text import printable, printable_json

if TYPE_CHECKING:
    from rich.progress import Progress

Row = Mapping[str, Any]


def show(
    rows: Sequence[Row], *, as_json: bool, title: str = "", if_empty: str = "none", to_error: bool = False
) -> None:  # fmt: skip
    """Print rows of equal columns; the first row's keys are the columns' names.

    Without rows print the title and ``if_empty``. With ``to_error`` the output is on standard error.
    """
    if as_json:
        typer.echo(printable_json(list(rows), indent=2), err=to_error)
    elif not rows:
        say(f"{title}: {if_empty}" if title else if_empty, to_error=to_error)
    else:
        _show_table(rows, title, to_error=to_error)


def _show_table(rows: Sequence[Row], title: str, *, to_error: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(printable(title), style="bold") if title else None, title_justify="left", box=box.SIMPLE_HEAD
    )
    for name, value in rows[0].items():
        table.add_column(name.replace("_", " "), justify="right" if isinstance(value, int) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(_cell(value))) for value in row.values()))
    console = Console(stderr=to_error)
    if not console.is_terminal:
        console.width = 200  # a pipe has no width: don't fold lines for grep
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or "-"
    return str(value)


def done(message: str, *, as_json: bool, **facts: Any) -> None:
    """Print ``message``, or with JSON the facts."""
    if as_json:
        typer.echo(printable_json(facts))
    else:
        say(message)


def counted(count: int, noun: str) -> str:
    """A number with its noun: ``1 record``, ``1,000 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def say(message: str, *, to_error: bool = False) -> None:
    """Print one line, escaped."""
    typer.echo(printable(message), err=to_error)


def fail(message: str) -> NoReturn:
    """End the command with one line on standard error and exit code 1."""
    say(f"kafkapy: {message}", to_error=True)
    raise typer.Exit(1)


def fail_with(error: OSError, what: str = "the file") -> NoReturn:
    """End the command with a system error about a file; a closed pipe for the output is raised again instead."""
    if isinstance(error, BrokenPipeError):
        raise error
    fail(f"{error.filename or what}: {error.strerror}")


@contextmanager
def failures_in_one_line() -> Iterator[None]:
    """End the command with one line and exit code 1 if a client's error is raised."""
    try:
        yield
    except ClientError as error:
        fail(str(error))


def for_each(names: Sequence[str], act: Callable[[str], bool], verb: str, *, as_json: bool) -> None:
    """Call ``act`` with each different name, and print for which names it has changed something.

    ``act`` returns false if there was nothing to change. Each RequestFailedError is a line on standard error, and the
    next name follows; after any other ClientError the remaining names are not tried. Failures lead to exit code 1.
    """
    waiting = dict.fromkeys(names)
    changed, failures = [], []
    for name in names:
        if name not in waiting:
            continue
        del waiting[name]
        try:
            if act(name):
                changed.append(name)
        except RequestFailedError as error:
            failures.append(str(error))
        except ClientError as error:
            failures.append(str(error))
            if waiting:
                failures.append(f"not tried: {', '.join(waiting)}")
            break
    if changed or not failures:
        done(f"{verb}: {', '.join(changed) or 'nothing'}", as_json=as_json, **{verb: changed})
    for failure in failures:
        say(f"kafkapy: {failure}", to_error=True)
    if failures:
        raise typer.Exit(1)


def shows_progress() -> bool:
    """Whether standard error is a terminal, which can show a progress bar."""
    return sys.stderr.isatty()


def progress() -> "Progress":
    """A progress bar of records on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def steps_progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A function that shows what is done now, and how many of ``total`` are done before it.

    It shows them as a bar on standard error, and nothing if that is no terminal.
    """
    if not shows_progress():
        yield lambda _doing, _done: None
        return
    with progress() as bar:
        task = bar.add_task("", total=total)
        yield lambda doing, done: bar.update(task, description=printable(doing), completed=done)


def bytes_progress(*, is_wanted: bool = True) -> "Progress":
    """A progress bar of bytes on standard error, hidden if that is no terminal or the bar is not wanted."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    )  # fmt: skip
    return Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not (is_wanted and shows_progress())
    )


def examples(*lines: str) -> str:
    """The end of a command's help: each example on a line of its own."""
    return "\n\n".join(("Examples:", *(f"  {line}" for line in lines)))


def parse_pairs(pairs: Sequence[str]) -> dict[str, str]:
    """``key=value`` arguments; ends the command if one has no equals sign."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            fail(f"{pair!r} is no setting: write key=value")
        values[name] = value
    return values
