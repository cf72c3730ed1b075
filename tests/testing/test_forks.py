"""A process that is forked while a broker runs, as ``multiprocessing`` does by default on Linux before Python 3.14."""

import multiprocessing
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkapy.testing import Broker, Cluster

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
