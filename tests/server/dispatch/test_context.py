"""The context of a handler: the broker's own address for a client, and a bounded log of refusals."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import Client
from kafkapy.metadata.errors import InvalidTopicError
from kafkapy.metrics import PEER_LINES_A_SECOND, Metrics
from kafkapy.network.session import Session
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.metadata import MetadataRequest
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.testing.clock import ManualClock
from tests.server.harness import run, running_broker


@pytest.mark.parametrize(("keys", "host"), [
    ({"listeners": "PLAINTEXT://127.0.0.1:0"}, "127.0.0.1"),
    ({"listeners": "PLAINTEXT://localhost:0"}, "localhost"),
    ({"listeners": "PLAINTEXT://0.0.0.0:0"}, "127.0.0.1"),
    ({"listeners": "PLAINTEXT://:0"}, "127.0.0.1"),
])  # fmt: skip
def test_without_advertised_listeners_the_end_point_is_the_one_that_the_client_reached(
    keys: dict[str, Any], host: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **keys) as broker:
            client = await Client.connect(broker)
            (node,) = (await client.ask(MetadataRequest([]), 1)).brokers
            assert (node.node_id, node.host, node.port) == (0, host, broker.port)

    run(scenario())


def test_the_advertised_end_point_is_that_of_the_listeners_name(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
        "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
        "advertised__listeners": "PLAINTEXT://outside.example:1234,INNER://inside.example:77",
        "inter__broker__listener__name": "INNER",
    }

    async def scenario() -> None:
        async with running_broker(tmp_path, **keys) as broker:
            client = await Client.connect(broker)
            (node,) = (await client.ask(MetadataRequest([]), 1)).brokers
            assert (node.host, node.port) == ("outside.example", 1234)

    run(scenario())


@pytest.mark.parametrize(("keys", "expected"), [
    ({"advertised__listeners": "PLAINTEXT://outside.example:0"}, ("outside.example", "<bound>")),
    ({"advertised__listeners": "PLAINTEXT://:1234"}, ("127.0.0.1", 1234)),
    ({"advertised__host__name": "outside.example", "advertised__port": "0"}, ("outside.example", "<bound>")),
    ({"advertised__host__name": "outside.example", "advertised__port": "77"}, ("outside.example", 77)),
])  # fmt: skip
def test_an_advertised_end_point_without_host_or_port_has_those_of_the_listener(
    keys: dict[str, Any], expected: tuple[str, Any], tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, listeners="PLAINTEXT://127.0.0.1:0", **keys) as broker:
            client = await Client.connect(broker)
            (node,) = (await client.ask(MetadataRequest([]), 1)).brokers
            host, port = expected
            assert (node.host, node.port) == (host, broker.port if port == "<bound>" else port)

    run(scenario())


def test_the_brokers_own_requests_have_no_peer() -> None:
    session = Session.local("PLAINTEXT")
    assert (session.peer_host, session.listener, session.principal) == ("local", "PLAINTEXT", "User:ANONYMOUS")


def _context(clock: ManualClock) -> RequestContext:
    services: Any = SimpleNamespace(clock=clock, metrics=Metrics())
    return RequestContext(services, RequestHeader(0, 8, 1, None), Session.local("PLAINTEXT"))


def test_a_request_with_many_refusals_writes_few_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkapy")
    clock = ManualClock()
    context = _context(clock)
    for number in range(60_000):
        context.log_refusal(f"topic {number}", InvalidTopicError("bad"))
    assert [record.args[0] for record in caplog.records if record.args] == [f"topic {each}" for each in range(10)]
    clock.advance(1_000)
    assert caplog.messages[10:] == ["Refused 59990 further elements of the same request of local"]
    for _ in range(500):
        context.log_refusal("topic", InvalidTopicError("bad"))
    assert len(caplog.messages) == 11
    clock.advance(1_000)
    assert caplog.messages[11:] == ["Refused 500 further elements of the same request of local"]
    clock.advance(60_000)
    assert len(caplog.messages) == 12


def test_a_few_refusals_have_one_log_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkapy")
    clock = ManualClock()
    for _ in range(2):
        context = _context(clock)
        for _ in range(10):
            context.log_refusal("topic", InvalidTopicError("bad"))
    clock.advance(10_000)
    assert caplog.messages == ["Refused topic of local: bad (error 17)"] * 20


def test_many_requests_with_refusals_write_few_log_lines_in_a_second(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafkapy")
    clock = ManualClock()
    context = _context(clock)
    services = context.services
    for _ in range(30):
        for _ in range(11):
            context.log_refusal("topic", InvalidTopicError("bad"))
        context = RequestContext(services, context.header, context.session)
    assert len(caplog.messages) == PEER_LINES_A_SECOND
    assert services.metrics.peer_lines.left_out == 300 - PEER_LINES_A_SECOND
    clock.advance(1_000)
    assert caplog.messages[-1] == "Refused 1 further elements of the same request of local"
    assert len(caplog.messages) == PEER_LINES_A_SECOND + 30
