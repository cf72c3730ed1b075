"""Records the request trace of a broker with crawlers among its clients, finds them in it, and checks what was found.

The trace is of a kafkapy broker of its own, with real clients, each at an address of its own, and crawlers among them
(spark_examples/security/request_trace.py). Its lines go unchanged into a topic, with broken ones among them, in two
halves with a restart from the checkpoints between. Rates, sessions, blocks and dead letters must be those of plain
Python. With --resume nothing is sent, and the queries continue from their checkpoints.
"""

import argparse
import json
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaProducer

from spark_examples.common import topics
from spark_examples.common.progress import Progress, StartAgainError, Totals, check_none_late
from spark_examples.common.report import (
    CONSOLE,
    Summary,
    add_resume,
    at_least,
    demonstration_options,
    number_table,
    parsed,
    run_on_broker,
)
from spark_examples.common.session import open_session
from spark_examples.data import flights
from spark_examples.security import chart, job, request_trace
from spark_examples.security.check import Block, Findings, Spans, check, expected, parse_trace

PREFIX = "security"
PARTITIONS = 3
RECORD_S = 12
CHUNK = 500
HOUR_MS = 3_600_000
END = "end"
"""The address of the closing line."""
BROKEN_LINES = (
    b'{"kind": "request", "time_ms": 17955477',
    b"no line at all",
    b'{"kind": "request", "peer": "1.2.3.4:5"}',
)


@dataclass(frozen=True)
class Input:
    """Where the lines come from, and how fast they are sent."""

    trace: Path | None
    seconds: int
    speed: int | None


class Detection:
    """Runs the job in a session that lasts for the demonstration."""

    def __init__(self, options: job.Options, out: Path, master: str | None) -> None:
        self._options = options
        self.spark = open_session("security", out / "spark.log", master=master)
        self._progress = Progress(self.spark)

    def process(self) -> int:
        """Processes what the topic holds beyond the checkpoints; the micro-batches. Raises LateRowsError."""
        done: list[Totals] = []
        start_again: StartAgainError | None = None
        for query in job.start(self.spark, self._options):
            try:
                done += self._progress.finish([query])
            except StartAgainError as error:  # the other query ends first, or its micro-batch would be repeated too
                start_again = error
        if start_again:
            raise start_again
        check_none_late(done, self._options.watermark)
        return sum(len(totals.batches) for totals in done)


def get_trace(given: Input, out: Path) -> list[bytes]:
    """The lines of an earlier trace, or of one that is recorded now."""
    if given.trace is None:
        lines = request_trace.record(given.seconds, out / "traced-broker.log")
        request_trace.write_trace(lines, out / "trace.jsonl")
        return lines
    try:
        lines = given.trace.read_bytes().splitlines()
    except OSError as error:
        raise RuntimeError(f"The file {given.trace} (--trace) can't be read: {error.strerror}.") from error
    if not parse_trace(lines).requests:
        raise RuntimeError(f"The file {given.trace} (--trace) has no request: kafkapy start --trace-json writes them.")
    return lines


def with_broken(lines: list[bytes]) -> list[bytes]:
    """The lines, with broken ones among them."""
    middle = len(lines) // 2
    return [*lines[:middle], *BROKEN_LINES, *lines[middle:]]


def closing_line(lines: list[bytes]) -> bytes:
    """One last request, dated an hour later: it moves the watermark past everything that the others have opened."""
    last_ms = max(request.time_ms for request in parse_trace(lines).requests)
    return json.dumps({"kind": "request", "time_ms": last_ms + HOUR_MS, "peer": f"{END}:0", "api": END}).encode()


def key_of(line: bytes) -> bytes:
    """The address in a line; nothing if it is broken."""
    try:
        return str(json.loads(line)["peer"]).rpartition(":")[0].encode()
    except (ValueError, KeyError):
        return b""


def create_topics(options: job.Options) -> None:
    """All topics; the block list is compacted. Raises TopicExistsError."""
    names = {options.requests: PARTITIONS, options.rates: 1, options.sessions: 1, options.dead_letters: 1}
    flights.create_topics(options.bootstrap, names, "--prefix")
    topics.create(options.bootstrap, {options.block_list: 1}, "--prefix", cleanup_policy="compact")


def send(options: job.Options, lines: list[bytes], speed: int | None = None) -> int:
    """Sends the lines, keyed by address, so many a second; how many the broker acknowledged."""
    producer = KafkaProducer(bootstrap_servers=options.bootstrap, acks="all", linger_ms=20, compression_type="gzip")
    began, acknowledged = time.monotonic(), 0
    for begin in range(0, len(lines), CHUNK):
        futures = [producer.send(options.requests, line, key_of(line)) for line in lines[begin : begin + CHUNK]]
        producer.flush()
        acknowledged += sum(1 for future in futures if future.succeeded())
        if speed is not None:
            time.sleep(max(began + acknowledged / speed - time.monotonic(), 0))
    producer.close()
    return acknowledged


def read_spans(bootstrap: str, topic: str) -> Spans:
    """The records of a topic of rates or sessions; one that was written twice counts once."""
    values = (json.loads(record.value) for record in topics.read_all(bootstrap, topic))
    return {
        (value["address"], value["start_ms"]): (value["requests"], value["first_ms"], value["last_ms"])
        for value in values
    }


def read_blocks(bootstrap: str, topic: str) -> list[Block]:
    """The history of the block list, without repetitions."""
    found: list[Block] = []
    last: dict[str, tuple[int, Block]] = {}
    for record in topics.read_all(bootstrap, topic):
        address = record.key.decode()
        headers = {name: value.decode() for name, value in record.headers}
        at_ms, change = int(headers["at_ms"]), int(headers["change"])
        earlier, block = last.get(address, (0, None))
        if change <= earlier:
            continue
        if record.value is not None:
            last[address] = change, Block(address, at_ms, headers["reason"], None)
            found.append(last[address][1])
        elif block is not None:
            last[address] = change, block._replace(until_ms=at_ms)
            found[found.index(block)] = last[address][1]
    return sorted(found)


def read_findings(options: job.Options) -> Findings:
    """What the queries have written."""
    letters = {record.key for record in topics.read_all(options.bootstrap, options.dead_letters)}
    return Findings(
        read_spans(options.bootstrap, options.rates),
        read_spans(options.bootstrap, options.sessions),
        read_blocks(options.bootstrap, options.block_list),
        len(letters),
    )


def run(options: job.Options, out: Path, summary: Summary, given: Input, master: str | None) -> None:
    """Records a trace, processes it in two halves, and checks what was found."""
    with summary.step("record the trace of a broker" if given.trace is None else "read the trace") as remarks:
        create_topics(options)
        shutil.rmtree(options.checkpoints, ignore_errors=True)
        lines = with_broken(get_trace(given, out))
        remarks.append(f"{len(lines):,} lines")
    with summary.step("start Spark") as remarks:
        detection = Detection(options, out, master)
        remarks.append(f"Spark {detection.spark.version}")
    half = len(lines) // 2
    for name, part in (
        ("send one half, and process it", lines[:half]),
        ("send the other half, and resume", [*lines[half:], closing_line(lines)]),
    ):
        with summary.step(name) as remarks:
            remarks.append(f"{send(options, part, given.speed):,} lines, {detection.process()} micro-batches")
    detection.spark.stop()
    with summary.step("read the results back, and check them") as remarks:
        found = read_findings(options)
        remarks.append(f"{len(found.rates)} rates, {len(found.sessions)} sessions, {len(found.blocks)} blocks")
        remarks.append(f"{found.dead_letters} dead letters")
        check(found, expected(parse_trace(lines)))
    report(found, out)


def resume(options: job.Options, out: Path, summary: Summary, chosen: bool, master: str | None) -> None:
    """Processes what the topic holds beyond the checkpoints; sends nothing, so there is nothing to check it against.

    `chosen` says that --starting-offsets was given, which decides for a query without a checkpoint.
    """
    if not topics.extents(options.bootstrap, options.requests):
        raise RuntimeError(
            f"The topic {options.requests} does not exist: run it without --resume once, or name another --prefix."
        )
    written = topics.held(options.bootstrap, options.rates)
    lost = [name for name in job.QUERIES if not any(Path(options.checkpoints, name, "offsets").glob("*"))]
    if written and lost and not chosen:
        raise RuntimeError(
            f"The topic {options.rates} has {written:,} records, but the checkpoint {options.checkpoints}/{lost[0]} is "
            "gone. With --starting-offsets earliest, Spark's option startingOffsets, the query reads all of the input "
            "again, and writes its results a second time; with latest it reads only what comes from now on."
        )
    with summary.step("start Spark") as remarks:
        detection = Detection(options, out, master)
        remarks.append(f"Spark {detection.spark.version}")
    with summary.step("continue from the checkpoints") as remarks:
        remarks.append(f"{detection.process()} micro-batches")
    detection.spark.stop()
    with summary.step("read the results back") as remarks:
        found = read_findings(options)
        remarks.append(f"{len(found.rates)} rates, {len(found.sessions)} sessions, {len(found.blocks)} blocks")
    report(found, out)


def report(found: Findings, out: Path) -> None:
    """Draws the chart, and prints what is known of each address."""
    chart.draw(found.rates, found.blocks, out / "security.png")
    table = number_table("Addresses", "address", "requests", "most in a second", "sessions", "blocked", "now")
    counts = Counter(address for address, _ in found.sessions)
    for address in sorted(counts):
        own = [requests for (name, _), (requests, _, _) in found.rates.items() if name == address]
        blocks = [block for block in found.blocks if block.address == address]
        now = "blocked" if any(block.until_ms is None for block in blocks) else "free"
        reasons = ", ".join(block.reason for block in blocks) or "–"
        table.add_row(address, f"{sum(own):,}", str(max(own)), str(counts[address]), reasons, now)
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = demonstration_options("security", __doc__)
    parser.add_argument("--prefix", default=PREFIX, help=f"how the names of the topics begin (default: {PREFIX})")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="an earlier trace, instead of a new one")
    seconds = f"how long the clients run that are recorded (default: {RECORD_S})"
    parser.add_argument("--seconds", type=at_least(1), default=RECORD_S, help=seconds)
    speed = "send no faster (default: as fast as possible)"
    parser.add_argument("--speed", type=at_least(1), metavar="LINES/S", help=speed)
    parser.add_argument("--rows-per-batch", type=at_least(1), default=job.Options.rows_per_batch)
    parser.add_argument("--watermark", default=job.Options.watermark, help="how late a request may come")
    starting = "with --resume, where a query whose checkpoint is gone starts"
    parser.add_argument("--starting-offsets", choices=("earliest", "latest"), help=starting)
    loss = "with --resume, stop if records that were to be read are gone (default)"
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True, help=loss)
    add_resume(parser, "send nothing, and continue from the checkpoints")
    return parser


def main(words: list[str]) -> int:
    """The demonstration with these arguments; the exit status of the program."""
    arguments = parsed(options(), words)
    out: Path = arguments.out

    def demonstrate(bootstrap: str, summary: Summary) -> None:
        own = job.Options(
            bootstrap,
            requests=f"{arguments.prefix}-requests",
            rates=f"{arguments.prefix}-rates",
            sessions=f"{arguments.prefix}-sessions",
            block_list=f"{arguments.prefix}-block-list",
            dead_letters=f"{arguments.prefix}-dead-letters",
            checkpoints=str(out / "checkpoints" / "security"),
            rows_per_batch=arguments.rows_per_batch,
            starting_offsets=arguments.starting_offsets or job.Options.starting_offsets,
            fail_on_data_loss=arguments.fail_on_data_loss,
            watermark=arguments.watermark,
        )
        if arguments.resume:
            resume(own, out, summary, arguments.starting_offsets is not None, arguments.master)
        else:
            given = Input(arguments.trace, arguments.seconds, arguments.speed)
            run(own, out, summary, given, arguments.master)

    status = run_on_broker(arguments, demonstrate)
    if status == 0:
        CONSOLE.print(f"Result: the topics {arguments.prefix}-block-list, -rates and -sessions, {out}/security.png")
    return status
