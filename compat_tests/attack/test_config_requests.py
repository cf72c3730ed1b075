"""Configuration requests that name the same resource, or very many, again and again."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.data_path.frames import new_topic
from compat_tests.groups.wire import Wire
from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker
from kafkapy.protocol.headers import RequestHeader, write_request_header
from kafkapy.protocol.messages import incremental_alter_configs as incremental
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.protocol.writer import Writer

TOPIC, BROKER = 2, 4
OTHERS_WAIT_S = 0.25
GROWTH_KB = 32_768


def _id(wire: Wire) -> str:
    return str(wire.ask(MetadataRequest([]), 1).brokers[0].node_id)


def test_a_resource_that_is_named_twice_is_described_twice(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        topic = new_topic(wire)
        named = [
            (TOPIC, topic, None),
            (BROKER, _id(wire), None),
            (TOPIC, topic, ["retention.ms"]),
            (TOPIC, topic, None),
        ]
        request = DescribeConfigsRequest([DescribeConfigsResource(*each) for each in named], include_synonyms=True)
        results = wire.ask(request, 2).results
        assert [each.error_code for each in results] == [0, 0, 0, 0]
        assert [each.resource_name for each in results] == [topic, named[1][1], topic, topic]
        assert [len(results[at].configs) for at in (2, 3)] == [1, len(results[0].configs)]


def test_a_resource_that_is_altered_twice_at_once_has_one_answer_and_the_last_change(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        topic = new_topic(wire)
        changes = [("retention.ms", "5000"), ("segment.ms", "6000")]
        resources = [
            incremental.AlterConfigsResource(TOPIC, topic, [incremental.AlterableConfig(name, 0, value)])
            for name, value in changes
        ]
        response = wire.ask(incremental.IncrementalAlterConfigsRequest(resources), 1)
        assert [(each.error_code, each.resource_name) for each in response.responses] == [(0, topic)]
        asked = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, None)])
        (described,) = wire.ask(asked, 2).results
        assert {each.name: each.value for each in described.configs if each.config_source == 1} == {
            "segment.ms": "6000"
        }


def test_every_documented_key_has_a_text(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        resources = [
            DescribeConfigsResource(TOPIC, new_topic(wire), None),
            DescribeConfigsResource(BROKER, _id(wire), None),
        ]
        results = wire.ask(DescribeConfigsRequest(resources, include_documentation=True), 3).results
    without = [each.name for result in results for each in result.configs if not each.documentation]
    assert without == []


def _frame(request: Any, version: int) -> bytes:
    writer = Writer()
    write_request_header(writer, RequestHeader(request.API_KEY, version, 1, "many"))
    request.write(writer, version)
    data = writer.getvalue()
    return len(data).to_bytes(4, "big") + data


@contextmanager
def _another_client(bootstrap: str) -> Iterator[list[float]]:
    """Sends small requests all the time; the durations are in seconds."""
    durations: list[float] = []
    is_over = threading.Event()

    def ask() -> None:
        with Wire(bootstrap) as wire:
            while not is_over.wait(0.005):
                began_s = time.perf_counter()
                wire.ask(ApiVersionsRequest(), 2)
                durations.append(time.perf_counter() - began_s)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield durations
    finally:
        is_over.set()
        thread.join()


def _memory_kb(pid: int | None, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkapyProcess]:
    with KafkapyProcess(directory=tmp_path / "broker") as process:
        yield process


@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_one_resource_named_thousands_of_times(kind: str, own: KafkapyProcess) -> None:
    with Wire(own.bootstrap) as wire:
        resource = (BROKER, _id(wire)) if kind == "broker" else (TOPIC, new_topic(wire))
        count = 5_000 if kind == "broker" else 20_000
        request = DescribeConfigsRequest([DescribeConfigsResource(*resource, None)] * count, include_synonyms=True)
        frame = _frame(request, 2)
        Path(f"/proc/{own.pid}/clear_refs").write_text("5")
        before_kb = _memory_kb(own.pid, "VmRSS")
        with _another_client(own.bootstrap) as durations:
            wire._socket.sendall(frame)
            left = int.from_bytes(wire._exactly(4), "big")
            assert left > count * 1_500
            while left:
                piece = wire._socket.recv(min(left, 1 << 20))
                assert piece
                left -= len(piece)
        assert _memory_kb(own.pid, "VmHWM") - before_kb < GROWTH_KB
        assert max(durations) < OTHERS_WAIT_S * max(1.0, os.getloadavg()[0])
