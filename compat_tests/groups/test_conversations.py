"""Every version of every group API, answered alike by Apache Kafka 2.7.2 and kafkapy, field by field."""

import json
from typing import Any

import pytest

from compat_tests.groups.conversations import NAMES, hold
from compat_tests.selection.scenarios import IN_KRAFT
from harness.cases import RECORDED
from harness.cases.group_cases import comparable, make_topics
from harness.process import Broker
from harness.wire import Wire

ANSWERS: dict[str, Any] = json.loads((RECORDED / "group_answers.json").read_text())
OPERATIONS = {"kafka-4.4.0": 3400}
"""The operations on a group that differ from 2.7.2: `test_operations_on_a_group` has the reason."""


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    with Wire(broker.bootstrap) as wire:
        make_topics(wire)
    return broker.bootstrap


def expected(name: str, target: str) -> Any:
    """The answers of 2.7.2, with the operations of this target."""

    def with_operations(entry: dict[str, Any]) -> dict[str, Any]:
        known = entry.get("authorized_operations", 0) > 0 and target in OPERATIONS
        return entry | {"authorized_operations": OPERATIONS[target]} if known else entry

    return json.loads(json.dumps(ANSWERS[name]), object_hook=with_operations)


@pytest.mark.differs(
    *IN_KRAFT, cases=["coordinators v[1-3]"], reason="an unknown kind of coordinator: INVALID_REQUEST (42)"
)
@pytest.mark.differs(*IN_KRAFT, cases=["states filter"], reason="names of states are taken in any case (KIP-848)")
@pytest.mark.differs(
    *IN_KRAFT, cases=["return of one v*"], reason="an instance id that is not the member's: UNKNOWN_MEMBER_ID (25)"
)
@pytest.mark.differs(
    *IN_KRAFT,
    cases=["an id that was given out v*"],
    reason="a member id that was given out without an instance id may be taken with one",
)
@pytest.mark.differs(
    "kafka-3.9.1",
    cases=["committed and fetched v*", "odd group names"],
    reason="without ZooKeeper there is no place for offsets of version 0: UNSUPPORTED_VERSION (35)",
)
@pytest.mark.differs(
    "kafka-4.4.0",
    cases=["committed and fetched v*", "odd group names", "by members v1"],
    reason="OffsetCommit begins with version 2, OffsetFetch with 1 (KIP-896)",
)
@pytest.mark.differs(
    "kafka-4.4.0",
    cases=["whole life v*", "two members v*", "return with other protocols v*"],
    reason="while a group rebalances its members are described with what they were assigned before",
)
@pytest.mark.differs(
    "kafka-4.4.0",
    cases=["deleted"],
    reason="a group whose last offset is deleted goes when offsets are next looked through (KIP-848)",
)
@pytest.mark.parametrize("name", NAMES)
def test_the_answers_equal_those_of_2_7_2(broker: Broker, bootstrap: str, topic_name: str, name: str) -> None:
    assert comparable(hold(name, bootstrap, topic_name)) == comparable(expected(name, broker.name))
