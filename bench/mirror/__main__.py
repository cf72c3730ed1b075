"""The cost of a mirror: `python -m bench.mirror`, kafkapy's beside MirrorMaker 2 of Apache Kafka 2.7.2.

Each copies the same log of 1 kB records between two brokers of the same kind: the brokers are kafkapy or Apache Kafka
2.7.2. The figure is MB of record batches in the source's log per processor-second of the mirror's process, from the
moment when `--warm-up` MB have arrived until all have: starts, and what a JVM has to compile first, don't count.
MirrorMaker 2 has the heap and the options of Kafka's own scripts, and a producer with batches of 64 kB, a linger of
5 ms, and the codec of the source. Mirrors take turns in each round; the table has medians.
"""

import argparse
import datetime
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import machine
from bench.brokers.contestants import HEAP
from bench.loads.workloads import payload_lines
from bench.report import number
from harness.connect import REPLICAS, ConnectProcess
from harness.java import find_java
from harness.kafkapy_process import ROOT, KafkapyProcess, kafkapy_command
from harness.measure import LoadError, median, processor_time, resident_mib
from harness.process import ChildProcess
from harness.real_kafka import AS_IN_PRODUCTION, RealKafka

OUT = ROOT / "out" / "bench"
VERSION = "2.7.2"
KAFKAPY, KAFKA = "kafkapy", f"kafka-{VERSION}"
OURS, EXACTLY_ONCE, THEIRS = "kafkapy mirror", "kafkapy mirror --exactly-once", "MirrorMaker 2"
GOAL = 5.0
"""How many times as much as MirrorMaker 2 a processor-second of kafkapy's mirror should copy."""
RECORD_SIZE = 1000
CODECS = ("none", "lz4", "zstd")
BATCHES: dict[str, str | int | float | bool] = {"batch.size": 65536, "linger.ms": 5}
SETTINGS = {
    "log.segment.delete.delay.ms": "1000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
WARNINGS = """log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=%d %p %m (%c)%n
"""
TIMEOUT_S = 1200.0
POLL_S = 0.02


class Size(NamedTuple):
    """Records of a log, and how many of them are copied before the measurement begins."""

    records: int
    warm_up: int


class Sample(NamedTuple):
    """One copy of a log, from the end of the warm-up on."""

    megabytes: float
    processor_s: float
    wall_s: float
    resident_mib: float

    @property
    def rate(self) -> float:
        """MB per processor-second."""
        return self.megabytes / self.processor_s


class OurMirror(ChildProcess):
    """`kafkapy mirror`, until it is stopped."""

    def __init__(self, source: str, target: str, topic: str, group: str, *words: str) -> None:
        super().__init__("mirror")
        self._words = ["--from", source, "--to", target, "--topics", topic, "--group", group, *words]

    def command(self) -> list[str]:
        return [*kafkapy_command(), "mirror", *self._words]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        """The target shows what it has done."""
        return True


class TheirMirror(ConnectProcess):
    """MirrorMaker 2 with the JVM options of `connect-mirror-maker.sh`."""

    def __init__(self, alias: str, source: str, target: str, topic: str, codec: str) -> None:
        producer = {f"target.producer.{key}": str(value) for key, value in BATCHES.items()}
        properties = {
            "clusters": f"{alias},target",
            f"{alias}.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            f"{alias}->target.enabled": "true",
            f"{alias}->target.topics": topic,
            f"{alias}->target.groups": "none",
            **producer,
            "target.producer.compression.type": codec,
            **REPLICAS,
        }
        super().__init__(VERSION, "mirror.MirrorMaker", {"mirror": properties})

    def command(self) -> list[str]:
        *_, class_path_option, jars, main, properties = super().command()
        logging = "-Dlog4j.configuration=file:" + str(self.directory / "log4j.properties")
        (self.directory / "log4j.properties").write_text(WARNINGS)
        java = [*find_java().command, "-Xms256M", "-Xmx2G", "-server", *AS_IN_PRODUCTION, logging]
        return [*java, class_path_option, jars, main, properties]


class Pair:
    """A source with a log for each codec, and a target, both of one kind."""

    def __init__(self, source: ChildProcess, target: ChildProcess, size: Size) -> None:
        self.source, self.target = source, target
        self._size = size
        self._runs = 0
        self._bytes: dict[str, int] = {}

    def fill(self, codec: str) -> None:
        """Write the log of a codec to the source."""
        topic = f"log-{codec}"
        _create(self.source.bootstrap, topic)
        producer = Producer(
            {
                "bootstrap.servers": self.source.bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "queue.buffering.max.kbytes": 65536,
                **BATCHES,
            }
        )
        lines = [line.encode() for line in payload_lines(RECORD_SIZE)]
        drawn = random.Random(0)
        for _ in range(self._size.records):
            value = drawn.choice(lines)
            while True:
                try:
                    producer.produce(topic, value)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
        if producer.flush(TIMEOUT_S) or _end(self.source.bootstrap, topic) != self._size.records:
            raise LoadError(f"the source has not taken {self._size.records} records")
        logs = self.source.directory.glob(f"**/{topic}-0/*.log")
        self._bytes[codec] = sum(path.stat().st_size for path in logs)

    def copy(self, mirror: str, codec: str) -> Sample:
        """Let a mirror copy the log of a codec; LoadError if it does not come to the end."""
        self._runs += 1
        topic, alias = f"log-{codec}", f"source{self._runs}"
        addresses = self.source.bootstrap, self.target.bootstrap
        if mirror == THEIRS:
            process: ChildProcess = TheirMirror(alias, *addresses, topic, codec)
            copy = f"{alias}.{topic}"
        else:
            words = ["--exactly-once"] if mirror == EXACTLY_ONCE else []
            process = OurMirror(*addresses, topic, alias, *words)
            copy = topic
        with process:
            sample = self._measure(process, copy, self._bytes[codec] / self._size.records / 1e6)
        _delete(self.target.bootstrap, copy)
        return sample

    def _measure(self, process: ChildProcess, copy: str, record_mb: float) -> Sample:
        assert process.pid is not None
        warm, all_records = self._size.warm_up, self._size.records
        with _watched(self.target.bootstrap, copy) as end_of:
            first = _wait_until(process, end_of, warm)
            before, began_s = processor_time(process.pid).total_s, time.monotonic()
            _wait_until(process, end_of, all_records)
            used_s = processor_time(process.pid).total_s - before
            took_s = time.monotonic() - began_s
        # Markers of transactions count as offsets too; there are few of them.
        return Sample((all_records - first) * record_mb, used_s, took_s, resident_mib(process.pid))


def _wait_until(process: ChildProcess, end_of: Callable[[], int], records: int) -> int:
    """Wait for so many records; returns how many there are."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while (found := end_of()) < records:
        if reason := process.why_gone():
            raise LoadError(reason)
        if time.monotonic() > deadline_s:
            raise LoadError(f"{process.name}: {found} of {records} records in {TIMEOUT_S:.0f} s: {process.log_tail(3)}")
        time.sleep(POLL_S)
    return found


@contextmanager
def _watched(bootstrap: str, topic: str) -> Iterator[Callable[[], int]]:
    """Tells the end of the topic's partition, 0 while there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 0})

    def end_of() -> int:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
        except KafkaException:
            return 0

    try:
        yield end_of
    finally:
        consumer.close()


def _end(bootstrap: str, topic: str) -> int:
    with _watched(bootstrap, topic) as end_of:
        return end_of()


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)], operation_timeout=30)[topic].result(30)


def _delete(bootstrap: str, topic: str) -> None:
    """Delete a copy and wait until it has been deleted."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
    deadline_s = time.monotonic() + 30
    while topic in admin.list_topics(timeout=30).topics:
        if time.monotonic() > deadline_s:
            raise LoadError(f"{topic} is not deleted in 30 s")
        time.sleep(POLL_S)


@contextmanager
def _pair(kind: str, size: Size, scratch: Path) -> Iterator[Pair]:
    """Two brokers that run."""

    def broker(name: str) -> ChildProcess:
        directory = scratch / f"{kind}-{name}"
        if kind == KAFKAPY:
            return KafkapyProcess(config=SETTINGS, directory=directory)
        return RealKafka(VERSION, config=SETTINGS, directory=directory, heap=HEAP, jvm=AS_IN_PRODUCTION)

    with ExitStack() as stack:
        brokers = [broker(name) for name in ("source", "target")]
        for each in brokers:
            stack.callback(each.close)
            each.start(wait=False)
            each.wait_ready(TIMEOUT_S)
        source, target = brokers
        yield Pair(source, target, size)


Samples = dict[tuple[str, str, str], list[Sample]]
"""By kind of broker, codec and mirror."""


def measure(options: argparse.Namespace, say: Callable[[str], object]) -> Samples:
    """Rounds, in each of which every mirror copies every log between brokers of each kind."""
    size = Size(options.megabytes * 10**6 // RECORD_SIZE, options.warm_up * 10**6 // RECORD_SIZE)
    samples: Samples = defaultdict(list)
    deadline_s = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="bench-mirror-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        kinds, codecs = options.broker or (KAFKAPY, KAFKA), options.codec or CODECS
        pairs = {kind: stack.enter_context(_pair(kind, size, Path(name))) for kind in kinds}
        for kind, codec in product(kinds, codecs):
            pairs[kind].fill(codec)
            say(f"{kind}, {codec}: the log is written")
        for _ in range(options.rounds):
            for kind, codec, mirror in product(kinds, codecs, (OURS, EXACTLY_ONCE, THEIRS)):
                sample = pairs[kind].copy(mirror, codec)
                samples[kind, codec, mirror].append(sample)
                load = f"load average {os.getloadavg()[0]:.1f}"
                say(f"{kind}, {codec}, {mirror}: {sample.rate:.0f} MB per processor-second; {load}")
            if time.monotonic() > deadline_s:
                break
    return samples


def page(title: str, about: Mapping[str, str], options: argparse.Namespace, samples: Samples) -> str:
    """The table in Markdown."""
    size = f"{options.megabytes} MB, of which the first {options.warm_up} MB do not count"
    lines = [f"# {title}", "", *(__doc__ or "").split("\n\n", 1)[1].strip().splitlines(), ""]
    lines += [f"- log: 1 kB records in one partition, values of {size}"]
    lines += [f"- rounds: {max(map(len, samples.values()))}"]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [f"- load average after: {' '.join(f'{load:.1f}' for load in os.getloadavg())}", ""]
    mirrors = (OURS, EXACTLY_ONCE, THEIRS)
    heads = [
        "brokers",
        "codec",
        *(f"{each}, MB per processor-s" for each in mirrors),
        "ratios",
        "MB/s",
        "resident, MiB",
    ]
    lines += [f"| {' | '.join(heads)} |", f"|{'---|' * 2}{'--:|' * (len(heads) - 2)}"]
    for kind, codec in dict.fromkeys(key[:2] for key in samples):
        found = [samples[kind, codec, mirror] for mirror in mirrors]
        rates = [_middle(each, lambda sample: sample.rate) for each in found]
        ratios = ", ".join(f"{rate / rates[-1]:.1f}" for rate in rates[:-1])
        walls = ", ".join(number(_middle(each, lambda sample: sample.megabytes / sample.wall_s)) for each in found)
        sizes = ", ".join(number(_middle(each, lambda sample: sample.resident_mib)) for each in found)
        lines.append(f"| {' | '.join([kind, codec, *map(number, rates), ratios, walls, sizes])} |")
    lines += ["", f"Goal: at least {GOAL:.0f} times as much as MirrorMaker 2. The ratios are those of both ways of"]
    lines += ["kafkapy's mirror; MB/s and resident memory are in the order of the columns before."]
    return "\n".join(lines) + "\n"


def _middle(samples: list[Sample], value: Callable[[Sample], float]) -> float:
    found = median([value(each) for each in samples])
    assert found is not None
    return found


def main() -> int:
    """Measure, print the table, and store it below out/bench; 1 if a load failed."""
    parser = argparse.ArgumentParser(
        "python -m bench.mirror", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=2000, help="of the values in the log")
    parser.add_argument("--warm-up", type=int, default=500, metavar="MEGABYTES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0, help="no further round after so long")
    parser.add_argument("--broker", choices=(KAFKAPY, KAFKA), action="append", help="only these; repeatable")
    parser.add_argument("--codec", choices=CODECS, action="append", help="only these; repeatable")
    parser.add_argument("--name", default="mirror", help="the name of the files below out/bench")
    options = parser.parse_args()
    about = machine.describe()
    try:
        samples = measure(options, lambda line: print(line, file=sys.stderr, flush=True))
    except LoadError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    text = page(f"Mirrors, {date}", about, options, samples)
    print(text)
    rows = [
        {"broker": key[0], "codec": key[1], "mirror": key[2], "samples": [each._asdict() for each in found]}
        for key, found in samples.items()
    ]
    document = json.dumps({"title": date, "machine": about, "options": vars(options), "rows": rows}, indent=1)
    OUT.mkdir(parents=True, exist_ok=True)
    for ending, content in (("md", text), ("json", document + "\n")):
        path = OUT / f"{options.name}.{ending}"
        path.write_text(content)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
