"""A process that produces, consumes or times with librdkafka; its last line of output is a JSON object.

`python -m bench.clients.librdkafka produce|fetch|latency '{"bootstrap": …}'`, one process a run, so that nothing of
one run is left in the next.
"""

import json
import random
import string
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from harness.measure import percentile

FLUSH_S = 60.0
IDLE_S = 10.0
FETCH_BATCH = 5000
VALUES = 1000
WARM_TRANSACTIONS = 20
KEYED_MEMBERS = 3
KEYS = 1000


def produce(options: dict[str, Any]) -> dict[str, float]:
    """Produces `records` values; fails unless every one is acknowledged."""
    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.str())

    producer = Producer(
        {
            **options["settings"],
            "acks": 1,
            "batch.size": options["batch_size"],
            "batch.num.messages": 100_000,
            "linger.ms": options["linger_ms"],
            "compression.type": options["codec"],
            "queue.buffering.max.messages": 200_000,
            "on_delivery": delivered,
        }
    )
    topic, values = options["topic"], _values(options)
    for number in range(options["records"]):
        _send(producer, topic, values[number % len(values)])
    _finish(producer, failed)
    return {"records": options["records"]}


def _values(options: dict[str, Any]) -> list[bytes]:
    if options.get("payload"):
        return [line.encode() for line in Path(options["payload"]).read_text().splitlines()]
    source = random.Random(1)
    size = options["record_size"]
    return ["".join(source.choices(string.ascii_uppercase, k=size)).encode() for _ in range(VALUES)]


def _send(producer: Producer, topic: str, value: bytes, key: bytes | None = None) -> None:
    """Sends to partition 0, or with a key to the one that the key belongs to."""
    where: dict[str, Any] = {"partition": 0} if key is None else {"key": key}
    while True:
        try:
            producer.produce(topic, value, **where)
        except BufferError:
            producer.poll(0.05)
        else:
            return


def _finish(producer: Producer, failed: list[str]) -> None:
    left = producer.flush(FLUSH_S)
    if left or failed:
        raise SystemExit(f"{left} records unacknowledged, {len(failed)} failed: {failed[:1]}")


def fetch(options: dict[str, Any]) -> dict[str, float]:
    """Reads the first `records` records of the topic; fails when nothing comes for ten seconds."""
    consumer = Consumer({**options["settings"], "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(options["topic"], 0, 0)])
    read = 0
    while read < options["records"]:
        messages = consumer.consume(FETCH_BATCH, timeout=IDLE_S)
        errors = [message.error() for message in messages if message.error() is not None]
        if errors or not messages:
            raise SystemExit(f"read {read} of {options['records']} records: {errors[:1] or 'nothing more came'}")
        read += len(messages)
    consumer.close()
    return {"records": read}


def latency(options: dict[str, Any]) -> dict[str, float]:
    """Sends one record every 1/`rate` s for `seconds`, acks=all; from produce() to its acknowledgement, in ms."""
    failed: list[str] = []
    waited: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.str())
        else:
            waited.append(1000 * (message.latency() or 0.0))

    producer = Producer(
        {"bootstrap.servers": options["bootstrap"], "acks": "all", "linger.ms": 0, "on_delivery": delivered}
    )
    value = _values(options)[0]
    count = options["rate"] * options["seconds"]
    # The first second fills caches and opens connections.
    for measured, records in ((False, options["rate"]), (True, count)):
        waited.clear()
        with _listening(producer):
            start = time.monotonic()
            for number in range(records):
                if (ahead := start + number / options["rate"] - time.monotonic()) > 0:
                    time.sleep(ahead)
                producer.produce(options["topic"], value, partition=0)
        _finish(producer, failed)
        assert not measured or len(waited) == count
    return {f"p{100 * share:g}": percentile(waited, share) for share in (0.5, 0.99, 0.999)} | {
        "records": count + options["rate"]
    }


@contextmanager
def _listening(producer: Producer) -> Iterator[None]:
    """Hear of acknowledgements as they come, on a thread that sleeps meanwhile.

    Between two records the sender could only poll without waiting (librdkafka counts whole milliseconds): it would keep
    a processor from the broker, and its own next word from librdkafka's thread.
    """
    ended = Event()

    def listen() -> None:
        while not ended.is_set():
            producer.poll(0.1)

    thread = Thread(target=listen)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def transact(options: dict[str, Any]) -> dict[str, float]:
    """Commits `transactions` of `records` records each; how many a second, and how long one takes, in ms.

    With a `group` each commits an offset of that group too. Without a `bootstrap` it does so on librdkafka's mock
    cluster, in this process.
    """
    where = {"bootstrap.servers": options["bootstrap"]} if "bootstrap" in options else {"test.mock.num.brokers": 1}
    producer = Producer({**where, "transactional.id": f"bench-{time.time_ns()}", "linger.ms": 0})
    producer.init_transactions(FLUSH_S)
    group = _group_metadata(options) if "group" in options else None
    value = _values(options)[0]
    waited: list[float] = []
    # The first ones open connections and learn of leaders.
    for count in (WARM_TRANSACTIONS, options["transactions"]):
        start = time.monotonic()
        waited.clear()
        for number in range(count):
            began = time.monotonic()
            producer.begin_transaction()
            for _ in range(options["records"]):
                producer.produce(options["topic"], value, partition=0)
            if group is not None:
                offsets = [TopicPartition(options["topic"], 0, number)]
                producer.send_offsets_to_transaction(offsets, group, FLUSH_S)
            producer.commit_transaction(FLUSH_S)
            waited.append(1000 * (time.monotonic() - began))
    rate = len(waited) / (time.monotonic() - start)
    return {"per_s": rate} | {f"p{100 * share:g}": percentile(waited, share) for share in (0.5, 0.99)}


def _group_metadata(options: dict[str, Any]) -> object:
    """The metadata of a group for a transaction, from a consumer that has not joined."""
    consumer = Consumer({"bootstrap.servers": options["bootstrap"], "group.id": options["group"]})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def keyed(options: dict[str, Any]) -> dict[str, float]:
    """Sends `rate` records with keys a second, for `seconds`, while the members of a group read them.

    Fails unless each record is acknowledged and read.
    """
    failed: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error.str())

    producer = Producer({"bootstrap.servers": options["bootstrap"], "on_delivery": delivered})
    group = f"keyed-{time.time_ns()}"
    reading = [KeyedReader(options["bootstrap"], group, options["topic"]) for _ in range(KEYED_MEMBERS)]
    value, rate = bytes(options["record_size"]), options["rate"]
    keys = [b"key-%d" % number for number in range(KEYS)]
    while any(not each.is_assigned for each in reading):
        time.sleep(0.05)
    count = 0
    began_s = time.monotonic()
    while count < rate * options["seconds"]:
        due = min(int((time.monotonic() - began_s) * rate), rate * options["seconds"])
        for number in range(count, due):
            _send(producer, options["topic"], value, keys[number % KEYS])
        count = due
        producer.poll(0)
        time.sleep(0.002)
    _finish(producer, failed)
    deadline_s = time.monotonic() + IDLE_S
    while (read := sum(each.read for each in reading)) < count and time.monotonic() < deadline_s:
        time.sleep(0.05)
    for each in reading:
        each.close()
    if read != count:
        raise SystemExit(f"{read} of {count} records were read")
    return {"records": count}


class KeyedReader:
    """A member of a group that reads on a thread of its own, at librdkafka's defaults."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.read = 0
        self.is_assigned = False
        self._is_closing = False
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "latest"})
        self._consumer.subscribe([topic], on_assign=self._assigned)
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:  # where the log ends now: "latest" would be asked for later
            each.offset = consumer.get_watermark_offsets(each, timeout=IDLE_S)[1]
        consumer.assign(partitions)
        self.is_assigned = True

    def _run(self) -> None:
        while not self._is_closing:
            self.read += sum(message.error() is None for message in self._consumer.consume(FETCH_BATCH, 0.1))

    def close(self) -> None:
        """Leave the group."""
        self._is_closing = True
        self._thread.join()
        self._consumer.close()


MODES: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "produce": produce,
    "fetch": fetch,
    "keyed": keyed,
    "latency": latency,
    "transact": transact,
}

if __name__ == "__main__":
    print(json.dumps(MODES[sys.argv[1]](json.loads(sys.argv[2]))))
