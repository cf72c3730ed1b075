"""The consumers of a group change from the classic to the consumer protocol and back, one by one, under load."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.brokers.topics import create_topic
from compat_tests.groups.fleet import CLASSIC, CONSUMER, PARTITIONS, Fleet, Numbers
from compat_tests.groups.java_fleet import JavaFleet
from compat_tests.groups.librdkafka_fleet import LibrdkafkaFleet
from compat_tests.groups.wire import Wire
from harness.java_programs import java_command
from harness.process import Broker, ChildProcess
from kafkapy.protocol.messages.list_groups import ListGroupsRequest

pytestmark = [
    pytest.mark.together,
    pytest.mark.one_broker(reason="the broker has its own configuration"),
    pytest.mark.differs(
        "kafka-2.7.2", "kafka-3.9.1", reason="without the consumer protocol, or with an early form of it"
    ),
]

RELEASE = "4.4.0"
JAVA = Path(__file__).parents[1] / "java"
MEMBERS = range(3)
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
LISTED_WITH_TYPES = 5


@pytest.fixture(scope="module")
def quick(broker: Broker) -> Iterator[ChildProcess]:
    """A broker whose members of the consumer protocol send many heartbeats."""
    with own_broker(broker, QUICK) as own:
        yield own


def roll(bootstrap: str, fleet: Fleet) -> None:
    """Upgrade the group, downgrade it, and upgrade it again."""
    create_topic(bootstrap, fleet.topic, PARTITIONS)
    with Numbers(bootstrap, fleet.topic) as numbers, fleet:
        for member in MEMBERS:
            fleet.start(member, CLASSIC)
        fleet.settle()
        for protocol in (CONSUMER, CLASSIC, CONSUMER):
            for member in MEMBERS:
                fleet.stop(member)
                fleet.start(member, protocol)
                fleet.settle()
            assert type_of(bootstrap, fleet.topic) == protocol
        fleet.read_all(numbers.end())
    assert not fleet.failures


def type_of(bootstrap: str, group: str) -> str:
    with Wire(bootstrap) as wire:
        listed = wire.ask(ListGroupsRequest([]), LISTED_WITH_TYPES).groups
    return next(str(each.group_type) for each in listed if each.group_id == group)


@pytest.mark.scenario("groups", client="confluent-kafka")
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_librdkafka_is_upgraded_and_downgraded(quick: ChildProcess, topic_name: str, is_static: bool) -> None:
    roll(quick.bootstrap, LibrdkafkaFleet(quick.bootstrap, topic_name, is_static=is_static))


@pytest.mark.java
@pytest.mark.scenario("groups", client="java-4.4.0")
@pytest.mark.parametrize("strategy", ["RangeAssignor", "CooperativeStickyAssignor"])
@pytest.mark.parametrize("is_static", [False, True], ids=["dynamic", "static"])
def test_the_java_client_is_upgraded_and_downgraded(
    quick: ChildProcess, topic_name: str, strategy: str, is_static: bool
) -> None:
    command = java_command("RollingConsumers", [JAVA / "RollingConsumers.java"], RELEASE)
    roll(quick.bootstrap, JavaFleet(command, quick.bootstrap, topic_name, strategy, is_static=is_static))
