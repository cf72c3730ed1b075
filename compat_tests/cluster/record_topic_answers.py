"""Sends the requests of ``harness/cases/topic_cases.py`` to Apache Kafka 2.7.2, and keeps the answers as JSON.

python -m compat_tests.cluster.record_topic_answers
"""

import json
import socket
import struct
import time
from typing import Any

from harness.cases import RECORDED
from harness.cases.topic_cases import SETTINGS, WAITED_FOR, cases, plain
from harness.process import HOST
from harness.real_kafka import RealKafka
from kafkapy.protocol.headers import RequestHeader, read_response_header, write_request_header
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.primitives import encode
from kafkapy.protocol.reader import Reader
from kafkapy.protocol.writer import Writer

ANSWERS = RECORDED / "topic_answers.json"


def ask(connection: socket.socket, request: Any, version: int) -> Any:
    """Sends one request; returns its response."""
    writer = Writer()
    write_request_header(writer, RequestHeader(request.API_KEY, version, 1, "recorder"))
    frame = writer.getvalue() + encode(request, version)
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", receive(connection, 4))
    reader = Reader(receive(connection, size))
    read_response_header(reader, request.API_KEY, version)
    return response_class(request.API_KEY).read(reader, version)


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly ``size`` bytes."""
    received = b""
    while len(received) < size:
        received += connection.recv(size - len(received))
    return received


def wait_for(connection: socket.socket, topic: str) -> None:
    """Returns when all partitions of ``topic`` have a leader."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    while True:
        (found,) = ask(connection, request, 5).topics
        if found.error_code == 0 and all(partition.error_code == 0 for partition in found.partitions):
            return
        time.sleep(0.05)


def main() -> None:
    answers = {}
    with RealKafka("2.7.2", config=SETTINGS) as kafka, socket.create_connection((HOST, kafka.port)) as connection:
        for case in cases():
            request: Any = case.request
            answers[f"{request.API_KEY} {case.label}"] = plain(ask(connection, request, case.version))
            if case.label in WAITED_FOR:
                wait_for(connection, WAITED_FOR[case.label])
    ANSWERS.parent.mkdir(exist_ok=True)
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in answers.items())
    ANSWERS.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
