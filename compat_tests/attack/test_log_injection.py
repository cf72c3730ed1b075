"""Names with line ends and escape sequences, sent in every place that reaches the log: each line stays one, and plain.

kafkapy only: the test reads its standard error.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.data_path.frames import batch, produce_request
from compat_tests.groups.wire import Wire, join_request
from harness.kafkapy_process import KafkapyProcess
from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

MARK = "forged-by-a-client"
HOSTILE = f"x\r\n2026-01-01 00:00:00.000 ERROR   kafkapy: {MARK}\x1b[2J\x1b]0;title\x07\x9b31m\x85\u2028\u2029\u202e"
LONG = "long" * 8_000
REFUSED = 20_000


@pytest.fixture(params=["text", "json", "trace", "trace-json"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkapyProcess]:
    options = {
        "text": ("--log-level", "debug"),
        "json": ("--log-level", "debug", "--log-json"),
        "trace": ("--trace", "--log-level", "debug"),
        "trace-json": ("--trace-json", "--log-level", "debug", "--log-json"),
    }[request.param]
    with KafkapyProcess(directory=tmp_path / "broker", options=options) as started:
        yield started


def _send_all(bootstrap: str, name: str) -> None:
    """Send ``name`` wherever a request may hold any text; some of it ends the connection."""
    for records, acks in ((batch(b"v", is_transactional=True), 1), (b"half a batch", 1), (None, 1), (batch(b"v"), 0)):
        with Wire(bootstrap, client_id=name[:1000]) as wire:
            wire.send(produce_request(name, records, acks=acks), 8)
            wire.has_answer(5)
    with Wire(bootstrap, client_id=name[:1000]) as wire:
        wire.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 4)
        wire.ask(MetadataRequest([MetadataRequestTopic(name=name)]), 8)
        wire.ask(AlterConfigsRequest([AlterConfigsResource(2, name, [AlterableConfig(name, name)])]), 1)
        wire.ask(join_request(name, name), 5)
        wire.ask(join_request(name, protocol_type=name), 5)
        wire.ask(InitProducerIdRequest(name, -5), 1)


def test_client_text_does_not_break_log_lines(process: KafkapyProcess) -> None:
    _send_all(process.bootstrap, HOSTILE)
    _send_all(process.bootstrap, LONG)
    assert process.stop() == 0
    lines = process.log_path.read_bytes().decode().split("\n")
    assert any(MARK in line for line in lines)
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    assert max(len(line) for line in lines) < 10_000
    if "--log-json" in process.options:
        for line in filter(None, lines):
            json.loads(line)


def test_a_request_writes_few_log_lines(tmp_path: Path) -> None:
    with KafkapyProcess(directory=tmp_path / "broker") as process:
        with Wire(process.bootstrap) as wire:
            topics = [CreatableTopic(f"bad name {number}", 1, 1) for number in range(REFUSED)]
            wire.ask(CreateTopicsRequest(topics, validate_only=True), 4)
        process.stop()
        assert process.log_path.read_text().count("Refused the creation of topic") == 10
