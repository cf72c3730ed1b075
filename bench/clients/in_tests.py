"""A test's process with a broker in it: kafkapy's, or librdkafka's mock cluster.

`python -m bench.clients.in_tests kafkapy|mock '{"starts": …}'` prints a JSON object on one line: `start_ms`, the median
of so many starts, each to the first acknowledged record; `first_start_ms`, the one before them; `resident_mib`, what
the first added to the process; and the `port` of one more broker, which lives until the standard input ends.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from bench.clients.raw import first_acknowledged_s
from harness.measure import median, resident_mib

TIMEOUT_S = 30.0


class Started(NamedTuple):
    """A broker and how to end it."""

    port: int
    close: Callable[[], object]


def kafkapy() -> Started:
    from kafkapy.testing import Broker

    broker = Broker().start()
    return Started(broker.port, broker.close)


def mock() -> Started:
    """The handle of a client that has the cluster with it; the metadata that it gives say where."""
    from confluent_kafka import Producer

    handle = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = handle.list_topics(timeout=TIMEOUT_S).brokers.values()
    held = [handle]
    return Started(broker.port, held.clear)


def kafkapy_secured() -> Started:
    """With TLS and PLAIN; it is started when a user has logged in."""
    from bench.clients.handshakes import open_and_close
    from kafkapy.testing import Broker

    broker = Broker(security="sasl_ssl").start()
    settings = {name: str(value) for name, value in broker.client_settings("librdkafka").items()}
    user, password = settings["sasl.username"], settings["sasl.password"]
    open_and_close(broker.port, settings["ssl.ca.pem"], settings["sasl.mechanism"], user, password)
    return Started(broker.port, broker.close)


KINDS: dict[str, Callable[[], Started]] = {"kafkapy": kafkapy, "kafkapy-secured": kafkapy_secured, "mock": mock}


def timed(start: Callable[[], Started]) -> tuple[float, Started]:
    """Milliseconds from the call to the first acknowledged record, or to the first login."""
    began_s = time.monotonic()
    started = start()
    if start is not kafkapy_secured:
        first_acknowledged_s(started.port, "first", began_s + TIMEOUT_S)
    return 1000 * (time.monotonic() - began_s), started


def main(kind: str, starts: int) -> None:
    start = KINDS[kind]
    alone_mib = resident_mib(os.getpid())
    first_ms, started = timed(start)
    added_mib = resident_mib(os.getpid()) - alone_mib
    started.close()
    taken_ms = []
    for _ in range(starts):
        took_ms, started = timed(start)
        started.close()
        taken_ms.append(took_ms)
    last = start()
    metrics = {"start_ms": median(taken_ms), "first_start_ms": first_ms, "resident_mib": added_mib, "port": last.port}
    print(json.dumps(metrics), flush=True)
    sys.stdin.read()
    last.close()


if __name__ == "__main__":
    main(sys.argv[1], **json.loads(sys.argv[2]))
