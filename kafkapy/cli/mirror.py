"""``kafkapy mirror``: copies topics from one cluster to another; ``docs/mirror.md`` describes it."""

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer

from kafkapy.cli.connect import connect_by
from kafkapy.cli.options import Json
from kafkapy.cli.output import counted, done, examples, fail, failures_in_one_line, progress, say, shows_progress
from kafkapy.cli.signals import stop_signals
from kafkapy.clients.errors import NoBrokerError
from kafkapy.clients.mirror.common import DEFAULT_GROUP, MirrorOptions
from kafkapy.clients.mirror.engine import Mirror, MirrorProgress
from kafkapy.clock import SystemClock

EXAMPLES: Final = examples(
    "kafkapy mirror --from east:9092 --to west:9092",
    "kafkapy mirror --from east:9092 --to west:9092 --topics 'orders,payments\\..*' --exactly-once",
    "kafkapy mirror --from east:9092 --to west:9092 --groups '.*'",
    "kafkapy mirror --from 127.0.0.1:9092 --to 127.0.0.1:9093 --once",
    "kafkapy mirror --from east:9094 --from-config east.properties --to west:9092",
)
CONFIG_HELP: Final = "Client properties, as for --command-config,"
FromConfig = Annotated[
    Path | None, typer.Option("--from-config", metavar="FILE", help=f"{CONFIG_HELP} of the cluster to copy from.")
]
ToConfig = Annotated[
    Path | None, typer.Option("--to-config", metavar="FILE", help=f"{CONFIG_HELP} of the cluster to copy to.")
]
Interval = Annotated[
    float, typer.Option("--interval", min=0.1, help="Seconds between lines of progress without a terminal.")
]
Side = tuple[Path | None, str]
"""The client properties of a cluster, and its bootstrap addresses."""
TIMEOUT_S: Final = 40.0
"""The longest wait for a response: longer than a broker may take for acks=all."""
END_S: Final = 10.0
"""After a signal: how long the mirror waits for brokers until it ends without its last commit."""


def run(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    source: Annotated[str, typer.Option("--from", metavar="HOST:PORT", help="A broker of the cluster to copy from.")],
    target: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="A broker of the cluster to copy to.")],
    topics: Annotated[
        str, typer.Option("--topics", "-t", metavar="REGEX,…", help="Only topics whose whole name matches.")
    ] = ".*",
    groups: Annotated[
        str,
        typer.Option("--groups", metavar="REGEX,…", help="Translate the offsets of these consumer groups; '.*': all."),
    ] = "",
    group: Annotated[
        str, typer.Option("--group", "-g", help="The group on the target that keeps the positions.")
    ] = DEFAULT_GROUP,
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="Copy in transactions, with their positions.")
    ] = False,
    transactional_id: Annotated[
        str | None, typer.Option("--transactional-id", help="For --exactly-once; the group's name if not given.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all that is there at the start is copied.")] = False,
    sync_configs: Annotated[
        bool,
        typer.Option(
            "--sync-configs/--no-sync-configs", help="Make changes of topics' configuration on the target too."
        ),
    ] = True,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", help="Replicas of topics that are created; -1: as the target likes.")
    ] = -1,
    interval: Interval = 10.0,
    from_config: FromConfig = None,
    to_config: ToConfig = None,
    as_json: Json = False,
) -> None:
    """Copy topics with their partitions from one cluster to another, until SIGTERM, SIGHUP or Ctrl-C.

    Topics whose names begin with __ are not copied. Each record is copied at least once; with --exactly-once, consumers
    of committed records see it exactly once. A mirror that is started again goes on where it was. With --groups the
    committed offsets of consumer groups are translated, so that groups which change the cluster go on where they were.
    """
    if transactional_id is not None and not exactly_once:
        fail("--transactional-id is for --exactly-once only")
    if not group:
        fail("--group is empty: name the group on the target that keeps the positions, or leave the option out")
    if not topics:
        fail("--topics is empty: write a Python regular expression, or leave the option out to copy all topics")
    options = MirrorOptions(
        topics=_patterns("--topics", topics),
        groups=_patterns("--groups", groups),
        group=group,
        transactional_id=(transactional_id or group) if exactly_once else None,
        once=once,
        replication_factor=replication_factor,
        sync_configs=sync_configs,
    )
    found = _copy((from_config, source), (to_config, target), options, interval)
    message = f"copied {counted(found.records, 'record')} of {counted(found.partitions, 'partition')}"
    rest = "" if not found.lag else f"; {counted(found.lag, 'offset')} left"
    done(message + rest, as_json=as_json, **found._asdict())


def _copy(source: Side, target: Side, options: MirrorOptions, interval_s: float) -> MirrorProgress:
    """Run a mirror to its end; a failure ends the command with one line."""
    now_s = SystemClock().monotonic_s
    with failures_in_one_line(), ExitStack() as stack:
        clients = tuple(stack.enter_context(connect_by(*each, TIMEOUT_S)) for each in (source, target))
        stop = stack.enter_context(_stopped_by_signals())
        mirror = Mirror(
            (clients[0], clients[1]),
            options,
            now_s=now_s,
            report=lambda line: say(f"kafkapy: {line}", to_error=True),
        )
        mirror.open(stop)
        show = _bar(stack, mirror.progress) if shows_progress() else _lines(now_s, interval_s)
        if not stop.is_set():
            mirror.run(stop, show)
        stack.pop_all().close()
    return mirror.progress


def _patterns(option: str, text: str) -> list[re.Pattern[str]]:
    return [_pattern(option, part) for part in text.split(",")] if text else []


def _pattern(option: str, part: str) -> re.Pattern[str]:
    advice = "write a Python regular expression; a comma divides patterns"
    if not part:
        fail(f"{option}: a pattern is empty: {advice}")
    try:
        return re.compile(part)
    except re.error as error:
        fail(f"{option}: {part!r} is no pattern: {error}: {advice}")


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that ``stop_signals`` set; what is under way is finished first, a second Ctrl-C ends at once.

    Brokers that are silent can't hold the mirror: some time after the signal, waiting for them raises NoBrokerError.
    """
    stop = threading.Event()

    def heard(number: int, _frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop.is_set():
            before.setdefault(signal.SIGALRM, signal.signal(signal.SIGALRM, is_late))
            signal.setitimer(signal.ITIMER_REAL, END_S, 1.0)  # again and again: the next address may be silent too
        stop.set()

    def is_late(_number: int, _frame: FrameType | None) -> None:
        raise NoBrokerError(f"brokers have not answered within {END_S:.0f} s of the signal")

    before = {number: signal.signal(number, heard) for number in stop_signals()}
    try:
        yield stop
    finally:
        if stop.is_set():
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _lines(now_s: Callable[[], float], interval_s: float) -> Callable[[MirrorProgress], None]:
    """One line per interval on standard error."""
    last_s, last_size = now_s(), 0

    def show(found: MirrorProgress) -> None:
        nonlocal last_s, last_size
        now = now_s()
        if now - last_s >= interval_s:
            rate = (found.size - last_size) / (now - last_s) / 1e6
            say(_line(found, rate), to_error=True)
            last_s, last_size = now, found.size

    return show


def _line(found: MirrorProgress, rate: float) -> str:
    partitions = counted(found.partitions, "partition")
    return f"{counted(found.records, 'record')} of {partitions} copied, {rate:.1f} MB/s, {_lag(found)}"


def _lag(found: MirrorProgress) -> str:
    return f"lag {found.lag:,}" if found.is_connected else "not connected"


def _bar(stack: ExitStack, first: MirrorProgress) -> Callable[[MirrorProgress], None]:
    """A bar of offsets on the terminal: those that are copied, of these and the lag."""
    bar = stack.enter_context(progress())
    task = bar.add_task("mirroring", total=first.lag)

    def show(found: MirrorProgress) -> None:
        text = f"mirroring {counted(found.partitions, 'partition')}, {_lag(found)}"
        bar.update(task, description=text, completed=found.records, total=found.records + found.lag)

    return show
