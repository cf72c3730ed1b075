import socket

import pytest

from kafkapy.network import transport
from kafkapy.network.transport import unread_before_end


def test_the_unread_bytes_before_the_end_are_counted() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"x" * 1000)
        assert unread_before_end(here.fileno()) is None
        there.shutdown(socket.SHUT_WR)
        assert unread_before_end(here.fileno()) == 1000
        assert here.recv(300) == b"x" * 300
        assert unread_before_end(here.fileno()) == 700


@pytest.mark.parametrize("missing", ["_END", "_fcntl", "_termios"])
def test_systems_that_cannot_tell(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, missing, None)
    here, there = socket.socketpair()
    with here, there:
        there.close()
        assert unread_before_end(here.fileno()) is None
