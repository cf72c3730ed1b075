"""The delay of another client by the requests of one connection: every API and version, filled up to a size.

    python -m compat_tests.attack.fairness --kept out/prepared --json out/fairness.json --markdown out/fairness.md
    python -m compat_tests.attack.fairness --topics 300 --groups 300 --transactional-ids 300 --size 1000000
    python -m compat_tests.attack.fairness --apis DescribeConfigs Metadata --versions ends

A broker is prepared with 10,000 topics, 50,000 groups and 10,000 transactional ids, unless the arguments say other
numbers. Each attack (see ``filled``) is sent over one connection, filled to ``socket.request.max.bytes``, again and
again for ``--seconds``, or left after ``--limit`` seconds without an answer. No attack begins after ``--minutes``: the
highest versions come first, then the lowest, then those between. Meanwhile a second
client, a process of its own, sends a small request every 3 ms. A row of the table is one attack: how long until it was
answered, the second client's p99 and maximum, the broker's peak memory above what it had, and how long broker and
client were ready to run without a processor (what other programs of the machine took). An attack beyond a limit is
tried again; the better result counts, so that a busy machine is not taken for a slow broker. The run goes on after an
attack beyond a limit, and ends with the worst of each API as a table, and code 1.
"""

import argparse
import json
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.attack.answers import Answers
from compat_tests.attack.filled import PIPELINE, Filler, Kind, Shape, kinds, shapes
from compat_tests.attack.latencies import Sample, corrected, percentile
from compat_tests.attack.memory import memory_directory
from compat_tests.attack.options import Bounds, bounds_of, parser_of
from compat_tests.attack.prepared import Counts, Prepared
from compat_tests.attack.second_client import Report, SecondClient
from compat_tests.attack.watch import Watch, place_of, waited_s
from harness.measure import BrokerGoneError
from harness.process import HOST, BrokerError
from harness.wire import Wire
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest

FULL_SIZE: Final = 104_000_000
"""A little less than ``socket.request.max.bytes``, unless configured."""
POLL_S: Final = 0.25
HOPELESS_S: Final = 10.0
"""When the second client has waited this long, the attack and the broker are ended."""
SETTLED_SHARE: Final = 0.3
SETTLE_S: Final = 5.0


class Limits(NamedTuple):
    """The limits on the effect of an attack on other clients."""

    bounds: Bounds = Bounds()
    memory_per_byte: int = 64
    memory_bytes: int = 128 << 20
    """Bytes beside the memory of the request."""
    budget: int = 1 << 30
    """Bytes of all requests together: the default of ``queued.max.request.bytes``."""

    def memory(self, size: int) -> int:
        """The bytes that a request of this size may take."""
        return self.memory_bytes + min(self.memory_per_byte * size, self.budget)


class Plan(NamedTuple):
    """The parameters of each attack."""

    size: int
    pipeline_size: int = 256_000
    seconds: float = 0.3
    limit_s: float = 10.0
    tries: int = 3


class Row(NamedTuple):
    """The result of one attack."""

    api: str
    version: int
    filled: str
    kind: str
    size: int
    rounds: int
    """The number of rounds in which all requests were answered, or the connection was closed."""
    duration_s: float
    """Until the first answer, or until the connection was closed by either side."""
    is_closed: bool
    samples: int
    p99_s: float
    max_s: float
    memory: int
    waited_s: float
    faults: list[str]

    def verdict(self, limits: Limits) -> list[str]:
        """The names of the exceeded limits."""
        found = [*self.faults, *limits.bounds.broken(self.p99_s, self.max_s)]
        if self.memory > limits.memory(self.size):
            found.append("memory")
        return found


class Attack:
    """One connection that sends the same bytes again and again."""

    def __init__(self, port: int, data: bytes, requests: int) -> None:
        self._port = port
        self._data = data
        self._requests = requests
        self.rounds = 0
        self.first_s = 0.0
        self.is_closed = False

    def run(self, plan: Plan, goes_on: Callable[[], bool]) -> None:
        """Send until ``plan.seconds`` are over, or the answers to one round take longer than ``plan.limit_s``."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < plan.seconds or not self.rounds:
            with socket.create_connection((HOST, self._port), plan.limit_s) as connection:
                connection.setblocking(False)
                while self._round(connection, time.monotonic() + plan.limit_s, goes_on):
                    self.rounds += 1
                    self.first_s = self.first_s or time.monotonic() - began_s
                    if time.monotonic() - began_s >= plan.seconds:
                        return
            self.is_closed = True
            self.first_s = self.first_s or time.monotonic() - began_s
            if time.monotonic() - began_s >= plan.limit_s or not goes_on():
                return
            self.rounds += 1

    def _round(self, connection: socket.socket, deadline_s: float, goes_on: Callable[[], bool]) -> bool:
        """Send everything and wait for all answers; False if the connection was closed, or the time is over."""
        unsent = memoryview(self._data)
        answers = Answers()
        while answers.count < self._requests:
            writable = [connection] if unsent else []
            readable, writable, _ = select.select([connection], writable, [], POLL_S)
            if time.monotonic() > deadline_s or (not goes_on()):
                return False
            try:
                if writable:
                    unsent = unsent[connection.send(unsent) :]
                if readable and not answers.receive(connection):
                    return False
            except BlockingIOError:
                continue
            except ConnectionError:
                return False
        return True


class Campaign:
    """All attacks on one prepared broker."""

    def __init__(self, prepared: Prepared, second: SecondClient, plan: Plan, limits: Limits) -> None:
        self._prepared = prepared
        self._second = second
        self._plan = plan
        self._limits = limits
        self._filler = Filler(prepared.counts)
        self._watch = Watch(prepared.broker)
        self._reports: list[Report] = []
        self._asked_s = 0.0

    def idle(self, seconds: float) -> tuple[float, float]:
        """The second client's p99 and maximum without an attack."""
        self._second.report()
        time.sleep(seconds)
        found = corrected(self._second.report().samples, self._second.interval_s)
        return percentile(found, 0.99), found[-1]

    def rows(self, chosen: Iterator[tuple[Shape, Kind]]) -> Iterator[Row]:
        """Run the attacks; the best try of each counts."""
        for shape, kind in chosen:
            best = self._try(shape, kind)
            for _ in range(self._plan.tries - 1):
                broken = best.verdict(self._limits)
                if not broken or best.faults or best.max_s >= HOPELESS_S:
                    break
                other = self._try(shape, kind)
                if len(other.verdict(self._limits)) < len(broken) or other.max_s < best.max_s:
                    best = other
            yield best

    def _try(self, shape: Shape, kind: Kind) -> Row:
        """Run one attack. A broker that does not answer before or after it is its fault; the other attacks follow."""
        try:
            return self._attacked(shape, kind)
        except (OSError, AssertionError, BrokerError) as error:
            fault = f"{type(error).__name__}: {str(error)[:200]}"
            self._restore()
            return Row(shape.api, shape.version, shape.title, kind.title, 0, 0, 0, True, 0, 0, 0, 0, 0, [fault])

    def _attacked(self, shape: Shape, kind: Kind) -> Row:
        size = self._plan.pipeline_size if shape.place[0] == PIPELINE else self._plan.size
        producer = self._prepared.fresh_producer() if self._filler.takes_producer(shape) else None
        data, requests = self._filler.frame(shape, kind, size, producer)
        pid = self._prepared.broker.pid
        assert pid is not None
        before = self._watch.resident_bytes()
        self._watch.forget_peak()
        waited_before_s = waited_s(pid) + waited_s(self._second.pid)
        self._second.report()
        self._reports = []
        attack = Attack(self._prepared.broker.port, data, requests)
        faults: list[str] = []
        with suppress(ConnectionRefusedError):
            attack.run(self._plan, self._goes_on)
        end_s = time.monotonic()
        has_settled = self._settle()
        self._reports.append(self._second.report())
        during = corrected(
            [each for each in self._samples() if each[1] <= end_s], self._second.interval_s, self._stall_s
        )
        longest = max([self._stall_s, *(each[2] for each in self._samples())])
        waited = waited_s(pid) + waited_s(self._second.pid) - waited_before_s
        memory = max(0, self._watch.peak_bytes() - before)
        faults += sorted({place_of(each) for each in self._watch.tracebacks()})
        faults += sorted({each for report in self._reports for each in report.faults})[:3]
        if why := self._prepared.broker.why_gone():
            faults.append(f"broker gone: {why}")
        if why or not has_settled or not self._prepared.is_whole():
            self._restore()
        return Row(
            shape.api, shape.version, shape.title, kind.title, len(data), attack.rounds, attack.first_s,
            attack.is_closed, len(during), percentile(during, 0.99), longest, memory, waited, faults,
        )  # fmt: skip

    def _goes_on(self) -> bool:
        """Whether the second client still gets responses; called often, checks a few times a second."""
        now_s = time.monotonic()
        if self._reports and now_s - self._asked_s < POLL_S:
            return True
        self._asked_s = now_s
        self._reports.append(self._second.report())
        return self._stall_s < HOPELESS_S and not self._prepared.broker.why_gone()

    @property
    def _stall_s(self) -> float:
        return self._reports[-1].waiting_s if self._reports else 0.0

    def _samples(self) -> list[Sample]:
        return [each for report in self._reports for each in report.samples]

    def _settle(self) -> bool:
        """Wait until the broker is idle again; False if that takes too long, or took too long before."""
        deadline_s = time.monotonic() + SETTLE_S
        if self._stall_s >= HOPELESS_S:
            return False
        try:
            while time.monotonic() < deadline_s:
                used_s = self._busy_s()
                time.sleep(0.1)
                if self._busy_s() - used_s <= 0.1 * SETTLED_SHARE:
                    return True
        except BrokerGoneError:
            pass
        return False

    def _busy_s(self) -> float:
        """Seconds in which the broker ran, or waited for a processor."""
        return self._watch.processor_s() + waited_s(self._prepared.broker.pid or 0)

    def _restore(self) -> None:
        self._prepared.restore()
        self._watch.tracebacks()
        while not self._second.report().samples:
            time.sleep(0.05)


def advertised(bootstrap: str) -> Iterator[tuple[int, int, int]]:
    """The API key, lowest and highest version of all APIs that the broker advertises."""
    with Wire(bootstrap) as wire:
        for each in wire.ask(ApiVersionsRequest(), 0).api_keys:
            yield each.api_key, each.min_version, each.max_version


def attacks(
    served: Iterator[tuple[int, int, int]], versions: str, apis: Sequence[str] = ()
) -> Iterator[tuple[Shape, Kind]]:
    """The attacks on what is served; ``versions`` is ``all``, ``ends`` (lowest and highest) or ``highest``.

    The highest versions come first, then the lowest, then those between: a run may end before all are done.
    """
    ranges = list(served)
    highest = [(key, high) for key, _, high in ranges]
    lowest = [(key, low) for key, low, high in ranges if low < high]
    between = [(key, version) for key, low, high in ranges for version in range(low + 1, high)]
    chosen = {"all": highest + lowest + between, "ends": highest + lowest, "highest": highest}[versions]
    for key, version in chosen:
        for shape in shapes(key, version):
            if not apis or shape.api in apis:
                yield from ((shape, kind) for kind in kinds(shape))


HEAD: Final = (
    f"{'API':22} {'v':>2} {'filled':36} {'kind':24} {'bytes':>9} {'rounds':>6} {'answer s':>9} "
    f"{'p99 ms':>8} {'max ms':>9} {'MiB':>6} {'wait ms':>7}  beyond"
)


def line(row: Row, limits: Limits) -> str:
    """A row of the table; a ``c`` behind the duration: one of the two sides closed the connection."""
    closed = "c" if row.is_closed else " "
    return (
        f"{row.api:22} {row.version:2} {row.filled:36.36} {row.kind:24.24} {row.size:9} {row.rounds:6} "
        f"{row.duration_s:8.3f}{closed} {row.p99_s * 1000:8.1f} {row.max_s * 1000:9.1f} {row.memory / 2**20:6.0f} "
        f"{row.waited_s * 1000:7.0f}  {', '.join(row.verdict(limits))}"
    )


def table(rows: Sequence[Row], limits: Limits) -> Iterator[str]:
    """The worst of each API as lines of Markdown, and each attack beyond a limit."""
    yield "| API | attacks | worst p99, ms | worst, ms | most memory, MiB | beyond a limit |"
    yield "|---|---|---|---|---|---|"
    for api in dict.fromkeys(row.api for row in rows):
        own = [row for row in rows if row.api == api]
        p99_ms, max_ms = (max(values) * 1000 for values in ([r.p99_s for r in own], [r.max_s for r in own]))
        memory = max(row.memory for row in own) >> 20
        beyond = sum(bool(row.verdict(limits)) for row in own)
        yield f"| {api} | {len(own)} | {p99_ms:.1f} | {max_ms:.1f} | {memory} | {beyond} |"
    broken = [row for row in rows if row.verdict(limits)]
    if broken:
        yield from ("", "| beyond a limit | filled | kind | bytes | p99, ms | worst, ms | limit |", "|---" * 7 + "|")
    for row in broken:
        yield (
            f"| {row.api} v{row.version} | {row.filled} | {row.kind} | {row.size} | {row.p99_s * 1000:.1f} "
            f"| {row.max_s * 1000:.1f} | {', '.join(row.verdict(limits))} |"
        )


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=50_000)
    parser.add_argument("--transactional-ids", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="bytes of one large request")
    parser.add_argument("--pipeline-size", type=int, default=256_000, help="bytes of many small ones in one write")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each attack is repeated")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds without an answer that end an attack")
    parser.add_argument("--minutes", type=float, default=40.0, help="no attack begins after this time")
    parser.add_argument("--tries", type=int, default=2)
    parser.add_argument("--apis", nargs="+", default=[], help="names as Kafka spells them: DescribeConfigs")
    parser.add_argument("--versions", choices=["all", "ends", "highest"], default="all")
    parser.add_argument("--kept", type=Path, help="directory for the prepared data, used again by later runs")
    parser.add_argument("--json", type=Path, help="a file for all rows, written as they come")
    parser.add_argument("--markdown", type=Path, help="a file for the table at the end")
    parser.add_argument("--only-beyond", action="store_true", help="print the rows that broke a limit")
    return parser.parse_args(given)


def run(wanted: argparse.Namespace) -> int:
    """Run the command; returns 1 if a row is beyond a limit or an attack was not reached, else 0."""
    began_s = time.monotonic()
    plan = Plan(wanted.size, wanted.pipeline_size, wanted.seconds, wanted.limit, wanted.tries)
    limits = Limits(bounds_of(wanted))
    counts = Counts(wanted.topics, wanted.groups, wanted.transactional_ids)
    found: list[Row] = []
    with (
        memory_directory() as directory,
        Prepared(counts, directory=directory, kept=wanted.kept) as prepared,
        SecondClient(prepared.broker.port) as second,
    ):
        print(f"prepared in {time.monotonic() - began_s:.0f} s", flush=True)
        campaign = Campaign(prepared, second, plan, limits)
        p99_s, max_s = campaign.idle(2.0)
        print(f"idle: p99 {p99_s * 1000:.1f} ms, max {max_s * 1000:.1f} ms", HEAD, sep="\n", flush=True)
        chosen = list(attacks(advertised(prepared.broker.bootstrap), wanted.versions, wanted.apis))
        in_time = (each for each in chosen if time.monotonic() - began_s < wanted.minutes * 60)
        for row in campaign.rows(in_time):
            found.append(row)
            if row.verdict(limits) or not wanted.only_beyond:
                print(line(row, limits), flush=True)
            if wanted.json:
                with wanted.json.open("a") as file:
                    file.write(json.dumps(row._asdict()) + "\n")
    minutes = (time.monotonic() - began_s) / 60
    beyond = sum(bool(row.verdict(limits)) for row in found)
    ending = f"{len(found)} of {len(chosen)} attacks in {minutes:.1f} minutes, {beyond} beyond a limit."
    report = [*table(found, limits), "", ending]
    print(*report, sep="\n")
    if wanted.markdown:
        wanted.markdown.write_text("\n".join(report) + "\n")
    return int(len(found) < len(chosen) or beyond > 0)


def main() -> int:
    return run(arguments(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
