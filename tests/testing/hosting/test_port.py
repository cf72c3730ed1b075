"""A port that stays reserved."""

import socket

import pytest

from kafkapy.testing.errors import BrokerStartError
from kafkapy.testing.hosting import port as port_module
from kafkapy.testing.hosting.port import ReservedPort


def listens(number: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", number))
    sock.listen()
    return sock


def test_the_owner_can_listen_on_the_port_repeatedly() -> None:
    reserved = ReservedPort()
    for _ in range(2):
        with listens(reserved.number), socket.create_connection(("127.0.0.1", reserved.number)):
            pass
    reserved.release()
    reserved.release()


def test_other_sockets_do_not_get_the_port() -> None:
    reserved = ReservedPort()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", reserved.number))
    reserved.release()
    with socket.socket() as other:
        other.bind(("127.0.0.1", reserved.number))


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(BrokerStartError, match=rf"^port {number} of 127\.0\.0\.1 is not available .*free one$"):
            ReservedPort(number)


def test_on_other_systems_the_port_is_only_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_module.sys, "platform", "darwin")
    reserved = ReservedPort()
    with socket.socket() as other:
        other.bind(("127.0.0.1", reserved.number))
