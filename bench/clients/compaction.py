"""A process that fills logs for compaction, several requests in flight; its last line of output is a JSON object.

`python -m bench.clients.compaction '{"port": …, "topics": […], "batches": …, "cycles": …}'` writes to each topic so
many batches, each with keys of its own, and all of them again in each cycle.
"""

import json
import random
import socket
import sys
import time
from collections.abc import Iterator

from bench.clients.raw import ANSWER_TIMEOUT_S, HOST, error_of, frame, receive
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.record import Record, encode_batch

KEYS_OF_A_BATCH = 500
RECORD_SIZE = 100
IN_FLIGHT = 5
PRODUCE_VERSION = 7


def batches(count: int) -> list[bytes]:
    """So many batches of 100 B records, each key once."""
    source = random.Random(20130101)
    now_ms = int(1000 * time.time())
    value = bytes(source.choices(range(97, 123), k=RECORD_SIZE))
    keys = [b"key-%010d" % number for number in range(count * KEYS_OF_A_BATCH)]
    source.shuffle(keys)
    return [
        bytes(encode_batch([Record(key, value, timestamp=now_ms) for key in keys[at : at + KEYS_OF_A_BATCH]]))
        for at in range(0, len(keys), KEYS_OF_A_BATCH)
    ]


def frames(topic: str, contents: list[bytes], cycles: int) -> Iterator[bytes]:
    """The requests that bring them all to partition 0 of the topic, so many times."""
    for _ in range(cycles):
        for content in contents:
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(0, content)])
            yield frame(ApiKey.PRODUCE, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), PRODUCE_VERSION)


def fill(port: int, topics: list[str], batches_of_a_cycle: int, cycles: int) -> int:
    """Appends to every topic; fails unless everything is acknowledged. Returns the number of requests."""
    contents = batches(batches_of_a_cycle)
    sent = 0
    with socket.create_connection((HOST, port), timeout=ANSWER_TIMEOUT_S) as connection:
        for topic in topics:
            waiting = 0
            for request in frames(topic, contents, cycles):
                connection.sendall(request)
                sent, waiting = sent + 1, waiting + 1
                if waiting == IN_FLIGHT:
                    waiting -= _answered(connection, topic)
            while waiting:
                waiting -= _answered(connection, topic)
    return sent


def _answered(connection: socket.socket, topic: str) -> int:
    if error := error_of(receive(connection), topic):
        raise SystemExit(f"a produce request was answered with error {error}")
    return 1


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    print(json.dumps({"requests": fill(options["port"], options["topics"], options["batches"], options["cycles"])}))
