"""`python -m bench`: kafkapy, Kafka 2.7.2 and Kafka 4.4.0 side by side on this machine, as one table.

About 20 minutes; --quick takes a few. When --minutes are over, what is left is measured once each. Ctrl-C ends it
with the table so far. A missed limit is a line of the table; the exit code is 1 only when a load failed or the
comparison could not run.
"""

import argparse
import datetime
import signal
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import report
from bench.brokers import machine
from bench.brokers.contestants import NAMES, Arena
from bench.brokers.memory import fill_free_memory
from bench.loads.load import SettlingLoad
from bench.loads.records import TOOLS
from bench.rows import LONG_LOG_GB, Row, all_rows, chosen, needs_warm_brokers, warm_up_loads
from bench.runner import Runner, Runs, loads_of, turns
from harness.jars import BENCH_VERSIONS, JarsError, class_path
from harness.java import NoJavaError, find_java
from harness.kafkapy_process import ROOT
from harness.measure import BrokerGoneError, LoadError
from harness.process import BrokerError

OUT = ROOT / "out" / "bench"
ROUNDS, QUICK_ROUNDS = 3, 2


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        "python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, fewer rounds: a few minutes")
    parser.add_argument("--only", metavar="ROW", action="append", default=[], help="this row (or fetch-*); repeatable")
    parser.add_argument("--broker", choices=NAMES, action="append", default=[], help="only these; repeatable")
    parser.add_argument("--rounds", type=int, help=f"measured rounds (default: {ROUNDS}, quick {QUICK_ROUNDS})")
    parser.add_argument("--name", help="of this kind of run, such as the interpreter's (in the file's name)")
    parser.add_argument("--minutes", type=float, default=18.0, help="full rounds for so long (default: 18)")
    parser.add_argument("--long-log", metavar="GB", type=int, default=LONG_LOG_GB, help="of the log that is read")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    return parser.parse_args()


def list_rows(rows: list[Row]) -> None:
    """Prints what --only takes."""
    width = max(len(row.id) for row in rows)
    for row in rows:
        print(f"{row.id:{width}}  {row.title} ({row.unit})")


def compare(
    rows: list[Row], brokers: list[str], arguments: argparse.Namespace, done: dict[str, Runs], about: dict[str, str]
) -> None:
    """Runs every load under a progress bar, and puts its runs into `done` when they are complete.

    Adds to what is said `about` the machine.
    """
    console = Console(stderr=True)
    loads = loads_of(rows)
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    needs_warm = needs_warm_brokers(loads)
    warming = warm_up_loads(quick=arguments.quick) if needs_warm else []
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=console) as progress, Arena() as arena:
        total = len(brokers) * (1 + len(warming)) + sum(len(list(turns(load, brokers, rounds))) for load in loads)
        task = progress.add_task("", total=total)

        def say(what: str) -> None:
            progress.update(task, description=what)
            if not console.is_terminal:
                console.print(what)

        def step(what: str) -> None:
            progress.advance(task)
            say(what)

        if not arguments.quick:
            filled = fill_free_memory(arena.scratch, say)
            about["free memory before"] = f"{filled / 2**30:.1f} GiB filled with pages of a file (brokers/memory.py)"
        deadline = time.monotonic() + 60 * arguments.minutes
        runner = Runner(arena, brokers, rounds, step, start=needs_warm)
        runner.warm_up(warming)
        for place, load in enumerate(loads):
            if time.monotonic() > deadline:
                runner.rounds = 1
            label = next(row.id for row in rows if row.load == load)
            done[repr(load)] = runner.measure(load, label)
            following = loads[place + 1] if place + 1 < len(loads) else None
            # A fetch row reads what the produce row before it wrote.
            if getattr(following, "workload", None) != getattr(load, "workload", None):
                runner.drop_topics()
            if not isinstance(following, SettlingLoad):
                arena.end_shared_clusters()


def run(arguments: argparse.Namespace) -> int:
    """The whole comparison; the exit code."""
    rows = all_rows(quick=arguments.quick, long_log_gb=arguments.long_log)
    if not arguments.list or arguments.only:
        rows = chosen(rows, arguments.only)
    if arguments.list:
        list_rows(rows)
        return 0
    brokers = [name for name in NAMES if not arguments.broker or name in arguments.broker]
    find_java()
    for version in (*BENCH_VERSIONS, TOOLS):
        class_path(version)
    about = machine.describe()
    runs: dict[str, Runs] = {}
    trouble = ""
    try:
        compare(rows, brokers, arguments, runs, about)
    except (BrokerGoneError, KeyboardInterrupt) as error:
        trouble = str(error) or "stopped"
        if not runs:
            raise
    results = [report.Result.of(row, runs[repr(row.load)]) for row in rows if repr(row.load) in runs]
    Console(width=None if sys.stdout.isatty() else 170).print(report.table(results))
    for failure in dict.fromkeys(f"{name}: {why}" for result in results for name, why in result.failures.items()):
        print(f"failed: {failure}")
    if trouble:
        print(f"bench: {trouble}; the table ends there", file=sys.stderr)
    _store(arguments, about, results, runs)
    return 1 if trouble or any(result.failures for result in results) else 0


def _store(
    arguments: argparse.Namespace, about: dict[str, str], results: list[report.Result], runs: dict[str, Runs]
) -> None:
    """Writes the samples of the run below out/, in place of those of an earlier run of this name."""
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    name = arguments.name or ("quick" if arguments.quick else "")
    path = OUT / f"{name or 'run'}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.document({"date": date, "name": name, "machine": about}, results, runs))
    print(f"{path}; python -m bench.pages {path.relative_to(ROOT)} adds it to the pages of bench/results")


def main() -> int:
    """Runs the comparison and turns what can go wrong into one line."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(parse())
    except (NoJavaError, JarsError, BrokerGoneError, LoadError, BrokerError, ValueError, OSError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        print(f"bench: {' … '.join(dict.fromkeys([lines[0], lines[-1]]))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
