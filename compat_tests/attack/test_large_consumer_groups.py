"""Consumer groups (KIP-848) with very many members, topics and expressions: other clients are served meanwhile."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from compat_tests.attack.many_members import Lanes, Member, effect_of, prepare, settle
from compat_tests.attack.memory import memory_directory
from compat_tests.attack.prepared import Counts, Prepared, topic
from compat_tests.brokers.own_broker import own_broker
from compat_tests.clients.client import wait_until
from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker, ChildProcess
from harness.wire import Wire
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.list_groups import ListGroupsRequest

PATIENCE_S: Final = 120.0
TOPICS: Final = 2_000
OFFSETS_TOPIC: Final = "__consumer_offsets"
UNKNOWN_SERVER_ERROR: Final = -1
LONG_SESSIONS: Final = {
    "group.consumer.session.timeout.ms": "3600000",
    "group.consumer.max.session.timeout.ms": "3600000",
}
"""No member sends a second heartbeat before all have sent the first one, which may take minutes."""
BYTES_OF_A_GROUP: Final = 10_000
"""The most memory that a group with one member may take."""


@pytest.fixture
def process() -> Iterator[ChildProcess]:
    with memory_directory() as directory, KafkapyProcess(config=LONG_SESSIONS, directory=directory) as found:
        yield found


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_members_join_one_group(process: ChildProcess, count: int) -> None:
    prepare(process.bootstrap, ["t"], count)
    members = [Member("g", ["t"]) for _ in range(count)]
    effect = effect_of(process, partial(settle, process.port, members, count, PATIENCE_S))
    assert not effect.is_late, effect
    with Wire(process.bootstrap) as wire:
        (group,) = wire.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
    assert {each.member_id for each in group.members} == {each.member_id for each in members}


def test_many_members_that_subscribe_to_other_topics(process: ChildProcess) -> None:
    """Members with different topics make the assignor balance them."""
    count = 300
    prepare(process.bootstrap, ["t", "u"], count)
    members = [Member("g", ["t", "u"] if number % 2 else ["t"]) for number in range(count)]
    effect = effect_of(process, partial(settle, process.port, members, 2 * count, PATIENCE_S))
    assert not effect.is_late, effect


@pytest.mark.parametrize("count", [TOPICS, pytest.param(5 * TOPICS, marks=pytest.mark.long)])
@pytest.mark.timeout(900)
def test_an_expression_and_names_for_many_topics(count: int) -> None:
    """The first member gets all topics; records with 20,000 topics would exceed a batch."""
    with memory_directory() as directory, Prepared(Counts(count, 1, 1), directory=directory) as prepared:
        port = prepared.broker.port
        partitions = count - 1 + 100  # the first topic has a hundred
        for members in (
            [Member("expressions", expression="t-.*[0-9]") for _ in range(10)],
            [Member("names", [topic(number) for number in range(2 * count)]) for _ in range(10)],
        ):
            effect = effect_of(prepared.broker, partial(settle, port, members, partitions, PATIENCE_S))
            assert not effect.is_late, (members[0].group_id, effect)


@pytest.mark.differs("kafka-2.7.2", "kafka-3.9.1", reason="without consumer groups, or with those of earlier versions")
def test_an_assignment_that_no_batch_can_hold(broker: Broker) -> None:
    """The records of an assignment are one batch: members get an error, and the group serves smaller changes."""
    with own_broker(broker, {"group.consumer.assignment.interval.ms": "0"}) as own:
        prepare(own.bootstrap, ["t"], 100)
        with Wire(own.bootstrap) as wire, Lanes(own.port) as lanes:
            changes = [AlterableConfig("max.message.bytes", 0, "3000")]
            resource = AlterConfigsResource(2, OFFSETS_TOPIC, changes)
            (altered,) = wire.ask(IncrementalAlterConfigsRequest([resource]), 1).responses
            assert altered.error_code == 0
            time.sleep(0.5)  # for the broker's logs to have it
            members = [Member("g", ["t"], assignor="range") for _ in range(40)]  # a join moves all ranges
            for member in members:
                lanes.beat([member])
            refused = [each for each in members if each.error_code]
            assert 0 < len(refused) < len(members)
            assert {each.error_code for each in refused} == {UNKNOWN_SERVER_ERROR}
            (group,) = wire.ask(ConsumerGroupDescribeRequest(["g"]), 1).groups
            assert {each.member_id for each in group.members} == {
                each.member_id for each in members if not each.error_code
            }


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.timeout(600)
def test_many_groups(process: ChildProcess, count: int) -> None:
    """Each has a member; all are listed, and a request describes a thousand."""
    prepare(process.bootstrap, ["t"], 1)
    members = [Member(f"g-{number}", ["t"]) for number in range(count)]

    def join() -> None:
        with Lanes(process.port) as lanes:
            lanes.beat(members)
        assert {each.error_code for each in members} == {0}

    joined = effect_of(process, join)
    assert not joined.is_late, joined
    assert joined.memory < (10 << 20) + BYTES_OF_A_GROUP * count, joined

    def describe() -> None:
        with Wire(process.bootstrap) as wire:
            assert len(wire.ask(ListGroupsRequest(), 5).groups) == count
            asked = ConsumerGroupDescribeRequest([each.group_id for each in members[:1_000]])
            assert {each.group_state for each in wire.ask(asked, 1).groups} == {"Stable"}

    described = effect_of(process, describe)
    assert not described.is_late, described
    process.stop()
    process.start()
    with Wire(process.bootstrap) as wire:
        wait_until(lambda: len(wire.ask(ListGroupsRequest(), 5).groups) == count, "all groups after a restart")
