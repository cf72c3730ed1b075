"""The settings of a broker in a test."""

import pytest

from kafkapy.testing.errors import BrokerStartError
from kafkapy.testing.hosting.settings import config_for_test, texts


def test_settings_are_added_to_the_test_defaults() -> None:
    config = config_for_test({"num.partitions": 3, "auto.create.topics.enable": False}, data="/d", port=7)
    assert config.integer("num.partitions") == 3
    assert config.flag("auto.create.topics.enable") is False
    assert config.integer("group.initial.rebalance.delay.ms") == 0
    assert config.integer("offsets.topic.num.partitions") == 1
    assert [str(endpoint) for endpoint in config.listeners] == ["PLAINTEXT://127.0.0.1:7"]
    assert list(config.log_dirs) == ["/d"]


def test_test_defaults_can_be_overridden() -> None:
    assert config_for_test({"broker.id": 5}, data="/d", port=0).broker_id == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num.partition": 3}, "there is no configuration key 'num.partition'; did you mean 'num.partitions'?"),
        ({"num.partitions": 0}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"log.dirs": "/x"}, "log.dirs is no setting of a broker in a test: use data="),
        ({"listeners": "PLAINTEXT://:1"}, "listeners is no setting of a broker in a test: use port="),
        ({"zookeeper.connect": "z:2181"}, "zookeeper.connect is set: a broker in a test keeps its own"),
    ],
)
def test_refusals_say_what_to_do(settings: dict[str, object], message: str) -> None:
    with pytest.raises(BrokerStartError) as refused:
        config_for_test(settings, data="/d", port=0)
    assert str(refused.value).startswith(message)


def test_values_as_kafka_writes_them() -> None:
    values = texts({"a": True, "b": False, "c": ["x", "y"], "d": 1.5, "e": "text", "f": ()})
    assert values == {"a": "true", "b": "false", "c": "x,y", "d": "1.5", "e": "text", "f": ""}
