"""Every conversation, and Apache Kafka 2.7.2's answers: the same from kafkapy."""

import json
from typing import Any

import pytest

from compat_tests.groups.wire import Wire
from compat_tests.selection.scenarios import IN_KRAFT
from compat_tests.transactions.conversations import ALL
from compat_tests.transactions.record_answers import ANSWERS
from compat_tests.transactions.talk import Talk
from harness.process import Broker

RECORDED: dict[str, list[Any]] = json.loads(ANSWERS.read_text())
NOT_ADDED = "a transactional batch for a partition that was not added: INVALID_TXN_STATE (48) (KIP-890)"
NOT_GIVEN_OUT = "a batch of an epoch that the coordinator did not give out: INVALID_PRODUCER_EPOCH (47) (KIP-890)"


@pytest.mark.differs(*IN_KRAFT, cases=["versions"], reason="serves its own versions of the APIs")
@pytest.mark.differs(*IN_KRAFT, cases=["initialize_over_open"], reason=NOT_ADDED)
@pytest.mark.differs("kafka-3.9.1", cases=["without_adding"], reason=NOT_ADDED)
@pytest.mark.differs(
    *IN_KRAFT,
    cases=["offsets_refused", "offsets_of_nobody", "offsets_fenced"],
    reason="offsets of a group that was not added, or of an older epoch, are refused first: 48, 49, 47 (KIP-890)",
)
@pytest.mark.differs("kafka-3.9.1", cases=["markers"], reason=NOT_GIVEN_OUT)
@pytest.mark.differs(
    "kafka-4.4.0",
    cases=["without_adding", "after_a_bump", "markers", "stranded"],
    reason="WriteTxnMarkers begins with version 1 (KIP-896)",
)
@pytest.mark.differs(
    "kafka-4.4.0",
    cases=["named_over_open"],
    reason="a producer that names its epoch within a transaction is initialized again, not told PRODUCER_FENCED (90)",
)
@pytest.mark.differs("kafka-4.4.0", cases=["sequences"], reason=NOT_GIVEN_OUT)
@pytest.mark.differs(
    "kafkapy",
    cases=[
        "versions",
        "initialize_over_open",
        "without_adding",
        "markers",
        "offsets_refused",
        "offsets_of_nobody",
        "offsets_fenced",
    ],
    reason="verifies transactions, as Apache Kafka does from 3.6 on (KIP-890)",
)
@pytest.mark.parametrize("name", ALL)
def test_the_answers_equal_those_of_2_7_2(broker: Broker, topic_name: str, name: str) -> None:
    with Wire(broker.bootstrap) as wire:
        heard = ALL[name](Talk(wire, topic_name))
    assert json.loads(json.dumps(heard)) == RECORDED[name]
