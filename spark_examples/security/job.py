"""Finds clients that misuse a broker in the broker's request trace: rates, sessions, and a list of blocked addresses.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1 job.py --bootstrap localhost:9092

The workers' Python needs pandas, pyarrow and protobuf. The input is JSON, a line for each request and response, keyed
by the address of the client, as `kafkapy start --trace-json` writes it.

The query `traffic` counts the requests of each address by second and by session. The query `detection` keeps a state
for each address (`transformWithState`) and blocks it when it sends more than 150 requests within a second, or looks at
15 topics within a session. When it has been quiet for four seconds, the block ends; a second block is for good. A block
is a record in a compacted topic, its end a tombstone, so the topic has the addresses that are blocked now.

The result does not depend on how micro-batches divide the stream. The requests of an address are in one partition in
the order of time, and a block that has ended by the time of a request ends before the request is counted, whether its
timer has fired or not. Requests that are later than the watermark are dropped, and counted in the query's progress.

Each topic has its records at least once: a micro-batch that is repeated after a crash writes them again, with the same
values. A reader has them exactly once by address and `start_ms` (rates, sessions), by key (dead letters), and by the
header `change` (blocks): it numbers the changes of an address, and one that is not above the last is a repetition.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

MOST_REQUESTS, WITHIN_MS = 150, 1000
MOST_TOPICS, SESSION_GAP_MS = 15, 2000
"""From so many topics on within one session, an address crawls. A request later than the gap begins a session; one just
at its end does not, as in Spark's `session_window`."""
BLOCK_MS = 4000
"""So long must a blocked address be quiet until its block ends."""
LOOKING_APIS = ("Metadata", "ListOffsets", "Fetch", "OffsetForLeaderEpoch")
LINE = "kind STRING, time_ms LONG, peer STRING, api STRING, body STRING"
NEEDED = ("kind", "time_ms", "peer", "api")
WATCH = "last_ms LONG, since_ms LONG, reason STRING, blocks INT, recent_ms ARRAY<LONG>, topics ARRAY<STRING>"
ACTION = "address STRING, since_ms LONG, reason STRING, until_ms LONG, change INT"
QUERIES = ("traffic", "detection")
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    bootstrap: str
    requests: str = "security-requests"
    rates: str = "security-rates"
    sessions: str = "security-sessions"
    block_list: str = "security-block-list"
    dead_letters: str = "security-dead-letters"
    checkpoints: str = "checkpoints/security"
    rows_per_batch: int = 3000
    starting_offsets: str = "earliest"
    fail_on_data_loss: bool = True
    watermark: str = "30 seconds"
    kafka_option: Sequence[str] = ()
    """KEY=VALUE of Kafka's clients, such as security.protocol=SSL."""

    @property
    def kafka(self) -> dict[str, str]:
        """The settings with which Spark connects to Kafka."""
        own = (each.partition("=") for each in self.kafka_option)
        return {"kafka.bootstrap.servers": self.bootstrap} | {f"kafka.{key}": value for key, _, value in own}


def read(spark: SparkSession, options: Options) -> DataFrame:
    """The topic's records with their JSON as `row`, and `reason`: why a record is no line of a trace, null if it is."""
    source = (
        spark.readStream.format("kafka")
        .options(**options.kafka)
        .option("subscribe", options.requests)
        .option("startingOffsets", options.starting_offsets)
        .option("maxOffsetsPerTrigger", options.rows_per_batch)
        .option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    )
    corrupt = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "malformed"}
    row = f.from_json(f.col("value").cast("string"), f"{LINE}, malformed STRING", corrupt)
    malformed = f.col("row").isNull() | f.col("row.malformed").isNotNull()
    incomplete = f.greatest(*(f.col(f"row.{name}").isNull() for name in NEEDED))
    reason = f.when(malformed, "not JSON").when(incomplete, "incomplete")
    return source.load().withColumn("row", row).withColumn("reason", reason)


def requests(lines: DataFrame, watermark: str) -> DataFrame:
    """The requests among the lines: when, from where, and at which topics they look."""
    named = f.regexp_extract_all(f.col("row.body"), f.lit(r'"(?:name|topic)": ?"([^"]+)"'), f.lit(1))
    looked = f.when(f.col("row.api").isin(*LOOKING_APIS), named)
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


def header(key: str, value: Column) -> Column:
    """One header as the Kafka sink takes it."""
    return f.struct(f.lit(key).alias("key"), value.cast("binary").alias("value"))


def counted(seen: DataFrame, span: Column, topic: str) -> DataFrame:
    """Requests by address and span of time, as records."""
    counts = seen.groupBy(span.alias("span"), "address").agg(
        f.count("*").alias("requests"), f.min("time_ms").alias("first_ms"), f.max("time_ms").alias("last_ms")
    )
    start_ms = f.unix_millis("span.start").alias("start_ms")
    value = f.to_json(f.struct("address", start_ms, "requests", "first_ms", "last_ms")).cast("binary")
    kind = f.array(header("kind", f.lit(topic))).alias("headers")
    return counts.select(
        f.lit(topic).alias("topic"), f.col("address").cast("binary").alias("key"), value.alias("value"), kind
    )


def letters(lines: DataFrame, topic: str) -> DataFrame:
    """Records that are no lines, unchanged: the key says where they were, a header why they are here."""
    place = f.concat_ws("/", "topic", "partition", "offset").cast("binary").alias("key")
    why = f.array(header("reason", f.col("reason"))).alias("headers")
    return lines.where("reason IS NOT NULL").select(f.lit(topic).alias("topic"), place, "value", why)


Action = tuple[int, str, int | None, int]
"""Begin of a block, its reason, its end if it has ended, and the number of the change."""


@dataclass
class Watch:
    """The state of one address."""

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

    def expire(self, now_ms: int) -> Iterator[Action]:
        """Ends what has ended by now: the session, and a block that is not for good."""
        if now_ms - self.last_ms > SESSION_GAP_MS:
            self.recent_ms, self.topics = [], []
        if self.since_ms is not None and not self.is_final and now_ms - self.last_ms >= BLOCK_MS:
            yield self.since_ms, self.reason, self.last_ms + BLOCK_MS, 2 * self.blocks
            self.since_ms, self.reason = None, ""

    def see(self, now_ms: int, names: Iterable[str]) -> Iterator[Action]:
        """Counts one request; the end of the block before it, and the block that it causes."""
        yield from self.expire(now_ms)
        self.last_ms = now_ms
        if self.since_ms is not None:
            return
        self.recent_ms = [then for then in self.recent_ms if now_ms - then < WITHIN_MS] + [now_ms]
        self.topics += set(names) - set(self.topics)
        reason = "rate" if len(self.recent_ms) > MOST_REQUESTS else "topics" if len(self.topics) >= MOST_TOPICS else ""
        if reason:
            self.since_ms, self.reason, self.blocks = now_ms, reason, self.blocks + 1
            self.recent_ms, self.topics = [], []
            yield now_ms, reason, None, 2 * self.blocks - 1


class Detector(StatefulProcessor):
    """Keeps a Watch for each address; its rows are the blocks that begin and end."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("watch", WATCH)

    def handleInputRows(self, key: tuple[str], rows: Iterator[Row], timerValues: object) -> Iterator[Row]:
        watch = self._load()
        timer_ms = watch.last_ms + BLOCK_MS
        for row in sorted(rows, key=lambda row: (row.time_ms, row.offset)):
            for action in watch.see(row.time_ms, row.topics):
                yield blocked_row(key[0], action)
        self._handle.deleteTimer(timer_ms)
        if not watch.is_final:
            self._handle.registerTimer(watch.last_ms + BLOCK_MS)
        self._state.update(astuple(watch))

    def handleExpiredTimer(self, key: tuple[str], timerValues: object, expiredTimerInfo: object) -> Iterator[Row]:
        watch = self._load()
        for action in watch.expire(watch.last_ms + BLOCK_MS):
            yield blocked_row(key[0], action)
        if watch.blocks:
            self._state.update(astuple(watch))
        else:
            self._state.clear()

    def _load(self) -> Watch:
        known = self._state.get()
        return Watch(*known) if known else Watch()

    def close(self) -> None: ...


def blocked_row(address: str, action: Action) -> Row:
    """An action as a row of ACTION."""
    since_ms, reason, until_ms, change = action
    return Row(address=address, since_ms=since_ms, reason=reason, until_ms=until_ms, change=change)


def blocked(seen: DataFrame, topic: str) -> DataFrame:
    """The block list: a record when a block begins, a tombstone when it ends."""
    actions = seen.groupBy("address").transformWithState(Detector(), ACTION, "append", "EventTime")
    value = f.to_json(f.struct("address", "since_ms", "reason")).cast("binary")
    facts = {"at_ms": f.coalesce("until_ms", "since_ms"), "reason": f.col("reason"), "change": f.col("change")}
    return actions.select(
        f.lit(topic).alias("topic"),
        f.col("address").cast("binary").alias("key"),
        f.when(f.col("until_ms").isNull(), value).alias("value"),
        f.array(*(header(name, fact.cast("string")) for name, fact in facts.items())).alias("headers"),
    )


def write(records: DataFrame, options: Options, name: str) -> StreamingQuery:
    """Starts a query on what the topic holds beyond its checkpoint; it ends by itself."""
    writer = records.writeStream.queryName(name).format("kafka").options(**options.kafka)
    writer = writer.option("checkpointLocation", f"{options.checkpoints}/{name}").outputMode("append")
    return writer.trigger(availableNow=True).start()


def start(spark: SparkSession, options: Options) -> list[StreamingQuery]:
    """Starts both queries."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS_DB)  # transformWithState needs it
    lines = read(spark, options)
    seen = requests(lines, options.watermark)
    rates = counted(seen, f.window("time", f"{WITHIN_MS} milliseconds"), options.rates)
    sessions = counted(seen, f.session_window("time", f"{SESSION_GAP_MS} milliseconds"), options.sessions)
    traffic = rates.unionByName(sessions).unionByName(letters(lines, options.dead_letters))
    blocks = blocked(seen, options.block_list)
    return [write(records, options, name) for name, records in zip(QUERIES, (traffic, blocks), strict=True)]


def parsed() -> Options:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    setting = "a setting of Kafka's clients, such as security.protocol=SSL; may be given again"
    parser.add_argument("--kafka-option", action="append", default=[], metavar="KEY=VALUE", help=setting)
    parser.add_argument("--requests", default=Options.requests, help="topic of the trace's lines, keyed by address")
    parser.add_argument("--rates", default=Options.rates, help="topic of the requests by address and second")
    parser.add_argument("--sessions", default=Options.sessions, help="topic of the sessions by address")
    parser.add_argument("--block-list", default=Options.block_list, help="compacted topic of the blocked addresses")
    parser.add_argument("--dead-letters", default=Options.dead_letters, help="topic of what is no line of a trace")
    parser.add_argument("--checkpoints", default=Options.checkpoints)
    parser.add_argument("--rows-per-batch", type=int, default=Options.rows_per_batch)
    starting = "where a query without a checkpoint starts"
    parser.add_argument("--starting-offsets", choices=("earliest", "latest"), default="earliest", help=starting)
    parser.add_argument("--fail-on-data-loss", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--watermark", default=Options.watermark, help="how late a request may come")
    return Options(**vars(parser.parse_args()))


if __name__ == "__main__":
    session = SparkSession.builder.appName("security").getOrCreate()
    for query in start(session, parsed()):
        query.awaitTermination()
