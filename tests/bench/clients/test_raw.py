"""The bench's plain client of one connection."""

import socket
import struct
import threading

import pytest

from bench.clients.raw import receive


def test_a_response_that_arrives_in_pieces_is_read_whole() -> None:
    answer = bytes(range(256)) * 8192
    broker, client = socket.socketpair()
    with broker, client:
        client.settimeout(30)
        sender = threading.Thread(target=broker.sendall, args=(struct.pack(">i", len(answer)) + answer,))
        sender.start()
        assert receive(client) == answer
        sender.join()


def test_a_connection_that_ends_within_a_response_is_an_error() -> None:
    broker, client = socket.socketpair()
    with broker, client:
        client.settimeout(30)
        broker.sendall(struct.pack(">i", 100) + b"some")
        broker.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError, match="the broker closed the connection"):
            receive(client)
