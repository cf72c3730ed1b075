"""A client of a cluster in a process of its own; its last line of output is a JSON object.

`python -m bench.clients.cluster probe '{"port": …, "topic": …, "partition": …}'` produces single records one after the
other, until a line comes, and tells the longest time that one of them took.

`python -m bench.clients.cluster produce '{"ports": {…}, "topic": …, "batches": …}'` produces so many batches of 64 kB
to each partition, acks=all; ports are those of the partitions' leaders. It costs hardly anything beside the brokers.
"""

import json
import select
import socket
import sys
import time
from collections.abc import Callable

from bench.clients.long_log import batch
from bench.clients.raw import ANSWER_TIMEOUT_S, PRODUCE_VERSION, connect, error_of, frame, produce_frame, receive
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PAUSE_S = 0.002
IN_FLIGHT = 3
"""Requests of a partition without an answer."""


def probe(port: int, topic: str, partition: int) -> dict[str, float]:
    """Produce, acks=1, with a pause of 2 ms after each answer; the wait for an answer counts until it has no error."""
    request = produce_frame(topic, partition)
    longest_s, requests, errors = 0.0, 0, 0
    with connect(port) as connection:
        print("started", flush=True)
        while not _is_over():
            sent_s = time.monotonic()
            while error_of(_answer(connection, request), topic):
                errors += 1
            longest_s = max(longest_s, time.monotonic() - sent_s)
            requests += 1
            time.sleep(PAUSE_S)
    return {"longest_ms": 1000 * longest_s, "requests": requests, "errors": errors}


class _Partition:
    """A connection to the leader of a partition, on which batches are sent."""

    def __init__(self, port: int, topic: str, partition: int, batches: int) -> None:
        self.connection = connect(port)
        self.unanswered = 0
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, batch())])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
        self._request = frame(ApiKey.PRODUCE, request, PRODUCE_VERSION)
        self._left = batches
        self._topic = topic

    def send(self) -> None:
        """Send a batch if one is left."""
        if self._left:
            self.connection.sendall(self._request)
            self._left -= 1
            self.unanswered += 1

    def take(self) -> None:
        """Read an answer, and send the next batch."""
        if error := error_of(receive(self.connection), self._topic):
            raise SystemExit(f"a produce request was answered with error {error}")
        self.unanswered -= 1
        self.send()


def produce(ports: dict[str, int], topic: str, batches: int) -> dict[str, float]:
    """Produce to all partitions at once, each on its own connection; fails unless every batch is acknowledged."""
    partitions = [_Partition(port, topic, int(number), batches) for number, port in ports.items()]
    by_place = {each.connection.fileno(): each for each in partitions}
    poll = select.epoll()
    began_s = time.monotonic()
    for place, each in by_place.items():
        poll.register(place, select.EPOLLIN)
        for _ in range(IN_FLIGHT):
            each.send()
    while any(each.unanswered for each in partitions):
        ready = poll.poll(ANSWER_TIMEOUT_S)
        if not ready:
            raise SystemExit(f"no answer for {ANSWER_TIMEOUT_S:.0f} s")
        for place, _ in ready:
            by_place[place].take()
    return {"wall_s": time.monotonic() - began_s}


def _answer(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    return receive(connection)


def _is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


MODES: dict[str, Callable[..., dict[str, float]]] = {"probe": probe, "produce": produce}

if __name__ == "__main__":
    print(json.dumps(MODES[sys.argv[1]](**json.loads(sys.argv[2]))))
