"""Finds who misuses a broker, from the broker's own request trace: rates, sessions, crawlers, and a block list.

`python -m spark_examples.security [--bootstrap HOST:PORT] [--out DIRECTORY]`; without an address it starts kafkapy.
With `--resume` it sends nothing, and processes what the topic holds beyond the checkpoints.

The input is recorded first: a kafkapy broker with `--trace-json`, real clients, each with an address of its own, and
crawlers among them (spark_examples/request_trace.py). Its lines go unchanged into a topic, keyed by address.

One query counts requests per address and second (`window`) and per session (`session_window`). A second one keeps
state for each address (`applyInPandasWithState`, which needs pandas and pyarrow) and blocks an address when it sends
more than 150 requests within a second, or looks at 15 topics within a session. A block ends when its address has been
quiet for four seconds: the state's event-time time-out writes a tombstone into the compacted topic. A second block is
for good.

Why the result does not depend on how micro-batches divide the stream: an address is a key, so its lines lie in one
partition in the order of time; and what has timed out by the time of the next line is dealt with before that line,
whether the time-out has fired or not.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from kafka import KafkaProducer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_examples import flights, request_trace, security_chart, streams, topics
from spark_examples.report import CONSOLE, Summary, number_table, parsed_arguments, run_on_broker
from spark_examples.session import open_session

PREFIX = "security"
PARTITIONS = 3
RECORD_S = 12.0
WINDOW_MS = 1000
SESSION_GAP_MS = 2000
MOST_REQUESTS = 150
"""Within a second."""
MOST_TOPICS = 15
"""From so many topics on, within one session, an address crawls."""
BLOCK_MS = 4000
"""So long must a blocked address be quiet until it is let in again."""
LOOKING_APIS = ("Metadata", "ListOffsets", "Fetch", "OffsetForLeaderEpoch")
WATERMARK = "30 seconds"
ROWS_PER_BATCH = 3000
CHUNK = 500
HOUR_MS = 3_600_000
END = "end"
"""The address of the closing line."""
BROKEN_LINES = (
    b'{"kind": "request", "time_ms": 17955477',
    b"no line at all",
    b'{"kind": "request", "peer": "1.2.3.4:5"}',
)
SCHEMA = "kind STRING, time_ms LONG, peer STRING, api STRING, body STRING"
NEEDED = ("kind", "time_ms", "peer", "api")
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Set to 1: PySpark 4.0.0 fills its column of states up with nulls when a batch has more rows than addresses, and
pyarrow 26 turns the integers beside a null into floats, on which PySpark's worker fails. With one row in a batch there
is nothing to fill up."""
ACTION_SCHEMA = "address STRING, since_ms LONG, reason STRING, until_ms LONG"


class NotFoundOutError(RuntimeError):
    """Spark found other rates, sessions or crawlers than plain Python."""


@dataclass(frozen=True)
class SecurityJob:
    """Where a run reads and writes, and how."""

    bootstrap: str
    checkpoints: Path
    prefix: str = PREFIX
    rows_per_batch: int = ROWS_PER_BATCH
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True
    watermark: str = WATERMARK

    @property
    def requests(self) -> str:
        """The topic with the lines of the trace."""
        return f"{self.prefix}-requests"

    @property
    def rates(self) -> str:
        """The topic with the requests of each address in each second."""
        return f"{self.prefix}-rates"

    @property
    def sessions(self) -> str:
        """The topic with the sessions of each address."""
        return f"{self.prefix}-sessions"

    @property
    def block_list(self) -> str:
        """The compacted topic, keyed by address."""
        return f"{self.prefix}-block-list"

    @property
    def dead_letters(self) -> str:
        """The topic for what is no line of a trace."""
        return f"{self.prefix}-dead-letters"


@dataclass
class Watch:
    """What is known about one address."""

    last_ms: int = 0
    since_ms: int | None = None
    reason: str = ""
    blocks: int = 0
    recent_ms: list[int] = field(default_factory=list)
    """Requests of the last second."""
    topics: list[str] = field(default_factory=list)
    """Topics that it has looked at in this session."""

    @property
    def is_final(self) -> bool:
        """Whether it is blocked for good."""
        return self.since_ms is not None and self.blocks > 1

    def expire(self, now_ms: int) -> Iterator[tuple[int, str, int | None]]:
        """What has ended by now, other than for good."""
        if now_ms - self.last_ms >= SESSION_GAP_MS:
            self.recent_ms, self.topics = [], []
        if self.since_ms is not None and not self.is_final and now_ms - self.last_ms >= BLOCK_MS:
            yield self.since_ms, self.reason, self.last_ms + BLOCK_MS
            self.since_ms, self.reason = None, ""

    def see(self, now_ms: int, names: Iterable[str]) -> Iterator[tuple[int, str, int | None]]:
        """One request, and what follows from it: (since, reason, None) for a block, with its end when it ends."""
        yield from self.expire(now_ms)
        self.last_ms = now_ms
        if self.since_ms is not None:
            return
        self.recent_ms = [then for then in self.recent_ms if now_ms - then < WINDOW_MS] + [now_ms]
        self.topics += set(names) - set(self.topics)
        reason = "rate" if len(self.recent_ms) > MOST_REQUESTS else "topics" if len(self.topics) >= MOST_TOPICS else ""
        if reason:
            self.since_ms, self.reason, self.blocks = now_ms, reason, self.blocks + 1
            self.recent_ms, self.topics = [], []
            yield now_ms, reason, None


def follow(key: tuple[str], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Spark's view of a Watch: lines of one address, or its time-out; the blocks that begin and end."""
    watch = Watch(**json.loads(state.get[0])) if state.exists else Watch()
    actions = []
    if state.hasTimedOut:
        actions = list(watch.expire(watch.last_ms + BLOCK_MS))
    rows = pd.concat(list(frames)) if not state.hasTimedOut else pd.DataFrame()
    if len(rows):
        rows = rows.sort_values(["time_ms", "offset"])
        for now_ms, names in zip(rows["time_ms"], rows["topics"], strict=True):
            actions += watch.see(int(now_ms), names)
    if state.hasTimedOut and not watch.blocks:
        state.remove()
    else:
        state.update((json.dumps(watch.__dict__),))
        if not state.hasTimedOut and not watch.is_final:
            state.setTimeoutTimestamp(watch.last_ms + BLOCK_MS)
    columns = ["address", "since_ms", "reason", "until_ms"]
    yield pd.DataFrame([(key[0], *action) for action in actions], columns=columns, dtype=object)  # keeps None among int


def read_lines(spark: SparkSession, job: SecurityJob) -> DataFrame:
    """The topic's lines, with the reason why one is none."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.bootstrap)
        .option("subscribe", job.requests)
        .option("startingOffsets", job.starting_offsets)
        .option("maxOffsetsPerTrigger", job.rows_per_batch)
        .option("failOnDataLoss", str(job.fail_on_data_loss).lower())
    )
    return streams.parsed(source.load(), SCHEMA, NEEDED)


def requests(lines: DataFrame, watermark: str) -> DataFrame:
    """The requests among the lines: when, from where, and at which topics they look."""
    named = f.regexp_extract_all(f.col("row.body"), f.lit(r'"(?:name|topic)": ?"([^"]+)"'), f.lit(1))
    looked = f.when(f.col("row.api").isin(*LOOKING_APIS) & f.col("row.body").isNotNull(), named)
    return (
        lines.where("reason IS NULL AND row.kind = 'request'")
        .select(
            f.regexp_extract("row.peer", r"^(.*):\d+$", 1).alias("address"),
            f.col("row.time_ms").alias("time_ms"),
            f.timestamp_millis("row.time_ms").alias("time"),
            "offset",
            f.coalesce(looked, f.array().cast("ARRAY<STRING>")).alias("topics"),
        )
        .withWatermark("time", watermark)
    )


def counted(seen: DataFrame, span: Any, topic: str) -> DataFrame:
    """Requests by address and span of time, as records."""
    counts = seen.groupBy(span.alias("span"), "address").agg(
        f.count("*").alias("requests"), f.min("time_ms").alias("first_ms"), f.max("time_ms").alias("last_ms")
    )
    start_ms = f.unix_millis("span.start").alias("start_ms")
    value = f.to_json(f.struct("address", start_ms, "requests", "first_ms", "last_ms")).cast("binary")
    return counts.select(
        f.lit(topic).alias("topic"),
        f.col("address").cast("binary").alias("key"),
        value.alias("value"),
        f.array(streams.header("kind", f.lit(topic))).alias("headers"),
    )


def write(rows: DataFrame, job: SecurityJob, name: str) -> StreamingQuery:
    """Starts a query on what the topic holds beyond its checkpoint; it ends by itself."""
    writer = rows.writeStream.queryName(name).format("kafka").option("kafka.bootstrap.servers", job.bootstrap)
    writer = writer.option("checkpointLocation", str(job.checkpoints / name)).outputMode("append")
    return writer.trigger(availableNow=True).start()


def start_traffic(spark: SparkSession, job: SecurityJob) -> StreamingQuery:
    """Rates, sessions, and what is no line."""
    lines = read_lines(spark, job)
    seen = requests(lines, job.watermark)
    rates = counted(seen, f.window("time", f"{WINDOW_MS} milliseconds"), job.rates)
    sessions = counted(seen, f.session_window("time", f"{SESSION_GAP_MS} milliseconds"), job.sessions)
    return write(rates.unionByName(sessions).unionByName(streams.letters(lines, job.dead_letters)), job, "traffic")


def start_detection(spark: SparkSession, job: SecurityJob) -> StreamingQuery:
    """The block list: a record when a block begins, a tombstone when it ends."""
    by_address = requests(read_lines(spark, job), job.watermark).groupBy("address")
    timeout = GroupStateTimeout.EventTimeTimeout
    actions = by_address.applyInPandasWithState(follow, ACTION_SCHEMA, "watch STRING", "append", timeout)
    value = f.to_json(f.struct("address", "since_ms", "reason")).cast("binary")
    records = actions.select(
        f.lit(job.block_list).alias("topic"),
        f.col("address").cast("binary").alias("key"),
        f.when(f.col("until_ms").isNull(), value).alias("value"),
        f.array(
            streams.header("at_ms", f.coalesce("until_ms", "since_ms").cast("string")),
            streams.header("reason", f.col("reason")),
        ).alias("headers"),
    )
    return write(records, job, "detection")


def process(spark: SparkSession, job: SecurityJob) -> int:
    """Processes what the topic holds beyond the checkpoints, through both queries at once; the micro-batches."""
    queries = [start_traffic(spark, job), start_detection(spark, job)]
    for query in queries:
        streams.await_end(query)
    for query in queries:
        streams.check_none_late(query, job.watermark)
    return sum(map(streams.batches, queries))


class Request(NamedTuple):
    """A line of the trace that is a request."""

    time_ms: int
    address: str
    topics: frozenset[str]


class Trace(NamedTuple):
    """The trace in plain Python."""

    requests: list[Request]
    broken: int


def understand(lines: list[bytes]) -> Trace:
    """The requests among the lines, in their order, and how many lines are broken."""
    found: list[Request] = []
    broken = 0
    for line in lines:
        try:
            told = json.loads(line)
        except ValueError:
            told = {}
        if any(told.get(name) is None for name in NEEDED):
            broken += 1
        elif told["kind"] == "request":
            named = (told.get("body") or {}).get("topics") if told["api"] in LOOKING_APIS else None
            names = frozenset(
                str(each.get("name", each.get("topic"))) for each in named or () if isinstance(each, dict)
            )
            found.append(Request(told["time_ms"], told["peer"].rpartition(":")[0], names))
    return Trace(found, broken)


Spans = dict[tuple[str, int], tuple[int, int, int]]
"""By address and start: requests, first and last time, ms."""


def rates_expected(trace: Trace) -> Spans:
    """Requests by address and second, without Kafka and without Spark."""
    seconds: dict[tuple[str, int], list[int]] = defaultdict(list)
    for each in trace.requests:
        seconds[each.address, each.time_ms // WINDOW_MS * WINDOW_MS].append(each.time_ms)
    return {place: (len(times), min(times), max(times)) for place, times in seconds.items()}


def by_gap(rows: list[Request], gap_ms: int) -> list[list[Request]]:
    """The requests of one address, divided where it was quiet."""
    cuts = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(rows)) if b.time_ms - a.time_ms >= gap_ms), len(rows)]
    return [rows[begin:end] for begin, end in pairwise(cuts)]


def by_address(trace: Trace) -> dict[str, list[Request]]:
    """The requests of each address in the order of time."""
    found: dict[str, list[Request]] = defaultdict(list)
    for each in sorted(trace.requests, key=lambda row: row.time_ms):
        found[each.address].append(each)
    return found


def sessions_expected(trace: Trace) -> Spans:
    """Sessions by address, without Kafka and without Spark."""
    return {
        (address, session[0].time_ms): (len(session), session[0].time_ms, session[-1].time_ms)
        for address, rows in by_address(trace).items()
        for session in by_gap(rows, SESSION_GAP_MS)
    }


class Block(NamedTuple):
    """An address is blocked; for good if it has no end."""

    address: str
    since_ms: int
    reason: str
    until_ms: int | None


def blocks_expected(trace: Trace) -> list[Block]:
    """All blocks, without Kafka, without Spark and without the state that the stream keeps."""
    found = []
    for address, rows in by_address(trace).items():
        offences = [(run, hit) for run in by_gap(rows, BLOCK_MS) if (hit := _first_offence(run)) is not None]
        for number, (run, (since_ms, reason)) in enumerate(offences[:2]):
            found.append(Block(address, since_ms, reason, None if number else run[-1].time_ms + BLOCK_MS))
    return sorted(found)


def _first_offence(run: list[Request]) -> tuple[int, str] | None:
    for session in by_gap(run, SESSION_GAP_MS):
        times = [row.time_ms for row in session]
        for number, row in enumerate(session):
            earlier = number - MOST_REQUESTS
            if earlier >= 0 and row.time_ms - times[earlier] < WINDOW_MS:
                return row.time_ms, "rate"
            if len(frozenset().union(*(each.topics for each in session[: number + 1]))) >= MOST_TOPICS:
                return row.time_ms, "topics"
    return None


def read_spans(job: SecurityJob, topic: str) -> Spans:
    """The records of a topic of rates or sessions; one that was written twice counts once."""
    values = (json.loads(record.value) for record in topics.read_all(job.bootstrap, topic))
    return {
        (value["address"], value["start_ms"]): (value["requests"], value["first_ms"], value["last_ms"])
        for value in values
    }


def read_blocks(job: SecurityJob) -> list[Block]:
    """The history of the block list; a repeated record counts once."""
    found: dict[tuple[str, int], Block] = {}
    current: dict[str, Block] = {}
    for record in topics.read_all(job.bootstrap, job.block_list):
        address = record.key.decode()
        headers = {name: value.decode() for name, value in record.headers}
        at_ms = int(headers["at_ms"])
        if record.value is not None:
            current[address] = found[address, at_ms] = Block(address, at_ms, headers["reason"], None)
        elif address in current:
            block = current[address]
            found[address, block.since_ms] = block._replace(until_ms=at_ms)
    return sorted(found.values())


def create_topics(job: SecurityJob) -> None:
    """All topics; the block list is compacted."""
    streams.begin_anew(job.bootstrap, job.requests, job.checkpoints)
    flights.create_topics(job.bootstrap, {job.requests: PARTITIONS, job.rates: 1, job.sessions: 1, job.dead_letters: 1})
    topics.create(job.bootstrap, {job.block_list: 1}, cleanup_policy="compact")


def send(job: SecurityJob, lines: list[bytes], speed: float | None = None) -> int:
    """Sends the lines, keyed by address, at so many a second; how many the broker acknowledged."""
    producer = KafkaProducer(bootstrap_servers=job.bootstrap, acks="all", linger_ms=20, compression_type="gzip")
    began, acknowledged = time.monotonic(), 0
    for begin in range(0, len(lines), CHUNK):
        futures = [producer.send(job.requests, line, key_of(line)) for line in lines[begin : begin + CHUNK]]
        producer.flush()
        acknowledged += sum(1 for future in futures if future.succeeded())
        if speed is not None:
            time.sleep(max(began + acknowledged / speed - time.monotonic(), 0))
    producer.close()
    return acknowledged


def key_of(line: bytes) -> bytes:
    """The address in a line; nothing if it is broken."""
    try:
        return str(json.loads(line)["peer"]).rpartition(":")[0].encode()
    except (ValueError, KeyError):
        return b""


def closing_line(lines: list[bytes]) -> bytes:
    """One last request, dated an hour later: it moves the watermark past what is counted and kept of the others."""
    last_ms = understand(lines).requests[-1].time_ms
    return json.dumps({"kind": "request", "time_ms": last_ms + HOUR_MS, "peer": f"{END}:0", "api": END}).encode()


def with_broken(lines: list[bytes]) -> list[bytes]:
    """The lines, with broken ones among them."""
    middle = len(lines) // 2
    return [*lines[:middle], *BROKEN_LINES, *lines[middle:]]


def get_trace(path: Path | None, seconds: float, out: Path) -> list[bytes]:
    """The lines of a trace that was kept, or of one that is recorded now."""
    if path is not None:
        return path.read_bytes().splitlines()
    lines = request_trace.record(seconds)
    request_trace.write_trace(lines, out / "trace.jsonl")
    return lines


def check(job: SecurityJob, lines: list[bytes]) -> int:
    """Raises NotFoundOutError if plain Python finds anything else; the number of dead letters."""
    trace = understand(lines)
    letters = len({record.key for record in topics.read_all(job.bootstrap, job.dead_letters)})
    for name, found, expected in (
        ("rates", read_spans(job, job.rates), rates_expected(trace)),
        ("sessions", read_spans(job, job.sessions), sessions_expected(trace)),
        ("blocks", read_blocks(job), blocks_expected(trace)),
        ("dead letters", letters, trace.broken),
    ):
        if found != expected:
            raise NotFoundOutError(f"The {name} are not those of plain Python: {found} instead of {expected}"[:2000])
    return letters


def run(job: SecurityJob, out: Path, summary: Summary, arguments: Any) -> None:
    """The whole job against a running broker."""
    lines: list[bytes] = []
    if arguments.resume:
        if not arguments.starting_offsets:
            written = topics.held(job.bootstrap, job.rates)
            for name in ("traffic", "detection"):
                streams.require_checkpoint(job.checkpoints / name, job.rates, written)
    else:
        with summary.step("record the trace of a broker" if arguments.trace is None else "read the trace") as remarks:
            create_topics(job)
            lines = with_broken(get_trace(arguments.trace, arguments.seconds, out))
            remarks.append(f"{len(lines):,} lines")
    with summary.step("start Spark") as remarks:
        spark = open_session("security", out / "spark.log", master=arguments.master)
        streams.keep_progress(spark)
        spark.conf.set(ARROW_ROWS, 1)
        remarks.append(f"Spark {spark.version}")
    for part in (lines[: len(lines) // 2], [*lines[len(lines) // 2 :], closing_line(lines)]) if lines else ([],):
        with summary.step("send and process half of it" if part else "go on from the checkpoints") as remarks:
            sent = send(job, part, arguments.speed)
            remarks.append(f"{sent:,} lines, {process(spark, job)} micro-batches")
    spark.stop()
    with summary.step("read the results back") as remarks:
        blocks = read_blocks(job)
        remarks.append(f"{len(blocks)} blocks")
        if lines:
            remarks.append(f"{check(job, lines)} dead letters, all as plain Python finds it")
    rates = read_spans(job, job.rates)
    security_chart.draw(rates, blocks, out / "security.png")
    show(rates, read_spans(job, job.sessions), blocks)


def show(rates: Spans, sessions: Spans, blocks: list[Block]) -> None:
    """Prints what is known of each address."""
    table = number_table("Addresses", "address", "requests", "most in a second", "sessions", "blocked", "now")
    counts = Counter(address for address, _ in sessions)
    for address in sorted(counts):
        own = [requests for (name, _), (requests, _, _) in rates.items() if name == address]
        reasons = [block.reason for block in blocks if block.address == address]
        is_blocked = any(block.address == address and block.until_ms is None for block in blocks)
        now = "blocked" if is_blocked else "free"
        table.add_row(address, f"{sum(own):,}", str(max(own)), str(counts[address]), ", ".join(reasons) or "–", now)
    CONSOLE.print(table)


def options() -> argparse.ArgumentParser:
    parser = streams.options(__doc__, PREFIX, WATERMARK)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="a trace recorded earlier, instead of a new one")
    parser.add_argument("--seconds", type=float, default=RECORD_S, help="so long the clients run that are recorded")
    parser.add_argument("--speed", type=float, metavar="LINES/S", help="send no faster (default: as fast as possible)")
    parser.add_argument("--rows-per-batch", type=int, default=ROWS_PER_BATCH)
    return parser


def main() -> int:
    arguments = parsed_arguments(options())
    out: Path = arguments.out
    checkpoints = out / "checkpoints" / "security"
    out.mkdir(parents=True, exist_ok=True)

    def job(bootstrap: str, summary: Summary) -> None:
        own = SecurityJob(
            bootstrap, checkpoints, arguments.prefix, arguments.rows_per_batch,
            arguments.starting_offsets or "earliest", arguments.fail_on_data_loss, arguments.watermark,
        )  # fmt: skip
        run(own, out, summary, arguments)

    status = run_on_broker(arguments.bootstrap, job)
    if status == 0:
        CONSOLE.print(f"Result: the topics {arguments.prefix}-block-list, -rates and -sessions, {out}/security.png")
    return status


if __name__ == "__main__":
    sys.exit(main())
