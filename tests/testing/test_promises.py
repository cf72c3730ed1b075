"""A broker in a test's process starts quickly, needs little memory, and leaves no resources behind."""

import asyncio
import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkapy.testing import AsyncBroker, Broker, BrokerStartError, Cluster

FIRST_PRODUCE_MS = 30
RESIDENT_BYTES = 24_000_000


_FIRST_PRODUCE = """
import asyncio, json, time
from kafkapy.testing import Broker
from harness.client import Client, batch, produce_request

async def first_acknowledged(port):
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    answer = await client.ask(produce_request("t", batch(b"v"), acks=-1), 8)
    assert answer.responses[0].partition_responses[0].error_code == 0
    await client.close()

used = []
for _ in range(20):
    began = time.process_time()
    with Broker(topics=["t"]) as broker:
        asyncio.run(first_acknowledged(broker.port))
        used.append(1000 * (time.process_time() - began))
print(json.dumps(used))
"""


def shown_by(program: str) -> Any:
    """The output of another interpreter, which runs without coverage.

    It is run twice, so that the second run finds compiled modules, as after an installation, whatever the tests'
    environment says about bytecode. A process that compiles needs 2 MB more.
    """
    environment = {**os.environ, "COVERAGE_PROCESS_START": "", "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", program]
    for _ in range(2):
        shown = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    return json.loads(shown.stdout)


def test_the_first_produce_is_acknowledged_at_once() -> None:
    """Processor time is measured, which other programs hardly change; bench/ measures elapsed time."""
    used_ms = shown_by(_FIRST_PRODUCE)
    assert statistics.median(used_ms) <= FIRST_PRODUCE_MS, used_ms


_MEMORY = """
import json
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
alone = resident()
from kafkapy.testing import Broker
broker = Broker(topics=["t"]).start()
for at in range(100):
    broker.produce("t", b"v")
print(json.dumps([alone, resident()]))
broker.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_a_broker_takes_little_memory() -> None:
    alone, with_broker = shown_by(_MEMORY)
    assert with_broker - alone <= RESIDENT_BYTES, f"{(with_broker - alone) / 1e6:.1f} MB"


# resources that a broker must release


def plain_use() -> None:
    with Broker(topics=["t"]) as broker:
        broker.produce("t", b"v")
        broker.restart()
        broker.kill()


def clients_still_connected() -> None:
    with Broker(topics=["t"]) as broker:
        clients = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(3)]
        broker.produce("t", b"v")
    for client in clients:
        client.close()


def body_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), Broker(topics=["t"]):
        raise ZeroDivisionError


def port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BrokerStartError, match="is not available"):
        Broker(port=taken.getsockname()[1]).start()


def topic_that_can_not_be() -> None:
    with pytest.raises(Exception, match="INVALID_TOPIC"):
        Broker(topics=["bad name"]).start()


def directory_in_use() -> None:
    with Broker() as first, pytest.raises(BrokerStartError, match="in use by another broker"):
        Broker(data=first.data).start()


def in_a_coroutine() -> None:
    async def scenario() -> None:
        async with AsyncBroker(topics=["t"]) as broker:
            await broker.produce("t", b"v")
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        assert await reader.read() == b""
        writer.close()

    asyncio.run(scenario())


def topics_of_groups_and_transactions() -> None:
    with Broker(topics={"t": 5}) as broker:
        broker.create_topic("__consumer_offsets", 5)
        broker.create_topic("__transaction_state", 5)


def brokers_of_a_cluster() -> None:
    with Cluster(topics={"t": 3}) as cluster:
        cluster.leader("t").produce("t", b"v")
        cluster.brokers[0].kill()
        cluster.brokers[1].stop()
        cluster.brokers[0].start()
        cluster.separate([0], [2])


def cluster_that_can_not_start() -> None:
    with pytest.raises(Exception, match="INVALID_TOPIC"):
        Cluster(topics=["bad name"]).start()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def what_there_is(temporary: Path) -> tuple[set[str], int, list[str], int]:
    gc.collect()
    tasks = [each for each in gc.get_objects() if isinstance(each, asyncio.Task) and not each.done()]
    descriptors = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    return {each.name for each in threading.enumerate()}, descriptors, os.listdir(temporary), len(tasks)


@pytest.mark.parametrize(
    "use",
    [
        plain_use,
        clients_still_connected,
        body_that_raises,
        port_in_use,
        topic_that_can_not_be,
        directory_in_use,
        in_a_coroutine,
        topics_of_groups_and_transactions,
        brokers_of_a_cluster,
        cluster_that_can_not_start,
    ],
    ids=lambda use: use.__name__,
)
def test_a_broker_leaves_no_threads_files_or_sockets(use: Callable[[], None], temporary: Path) -> None:
    before = what_there_is(temporary)
    for _ in range(3):
        use()
    assert what_there_is(temporary) == before
