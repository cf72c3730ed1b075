"""Every conversation, and Apache Kafka 2.7.2's answers: the same from kafkapy."""

import json
from typing import Any

import pytest

from compat_tests.groups.wire import Wire
from compat_tests.process import Broker
from compat_tests.transactions.conversations import ALL
from compat_tests.transactions.record_answers import ANSWERS
from compat_tests.transactions.talk import Talk

RECORDED: dict[str, list[Any]] = json.loads(ANSWERS.read_text())


@pytest.mark.parametrize("name", ALL)
def test_the_answers_are_those_of_2_7_2(broker: Broker, topic_name: str, name: str) -> None:
    if broker.name not in ("kafkapy", "kafka-2.7.2"):
        pytest.skip("other releases verify transactions that 2.7 does not (KIP-890)")
    with Wire(broker.bootstrap) as wire:
        heard = ALL[name](Talk(wire, topic_name))
    assert json.loads(json.dumps(heard)) == RECORDED[name]
