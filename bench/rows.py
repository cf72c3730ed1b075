"""The table's rows: each has a load, one of its metrics, and the limit of kafkapy's cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from bench.loads.cluster import CatchUp, ControllerFailover, FollowerMemory, LeaderLoss, ReplicatedProduce
from bench.loads.compaction import Compaction
from bench.loads.compaction_latency import CompactionLatency
from bench.loads.groups import Commits, FirstRecord, Settle
from bench.loads.in_tests import InTests
from bench.loads.keyed import KeyedRecords
from bench.loads.lifecycle import Memory, OnNewBroker, StartUp
from bench.loads.load import ClusterLoad, Load
from bench.loads.long_append import AppendsToLongLogs
from bench.loads.long_log import LongLog
from bench.loads.newer import ConsumerHeartbeats, NewestVersion, SettleConsumers, TransactionsOfVersion2
from bench.loads.records import Fetch, Produce, ProduceThenFetch
from bench.loads.restarts import ManyPartitions, Recovery
from bench.loads.security import GuardedRecords, Handshakes, Secured, SecuredStart, Throttled
from bench.loads.single import DurableRecords, Latency, SingleRecords
from bench.loads.small import SmallRequests
from bench.loads.spark import SparkReads
from bench.loads.transactions import Transactions, TransactionsWithOffsets
from bench.loads.workloads import Workload

CODECS = ("gzip", "snappy", "lz4", "zstd")
QUICK_SHARE = 5
FETCHED = 4
"""A fetch row reads what so many produce runs wrote."""


@dataclass(frozen=True)
class Row:
    """One number of one load. `ratio` bounds kafkapy's by Apache Kafka's, `ceiling` by itself.

    `if_named`: the row is measured only if --only names it.
    """

    id: str
    title: str
    unit: str
    load: Load
    metric: str
    ratio: float | None = None
    ceiling: float | None = None
    if_named: bool = False


LONG_LOG_GB = 5
RECOVERED_GB = 3


def all_rows(*, quick: bool, long_log_gb: int = LONG_LOG_GB) -> list[Row]:
    """Every row, in the table's order; rows that share a load share its runs. Quick ones are a fifth the size.

    A new group of rows is a function that returns them, and one line here.
    """
    share = QUICK_SHARE if quick else 1
    large = Workload(250_000 // share, 1000, 65536, 5)
    small = Workload(1_000_000 // share, 100, 16384, 5)
    compressed = [Workload(100_000 // share, 1000, 65536, 5, codec) for codec in CODECS]
    return [
        *_throughput("java", large, 0.30),
        *_throughput("java", small, 0.50),
        *_throughput("librdkafka", large, 0.30),
        *_throughput("librdkafka", small, 0.50),
        *_requests(share),
        *_durable(share),
        *_latency(2 if quick else 6),
        *_transactions(share),
        Row("start", "start to first acknowledged produce", "s", StartUp(), "start_s", ratio=0.12),
        Row("start-cost", "the same, what it costs", "processor-s", StartUp(), "processor_s"),
        *_in_tests(share),
        *_memory(2_000_000 // share),
        *_first_gigabytes(share),
        *_long_log(1 if quick else long_log_gb),
        *_log_length(share),
        *_compaction(share),
        *_compaction_latency(quick),
        *_groups(share),
        *_restarts(10_000 // share, 1 if quick else RECOVERED_GB),
        *_cluster(share),
        *_spark(share),
        *_small(share),
        *_newer(share),
        *_keyed(share),
        *_security(share, large),
        *[row for workload in compressed for row in _throughput("java", workload, None)],
    ]


def warm_up_loads(*, quick: bool) -> list[Load]:
    """The loads that every broker runs before the measurement: a cold JVM costs several times as much as a warm one."""
    share = 2 if quick else 1
    large = Workload(600_000 // share, 1000, 65536, 5)
    small = Workload(1_000_000 // share, 100, 16384, 5)
    fetches = [Fetch("java", workload, workload.records) for workload in (large, small)]
    return [*fetches, SingleRecords(16, 80_000 // share), SingleRecords(1, 20_000 // share)]


def needs_warm_brokers(loads: Sequence[Load]) -> bool:
    """Whether any load is put on brokers that run already."""
    starting = (
        Secured
        | Handshakes
        | StartUp
        | InTests
        | Memory
        | OnNewBroker
        | Recovery
        | ManyPartitions
        | Compaction
        | CompactionLatency
    )
    return not all(isinstance(load, starting | Secured | Handshakes | ClusterLoad) for load in loads)


def _throughput(client: str, workload: Workload, produce_ratio: float | None) -> list[Row]:
    batches = f"{workload.batch_size // 1024} kB batches"
    codec = "" if workload.codec == "none" else f", {workload.codec}"
    size = "1 kB" if workload.record_size == 1000 else f"{workload.record_size} B"
    what = f"{size} records, {batches}{codec}, {client}"
    unit = "processor-s per GB"
    fetch = Fetch(client, workload, FETCHED * workload.records)
    name = f"{workload.name}-{client}"
    return [
        Row(f"produce-{name}", f"produce {what}", unit, Produce(client, workload), "s_per_gb", ratio=produce_ratio),
        Row(f"fetch-{name}", f"fetch {what}", unit, fetch, "s_per_gb", ratio=0.60 if produce_ratio else None),
    ]


def _requests(share: int) -> list[Row]:
    unit = "processor-µs per request"
    many = SingleRecords(16, 50_000 // share)
    one = SingleRecords(1, 25_000 // share)
    return [
        Row("single-16", "one-record produce requests, 16 connections", unit, many, "us_per_request", ratio=1.0),
        Row("single-1", "one-record produce requests, 1 connection", unit, one, "us_per_request", ratio=0.8),
        Row("single-1-wait", "the same, its round trip, median", "µs", one, "p50_us"),
    ]


def _durable(share: int) -> list[Row]:
    what = "one-record produce requests, each on the disk before its answer (kafkapy.flush=ack, flush.messages=1)"
    many = DurableRecords(16, 4_000 // share)
    one = DurableRecords(1, 1_000 // share)
    return [
        Row("durable-16", f"{what}, 16 connections", "processor-µs per request", many, "us_per_request"),
        Row("durable-16-rate", "the same, how many", "requests per s", many, "requests_per_s"),
        Row("durable-16-wait", "the same, its round trip, median", "µs", many, "p50_us"),
        Row("durable-1", f"{what}, 1 connection", "processor-µs per request", one, "us_per_request"),
        Row("durable-1-wait", "the same, its round trip, median", "µs", one, "p50_us"),
    ]


def _latency(seconds: int) -> list[Row]:
    load = Latency(1000, seconds)
    names = {"p50": "median", "p99": "99 %", "p99.9": "99.9 %"}
    rows = [
        Row(f"latency-{metric}", f"latency at 1,000 records/s, acks=all, {name}", "ms", load, metric)
        for metric, name in names.items()
    ]
    cost = Row("latency-cost", "the same, what a record costs", "processor-µs per record", load, "us_per_request")
    return [*rows, cost]


def _transactions(share: int) -> list[Row]:
    """One at a time, so that the next waits for whatever is left to do of the last."""
    rows = []
    for records in (1, 10, 100):
        load = Transactions(records, 500 // share)
        what = f"transactions of {records} record{'s' if records > 1 else ''}, librdkafka"
        rows += [
            Row(f"transactions-{records}", what, "processor-ms each", load, "ms_per_transaction", ratio=1.0),
            Row(f"transactions-{records}-wait", "the same, begin to commit, median", "ms", load, "p50", ratio=1.0),
            Row(f"transactions-{records}-rate", "the same, how many", "per s", load, "per_s"),
        ]
    return rows


def _in_tests(share: int) -> list[Row]:
    """kafkapy in the test's process; `kafkapy start --ephemeral` and others' brokers for tests beside it."""
    load = InTests(20, 20 // share)
    what = "a broker in the test's process"
    return [
        Row("test-start", f"{what}: to the first acknowledged produce", "ms", load, "start_ms", ceiling=30),
        Row("test-first-record", f"{what}: subscribe to first record, new group, librdkafka, median", "ms", load,
            "first_ms"),
        Row("test-memory", f"{what}: resident memory that it adds, or its process has", "MiB", load, "resident_mib",
            ceiling=19.0),
    ]  # fmt: skip


def _memory(records: int) -> list[Row]:
    load = Memory(Workload(records, 1000, 65536, 5))
    after = f"resident memory after {records / 1e6:g} GB"
    return [
        Row("memory-idle", "resident memory, idle", "MiB", load, "idle_mib", ceiling=45),
        Row("memory-loaded", after, "MiB", load, "loaded_mib", ceiling=90),
    ]


def _first_gigabytes(share: int) -> list[Row]:
    """The cost of a broker's first gigabyte; the rows above are of a broker that has had several: a JVM compiles."""
    rows = []
    for workload, ratio in ((Workload(1_000_000 // share, 1000, 65536, 5), 0.30),
                            (Workload(10_000_000 // share, 100, 16384, 5), 0.50)):  # fmt: skip
        load = OnNewBroker(ProduceThenFetch("java", workload))
        size = f"the first {workload.gigabytes(workload.records):g} GB of a new broker, {workload.name} records"
        unit = "processor-s per GB"
        rows += [
            Row(f"first-produce-{workload.name}", f"produce {size}", unit, load, "produce_s_per_gb", ratio=ratio),
            Row(f"first-fetch-{workload.name}", f"fetch {size}", unit, load, "fetch_s_per_gb", ratio=0.60),
        ]
    for connections, requests, ratio in ((16, 50_000, 1.0), (1, 25_000, 0.8)):
        load = OnNewBroker(SingleRecords(connections, requests // share))
        title = f"the first {requests // share:,} one-record produce requests, {connections} connections"
        rows.append(
            Row(f"first-single-{connections}", title, "processor-µs per request", load, "us_per_request", ratio=ratio)
        )
    return rows


def _long_log(gigabytes: int) -> list[Row]:
    load = LongLog(gigabytes)
    what = f"read a log of {gigabytes} GB from its beginning, by the megabyte"
    alone = "the same files by sendfile without a broker"
    floor = "the same fetches answered by nothing but sendfile"
    return [
        Row("long-log", what, "processor-s per GB", load, "s_per_gb"),
        Row("long-log-wall", "the same, by the clock", "s per GB", load, "wall_s_per_gb"),
        Row("long-log-speed", f"the same, by {floor}", "×", load, "wall_above_floor", ceiling=1.25),
        Row("long-log-floor", floor, "s per GB", load, "floor_wall_s_per_gb"),
        Row("long-log-floor-cost", floor, "processor-s per GB", load, "floor_s_per_gb"),
        Row("long-log-above-sendfile", f"the same, by {alone}, as asked for", "×", load, "wall_above_sendfile"),
        Row("long-log-sendfile", f"{alone}, as asked for", "s per GB", load, "sendfile_wall_s_per_gb"),
        Row("long-log-sendfile-cost", f"{alone}, as asked for", "processor-s per GB", load, "sendfile_s_per_gb"),
        Row("long-log-stream", f"{alone}, in one stream", "s per GB", load, "stream_wall_s_per_gb"),
    ]


def _log_length(share: int) -> list[Row]:
    load = AppendsToLongLogs(1000 // share, 20_000 // share)
    what = f"one-record appends to a log of {load.segments:,} segments"
    return [
        Row("long-append", what, "processor-µs per request", load, "long_us_per_request"),
        Row("long-append-effect", "the same, by what they cost in a new log", "×", load, "effect", ceiling=1.1),
    ]


def _compaction(share: int) -> list[Row]:
    unit = "processor-s per GB"
    small = Compaction(1_000_000 // share, 200_000 // share, 100)
    large = Compaction(400_000 // share, 80_000 // share, 1000)
    return [
        Row("compaction-100B", "compact a log, 100 B records, five of each key", unit, small, "s_per_gb", ratio=2.0),
        Row("compaction-1kB", "compact a log, 1 kB records, five of each key", unit, large, "s_per_gb", ratio=2.0),
        Row(
            "compaction-memory",
            f"the process that compacts {small.keys:,} keys: most resident memory",
            "MiB",
            small,
            "worker_peak_mib",
            ceiling=128,
        ),
    ]


def _compaction_latency(quick: bool) -> list[Row]:
    load = CompactionLatency(6, 1000, 5, Latency(1000, 2 if quick else 5))
    return [
        Row("compacting-quiet-p99", "latency on a new idle broker, 99 %", "ms", load, "quiet_p99"),
        Row("compacting-p50", "the same while it compacts logs, median", "ms", load, "busy_p50"),
        Row("compacting-p99", "the same while it compacts logs, 99 %", "ms", load, "busy_p99", ratio=1.0),
        Row("compacting-effect", "the latter by that when idle", "×", load, "p99_ratio", ceiling=2),
    ]


def _groups(share: int) -> list[Row]:
    many, one = Commits(16, 40_000 // share), Commits(1, 10_000 // share)
    first = FirstRecord(20 // share)
    settling = [(size, Settle(size, max(1, groups // share))) for size, groups in ((1, 100), (10, 20), (100, 5))]
    rows = [
        Row(
            "commits-16", "offset commits, 16 connections", "processor-µs per commit", many, "us_per_request", ratio=1.0
        ),
        Row("commits-16-rate", "the same", "commits/s", many, "per_s"),
        Row("commits-1", "offset commits, 1 connection", "processor-µs per commit", one, "us_per_request", ratio=1.0),
        Row("commits-1-wait", "the same, its round trip, median", "µs", one, "p50_us", ratio=1.0),
    ]
    for size, load in settling:
        what = "a group of one settles" if size == 1 else f"a group of {size} settles"
        rows += [
            Row(f"settle-{size}", f"{what}, from the first join on, median", "ms", load, "settle_ms", ratio=1.0),
            Row(f"settle-{size}-cost", "the same, what it costs", "processor-ms per member", load, "ms_per_member",
                ratio=1.0),
        ]  # fmt: skip
    return [
        *rows,
        Row("join-first-record", "subscribe to first record, librdkafka, new group, median", "ms", first, "first_ms",
            ratio=1.0),
        Row("join-first-record-cost", "the same, what it costs", "processor-ms", first, "cost_ms", ratio=1.0),
    ]  # fmt: skip


def _restarts(partitions: int, gigabytes: int) -> list[Row]:
    many, recovery = ManyPartitions(partitions), Recovery(gigabytes)
    ten = f"{partitions:,} partitions"
    lost = f"recovery of {gigabytes} GB in 64 kB batches after an unclean stop"
    return [
        Row("recovery", f"{lost}, above a clean start", "processor-s per GB", recovery, "s_per_gb", ratio=2.0),
        Row("recovery-wall", "the same, by the clock", "s per GB", recovery, "wall_s_per_gb"),
        Row("partitions-create", f"{ten}: create", "s", many, "create_s"),
        Row(
            "partitions-start",
            f"{ten}: start to first acknowledged produce",
            "s",
            many,
            "start_s",
            ratio=0.3,
            ceiling=5,
        ),
        Row("partitions-start-cost", "the same, what it costs", "processor-s", many, "processor_s"),
        Row("partitions-memory", f"{ten}: resident memory then", "MiB", many, "resident_mib", ceiling=150),
        Row(
            "partitions-memory-used",
            f"{ten}: after a record to each of them",
            "MiB",
            many,
            "used_resident_mib",
            ceiling=150,
        ),
        Row("partitions-files", f"{ten}: open files then", "files", many, "open_files", ceiling=1000),
    ]


def _cluster(share: int) -> list[Row]:
    """Three brokers of kafkapy beside three of Apache Kafka 2.7.2, on one ZooKeeper."""
    unit = "processor-s per GB"
    produce = ReplicatedProduce(1.25 / share)
    catch_up, memory = CatchUp(1.5 / share), FollowerMemory(Workload(1_000_000 // share, 1000, 65536, 5))
    loss = LeaderLoss(3)
    return [
        Row("cluster-produce", "produce to three replicas, acks=all, 64 kB batches of 1 kB records: all brokers",
            unit, produce, "s_per_gb", ratio=0.8),
        Row("cluster-produce-rate", "the same, how much", "MB per s", produce, "mb_per_s"),
        Row("cluster-catch-up", "an empty replica copies its partition: all brokers", unit, catch_up, "s_per_gb",
            ratio=0.7),
        Row("cluster-catch-up-rate", "the same, how much", "MB per s", catch_up, "mb_per_s"),
        Row("cluster-memory-idle", "a broker of a cluster: resident memory, idle", "MiB", memory, "idle_mib"),
        Row("cluster-memory-follower", f"the same of a follower after {memory.workload.records / 1e6:g} GB", "MiB",
            memory, "follower_mib"),
        Row("cluster-leaderless", "kill -9 of a leader to the next acknowledged record, sessions of 18 s", "s", loss,
            "leaderless_s", ratio=1.0),
        Row("cluster-leaderless-after", "the same from the end of its session on", "ms", loss, "after_session_ms",
            ratio=1.0),
        *_failover("1k", ControllerFailover(1_000 // share, 3), None),
        *_failover("5k", ControllerFailover(5_000 // share, 3), 0.5),
        *_failover("20k", ControllerFailover(20_000 // share, 2), 0.5),
    ]  # fmt: skip


SMALL = {
    "produce": ("produce one record", 1.0, 1.0),
    "spread": ("produce one record, to a partition that changes each time", 1.0, 1.0),
    "idempotent": ("produce one record, idempotent, acks=all", 1.0, 1.0),
    "commit": ("offset commit", 0.8, 0.8),
    "heartbeat": ("heartbeat", 1.0, 1.0),
    "metadata": ("Metadata of one topic", 1.0, 1.0),
    "list-offsets": ("ListOffsets of one partition", 1.0, 1.0),
}
"""The name of a small request, and the limits of its processor time and of its round trip."""
FLOOR = "the same, by epoll, recv, CRC, pwrite and send alone"


def _small(share: int) -> list[Row]:
    """Beside fully warm brokers; only on request, as all of it takes half an hour."""
    rows = []
    for kind, (title, cost_ratio, wait_ratio) in SMALL.items():
        for connections, requests in ((16, 40_000), (1, 10_000)):
            what = f"{title}, {connections} connection{'s' if connections > 1 else ''}, warm"
            load = SmallRequests(kind, connections, requests // share)
            rows += _small_rows(f"small-{kind}-{connections}", what, load, cost_ratio, wait_ratio)
            if kind == "produce":
                most = 2.0 if connections > 1 else None
                rows.append(Row(f"small-{kind}-{connections}-floor", FLOOR, "×", load, "above_floor", ceiling=most,
                                if_named=True))  # fmt: skip
    crowd = SmallRequests("produce", 200, 40_000 // share)
    large = SmallRequests("large", 16, 16_000 // share)
    receipt = SmallRequests("receipt", 1, 3_000 // share)
    stream = TransactionsWithOffsets(1, 400 // share)
    return [
        *rows,
        Row("small-produce-200", "produce one record, 200 connections: time between two answers", "µs", crowd,
            "wall_us", ratio=1.25, if_named=True),
        *_small_rows("small-large", "produce 63 records of 1 kB, 16 connections, warm", large, 0.65, None),
        Row("small-large-floor", FLOOR, "×", large, "above_floor", ceiling=1.15, if_named=True),
        *_small_rows("small-fetch", "fetch the same", SmallRequests("fetch", 16, 16_000 // share), 0.5, None),
        *_small_rows("small-receipt", "a record to a consumer that waits for it, warm", receipt, 0.9, 0.9),
        Row("small-transaction", "transaction of one record and one offset, librdkafka, warm", "processor-ms each",
            stream, "ms_per_transaction", ratio=0.4, if_named=True),
        Row("small-transaction-wait", "the same, begin to commit, median", "ms", stream, "p50", ratio=0.8,
            if_named=True),
    ]  # fmt: skip


def _newer(share: int) -> list[Row]:
    """What Apache Kafka 2.7.2 does not have; only on request."""
    beats, stream = ConsumerHeartbeats(16, 40_000 // share), TransactionsOfVersion2(2_000 // share)
    rows = [
        Row("newer-heartbeat", "heartbeat of KIP-848, 16 connections", "processor-µs", beats, "us_per_request",
            ratio=0.8, if_named=True),
    ]  # fmt: skip
    for members, groups in ((3, 50), (30, 10), (300, 3)):
        settling = SettleConsumers(members, max(1, groups // share))
        what = f"a group of KIP-848 with {members} members, two partitions each"
        rows += [
            Row(f"newer-settle-{members}", f"{what}: the last join to the whole assignment, median", "ms", settling,
                "settle_ms", ratio=0.5, if_named=True),
            Row(f"newer-settle-{members}-cost", "the same with the joins, what it costs", "processor-ms per member",
                settling, "ms_per_member", if_named=True),
        ]  # fmt: skip
    rows += [
        Row("newer-transaction", "transaction of version 2 with one record", "processor-ms each", stream,
            "ms_per_transaction", ratio=0.4, if_named=True),
        Row("newer-transaction-wait", "the same, its time, median", "ms", stream, "p50", if_named=True),
    ]  # fmt: skip
    for kind, older, newest in (("produce", 8, 12), ("fetch", 11, 12), ("metadata", 8, 13)):
        load = NewestVersion(kind, older, newest, 40_000 // share)
        what = f"{kind.capitalize()} {newest}, 16 connections"
        rows += [
            Row(f"newer-{kind}", what, "processor-µs", load, "us_per_request", if_named=True),
            Row(f"newer-{kind}-effect", f"the same, by {kind.capitalize()} {older}", "×", load, "above_older",
                ceiling=1.05, if_named=True),
        ]  # fmt: skip
    return rows


def _keyed(share: int) -> list[Row]:
    """Real clients at the rates of small, middling and busy services; only on request."""
    rows = []
    for rate in (2_000, 20_000, 60_000):
        load = KeyedRecords(rate, 20 // share)
        what = f"{rate:,} records a second with keys to 12 partitions and on to a group of three, librdkafka"
        rows.append(
            Row(f"keyed-{rate}", what, "processor-µs a record", load, "us_per_record", ratio=0.8, if_named=True)
        )
    return rows


def _security(share: int, large: Workload) -> list[Row]:
    """TLS beside warm brokers with security of their own; only on request."""
    guarded, start = GuardedRecords(10_000, 30_000 // share), SecuredStart(10 // min(share, 2))
    cost = "processor-µs"
    command = "kafkapy start --security sasl_ssl"
    return [
        *_through_tls("java", large, 0.6),
        *_through_tls("librdkafka", large, None),
        Row("tls-handshake", "a new connection by TLS, one request, its end", cost, Handshakes("tls", 1000 // share),
            "us_per_connection", ratio=0.5, if_named=True),
        Row("scram-handshake", "a new connection, SCRAM-SHA-512, one request, its end", cost,
            Handshakes("scram", 1000 // share), "us_per_connection", ratio=0.5, if_named=True),
        Row("acls-single", "one-record produce requests, 16 connections, 10,000 ACLs", cost, guarded,
            "us_per_request", if_named=True),
        Row("acls-single-above", "the same, by that without an authorizer", "×", guarded, "above_without",
            ceiling=1.1, if_named=True),
        Row("throttled", "a producer with a quota of 5 MB per s: its rate", "of the quota",
            Throttled(5_000_000, 20 // min(share, 2)), "of_quota", ceiling=1.1, if_named=True),
        Row("secured-start", "a broker with TLS and PLAIN in the test's process: to the first login", "ms", start,
            "in_process_ms", ceiling=60, if_named=True),
        Row("secured-start-command", f"{command}: to the line that says where it listens", "ms", start, "command_ms",
            ceiling=250, if_named=True),
        Row("secured-memory", f"{command}: resident memory, idle", "MiB", start, "command_mib", ceiling=40,
            if_named=True),
    ]  # fmt: skip


def _through_tls(client: str, workload: Workload, ratio: float | None) -> list[Row]:
    """librdkafka encrypts each value of a batch by itself, so its batches have many small records of TLS."""
    records, unit = f"1 kB records, 64 kB batches, {client}, TLS", "processor-s per GB"
    produce, fetch = Produce(client, workload), Fetch(client, workload, FETCHED * workload.records)
    return [
        Row(f"tls-produce-{client}", f"produce {records}", unit, Secured(produce), "s_per_gb", ratio=ratio,
            if_named=True),
        Row(f"tls-fetch-{client}", f"fetch {records}", unit, Secured(fetch), "s_per_gb", ratio=0.6, if_named=True),
    ]  # fmt: skip


def _small_rows(name: str, what: str, load: SmallRequests, cost: float | None, wait: float | None) -> list[Row]:
    return [
        Row(name, what, "processor-µs", load, "us_per_request", ratio=cost, if_named=True),
        Row(f"{name}-wait", "the same, its round trip, median", "µs", load, "p50_us", ratio=wait, if_named=True),
    ]


def _spark(share: int) -> list[Row]:
    """Minutes per broker, mostly Spark's own: only on request."""
    load = SparkReads(1_000_000 // share, 3, 40 // share)
    what = f"Spark reads {load.records:,} records of 100 B"
    return [
        Row("spark-batch", f"{what} in one batch", "s", load, "batch_s", ratio=1.0, if_named=True),
        Row("spark-parquet", f"{what} as a stream into Parquet", "s", load, "parquet_s", ratio=1.0, if_named=True),
        Row("spark-parquet-rate", "the same, how many", "rows per s", load, "parquet_rows_per_s", if_named=True),
        Row("spark-micro-batch", "a record's acknowledgement to the end of its micro-batch in Spark, median", "ms",
            load, "micro_batch_ms", ratio=1.0, if_named=True),
        Row("spark-cost", "all of Spark's reads, what they cost the broker", "processor-s", load, "broker_s",
            ratio=1.0, if_named=True),
    ]  # fmt: skip


def _failover(size: str, load: ControllerFailover, ratio: float | None) -> list[Row]:
    name = f"cluster-failover-{size}"
    many = f"{load.partitions:,} partitions with {load.replicas} replicas"
    what = f"kill -9 of the controller of {many}, from the end of its session"
    return [
        Row(f"{name}-elected", f"{what}: another is elected", "s", load, "elected_s"),
        Row(name, "the same: all partitions have leaders", "s", load, "led_s", ratio=ratio),
        Row(f"{name}-settled", "the same: it is in sync nowhere", "s", load, "settled_s", ratio=ratio),
        Row(f"{name}-cost", "the same, what it costs both others", "processor-s", load, "processor_s"),
        Row(f"{name}-pause", "the same, a produce request on another partition takes at most", "ms", load, "pause_ms"),
        Row(f"{name}-memory", "the same, the new controller's resident memory", "MiB", load, "controller_mib"),
        Row(f"{name}-before", "the same, a broker before it: resident memory", "MiB", load, "resident_mib"),
        Row(f"{name}-create", "the same, creating the partitions", "s", load, "create_s"),
    ]


def chosen(rows: list[Row], patterns: list[str]) -> list[Row]:
    """The rows whose ids match any pattern (`fetch-*`); raises ValueError if one fits none.

    Without patterns all rows but those that must be named.
    """
    for pattern in patterns:
        if not any(fnmatchcase(row.id, pattern) for row in rows):
            raise ValueError(f"no row is called {pattern}; --list names them")
    if not patterns:
        return [row for row in rows if not row.if_named]
    return [row for row in rows if any(fnmatchcase(row.id, pattern) for pattern in patterns)]
