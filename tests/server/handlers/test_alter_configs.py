"""AlterConfigs replaces overrides, or answers the code that a running 2.7.2 answered."""

import logging
from typing import Any

import pytest

from kafkapy.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.server.handlers.config_services import Broker

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


def _alter(
    broker: Broker, *resources: tuple[int, str, dict[str, str | None]], version: int = 1, validate_only: bool = False
) -> Any:
    asked = [
        AlterConfigsResource(kind, name, [AlterableConfig(*pair) for pair in configs.items()])
        for kind, name, configs in resources
    ]
    return broker.send(AlterConfigsRequest(asked, validate_only), version).responses


@pytest.mark.parametrize("version", [0, 1])
def test_a_topics_overrides_are_replaced(version: int) -> None:
    broker = Broker(topics={"t": {"segment.ms": "5"}})
    (response,) = _alter(broker, (TOPIC, "t", {"retention.ms": "7"}), version=version)
    assert (response.error_code, response.error_message) == (0, None)
    assert (response.resource_type, response.resource_name) == (TOPIC, "t")
    assert broker.admin.topics["t"] == {"retention.ms": "7"}


def test_a_brokers_overrides_and_those_of_all() -> None:
    broker = Broker()
    responses = _alter(
        broker,
        (BROKER, "0", {"log.retention.ms": "1"}),
        (BROKER, "", {"log.retention.ms": "2", "background.threads": "5"}),
    )
    assert [response.error_code for response in responses] == [0, 0]
    assert broker.config["log.retention.ms"] == 1
    assert broker.config["background.threads"] == 5


def test_validate_only_changes_nothing() -> None:
    broker = Broker()
    responses = _alter(
        broker, (TOPIC, "plain", {"retention.ms": "7"}), (BROKER, "0", {"log.retention.ms": "1"}), validate_only=True
    )
    assert [response.error_code for response in responses] == [0, 0]
    assert (broker.admin.topics, broker.admin.brokers) == ({"plain": {}}, {})


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "gone", {}), 3, "The topic 'gone' does not exist."),
        ((TOPIC, "plain", {"nope": "5"}), 40, "Unknown topic config name: nope"),
        (
            (TOPIC, "plain", {"retention.ms": "x"}),
            42,
            "Invalid config value for resource ConfigResource(type=TOPIC, name='plain'): Invalid value x for",
        ),
        ((TOPIC, "plain", {"retention.ms": None}), 42, "is given no value"),
        ((BROKER, "0", {"num.partitions": "5"}), 42, "Cannot update these configs dynamically: Set(num.partitions)"),
        ((BROKER, "1", {}), 42, "This is broker 0, not 1"),
        ((BROKER, "abc", {}), 42, "A broker is named by its number, not by abc"),
        ((BROKER_LOGGER, "0", {"kafka": "INFO"}), 42, "use IncrementalAlterConfigs"),
    ],
)
def test_a_refused_resource_leaves_the_others_alone(
    resource: tuple[int, str, dict[str, str | None]], code: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(topics={"plain": {}, "other": {}})
    caplog.set_level(logging.INFO, "kafkapy.server.dispatch.context")
    failed, fine = _alter(broker, resource, (TOPIC, "other", {"retention.ms": "7"}))
    assert (failed.error_code, failed.resource_name) == (code, resource[1])
    assert message in failed.error_message
    (said,) = caplog.messages
    assert said.startswith(f"Refused the configuration of {resource[1]!r} of local: ")
    assert fine.error_code == 0
    assert broker.admin.topics == {"plain": {}, "other": {"retention.ms": "7"}}


def test_an_unknown_resource_type_fails_the_whole_request() -> None:
    broker = Broker()
    responses = _alter(broker, (99, "x", {}), (TOPIC, "plain", {"retention.ms": "7"}))
    assert [(response.error_code, response.error_message) for response in responses] == [
        (42, "There is no resource type 99")
    ] * 2
    assert broker.admin.topics == {"plain": {}}


def test_a_topic_that_is_named_several_times_is_altered_once_as_it_was_named_last() -> None:
    broker = Broker(topics={"t": {}, "u": {}})
    named = ("t", {"retention.ms": "7"}), ("u", {"retention.ms": "8"}), ("t", {"segment.ms": "9"})
    responses = _alter(broker, *((TOPIC, name, configs) for name, configs in named))
    assert [(each.error_code, each.resource_name) for each in responses] == [(0, "t"), (0, "u")]
    assert broker.admin.topics == {"t": {"segment.ms": "9"}, "u": {"retention.ms": "8"}}


def test_overrides_that_take_too_many_bytes_are_refused() -> None:
    broker = Broker()
    (refused,) = _alter(broker, (BROKER, "", {f"unknown.{number}": "v" * 32_000 for number in range(32)}))
    assert refused.error_code == 42
    assert "more than 1000000 bytes" in refused.error_message
    assert broker.admin.brokers == {}


def test_too_many_keys_of_a_resource_are_refused() -> None:
    (response,) = _alter(Broker(), (TOPIC, "plain", {f"k{number}": "1" for number in range(1_001)}))
    assert (response.error_code, response.error_message) == (
        42, "1001 keys of one resource are altered, more than 1000"
    )  # fmt: skip
