"""Faults on three brokers, one window after the other: `python -m compat_tests.chaos.cluster_campaign --windows 1000`.

Three `kafkapy start` (or, with `--target kafka`, three Apache Kafka 2.7.2) share a ZooKeeper; each has a network
namespace and a small file system of its own. `windows.py` has the faults, drawn by the seed, `workload.py` the
clients, `checks.py` the rules. Each round of windows uses new topics, which are read and compared when the round
ends. After each window producers, transactions and the group must make progress within `--bound` seconds. A campaign
ends at its first violation unless `--go-on` is given; it then keeps the logs and the data of the brokers. `--seed S
--from-window N` begins at window N of seed S.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compat_tests.chaos.names import Names, misplaced_names
from compat_tests.chaos.namespaces import Network, isolate
from compat_tests.chaos.three_machines import (
    BROKERS,
    ZOOKEEPER,
    NoProgressError,
    Size,
    ThreeMachines,
    temporary_directory,
)
from compat_tests.chaos.windows import NEED_NAMESPACES, Faults, Kind, Window
from compat_tests.chaos.workload import History, Round
from harness.process import BrokerError, wait_for

MODULE = "compat_tests.chaos.cluster_campaign"
PER_ROUND = 20
BOUND_S = 60.0
SETTLE_S = 120.0
Result = dict[str, Any]


class Campaign:
    """Windows on one cluster; `results` has a line for each."""

    def __init__(self, options: argparse.Namespace, network: Network | None, directory: Path) -> None:
        self._options = options
        self._network = network
        self._directory = directory
        self._kinds = [each for each in Kind if network is not None or each not in NEED_NAMESPACES]
        if options.kind:
            self._kinds = [each for each in self._kinds if each.name.lower() in options.kind]
        self._began_s = time.monotonic()
        self.results: list[Result] = []
        self.violations: list[str] = []
        self.errors: dict[str, int] = defaultdict(int)
        self.refused: dict[str, int] = defaultdict(int)
        self.longest_s: dict[str, float] = defaultdict(float)
        self.acknowledged = self.committed = self.rounds = self.ended_by_themselves = 0

    def say(self, line: str) -> None:
        """A line with the time since the beginning."""
        print(f"[{self._options.name}{time.monotonic() - self._began_s:7.1f}] {line}", flush=True)

    def run(self) -> None:
        """All windows, or those until the first violation; after a violation the next ones have a new cluster."""
        number: int = self._options.from_window
        last: int = number + self._options.windows
        for cluster_number in itertools.count(1):
            size = Size(self._options.internal_partitions, self._options.topics, session_ms=self._options.session_ms)
            directory = self._directory / str(cluster_number)
            with ThreeMachines(self._options.target, directory, self._network, size) as cluster:
                number = self._run_on(cluster, number, last)
            if number >= last or self._is_over():
                return

    def _run_on(self, cluster: ThreeMachines, first: int, last: int) -> int:
        """Rounds until one has a violation; returns the number of the next window."""
        faults = Faults(cluster, self.say)
        self._names = Names(cluster)
        for start in range(first, last, int(self._options.per_round)):
            end = min(start + int(self._options.per_round), last)
            before = len(self.violations), faults.ended_by_themselves
            try:
                self._round(cluster, faults, range(start, end))
            finally:
                self.ended_by_themselves += faults.ended_by_themselves - before[1]
                if len(self.violations) > before[0]:
                    cluster.keep()
            self._write()
            if len(self.violations) > before[0] or self._is_over():
                return end
        return last

    def _is_over(self) -> bool:
        if self.violations and not self._options.go_on:
            return True
        minutes: float | None = self._options.minutes
        return minutes is not None and time.monotonic() - self._began_s > minutes * 60

    def _round(self, cluster: ThreeMachines, faults: Faults, numbers: Iterable[int]) -> None:
        self.rounds += 1
        clients: Round | None = None
        history = History(self.rounds, self._options.copiers + self._options.java)
        names = history.topics
        before = len(self.violations)
        try:
            cluster.create_topics(*names)
            clients = Round(history, cluster.bootstrap, f"{self._options.seed}/{self.rounds}", self._options.java)
            self._wait_for_progress(cluster, clients, time.monotonic(), SETTLE_S)
            self.violations += self._names.check(SETTLE_S)
            for number in numbers:
                window = Window.drawn(self._options.seed, number, self._kinds)
                self._window(cluster, faults, clients, window, names)
                if self.violations[before:] or clients.history.violations or self._is_over():
                    break
            cluster.wait(lambda: cluster.is_whole(names), "all replicas in sync", SETTLE_S)
        except (NoProgressError, BrokerError, AssertionError) as error:
            self.violations.append(str(error))
        if clients is not None:
            clients.finish()
            self.violations += clients.history.violations
            repeated = cluster.repeated_batches(names[0])
            self.violations += [*repeated, *clients.history.doubled] if repeated else []
            for doubled in clients.history.doubled if not repeated else ():
                self.say(f"NOTE {doubled}: sent again under a new producer epoch")
                clients.history.count("librdkafka has sent records again under a new producer epoch")
            self.violations += misplaced_names(cluster)
            if not self.violations[before:]:
                self.violations += self._differing(cluster, names)
            self._count(clients)
        for violation in self.violations[before:]:
            self.say(f"VIOLATION {violation}")
        self.say(f"round {self.rounds}: {self.acknowledged} acknowledged, {self.committed} transactions so far")
        if not self.violations[before:]:
            self.violations += self._tracebacks(cluster)
            cluster.delete_topics(*names)

    def _window(
        self, cluster: ThreeMachines, faults: Faults, clients: Round, window: Window, names: tuple[str, ...]
    ) -> None:
        began_s = time.monotonic()
        try:
            faults.run(window, names[0])
        finally:
            if self._network is not None:
                self._network.heal()
        over_s = time.monotonic()
        recovered = self._wait_for_progress(cluster, clients, over_s, self._options.bound)
        if window.waits_for_replicas:
            seconds = cluster.wait(lambda: cluster.is_whole(names), "all replicas in sync", SETTLE_S)
            recovered["replicas"] = round(time.monotonic() - over_s, 2) if seconds else 0.0
        asked_s = time.monotonic()
        self.violations += self._names.check(self._options.bound)
        recovered["names"] = round(time.monotonic() - asked_s, 2)
        self.say("  " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in recovered.items()))
        self.results.append(
            {
                "number": window.number,
                "kind": window.kind.value,
                "aim": window.aim.value,
                "seconds": round(over_s - began_s, 2),
                "recovered_s": recovered,
            }
        )

    @staticmethod
    def _wait_for_progress(cluster: ThreeMachines, clients: Round, since_s: float, bound_s: float) -> dict[str, float]:
        """The seconds until each kind of work has gone on; raises NoProgressError."""
        found: dict[str, float] = {}

        def all_go_on() -> bool:
            clients.replace_stuck_copiers()
            for name, goes_on in clients.has_progressed(since_s).items():
                if goes_on and name not in found:
                    found[name] = round(time.monotonic() - since_s, 2)
            return len(found) == 3 or bool(clients.history.violations)

        if not wait_for(all_go_on, bound_s, 0.1):
            missing = {"produce", "transaction", "group"} - set(found)
            states = cluster.states(clients.history.topics)
            raise NoProgressError(f"no progress: {sorted(missing)} after {bound_s:.0f} s; leaders and ISR: {states}")
        return found

    def _differing(self, cluster: ThreeMachines, names: tuple[str, ...]) -> list[str]:
        found: list[str] = []

        def are_the_same() -> bool:
            found[:] = [each for name in names for each in cluster.differing_replicas(name)]
            return not found

        wait_for(are_the_same, 20, 1.0)
        return found

    def _tracebacks(self, cluster: ThreeMachines) -> list[str]:
        if cluster.target == "kafka":
            return []
        return [
            f"a traceback in the log of broker {number}: {cluster.brokers[number].log_path}"
            for number in BROKERS
            if b"Traceback (most recent call last)" in cluster.brokers[number].log_path.read_bytes()
        ]

    def _count(self, clients: Round) -> None:
        self.acknowledged += clients.history.acknowledged_count
        self.committed += clients.history.committed_count
        for sums, counts in ((self.errors, clients.history.errors), (self.refused, clients.history.refused)):
            for error, count in counts.items():
                sums[error] += count

        for call, seconds in clients.history.longest_s.items():
            self.longest_s[call] = max(self.longest_s[call], seconds)

    def _write(self) -> None:
        if self._options.out is not None:
            self._options.out.write_text(json.dumps(self.summary()))

    def summary(self) -> Result:
        """Everything that a table is made of."""
        return {
            "target": self._options.target,
            "seed": self._options.seed,
            "windows": self.results,
            "violations": self.violations,
            "acknowledged": self.acknowledged,
            "transactions": self.committed,
            "rounds": self.rounds,
            "ended_by_themselves": self.ended_by_themselves,
            "errors": dict(self.errors),
            "refused": dict(self.refused),
            "longest_s": dict(self.longest_s),
            "minutes": round((time.monotonic() - self._began_s) / 60, 1),
        }


def table(summaries: list[Result]) -> str:
    """Kinds and aims of all windows, with the slowest recoveries, as Markdown."""
    windows = [window for summary in summaries for window in summary["windows"]]
    lines = ["| fault | aimed at | windows | produce again after, s: median, worst | transactions | group | in sync |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|")
    groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for window in windows:
        groups[window["kind"], window["aim"]].append(window)
    order = {kind.value: place for place, kind in enumerate(Kind)}
    for (kind, aim), found in sorted(groups.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        cells = [_median_and_worst(found, name) for name in ("produce", "transaction", "group", "replicas")]
        lines.append(f"| {kind} | {aim} | {len(found)} | {' | '.join(cells)} |")
    cells = [_median_and_worst(windows, name) for name in ("produce", "transaction", "group", "replicas")]
    lines.append(f"| all | | {len(windows)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _median_and_worst(windows: list[Result], name: str) -> str:
    values = sorted(window["recovered_s"][name] for window in windows if name in window["recovered_s"])
    return f"{values[len(values) // 2]:.1f}, {values[-1]:.1f}" if values else "–"


def report(summaries: list[Result]) -> int:
    """Prints the tables and the sums; returns the number of violations."""
    print(table(summaries))
    violations = [each for summary in summaries for each in summary["violations"]]
    sums: dict[str, dict[str, int]] = {"errors": defaultdict(int), "refused": defaultdict(int)}
    for summary in summaries:
        for name, found in sums.items():
            for error, count in summary[name].items():
                found[error] += count
    print(f"\ntarget {summaries[0]['target']}, seeds {[summary['seed'] for summary in summaries]}")
    print(
        f"{sum(len(each['windows']) for each in summaries)} windows in "
        f"{max(each['minutes'] for each in summaries)} minutes, "
        f"{sum(each['acknowledged'] for each in summaries)} records acknowledged, "
        f"{sum(each['transactions'] for each in summaries)} transactions committed, "
        f"{sum(each['ended_by_themselves'] for each in summaries)} brokers ended by themselves, "
        f"{len(violations)} violations"
    )
    for name, found in sums.items():
        print(f"\n{name}:")
        for error, count in sorted(found.items(), key=lambda item: -item[1])[:20]:
            print(f"  {count} × {error}")
    for call in sorted({call for summary in summaries for call in summary["longest_s"]}):
        print(f"\nthe longest {call}: {max(summary['longest_s'].get(call, 0.0) for summary in summaries)} s")
    for violation in violations:
        print(f"VIOLATION {violation}")
    return len(violations)


def read_summaries(path: Path) -> list[Result]:
    """The results of one cluster, or of several."""
    found: Result | list[Result] = json.loads(path.read_text())
    return found if isinstance(found, list) else [found]


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Faults on three brokers under load, one window after the other.")
    parser.add_argument("--windows", type=int, default=1000)
    parser.add_argument("--minutes", type=float, help="begin no window after that time")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--from-window", type=int, default=0, metavar="N")
    parser.add_argument("--per-round", type=int, default=PER_ROUND, metavar="WINDOWS")
    parser.add_argument(
        "--clusters", type=int, default=1, help="as many at the same time, with seeds that follow each other"
    )
    size = Size()
    parser.add_argument(
        "--internal-partitions", type=int, default=size.internal_partitions, metavar="N",
        help="of __consumer_offsets and of __transaction_state",
    )  # fmt: skip
    parser.add_argument(
        "--topics", type=int, default=size.topics, metavar="N",
        help=f"further topics of {size.partitions_each} partitions, with no records",
    )  # fmt: skip
    parser.add_argument(
        "--session-ms", type=int, default=size.session_ms, help="of the brokers in ZooKeeper; longer on a busy machine"
    )
    parser.add_argument("--copiers", type=int, default=1, metavar="N", help="workers in librdkafka, exactly once")
    parser.add_argument("--java", type=int, default=0, metavar="N", help="workers in Java, exactly once")
    parser.add_argument("--target", choices=("kafkapy", "kafka"), default="kafkapy")
    parser.add_argument(
        "--kind", action="append", choices=[each.name.lower() for each in Kind], help="only these faults"
    )
    parser.add_argument("--bound", type=float, default=BOUND_S, metavar="S", help="seconds until all work goes on")
    parser.add_argument("--go-on", action="store_true", help="after a violation, too")
    parser.add_argument("--no-namespaces", action="store_true", help="signals only")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the results as JSON")
    parser.add_argument(
        "--report", type=Path, nargs="+", metavar="FILE", help="print the tables of these results, run nothing"
    )
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> None:
    """Run the campaign of the command line and print its result."""
    options = parse()
    if options.report:
        sys.exit(min(report([each for path in options.report for each in read_summaries(path)]), 1))
    if options.clusters > 1:
        sys.exit(run_several(options))
    reason = "as told" if options.no_namespaces else isolate(MODULE, [*sys.argv[1:], "--seed", str(options.seed)])
    network = None if reason else Network([*BROKERS, ZOOKEEPER])
    if reason:
        left_out = ", ".join(each.value for each in Kind if each in NEED_NAMESPACES)
        print(f"NO NETWORK NAMESPACES ({reason}): only signals and ZooKeeper. Left out: {left_out}", flush=True)
    directory = temporary_directory()
    campaign = Campaign(options, network, directory)
    campaign.say(f"{options.target}, seed {options.seed}; logs: {directory}")
    try:
        campaign.run()
    finally:
        if network is not None:
            network.close()
    if report([campaign.summary()]):
        print(f"The logs and the data: {directory}; again with --seed {options.seed}")
        sys.exit(1)
    shutil.rmtree(directory)


class Part:
    """One of several clusters, run by processes of its own."""

    def __init__(self, options: argparse.Namespace, index: int, directory: Path) -> None:
        self._options = options
        self._index = index
        self._directory = directory
        self.summaries: list[Result] = []
        self.crashes: list[str] = []
        self.code = 0

    def run(self) -> None:
        """Runs the share of the windows; librdkafka may end the process, then a new one begins with the next round."""
        options = self._options
        began_s = time.monotonic()
        first = options.from_window
        last = first + -(-options.windows // options.clusters)
        while first < last:
            out = self._directory / f"part-{self._index}-from-{first}.json"
            own = ["--clusters", "1", "--windows", str(last - first), "--from-window", str(first), "--out", str(out)]
            own += ["--seed", str(options.seed + self._index), "--name", f"{self._index} "]
            if options.minutes is not None:
                own += ["--minutes", str(options.minutes - (time.monotonic() - began_s) / 60)]
            command = [sys.executable, "-m", MODULE, *sys.argv[1:], *own]
            self.code = subprocess.Popen(command, start_new_session=True).wait()
            summary: Result | None = json.loads(out.read_text()) if out.exists() else None
            if summary is not None:
                self.summaries.append(summary)
            if self.code >= 0:
                return
            done = len(summary["windows"]) if summary is not None else 0
            first += done + options.per_round
            self.crashes.append(f"signal {-self.code} ended the clients of cluster {self._index} before window {first}")
            print(f"CLIENTS CRASHED: {self.crashes[-1]}; its round is not counted", flush=True)


def run_several(options: argparse.Namespace) -> int:
    """Clusters side by side; returns the exit code."""
    directory = temporary_directory()
    parts = [Part(options, index, directory) for index in range(options.clusters)]
    threads = [threading.Thread(target=part.run) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summaries = [summary for part in parts for summary in part.summaries]
    print("\n=== all clusters ===")
    for crash in (crash for part in parts for crash in part.crashes):
        print(f"CLIENTS CRASHED: {crash}")
    if options.out is not None:
        options.out.write_text(json.dumps(summaries))
    return 1 if not summaries or report(summaries) or any(part.code for part in parts) else 0


if __name__ == "__main__":
    main()
