"""Metadata in parts, and what is compared of coordinators and transactions."""

from collections.abc import Mapping
from random import Random

import pytest

from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kafkapy.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition
from tests.simulation.cluster.asking import refuse
from tests.simulation.cluster.coordinators import kafka_partition
from tests.simulation.cluster.invariants import Batch, Violation
from tests.simulation.cluster.loop import SimulatedLoop
from tests.simulation.cluster.parts import PARTS_MAX, PartsChannel, parts_of
from tests.simulation.cluster.schedule import plan_of
from tests.simulation.cluster.transactions import Told, outcomes_in, wrong_outcome

TP = TopicPartition("topic", 0)


def metadata(topics: Mapping[str, int]) -> UpdateMetadataRequest:
    states = [
        UpdateMetadataTopicState(
            name, partition_states=[UpdateMetadataPartitionState("", each) for each in range(count)]
        )
        for name, count in topics.items()
    ]
    live = [UpdateMetadataBroker(1)]
    return UpdateMetadataRequest(1, controller_epoch=5, broker_epoch=7, topic_states=states, live_brokers=live)


def partitions_in(request: UpdateMetadataRequest) -> list[tuple[str, int]]:
    return [
        (topic.topic_name, each.partition_index) for topic in request.topic_states for each in topic.partition_states
    ]


# parts


def test_the_parts_have_every_partition_once() -> None:
    topics = {"a": 50, "b": 1, "c": 3}
    counts, orders = set(), set()
    for seed in range(30):
        request = metadata(topics)
        parts = parts_of(request, Random(seed))
        found = [each for part in parts for each in partitions_in(part)]
        assert sorted(found) == sorted(partitions_in(request)) == sorted(partitions_in(metadata(topics)))
        assert all(partitions_in(part) for part in parts)
        assert {(part.controller_epoch, part.broker_epoch, len(part.live_brokers)) for part in parts} == {(5, 7, 1)}
        counts.add(len(parts))
        orders.add(tuple(found))
    assert counts == set(range(1, PARTS_MAX + 1))
    assert len(orders) == 30


@pytest.mark.parametrize("topics", [{}, {"a": 1}])
def test_what_can_not_be_cut_stays_as_it_is(topics: dict[str, int]) -> None:
    (part,) = parts_of(metadata(topics), Random(1))
    assert partitions_in(part) == partitions_in(metadata(topics))
    assert len(part.live_brokers) == 1


class Sent:
    """A channel that remembers what was sent, and refuses everything after ``accepted`` requests."""

    def __init__(self, accepted: int) -> None:
        self.requests: list[Message] = []
        self._accepted = accepted

    async def send(self, broker_id: int, request: Message, version: int) -> Message:
        self.requests.append(request)
        return UpdateMetadataResponse(error_code=0 if len(self.requests) <= self._accepted else 11)


def test_no_part_follows_one_that_is_refused() -> None:
    seed = next(seed for seed in range(50) if len(parts_of(metadata({"a": 40}), Random(seed))) > 3)
    loop, sent = SimulatedLoop(Random(1)), Sent(accepted=2)
    response = loop.run(PartsChannel(sent, Random(seed)).send(1, metadata({"a": 40}), 6))
    assert isinstance(response, UpdateMetadataResponse)
    assert response.error_code == 11
    assert len(sent.requests) == 3


# coordinators


def test_names_have_the_partition_of_kafka() -> None:
    """By ``Math.abs("...".hashCode()) % n`` of Java."""
    assert kafka_partition("cp6-0", 10) == 8
    assert kafka_partition("cp6-0", 7) != 8
    assert kafka_partition("", 50) == 0
    assert kafka_partition("polygenelubricants", 50) == 0  # its hash is the lowest number, which has no absolute value


def test_errors_that_clients_must_not_get() -> None:
    def response(*codes: int) -> AddPartitionsToTxnResponse:
        results = [AddPartitionsToTxnPartitionResult(index, code) for index, code in enumerate(codes)]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[AddPartitionsToTxnTopicResult("t", results)])

    refuse(response(0, ErrorCode.NOT_COORDINATOR), "a request", 1)
    with pytest.raises(Violation, match="broker 1 has answered a request with UNKNOWN_TOPIC_OR_PARTITION"):
        refuse(response(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_COORDINATOR), "a request", 1)


# transactions


def data(value: bytes, producer: int = 7) -> Batch:
    record = Record(offset=0, timestamp=1, key=None, value=value, headers=())
    content = encode_batch([record], producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
    return Batch(0, 1, 0, producer, 0, bytes(content))


def marker(kind: ControlType, producer: int = 7) -> Batch:
    return Batch(0, 1, 0, producer, -1, bytes(encode_marker(kind, Marker(producer, 0, 0), 1)))


def told(*, is_committed: bool) -> Told:
    made = Told(1, "worker", [TP])
    made.is_committed = is_committed
    return made


VALUE = told(is_committed=True).values[TP]
COMMIT, ABORT = marker(ControlType.COMMIT), marker(ControlType.ABORT)


@pytest.mark.parametrize(
    ("batches", "if_committed", "if_not"),
    [
        ([data(VALUE), COMMIT], "", "['COMMIT']"),
        ([data(VALUE), ABORT], "['ABORT']", ""),
        ([], "[]", ""),
        ([data(VALUE)], "['open']", "['open']"),
        ([data(VALUE), marker(ControlType.COMMIT, 8)], "['open']", "['open']"),
        ([data(VALUE), COMMIT, data(VALUE), COMMIT], "['COMMIT', 'COMMIT']", "['COMMIT', 'COMMIT']"),
        ([ABORT, data(VALUE), data(b"other", 8), marker(ControlType.ABORT, 8), COMMIT], "", "['COMMIT']"),
    ],
)
def test_outcomes(batches: list[Batch], if_committed: str, if_not: str) -> None:
    ended = {TP: outcomes_in(batches)}
    for is_committed, words in ((True, if_committed), (False, if_not)):
        found = wrong_outcome([told(is_committed=is_committed)], ended)
        assert found.endswith(words) if words else not found


# histories


def test_some_histories_have_many_coordinators() -> None:
    plans = [plan for plan in map(plan_of, range(4000)) if plan.coordinators]
    assert 10 <= len(plans) <= 40
    counts = {plan.settings["offsets.topic.num.partitions"] for plan in plans}
    assert counts == {"10", "50"}
    kinds = {step.kind for plan in plans for step in plan.steps}
    assert {"kill all", "start", "inspect", "expire"} <= kinds
    assert all(plan.steps[-1].kind == "inspect" for plan in plans)
