"""The cost of a mirror of many topics: `python -m bench.mirror.topics --topics 3000`.

The topics have one partition and a few records each, and then nothing is written but a record now and then. The
source and the target are kafkapy brokers. The lines say how long the mirror takes to create and copy all topics, to
begin again when all are copied, and to end; what it costs while nothing happens; and after how long a record arrives.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.kafkapy_process import KafkapyProcess
from harness.measure import processor_time, resident_mib
from harness.mirror_process import MirrorProcess
from harness.process import ChildProcess, wait_for

RECORDS = 3
"""Of each topic."""
AT_A_TIME = 200
"""Topics of one CreateTopics request."""
SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
}
TIMEOUT_S = 900.0
SETTLE_S = 10.0
IDLE_S = 30.0
ARRIVALS = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=3000)
    parser.add_argument("--exactly-once", action="store_true")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="mirror-topics-"))
    sides = (KafkapyProcess(directory=directory / name, config=SETTINGS) for name in ("source", "target"))
    words = ["--exactly-once"] if options.exactly_once else []
    source, target = sides
    with source, target:
        names = [f"topic-{number:05}" for number in range(options.topics)]
        _say("topics created on the source", _created(source, names))
        _written(source, names)
        mirror = MirrorProcess(source.bootstrap, target.bootstrap, directory / "mirror", words)
        mirror.log_path.touch()
        with mirror:
            _say("all created and copied after", _copied(mirror, len(names) * RECORDS))
            _measure(mirror, source, target, names)
            _say("ended after SIGTERM", _ended(mirror))
            mirror.start()
            _say("started again, lag 0 after", _caught_up(mirror))
            _say("ended after SIGTERM", _ended(mirror))
    shutil.rmtree(directory)


def _say(what: str, figure: float, unit: str = "s", digits: int = 2) -> None:
    print(f"{what}: {figure:.{digits}f} {unit}", flush=True)


def _created(broker: ChildProcess, names: list[str]) -> float:
    began_s = time.monotonic()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for at in range(0, len(names), AT_A_TIME):
        wanted = [NewTopic(name, 1, 1) for name in names[at : at + AT_A_TIME]]
        for made in admin.create_topics(wanted, request_timeout=60).values():
            made.result(TIMEOUT_S)
    return time.monotonic() - began_s


def _written(broker: ChildProcess, names: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "message.timeout.ms": 600_000})
    for name in names:
        for number in range(RECORDS):
            producer.produce(name, b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def _until(mirror: MirrorProcess, text: str) -> float:
    if not wait_for(lambda: text in mirror.said or bool(mirror.why_gone()), TIMEOUT_S, 0.05) or mirror.why_gone():
        sys.exit(f"not seen: {text}; the mirror said: {mirror.log_tail(5)}")
    return time.monotonic() - mirror.started_s


def _copied(mirror: MirrorProcess, records: int) -> float:
    return _until(mirror, f"{records:,} records of ")


def _caught_up(mirror: MirrorProcess) -> float:
    return _until(mirror, "lag 0")


def _ended(mirror: MirrorProcess) -> float:
    began_s = time.monotonic()
    assert mirror.stop(TIMEOUT_S) == 0, mirror.log_tail(5)
    return time.monotonic() - began_s


def _measure(mirror: MirrorProcess, source: ChildProcess, target: ChildProcess, names: list[str]) -> None:
    pid = mirror.pid
    assert pid is not None
    time.sleep(SETTLE_S)
    pids = {"mirror": pid, "source": source.pid or 0, "target": target.pid or 0}
    before_s = [processor_time(each).total_s for each in pids.values()]
    time.sleep(IDLE_S)
    after_s = [processor_time(each).total_s for each in pids.values()]
    for what, first_s, last_s in zip(pids, before_s, after_s, strict=True):
        _say(f"idle, processor time of the {what}", 1000 * (last_s - first_s) / IDLE_S, "ms per second", 1)
    _say("resident memory of the mirror", resident_mib(pid), "MiB", 0)
    _say("sockets of the mirror", _sockets(pid), "", 0)
    waits_s = [_arrival(source, target, name) for name in random.Random(1).sample(names, ARRIVALS)]
    _say("a record arrives after, median", median(waits_s))
    _say("a record arrives after, worst", max(waits_s))
    print(mirror.log_tail(1))


def _sockets(pid: int) -> int:
    found = 0
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found += os.readlink(path).startswith("socket:")
    return found


def _arrival(source: ChildProcess, target: ChildProcess, name: str) -> float:
    with _consumer(target) as consumer:
        end = consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=30)[1]
        consumer.assign([TopicPartition(name, 0, end)])
        consumer.poll(0.3)
        producer = Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0, "log_level": 0})
        producer.produce(name, b"late", partition=0)
        assert producer.flush(30) == 0
        began_s = time.monotonic()
        while (message := consumer.poll(30)) is None or message.error() is not None:
            assert time.monotonic() - began_s < TIMEOUT_S, f"{name}: the record does not arrive"
        return time.monotonic() - began_s


@contextmanager
def _consumer(broker: ChildProcess) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "arrivals",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
