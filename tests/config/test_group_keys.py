"""The keys of groups: their values in force, and the changes that are refused.

``compat_tests/groups/test_group_configs.py`` compares answers and messages with those of Apache Kafka 4.4.0.
"""

from typing import Final

import pytest

from kafkapy.config.alteration import Change, Operation
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.documentation import group_documentation
from kafkapy.config.errors import InvalidAlterationError, InvalidConfigError
from kafkapy.config.group_keys import (
    ASSIGNMENT_INTERVAL,
    GROUP_KEYS,
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    changed_group,
    check_group,
    describe_group,
    group_value,
)

DEFAULTS: Final = BrokerConfig.from_properties({"broker.id": "0"})


def test_a_group_has_the_brokers_values_or_its_own() -> None:
    overrides = {HEARTBEAT_INTERVAL: " 6000 "}
    assert group_value(DEFAULTS, {}, HEARTBEAT_INTERVAL) == 5_000
    assert group_value(DEFAULTS, overrides, HEARTBEAT_INTERVAL) == 6_000
    assert group_value(DEFAULTS, overrides, ASSIGNMENT_INTERVAL) == 1_000
    described = {each.name: (each.value, each.source) for each in describe_group(DEFAULTS, overrides)}
    assert described == {
        SESSION_TIMEOUT: ("45000", 5),
        HEARTBEAT_INTERVAL: ("6000", 8),
        ASSIGNMENT_INTERVAL: ("1000", 5),
    }


@pytest.mark.parametrize(("stored", "expected"), [("1", 45_000), ("50000", 50_000), ("99999", 60_000)])
def test_a_stored_value_is_taken_within_the_bounds_of_the_broker(stored: str, expected: int) -> None:
    assert group_value(DEFAULTS, {SESSION_TIMEOUT: stored}, SESSION_TIMEOUT) == expected


def test_changes_are_made_one_after_the_other() -> None:
    before = {SESSION_TIMEOUT: "50000"}
    changes = [Change(HEARTBEAT_INTERVAL, Operation.SET, "6000"), Change(SESSION_TIMEOUT, Operation.DELETE, None)]
    assert changed_group(before, changes) == {HEARTBEAT_INTERVAL: "6000"}
    assert before == {SESSION_TIMEOUT: "50000"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (Change(SESSION_TIMEOUT, Operation.APPEND, "1"), InvalidConfigError),
        (Change(SESSION_TIMEOUT, Operation.SET, None), InvalidAlterationError),
        (Change(SESSION_TIMEOUT, 9, "1"), InvalidAlterationError),
    ],
)
def test_changes_that_are_not_possible(change: Change, error: type[Exception]) -> None:
    with pytest.raises(error):
        changed_group({}, [change])


@pytest.mark.parametrize(
    ("group_id", "overrides", "error"),
    [
        ("", {}, InvalidAlterationError),
        ("g", {"share.isolation.level": "read_committed"}, InvalidConfigError),
        ("g", {SESSION_TIMEOUT: "60001"}, InvalidConfigError),
        ("g", {SESSION_TIMEOUT: "x"}, InvalidConfigError),
    ],
)
def test_overrides_that_a_group_may_not_have(group_id: str, overrides: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_group(DEFAULTS, group_id, overrides)


def test_a_session_is_longer_than_the_interval() -> None:
    properties = {"broker.id": "0", "group.consumer.min.session.timeout.ms": "5000"}
    config = BrokerConfig.from_properties(properties)
    check_group(config, "g", {SESSION_TIMEOUT: "5001"})
    with pytest.raises(InvalidConfigError, match="must be greater than"):
        check_group(config, "g", {SESSION_TIMEOUT: "5000"})


def test_each_key_has_a_text() -> None:
    assert all(group_documentation(name) for name in GROUP_KEYS)
    assert group_documentation("unknown") is None


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"group.consumer.session.timeout.ms": "1000"}, "greater than or equal to group.consumer.min.session"),
        ({"group.consumer.session.timeout.ms": "70000"}, "less than or equal to group.consumer.max.session.timeout.ms"),
        ({"group.consumer.min.session.timeout.ms": "70000"}, "max.session.timeout.ms must be greater than or equal to"),
        ({"group.consumer.assignment.interval.ms": "20000"}, "less than or equal to group.consumer.max.assignment"),
        (
            {"group.consumer.max.heartbeat.interval.ms": "50000", "group.consumer.heartbeat.interval.ms": "46000"},
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        ({"group.consumer.regex.refresh.interval.ms": "1"}, "must be at least 10000"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol is not supported."),
        ({"group.coordinator.rebalance.protocols": "classic,x"}, "must be one of: consumer, classic, share, streams"),
    ],
)  # fmt: skip
def test_values_with_which_a_broker_does_not_start(properties: dict[str, str], message: str) -> None:
    """The messages are those of Apache Kafka 4.4.0."""
    with pytest.raises(InvalidConfigError, match=message):
        BrokerConfig.from_properties({"broker.id": "0"} | properties)
