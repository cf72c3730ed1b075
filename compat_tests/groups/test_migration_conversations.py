"""Groups with members of the classic and of the consumer protocol (KIP-848), answered as by Apache Kafka 4.4.0."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest

from compat_tests.brokers.own_broker import own_broker
from harness.cases import RECORDED
from harness.cases.consumer_group_cases import AT_ONCE
from harness.cases.group_cases import comparable, make_topics
from harness.cases.migration_cases import CONVERSATIONS, POLICIES, POLICY, hold, without_config_operations
from harness.process import Broker
from harness.wire import Wire

pytestmark = [
    pytest.mark.together,
    pytest.mark.differs(
        "kafka-2.7.2", "kafka-3.9.1", reason="without this change of a group's type, or with an older one"
    ),
]

ANSWERS: dict[str, Any] = json.loads((RECORDED / "migration_answers.json").read_text())
REBALANCES: Final = "PreparingRebalance"


def without_old_assignments(answer: Any) -> Any:
    """A transcript whose DescribeGroups responses have no assignments while a group rebalances.

    4.4.0 shows those of the generation before, 2.7.2 and kafkapy show none.
    """
    if isinstance(answer, list):
        return [without_old_assignments(each) for each in answer]
    if isinstance(answer, dict):
        cleared = {key: without_old_assignments(value) for key, value in answer.items()}
        if cleared.get("group_state") == REBALANCES:
            cleared["members"] = [each | {"member_assignment": ""} for each in cleared.get("members", ())]
        return cleared
    return answer


@pytest.fixture(scope="module")
def bootstraps(broker: Broker) -> Iterator[Mapping[str, str]]:
    """For each conversation a broker with the topics that assigns at once, and has a policy."""
    with ExitStack() as stack:
        found: dict[str, str] = {}
        for names, config in [(CONVERSATIONS, {}), *(([each], {POLICY: each}) for each in POLICIES)]:
            own = stack.enter_context(own_broker(broker, AT_ONCE | config))
            with Wire(own.bootstrap) as wire:
                make_topics(wire)
            found |= dict.fromkeys(names, own.bootstrap)
        yield found


@pytest.mark.parametrize("name", [*CONVERSATIONS, *POLICIES])
def test_the_answers_equal_those_of_4_4_0(bootstraps: Mapping[str, str], topic_name: str, name: str) -> None:
    held = hold(name, bootstraps[name], topic_name)
    clean, recorded = (comparable(without_config_operations(each)) for each in (held, ANSWERS[name]))
    assert without_old_assignments(clean) == without_old_assignments(recorded)
