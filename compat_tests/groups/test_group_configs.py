"""The configurations of consumer groups (KIP-848, KIP-1082), each answer as that of Apache Kafka 4.4.0.

The keys of share groups and streams groups, which 4.4.0 has too, are left out: kafkapy does not know them.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.clients.client import wait_until
from compat_tests.groups.wire import find_coordinator
from harness.process import Broker
from harness.wire import Wire
from kafkapy.protocol.messages.alter_configs import AlterableConfig as NewConfig
from kafkapy.protocol.messages.alter_configs import AlterConfigsRequest
from kafkapy.protocol.messages.alter_configs import AlterConfigsResource as NewResource
from kafkapy.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkapy.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.list_client_metrics_resources import ListClientMetricsResourcesRequest

pytestmark = pytest.mark.differs(
    "kafka-2.7.2", "kafka-3.9.1", reason="without configurations of groups, or with those of earlier versions"
)

GROUP: Final = 32
SET, DELETE, APPEND, SUBTRACT = range(4)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
DEFAULT, OF_THE_GROUP = 5, 8
INVALID_CONFIG, INVALID_REQUEST, UNSUPPORTED_VERSION = 40, 42, 35
JOIN_EPOCH, LEAVE_EPOCH = 0, -1

Change = tuple[str, int, str | None]


class Groups:
    """Requests about the configurations of groups."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def alter(self, group_id: str, *changes: Change, validate_only: bool = False) -> tuple[int, str | None]:
        """The error code and message of IncrementalAlterConfigs."""
        resource = AlterConfigsResource(GROUP, group_id, [AlterableConfig(*each) for each in changes])
        (answer,) = self.wire.ask(IncrementalAlterConfigsRequest([resource], validate_only), 1).responses
        return answer.error_code, answer.error_message

    def replace(self, group_id: str, **values: str) -> int:
        """The error code of AlterConfigs."""
        configs = [NewConfig(name.replace("_", "."), value) for name, value in values.items()]
        (answer,) = self.wire.ask(AlterConfigsRequest([NewResource(GROUP, group_id, configs)]), 2).responses
        return int(answer.error_code)

    def describe(self, group_id: str) -> dict[str, tuple[Any, ...]]:
        """Of each key that kafkapy knows: value, whether it is read-only, source, synonyms, type."""
        resource = DescribeConfigsResource(GROUP, group_id, None)
        (answer,) = self.wire.ask(DescribeConfigsRequest([resource], include_synonyms=True), 3).results
        assert answer.error_code == 0, answer
        return {
            each.name: (
                each.value,
                each.read_only,
                each.config_source,
                [(synonym.name, synonym.value, synonym.source) for synonym in each.synonyms],
                each.config_type,
            )
            for each in answer.configs
            if each.name.startswith("consumer.")
        }

    def value(self, group_id: str, name: str) -> str:
        return str(self.describe(group_id)[name][0])

    def names(self, *types: int) -> list[tuple[str, int]]:
        """ListConfigResources."""
        answer = self.wire.ask(ListClientMetricsResourcesRequest(list(types)), 1)
        assert answer.error_code == 0
        return [(each.name, each.resource_type) for each in answer.client_metrics_resources]


@pytest.fixture
def groups(broker: Broker) -> Iterator[Groups]:
    with Wire(broker.bootstrap) as wire:
        yield Groups(wire)


def test_a_group_has_keys_before_it_exists(groups: Groups, topic_name: str) -> None:
    assert groups.describe(topic_name) == {
        SESSION: ("45000", False, DEFAULT, [(f"group.{SESSION}", "45000", DEFAULT)], 3),
        HEARTBEAT: ("5000", False, DEFAULT, [(f"group.{HEARTBEAT}", "5000", DEFAULT)], 3),
        ASSIGNMENT: ("1000", False, DEFAULT, [(f"group.{ASSIGNMENT}", "1000", DEFAULT)], 3),
    }
    assert (topic_name, GROUP) not in groups.names(GROUP)


def test_keys_are_set_and_deleted(groups: Groups, topic_name: str) -> None:
    assert groups.alter(topic_name, (SESSION, SET, "50000"), validate_only=True) == (0, None)
    assert groups.alter(topic_name, (HEARTBEAT, SET, "6000"), (ASSIGNMENT, SET, "0")) == (0, None)
    wait_until(lambda: groups.value(topic_name, HEARTBEAT) == "6000", "the new interval")
    synonyms = [(HEARTBEAT, "6000", OF_THE_GROUP), (f"group.{HEARTBEAT}", "5000", DEFAULT)]
    assert groups.describe(topic_name)[HEARTBEAT] == ("6000", False, OF_THE_GROUP, synonyms, 3)
    assert groups.value(topic_name, SESSION) == "45000"
    wait_until(lambda: (topic_name, GROUP) in groups.names(), "the group in the list")
    assert (topic_name, GROUP) in groups.names(GROUP)
    assert groups.replace(topic_name, consumer_session_timeout_ms="50000") == 0
    wait_until(lambda: groups.value(topic_name, SESSION) == "50000", "the new timeout")
    assert groups.value(topic_name, HEARTBEAT) == "5000"
    assert groups.alter(topic_name, (SESSION, DELETE, None), ("unknown", DELETE, None)) == (0, None)
    wait_until(lambda: groups.value(topic_name, SESSION) == "45000", "the default")
    wait_until(lambda: (topic_name, GROUP) not in groups.names(GROUP), "the list without the group")


@pytest.mark.parametrize("name", ["a/b", "<default>", "100 %", "ö"])
def test_any_name_is_the_name_of_a_group(groups: Groups, topic_name: str, name: str) -> None:
    group_id = f"{topic_name} {name}"
    assert groups.alter(group_id, (SESSION, SET, "50000")) == (0, None)
    wait_until(lambda: groups.value(group_id, SESSION) == "50000", "the new timeout")
    wait_until(lambda: (group_id, GROUP) in groups.names(GROUP), "the group in the list")


@pytest.mark.parametrize(
    ("change", "error_code", "message"),
    [
        ((SESSION, SET, "44999"), 40, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ((SESSION, SET, "60001"), 40, f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        ((HEARTBEAT, SET, "4999"), 40, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        ((HEARTBEAT, SET, "15001"), 40, f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        ((ASSIGNMENT, SET, "15001"), 40, f"{ASSIGNMENT} must be in the range 0 to 15000 inclusive."),
        ((ASSIGNMENT, SET, "-1"), 40, f"Invalid value -1 for configuration {ASSIGNMENT}: Value must be at least 0"),
        ((SESSION, SET, "x"), 40, f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        ((SESSION, SET, None), 42, f"Null value not supported for : {SESSION}"),
        (("unknown", SET, "1"), 40, "Unknown group config name: unknown"),
        ((SESSION, APPEND, "1"), 40, f"Can't APPEND to key {SESSION} because its type is not LIST."),
        ((SESSION, SUBTRACT, "1"), 40, f"Can't SUBTRACT to key {SESSION} because its type is not LIST."),
    ],
)  # fmt: skip
def test_changes_that_are_refused(
    groups: Groups, topic_name: str, change: Change, error_code: int, message: str
) -> None:
    assert groups.alter(topic_name, change) == (error_code, message)


def test_a_group_without_a_name_is_refused(groups: Groups) -> None:
    assert groups.alter("", (SESSION, SET, "50000")) == (INVALID_REQUEST, "Default group resources are not allowed.")
    (answer,) = groups.wire.ask(DescribeConfigsRequest([DescribeConfigsResource(GROUP, "", None)]), 3).results
    assert (answer.error_code, answer.error_message) == (INVALID_REQUEST, "Group name must not be empty")


def heartbeat(group_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    fields: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return ConsumerGroupHeartbeatRequest(group_id, "m", epoch, **(fields if epoch == JOIN_EPOCH else {}))


def test_members_get_the_interval_of_their_group(groups: Groups, broker: Broker, topic_name: str) -> None:
    with Wire(broker.bootstrap) as wire:
        find_coordinator(wire, topic_name)
        for interval_ms in (6_000, 7_000):
            assert groups.alter(topic_name, (HEARTBEAT, SET, str(interval_ms))) == (0, None)
            wait_until(partial(has_interval, wire, topic_name, interval_ms), "a heartbeat with the interval")
        wire.ask(heartbeat(topic_name, LEAVE_EPOCH), 1)


def has_interval(wire: Wire, group_id: str, interval_ms: int) -> bool:
    answer = wire.ask(heartbeat(group_id, JOIN_EPOCH), 1)
    assert answer.error_code == 0
    return bool(answer.heartbeat_interval_ms == interval_ms)


def test_a_session_is_longer_than_the_interval(broker: Broker, topic_name: str) -> None:
    bounds = {"group.consumer.min.session.timeout.ms": "5000", "group.consumer.max.heartbeat.interval.ms": "44000"}
    refused = INVALID_CONFIG, f"{SESSION} must be greater than {HEARTBEAT}"
    with own_broker(broker, bounds) as bounded, Wire(bounded.bootstrap) as wire:
        groups = Groups(wire)
        assert groups.alter(topic_name, (SESSION, SET, "5000")) == refused
        assert groups.alter(topic_name, (SESSION, SET, "6000"), (HEARTBEAT, SET, "6001")) == refused
        assert groups.alter(topic_name, (SESSION, SET, "6000")) == (0, None)
        wait_until(lambda: groups.value(topic_name, SESSION) == "6000", "the new timeout")
        assert groups.alter(topic_name, (HEARTBEAT, SET, "6000")) == refused


def test_configurations_survive_a_restart(broker: Broker, topic_name: str) -> None:
    with own_broker(broker, {}) as restarted:
        with Wire(restarted.bootstrap) as wire:
            groups = Groups(wire)
            assert groups.alter(topic_name, (SESSION, SET, "50000")) == (0, None)
            wait_until(lambda: groups.value(topic_name, SESSION) == "50000", "the new timeout")
        restarted.stop()
        restarted.start()
        with Wire(restarted.bootstrap) as wire:
            assert Groups(wire).value(topic_name, SESSION) == "50000"
            assert Groups(wire).names(GROUP) == [(topic_name, GROUP)]


def test_a_broker_without_the_consumer_protocol(broker: Broker, topic_name: str) -> None:
    with (
        own_broker(broker, {"group.coordinator.rebalance.protocols": "classic"}) as classic,
        Wire(classic.bootstrap) as wire,
    ):
        find_coordinator(wire, topic_name)
        assert wire.ask(heartbeat(topic_name, JOIN_EPOCH), 1).error_code == UNSUPPORTED_VERSION
        (group,) = wire.ask(ConsumerGroupDescribeRequest([topic_name]), 1).groups
        assert (group.group_id, group.error_code) == (topic_name, UNSUPPORTED_VERSION)
