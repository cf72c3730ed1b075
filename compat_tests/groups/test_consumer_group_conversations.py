"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), answered as by Apache Kafka 4.4.0, field by field."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from compat_tests.brokers.own_broker import own_broker
from harness.cases import RECORDED
from harness.cases.consumer_group_cases import AT_DEFAULTS, AT_ONCE, CONVERSATIONS, hold
from harness.cases.group_cases import comparable, make_topics
from harness.process import Broker
from harness.wire import Wire

pytestmark = [
    pytest.mark.together,
    pytest.mark.differs(
        "kafka-2.7.2", "kafka-3.9.1", reason="without consumer groups, or with those of earlier versions"
    ),
]

ANSWERS: dict[str, Any] = json.loads((RECORDED / "consumer_group_answers.json").read_text())


@pytest.fixture(scope="module")
def bootstraps(broker: Broker) -> Iterator[Mapping[str, str]]:
    """For each conversation a broker with the topics: one assigns at once, the other has its defaults."""
    with own_broker(broker, AT_ONCE) as immediate:
        for each in (broker, immediate):
            with Wire(each.bootstrap) as wire:
                make_topics(wire)
        yield dict.fromkeys(CONVERSATIONS, immediate.bootstrap) | dict.fromkeys(AT_DEFAULTS, broker.bootstrap)


@pytest.mark.parametrize("name", [*CONVERSATIONS, *AT_DEFAULTS])
def test_the_answers_equal_those_of_4_4_0(bootstraps: Mapping[str, str], topic_name: str, name: str) -> None:
    held = hold(name, bootstraps[name], topic_name)
    assert comparable(held) == comparable(ANSWERS[name])
