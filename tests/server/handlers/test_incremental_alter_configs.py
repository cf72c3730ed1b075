"""IncrementalAlterConfigs changes single overrides, or answers the code that a running 2.7.2 answered."""

import logging
from typing import Any

import pytest

from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.handlers.config_services import Broker

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


def _alter(
    broker: Broker,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    version: int = 1,
    check: bool = False,
) -> Any:
    asked = [
        AlterConfigsResource(kind, name, [AlterableConfig(*c) for c in changes]) for kind, name, changes in resources
    ]
    return broker.send(IncrementalAlterConfigsRequest(asked, check), version).responses


@pytest.mark.parametrize("version", [0, 1])
def test_single_keys_change_and_the_others_stay(version: int) -> None:
    broker = Broker(topics={"t": {"segment.ms": "5", "flush.ms": "6"}})
    changes = [("retention.ms", SET, "7"), ("flush.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")]
    (response,) = _alter(broker, (TOPIC, "t", changes), version=version)
    assert (response.error_code, response.error_message, response.resource_name) == (0, None, "t")
    assert broker.admin.topics["t"] == {"segment.ms": "5", "retention.ms": "7", "cleanup.policy": "delete,compact"}


@pytest.mark.parametrize(("kind", "name"), [(BROKER, "0"), (BROKER, "")])
def test_what_a_broker_stores_is_bounded(kind: int, name: str) -> None:
    broker = Broker()
    stored = [(f"unknown.{number}", SET, "v" * 32_000) for number in range(31)]
    assert _alter(broker, (kind, name, stored))[0].error_code == 0
    (refused,) = _alter(broker, (kind, name, [("unknown.31", SET, "v" * 32_000)]))
    assert refused.error_code == 42
    assert "more than 1000000 bytes" in refused.error_message
    assert len(broker.admin.brokers[int(name) if name else None]) == 31
    (response,) = _alter(broker, (kind, name, [("unknown.0", DELETE, None), ("unknown.31", SET, "w" * 32_000)]))
    assert response.error_code == 0


def test_what_a_topic_stores_is_bounded_too() -> None:
    key = "leader.replication.throttled.replicas"
    broker = Broker(topics={"t": {key: ",".join(["0:1"] * 300_000)}})  # written by another program
    (refused,) = _alter(broker, (TOPIC, "t", [("retention.ms", SET, "5")]))
    assert refused.error_code == 42
    assert _alter(broker, (TOPIC, "t", [(key, SET, "0:1"), ("retention.ms", SET, "5")]))[0].error_code == 0
    assert broker.admin.topics["t"] == {key: "0:1", "retention.ms": "5"}


def test_what_is_stored_beyond_the_bound_can_be_reduced() -> None:
    broker = Broker()
    broker.admin.brokers[0] = {f"unknown.{number}": "v" * 32_000 for number in range(50)}
    assert _alter(broker, (BROKER, "0", [("unknown.0", DELETE, None)]))[0].error_code == 0
    assert _alter(broker, (BROKER, "0", [("other", SET, "v")]))[0].error_code == 42
    assert len(broker.admin.brokers[0]) == 49


def test_a_brokers_other_keys_stay() -> None:
    broker = Broker()
    _alter(broker, (BROKER, "0", [("log.retention.ms", SET, "1"), ("background.threads", SET, "5")]))
    _alter(broker, (BROKER, "0", [("log.retention.ms", DELETE, None)]), (BROKER, "", [("flush", SET, "1")]))
    assert broker.admin.brokers == {0: {"background.threads": "5"}, None: {"flush": "1"}}
    assert broker.config["background.threads"] == 5


def test_a_topic_that_is_named_twice_is_changed_as_it_was_named_last() -> None:
    broker = Broker()
    twice = (TOPIC, "plain", [("retention.ms", SET, "1")]), (TOPIC, "plain", [("segment.ms", SET, "2")])
    assert len(_alter(broker, *twice)) == 1
    assert broker.admin.topics["plain"] == {"segment.ms": "2"}


def test_contradictory_changes_are_refused_before_the_topic_is_looked_up() -> None:
    changes = [("retention.ms", APPEND, "1")]
    (response,) = _alter(Broker(), (TOPIC, "nowhere", changes))
    assert response.error_code == 42


@pytest.mark.parametrize("name", ["0", ""])
def test_a_loggers_level_is_set_and_deleted(name: str) -> None:
    logger = logging.getLogger("kafkapy.server.altered")
    for check, level in ((True, logging.NOTSET), (False, logging.DEBUG)):
        (response,) = _alter(Broker(), (BROKER_LOGGER, name, [(logger.name, SET, "DEBUG")]), check=check)
        assert (response.error_code, response.resource_type, logger.level) == (0, BROKER_LOGGER, level)
    _alter(Broker(), (BROKER_LOGGER, name, [(logger.name, DELETE, None)]))
    assert logger.level == logging.NOTSET


def test_validate_only_changes_nothing() -> None:
    broker = Broker()
    (response,) = _alter(broker, (TOPIC, "plain", [("retention.ms", SET, "1")]), check=True)
    assert (response.error_code, broker.admin.topics) == (0, {"plain": {}})


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "gone", []), 3, "The topic 'gone' does not exist."),
        ((TOPIC, "plain", [("nope", SET, "5")]), 40, "Unknown topic config name: nope"),
        (
            (TOPIC, "plain", [("retention.ms", SET, "x")]),
            42,
            "Invalid config value for resource ConfigResource(type=TOPIC, name='plain'): Invalid value x for",
        ),
        ((TOPIC, "plain", [("retention.ms", APPEND, "1")]), 42, "APPEND can't be done"),
        ((TOPIC, "plain", [("flush.ms", SET, "1"), ("flush.ms", DELETE, "")]), 42, "more than once: flush.ms"),
        ((BROKER, "0", [("num.partitions", SET, "5")]), 42, "Cannot update these configs dynamically"),
        ((BROKER, "1", []), 42, "This is broker 0, not 1"),
        ((BROKER_LOGGER, "1", []), 42, "This is broker 0, not 1"),
        ((BROKER_LOGGER, "0", [("no.such.logger", SET, "INFO")]), 42, "There is no logger no.such.logger"),
    ],
)
def test_a_refused_resource_leaves_the_others_alone(
    resource: tuple[int, str, list[tuple[str, int, str | None]]],
    code: int,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = Broker(topics={"plain": {}, "other": {}})
    caplog.set_level(logging.INFO, "kafkapy.server.dispatch.context")
    failed, fine = _alter(broker, resource, (TOPIC, "other", [("retention.ms", SET, "7")]))
    assert (failed.error_code, failed.resource_name) == (code, resource[1])
    assert message in failed.error_message
    (said,) = caplog.messages
    assert said.startswith(f"Refused the configuration of {resource[1]!r} of local: ")
    assert fine.error_code == 0
    assert broker.admin.topics == {"plain": {}, "other": {"retention.ms": "7"}}


def test_an_unknown_resource_type_fails_the_whole_request() -> None:
    responses = _alter(Broker(), (99, "x", []), (TOPIC, "plain", []))
    assert [response.error_code for response in responses] == [42, 42]


def test_too_many_keys_of_a_resource_are_refused() -> None:
    (response,) = _alter(Broker(), (TOPIC, "plain", [(f"k{number}", SET, "1") for number in range(1_001)]))
    assert (response.error_code, response.error_message) == (
        42, "1001 keys of one resource are altered, more than 1000"
    )  # fmt: skip
