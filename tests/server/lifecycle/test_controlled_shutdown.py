"""A broker that stops in order hands its leaderships over first."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client import batch
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.network.peer import PeerUnreachableError
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from kafkapy.server.lifecycle.controlled_shutdown import ControlledShutdown
from kafkapy.testing.clock import ManualClock
from tests.replication.brokers import brokers
from tests.server.harness import run

MOVED = "The controller has moved the leaderships of this broker to others"


@pytest.mark.parametrize("stopping", [1, 2])
def test_a_follower_leads_before_the_leader_has_stopped(
    stopping: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Broker 1 is the controller too: its successor finds the leaderships moved."""
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, 3) as cluster:
            await cluster.create_topic(stopping, 3)
            assert (await cluster.produce(stopping, batch(b"a"))).error_code == 0
            await cluster.stop(stopping)
            state = await cluster.state()
            assert (state.leader, state.leader_epoch, state.isr) == (3, 1, (3,))
            assert caplog.messages.count(MOVED) == 1
            await cluster.leads(3, epoch=1)
            assert cluster.log(3).log_end_offset == 1

    run(scenario())


def test_a_killed_broker_and_one_that_shall_not_ask_do_not_ask(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        async with brokers(tmp_path, 1, 2, controlled__shutdown__enable="false") as cluster:
            await cluster.stop(2)
            await cluster.start(2, controlled__shutdown__enable="true")
            await cluster.stop(2, kill=True)

    run(scenario())
    assert not any("about to stop" in message for message in caplog.messages)


class Controller:
    """A channel to a controller that gives these answers, or fails."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    async def send(self, broker_id: int, _request: object, version: int) -> Any:
        assert version == 3
        self.asked.append(broker_id)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def stop(channel: Controller, others: Any = (2,), **keys: str) -> list[float]:
    """Stop broker 1; return the pauses between its requests in ms."""
    pauses: list[float] = []

    class Clock(ManualClock):
        async def sleep(self, delay_ms: float) -> None:
            pauses.append(delay_ms)

    brokers_ = iter(others) if isinstance(others, list) else None
    config = BrokerConfig.from_properties({"broker.id": "1", **{key.replace("__", "."): keys[key] for key in keys}})

    def image() -> Any:
        alive = others if brokers_ is None else next(brokers_)
        return SimpleNamespace(brokers=dict.fromkeys((1, *alive)), controller_id=2)

    asyncio.run(ControlledShutdown(config, Clock(), channel, image, lambda: 7).run())  # type: ignore[arg-type]
    return pauses


REMAINS = ControlledShutdownResponse(0, [RemainingPartition("t", 0)])


def test_the_controller_is_asked_again_after_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    channel = Controller(
        PeerUnreachableError("no broker 2"), ControlledShutdownResponse(11), ControlledShutdownResponse()
    )
    assert stop(channel) == [5000, 5000]
    assert channel.asked == [2, 2, 2]
    assert caplog.messages == [
        "Asking the controller again to move leaderships away: the controller did not answer: no broker 2",
        "Asking the controller again to move leaderships away: the controller refused with error 11",
        MOVED,
    ]


def test_the_broker_stops_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    channel = Controller(REMAINS, REMAINS)
    pauses = stop(channel, controlled__shutdown__max__retries="2", controlled__shutdown__retry__backoff__ms="10")
    assert pauses == [10]
    assert caplog.messages == [
        "Stopping without all leaderships moved to other brokers: 1 partitions have no other replica in sync"
    ]


def test_without_other_brokers_nobody_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    assert stop(Controller(), ()) == []
    assert caplog.messages == []
    channel = Controller(REMAINS)
    assert stop(channel, [(2,), (2,), ()]) == []
    assert "Stopping without all leaderships moved" in caplog.messages[-1]
