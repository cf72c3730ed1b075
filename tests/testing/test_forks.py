"""A process that is forked while a broker runs, as ``multiprocessing`` does by default on Linux before Python 3.14."""

import asyncio
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from harness.client import frame
from kafkapy.network.sender import sendfile
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.testing import AsyncBroker, AsyncCluster, Broker, BrokerNotRunningError, Cluster

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")

LIMIT_S = 10


@contextmanager
def forked_child() -> Iterator[None]:
    """A child that runs during the block and uses nothing of this process."""
    context = multiprocessing.get_context("fork")
    may_end = context.Event()
    child = context.Process(target=may_end.wait)
    child.start()
    try:
        yield
    finally:
        may_end.set()
        child.join()


def test_a_broker_stops_starts_and_ends_while_a_child_runs() -> None:
    with Broker(topics=["t"]) as broker, forked_child():
        port = broker.port
        for end in (broker.stop, broker.kill):
            end()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), LIMIT_S)
            broker.start()
            broker.produce("t", b"v")
        assert len(broker.records("t")) == 2
        broker.close()
        with Broker(port=port) as other:
            assert other.port == port


@pytest.mark.parametrize("end", ["stop", "kill", "close"])
def test_a_client_sees_the_end_of_a_broker_while_a_child_runs(end: str) -> None:
    with Broker() as broker, socket.create_connection(("127.0.0.1", broker.port), LIMIT_S) as client:
        client.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\x01\0\x04test")  # ApiVersions: the broker has the connection
        assert client.recv(1)
        with forked_child():
            getattr(broker, end)()
            while client.recv(4096):
                pass


@pytest.mark.skipif(sendfile is None, reason="the system sends no files within the kernel")
def test_a_client_in_the_middle_of_a_large_response_sees_the_end_while_a_child_runs() -> None:
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=2**30)
    request = FetchRequest(
        max_bytes=2**30, session_epoch=-1, topics=[FetchTopic("t", partitions=[partition])], max_wait_ms=0, min_bytes=0
    )
    with Broker({"message.max.bytes": 2**24}, topics=["t"]) as broker:
        for _ in range(4):
            broker.produce("t", bytes(2**23))
        with socket.create_connection(("127.0.0.1", broker.port), LIMIT_S) as client:
            client.sendall(frame(request, 11))
            assert client.recv(1)  # the broker has filled the sockets' buffers, and waits until it can send the rest
            with forked_child():
                broker.stop()
                while client.recv(2**20):
                    pass


def test_a_child_does_not_change_the_connections_of_its_parent() -> None:
    request = b"\0\0\0\x0e\0\x12\0\0\0\0\0\x01\0\x04test"
    with Broker() as broker, socket.create_connection(("127.0.0.1", broker.port), LIMIT_S) as client:
        client.sendall(request)
        answer = client.recv(4096)
        with forked_child():
            client.sendall(request)
            assert client.recv(4096) == answer
        client.sendall(request)
        assert client.recv(4096) == answer


def test_brokers_of_a_cluster_end_and_start_while_a_child_runs() -> None:
    with Cluster(2, topics=["t"]) as cluster, forked_child():
        cluster.produce("t", b"1")
        leader = cluster.leader("t")
        for end in (leader.kill, leader.stop):
            end()
            cluster.produce("t", b"v")
            leader.start()
            cluster.wait_until_in_sync("t")
        assert len(cluster.records("t")) == 3


# the broker's objects in the child

LEAVES = """
import os, sys
from kafkapy.testing import Broker, Cluster

with {kind} as tested:
    data = [each.data for each in getattr(tested, "brokers", [tested])]
    with tested.{block}:
        child = os.fork()
        if child == 0:
            sys.exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert all(each.is_dir() for each in data)
    tested.create_topic("t")
    tested.produce("t", b"v")
assert not any(each.exists() for each in data)
print("fine")
"""


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("Broker()", "faults.paused()"),
        ("Broker()", "faults.drop(api='Produce')"),
        ("Cluster(2)", "separated([0])"),
    ],
)
def test_a_child_leaves_the_with_at_once_and_the_broker_as_it_is(
    kind: str, block: str, pytestconfig: pytest.Config
) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", LEAVES.format(kind=kind, block=block)], capture_output=True, text=True, timeout=30,
        cwd=pytestconfig.rootpath, env={**os.environ, "COVERAGE_PROCESS_START": ""}, check=False,
    )  # fmt: skip
    assert (shown.stdout, shown.stderr) == ("fine\n", "")


def outcomes_in_child(*calls: Callable[[], object]) -> list[str]:
    """The result of each call in a forked child, or the exception that it raises there."""

    def make(answers: Connection) -> None:
        for call in calls:
            try:
                answers.send(repr(call()))
            except BrokerNotRunningError as error:
                answers.send(f"BrokerNotRunningError: {error}")

    context = multiprocessing.get_context("fork")
    ours, childs = context.Pipe()
    child = context.Process(target=make, args=(childs,))
    child.start()
    childs.close()
    try:
        return [ours.recv() if ours.poll(LIMIT_S) else "no answer" for _ in calls]
    finally:
        child.kill()
        child.join()


REFUSED = f"BrokerNotRunningError: the broker runs in process {os.getpid()}, from which this one was forked: "


def test_what_a_child_can_do_with_a_broker_of_its_parent() -> None:
    with Broker(topics=["t"]) as broker, broker.faults.delay(1, api="Fetch") as rule:
        port = broker.port
        assert outcomes_in_child(
            lambda: broker.port, broker.close, broker.stop, rule.remove, broker.faults.clear, broker.faults.resume
        ) == [str(port), *["None"] * 5]
        refused = outcomes_in_child(
            broker.start, broker.restart, broker.kill, broker.registry, lambda: broker.records("t"),
            broker.faults.pause, lambda: broker.faults.drop(api="Fetch"), lambda: broker.clock.advance(1),
            lambda: broker.faults.expire_member("g"),
        )  # fmt: skip
        assert all(each.startswith(REFUSED) for each in refused), refused
        assert broker.is_running
        assert broker.faults.rules == (rule,)
        assert broker.produce("t", b"v").offset == 0


def test_what_a_child_can_do_with_a_cluster_of_its_parent() -> None:
    with Cluster(2, topics=["t"]) as cluster:
        first = cluster.brokers[0]
        assert outcomes_in_child(cluster.close, cluster.heal, first.close, first.stop, first.resume) == ["None"] * 5
        refused = outcomes_in_child(
            cluster.start, lambda: cluster.records("t"), lambda: cluster.separate([0]), first.start, first.kill
        )
        assert all(each.startswith(REFUSED) for each in refused), refused
        assert all(each.is_running for each in cluster.brokers)


@pytest.mark.parametrize("kind", [AsyncBroker, AsyncCluster])
def test_what_a_child_can_do_with_coroutines_of_its_parent(kind: type[AsyncBroker | AsyncCluster]) -> None:
    async def scenario() -> None:
        async with kind(topics=["t"]) as tested:
            ends = [tested.close, tested.stop if isinstance(tested, AsyncBroker) else tested.heal]
            assert outcomes_in_child(*(lambda end=end: asyncio.run(end()) for end in ends)) == ["None"] * 2
            asked = [tested.start, lambda: tested.records("t")]
            refused = outcomes_in_child(*(lambda ask=ask: asyncio.run(ask()) for ask in asked))
            assert all(each.startswith(REFUSED) for each in refused), refused
            assert (await tested.produce("t", b"v")).offset == 0

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_child_has_a_broker_of_its_own(tmp_path: Path) -> None:
    def own() -> str:
        with Broker(topics=["t"], data=tmp_path) as other:
            other.produce("t", b"v")
            other.faults.drop(api="Fetch", count=1)
            return f"{len(other.records('t'))} on {other.port != broker.port}"

    closed = Broker(topics=["t"])
    with closed:
        pass
    with Broker() as broker:
        assert outcomes_in_child(own, closed.faults.pause, lambda: closed.start().is_running) == [
            "'1 on True'", "None", "True",
        ]  # fmt: skip


def test_a_child_that_is_forked_during_a_start_does_not_wait_for_it() -> None:
    with Broker(topics=["t"]) as broker:
        is_held, may_end = threading.Event(), threading.Event()

        def hold() -> None:
            with broker._lifecycle:
                is_held.set()
                may_end.wait(LIMIT_S)

        holder = threading.Thread(target=hold)
        holder.start()
        assert is_held.wait(LIMIT_S)
        assert outcomes_in_child(broker.close) == ["None"]
        assert outcomes_in_child(broker.start)[0].startswith(REFUSED)
        may_end.set()
        holder.join()
