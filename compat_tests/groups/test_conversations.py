"""Every version of every group API, answered alike by Apache Kafka 2.7.2 and kafkapy, field by field."""

import json
from pathlib import Path
from typing import Any

import pytest

from compat_tests.groups.conversations import NAMES, hold
from compat_tests.process import Broker
from tests.server.handlers.group_cases import comparable, make_topics
from tests.server.wire import Wire

RECORDED = Path(__file__).parents[2] / "tests/server/handlers/data/group_answers.json"
ANSWERS: dict[str, Any] = json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    if broker.name not in ("kafkapy", "kafka-2.7.2"):
        pytest.skip("other releases answer as their own version does")
    with Wire(broker.bootstrap) as wire:
        make_topics(wire)
    return broker.bootstrap


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_are_those_of_2_7_2(bootstrap: str, topic_name: str, name: str) -> None:
    assert comparable(hold(name, bootstrap, topic_name)) == comparable(ANSWERS[name])
