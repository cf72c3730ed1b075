"""Broken requests to the control port of a running broker: HTTP errors, no traceback, and the broker serves on.

kafkapy only: Apache Kafka has no such port.
"""

import http.client
import socket
from pathlib import Path

import pytest

from harness.cases.control_requests import Requests
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST, free_port

REQUESTS = 3_000
SEED = 15


def _exchange(port: int, data: bytes) -> bytes:
    with socket.create_connection((HOST, port), 10) as connection:
        received = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionError:  # the port is free to close before it has read everything
            return received
        return received


@pytest.mark.parametrize("target", [b"http://[", b"//[x"])
def test_a_target_that_is_no_url(tmp_path: Path, target: bytes) -> None:
    control = free_port()
    with KafkapyProcess(directory=tmp_path / "broker", options=("--control-port", str(control))):
        answer = _exchange(control, b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % target)
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_random_requests(tmp_path: Path) -> None:
    control = free_port()
    with KafkapyProcess(directory=tmp_path / "broker", options=("--control-port", str(control))) as process:
        answered = 0
        for data, _ in zip(Requests(SEED), range(REQUESTS), strict=False):
            answer = _exchange(control, data)
            assert not answer or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")), data
            answered += bool(answer)
        assert answered > REQUESTS / 2
        connection = http.client.HTTPConnection(HOST, control, timeout=10)
        connection.request("GET", "/broker")
        assert connection.getresponse().status == 200
        connection.close()
        process.stop()
        assert "Traceback" not in process.log_path.read_text(errors="replace")
