"""Hours of steady load on three brokers: `python -m compat_tests.chaos.soak --minutes 180`.

Three kafkapy processes share a ZooKeeper. At a low rate records are produced and consumed, groups gain and lose
members, transactions commit and abort, and topics are created, described and deleted. Once a minute the resident
memory, descriptors and processor time of each broker and the latencies of each operation are appended to a file as
one line of JSON. At the end the trend of each series after the warm-up (Theil-Sen estimator) is compared with its
limit.

`--judge FILE` evaluates the file of an earlier or a running measurement.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import NewTopic

from harness.cluster import Cluster, eventually
from harness.measure import percentile, processor_time, resident_mib
from harness.real_kafka import ZooKeeper

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.segment.bytes": "1000000",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "1000000",
    "log.retention.check.interval.ms": "30000",
    "log.segment.bytes": "250000",
    # Old segments and the state of clients that are gone are removed within minutes: the brokers reach a steady state.
    "transactional.id.expiration.ms": "600000",
    "offsets.retention.minutes": "10",
}
STEADY, COMPACTED, TRANSACTIONS = "steady", "compacted", "transactions"
PARTITIONS = 3
KEYS = 500
TOPICS = {
    STEADY: {"retention.bytes": "750000"},
    COMPACTED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3"},
    TRANSACTIONS: {"retention.bytes": "750000"},
}
VALUE = bytes(1000)
WAIT_S = 60.0
QUIET = {"log_level": 0}
MEMORY_LIMIT = 0.03
"""The growth of the resident memory in an hour, as a share, that counts as flat."""
DESCRIPTORS_LIMIT = 5.0
"""The growth of the number of descriptors in an hour that counts as flat: as many may be open just at a sample."""
PROCESSOR_LIMIT = 0.1
"""The growth in an hour of the processor time for one record, as a share, that counts as flat."""
LATENCY_LIMIT = 0.25
"""The growth of a latency in an hour, as a share, that counts as flat; other loads of the machine show here."""
Sample = dict[str, Any]


class Latencies:
    """Latencies in ms and failures, by operation, since the last minute ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, list[float]] = defaultdict(list)
        self._failed: dict[str, list[str]] = defaultdict(list)

    def add(self, operation: str, began_s: float) -> None:
        """The operation that began then (`time.monotonic`) is done."""
        with self._lock:
            self._found[operation].append((time.monotonic() - began_s) * 1000)

    def fail(self, operation: str, error: object) -> None:
        """The operation failed."""
        with self._lock:
            self._failed[operation].append(str(error))

    @contextmanager
    def timed(self, operation: str) -> Iterator[None]:
        """Times the block; an error of the client library is counted, and does not leave the block."""
        began_s = time.monotonic()
        try:
            yield
        except KafkaException as error:
            self.fail(operation, error)
        else:
            self.add(operation, began_s)

    def take(self) -> tuple[dict[str, dict[str, float]], dict[str, list[str]]]:
        """The figures of each operation and the failures, which are forgotten then."""
        with self._lock:
            found, self._found = self._found, defaultdict(list)
            failed, self._failed = self._failed, defaultdict(list)
        figures = {
            name: {"count": len(each), "p50": percentile(each, 0.5), "p99": percentile(each, 0.99), "max": max(each)}
            for name, each in found.items()
        }
        return figures, dict(failed)


class Load:
    """Threads that each repeat one kind of work, `rate` times as often as the figures in `__enter__` say."""

    def __init__(self, bootstrap: str, rate: float, seed: int) -> None:
        self.latencies = Latencies()
        self._base: dict[str, Any] = {"bootstrap.servers": bootstrap, **QUIET}
        self._rate = rate
        self._random = random.Random(seed)
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._closing = ExitStack()

    def __enter__(self) -> "Load":
        self._start(self._produce_with(Producer({**self._base, "enable.idempotence": True})), 0.1)
        self._start(self._consume, 0.0)
        self._start(self._transact_with(Producer({**self._base, "transactional.id": "steady"})), 1.0)
        self._start(self._new_member, 20.0)
        self._start(self._new_producer, 10.0)
        self._start(self._administer, 5.0)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        self._closing.close()

    def _start(self, work: Callable[[], None], every_s: float) -> None:
        def repeat() -> None:
            while not self._is_over.wait(every_s / self._rate):
                work()

        self._threads.append(threading.Thread(target=repeat, daemon=True))
        self._threads[-1].start()

    def _produce_with(self, producer: Producer) -> Callable[[], None]:
        numbers = itertools.count()

        def produce() -> None:
            number = next(numbers)
            began_s = time.monotonic()

            def delivered(error: object, _message: object) -> None:
                if error is None:
                    self.latencies.add("produce", began_s)
                else:
                    self.latencies.fail("produce", error)

            value = f"{time.time():.6f} ".encode() + VALUE
            producer.produce(STEADY, value, partition=number % PARTITIONS, on_delivery=delivered)
            if number % 3 == 0:
                producer.produce(COMPACTED, VALUE, key=b"%d" % (number % KEYS), on_delivery=delivered)
            while len(producer) and not self._is_over.is_set():
                producer.poll(0.05)

        return produce

    def _member(self, group: str, **config: Any) -> Consumer:
        settings = {**self._base, "group.id": group, "auto.offset.reset": "latest", "fetch.wait.max.ms": 2000}
        return Consumer({**settings, "enable.auto.commit": False, **config})

    def _consume(self) -> None:
        """One member of a group for as long as the load lasts."""
        consumer = self._member("steady")
        consumer.subscribe([STEADY])
        commit_s = 0.0
        while not self._is_over.is_set():
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                continue
            sent_s = float((message.value() or b"").partition(b" ")[0])
            self.latencies.add("end to end", time.monotonic() - max(time.time() - sent_s, 0.0))
            if time.monotonic() - commit_s > 1 / self._rate:
                commit_s = time.monotonic()
                with self.latencies.timed("commit"):
                    consumer.commit(asynchronous=False)
        consumer.close()

    def _transact_with(self, producer: Producer) -> Callable[[], None]:
        producer.init_transactions(WAIT_S)

        def transact() -> None:
            with self.latencies.timed("transaction"):
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    producer.produce(TRANSACTIONS, VALUE, partition=partition)
                if self._random.random() < 0.2:
                    producer.flush(WAIT_S)
                    producer.abort_transaction(WAIT_S)
                else:
                    producer.commit_transaction(WAIT_S)

        return transact

    def _new_member(self) -> None:
        """A second member joins the group, or a new group of its own, reads for some seconds and leaves."""
        group = self._random.choice(["steady", f"passing-{self._random.randrange(1000)}"])
        consumer = self._member(group, **{"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        with self.latencies.timed("join"):
            consumer.subscribe([STEADY if group == "steady" else TRANSACTIONS])
            deadline = time.monotonic() + WAIT_S
            while not consumer.assignment() and time.monotonic() < deadline and not self._is_over.is_set():
                consumer.poll(0.2)
        end_s = time.monotonic() + 5
        while time.monotonic() < end_s and not self._is_over.is_set():
            message = consumer.poll(0.5)
            if message is not None and message.error() is None and self._random.random() < 0.05:
                with self.latencies.timed("commit"):
                    consumer.commit(asynchronous=False)
        consumer.close()

    def _new_producer(self) -> None:
        """A producer with a new transactional id commits one transaction with offsets and disconnects."""
        name = f"passing-{self._random.randrange(10_000)}"
        producer = Producer({**self._base, "transactional.id": name})
        consumer = self._member(name)
        with self.latencies.timed("new producer"):
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            producer.produce(TRANSACTIONS, VALUE)
            offsets = [TopicPartition(STEADY, 0, self._random.randrange(1000))]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT_S)
            producer.commit_transaction(WAIT_S)
        consumer.close()

    def _administer(self) -> None:
        """One admin call of each kind on a new connection, and a topic that is created and deleted."""
        admin, topic = AdminClient(self._base), f"passing-{self._random.randrange(10**9)}"
        with self.latencies.timed("metadata"):
            admin.list_topics(timeout=WAIT_S)
        with self.latencies.timed("describe"):
            for described in admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, STEADY)]).values():
                described.result(WAIT_S)
            for group in admin.describe_consumer_groups(["steady"]).values():
                group.result(WAIT_S)
        if self._random.random() < 0.2:
            with self.latencies.timed("create topic"):
                admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(WAIT_S)
            with self.latencies.timed("delete topic"):
                admin.delete_topics([topic])[topic].result(WAIT_S)


def waited_s(pid: int) -> float:
    """The seconds that the broker's event loop was ready to run while other processes had the processors."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def sample(pids: dict[int, int], load: Load) -> Sample:
    """One line of the file."""
    latencies, failures = load.latencies.take()
    return {
        "time": round(time.time(), 1),
        "memory_mib": {str(broker): round(resident_mib(pid), 2) for broker, pid in pids.items()},
        "descriptors": {str(broker): len(os.listdir(f"/proc/{pid}/fd")) for broker, pid in pids.items()},
        "processor_s": {str(broker): round(processor_time(pid).total_s, 2) for broker, pid in pids.items()},
        "waited_s": {str(broker): round(waited_s(pid), 2) for broker, pid in pids.items()},
        "load": round(os.getloadavg()[0], 1),
        "client_processor_s": round(time.process_time(), 2),
        "latency_ms": {
            name: {field: round(value, 3) for field, value in figures.items()} for name, figures in latencies.items()
        },
        "failures": failures,
    }


def measure(options: argparse.Namespace) -> None:
    """Runs brokers and load for the time of the command line."""
    with ZooKeeper() as zookeeper, Cluster(zookeeper, config=SETTINGS) as cluster, options.out.open("a") as out:
        bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers.values())
        admin = cluster.admin(1)
        for created in admin.create_topics(
            [NewTopic(name, PARTITIONS, 3, config=config) for name, config in TOPICS.items()]
        ).values():
            created.result(WAIT_S)
        eventually(lambda: all(len(cluster.led(1, name)) == PARTITIONS for name in TOPICS))
        pids = {number: broker.pid for number, broker in cluster.brokers.items() if broker.pid is not None}
        with Load(bootstrap, options.rate, options.seed) as load:
            began_s = time.monotonic()
            for minute in itertools.count(1):
                time.sleep(max(began_s + minute * 60 - time.monotonic(), 0))
                out.write(json.dumps(sample(pids, load)) + "\n")
                out.flush()
                if minute >= options.minutes:
                    break
        for number, broker in cluster.brokers.items():
            log = broker.log_path.read_text()
            (options.out.parent / f"{options.out.stem}-broker-{number}.log").write_text(log)
            assert "Traceback" not in log, f"the log of broker {number} has a traceback"


def trend(values: Sequence[float]) -> float:
    """The change in an hour of values taken every minute: the median of all slopes between two of them."""
    slopes = [(values[j] - values[i]) / (j - i) for i, j in itertools.combinations(range(len(values)), 2)]
    return statistics.median(slopes) * 60 if slopes else 0.0


def series(samples: Sequence[Sample]) -> Iterator[tuple[str, list[float], float, bool]]:
    """Name, values, limit and whether the limit is a share, of each series."""
    for broker in samples[0]["memory_mib"]:
        yield f"broker {broker}: memory, MiB", [each["memory_mib"][broker] for each in samples], MEMORY_LIMIT, True
        descriptors = [float(each["descriptors"][broker]) for each in samples]
        yield f"broker {broker}: descriptors", descriptors, DESCRIPTORS_LIMIT, False
        yield f"broker {broker}: processor, ms per record", per_record(samples, broker), PROCESSOR_LIMIT, True
    for name in sorted({name for each in samples for name in each["latency_ms"]}):
        for field in ("p50", "p99"):
            found = [each["latency_ms"][name][field] for each in samples if name in each["latency_ms"]]
            yield f"{name}: {field}, ms", found, LATENCY_LIMIT, True


def per_record(samples: Sequence[Sample], broker: str) -> list[float]:
    """The processor time of a broker in each minute, in ms, divided by the records that were produced."""
    return [
        (after["processor_s"][broker] - before["processor_s"][broker]) * 1000 / after["latency_ms"]["produce"]["count"]
        for before, after in itertools.pairwise(samples)
    ]


def judge(samples: Sequence[Sample], warm_up: int) -> list[str]:
    """Prints the table of the trends; returns the series that are not flat."""
    measured = samples[warm_up:]
    hours = (samples[-1]["time"] - samples[0]["time"]) / 3600
    print(f"{len(samples)} samples over {hours:.2f} h; the first {warm_up} are the warm-up")
    print("\n| series | first quarter | last quarter | change in an hour | limit | |\n|---|--:|--:|--:|--:|---|")
    not_flat: list[str] = []
    for name, values, limit, is_share in series(measured):
        quarter = max(len(values) // 4, 1)
        first, last = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
        change = trend(values)
        share = change / statistics.median(values) if is_share else change
        verdict = "flat" if share <= limit else "grows"
        if share > limit:
            not_flat.append(name)
        shown = f"{share:+.1%} | {limit:.0%}" if is_share else f"{share:+.1f} | {limit:.0f}"
        print(f"| {name} | {first:.2f} | {last:.2f} | {shown} | {verdict} |")
    elapsed_s = samples[-1]["time"] - samples[0]["time"]
    for broker in samples[0]["processor_s"]:
        used_s = samples[-1]["processor_s"][broker] - samples[0]["processor_s"][broker]
        print(f"\nbroker {broker}: {used_s / max(elapsed_s, 1):.1%} of a processor", end="")
    counts: dict[str, int] = defaultdict(int)
    failures: dict[str, int] = defaultdict(int)
    for each in samples:
        for name, figures in each["latency_ms"].items():
            counts[name] += figures["count"]
        for name, errors in each["failures"].items():
            failures[name] += len(errors)
    print("\n\n" + ", ".join(f"{count} × {name}" for name, count in sorted(counts.items())))
    print("failures:", dict(failures) or "none")
    return not_flat


def main() -> None:
    """Measure or judge, as the command line says."""
    parser = argparse.ArgumentParser(description="Hours of steady load on three brokers.")
    parser.add_argument("--minutes", type=int, default=180)
    parser.add_argument("--warm-up", type=int, default=30, metavar="MINUTES", help="not part of the trend")
    parser.add_argument("--rate", type=float, default=1.0, help="a factor; 1 is ten records a second")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(f".cache/soak-{time.strftime('%Y-%m-%dT%H%M%S')}.jsonl"))
    parser.add_argument("--judge", type=Path, metavar="FILE", help="evaluate this file instead")
    options = parser.parse_args()
    if options.judge is None:
        print(f"samples: {options.out}", flush=True)
        measure(options)
    samples = [json.loads(line) for line in (options.judge or options.out).read_text().splitlines()]
    not_flat = judge(samples, min(options.warm_up, len(samples) // 2))
    print("\nflat" if not not_flat else f"\nNOT FLAT: {', '.join(not_flat)}")
    sys.exit(1 if not_flat else 0)


if __name__ == "__main__":
    main()
