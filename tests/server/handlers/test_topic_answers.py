"""Answers about topics, compared with those of Apache Kafka 2.7.2 to the same requests in the same order."""

import asyncio
import json
from importlib import import_module
from typing import Any

import pytest

from harness.cases import RECORDED
from harness.cases.topic_cases import SETTINGS, WAITED_FOR, cases, plain
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.message import Message
from kafkapy.protocol.primitives import decode, encode
from tests.controller.harness import FakeBroker, cluster
from tests.server.handlers.topic_context import ask

ANSWERS: dict[str, Any] = json.loads((RECORDED / "topic_answers.json").read_text())
CASES = list(cases())


def _over_the_wire(message: Message, version: int) -> Any:
    return plain(decode(type(message), encode(message, version), version))


def _comparable(answer: Any) -> Any:
    """The answer without the order of lists that are sets."""
    if isinstance(answer, list):
        return sorted((_comparable(found) for found in answer), key=json.dumps)
    if isinstance(answer, dict):
        return {key: _comparable(value) for key, value in answer.items()}
    return answer


async def _wait_for(broker: FakeBroker, topic: str) -> None:
    clock = broker.cluster.clock
    assert await broker.node.cache.wait_until(lambda image: topic in image.topics, 1000, clock)


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    given = {}

    async def main() -> None:
        async with cluster(0, **SETTINGS) as started:
            for case in CASES:
                module = import_module(f"kafkapy.server.handlers.{ApiKey(case.request.API_KEY).name.lower()}")
                request = decode(type(case.request), encode(case.request, case.version), case.version)
                response = await ask(module, started.controller, request, case.version)
                given[f"{case.request.API_KEY} {case.label}"] = _over_the_wire(response, case.version)
                if case.label in WAITED_FOR:
                    await _wait_for(started.controller, WAITED_FOR[case.label])

    asyncio.run(main())
    return given


@pytest.mark.parametrize("key", [f"{case.request.API_KEY} {case.label}" for case in CASES])
def test_the_answer_is_kafkas(answers: dict[str, Any], key: str) -> None:
    assert _comparable(answers[key]) == _comparable(ANSWERS[key])
