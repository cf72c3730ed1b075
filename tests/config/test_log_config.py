"""A topic's configuration is its overrides above the broker's values above Kafka's defaults."""

from dataclasses import asdict

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.log_config import FIELD_OF, LogConfig, broker_values, validate_topic_overrides
from kafkapy.config.own_keys import OWN_TOPIC_KEYS
from kafkapy.config.topic_keys import TOPIC_KEYS


def test_the_fields_are_the_keys_with_their_defaults() -> None:
    assert list(FIELD_OF) == [*TOPIC_KEYS, *OWN_TOPIC_KEYS]
    for name, field in FIELD_OF.items():
        assert field == name.replace(".", "_")
        assert getattr(LogConfig(), field) == (TOPIC_KEYS | OWN_TOPIC_KEYS)[name].default


def test_a_broker_without_settings_gives_the_defaults() -> None:
    assert asdict(LogConfig.resolve(BrokerConfig.from_properties())) == asdict(LogConfig())


def test_a_topics_overrides_have_precedence_over_the_brokers_values() -> None:
    broker = BrokerConfig.from_properties(
        {"log.segment.bytes": "1000", "log.retention.minutes": "1", "log.roll.hours": "2", "message.max.bytes": "500"}
    )
    config = LogConfig.resolve(broker, {"segment.bytes": "2000", "cleanup.policy": "compact"})
    assert (config.segment_bytes, config.retention_ms, config.segment_ms) == (2000, 60_000, 7_200_000)
    assert config.max_message_bytes == 500
    assert (config.compact, config.delete) == (True, False)
    assert (LogConfig().compact, LogConfig().delete) == (False, True)
    assert broker_values(broker)["segment.bytes"] == 1000


def test_a_dynamic_broker_value_reaches_the_topic() -> None:
    broker = BrokerConfig.from_properties()
    broker.update_dynamic(cluster_default={"log.retention.ms": "5"})
    assert LogConfig.resolve(broker).retention_ms == 5


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"retention": "1"}, "Unknown topic config name: retention"),
        ({"log.segment.bytes": "1000"}, "Unknown topic config name: log.segment.bytes"),
        ({"segment.bytes": "13"}, "Invalid value 13 for configuration segment.bytes: Value must be at least 14"),
        ({"retention.ms": "-2"}, "must be at least -1"),
        ({"retention.ms": "-2", "bogus": "1"}, "Unknown topic config name: bogus"),
        ({"cleanup.policy": "compact,forget"}, "must be one of: compact, delete"),
        ({"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"}, r"\(2\) must not be above .* \(1\)"),
    ],
)
def test_bad_overrides_are_refused(overrides: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem):
        validate_topic_overrides(overrides)


def test_good_overrides_are_taken() -> None:
    validate_topic_overrides({"min.compaction.lag.ms": "1", "max.compaction.lag.ms": "1", "compression.type": "zstd"})


def test_kafkapys_own_key_is_inherited_from_the_broker() -> None:
    broker = BrokerConfig.from_properties({"kafkapy.flush": "ack"})
    assert broker.unknown == ()
    assert LogConfig.resolve(broker).flush_before_ack
    assert not LogConfig.resolve(broker, {"kafkapy.flush": "kafka"}).flush_before_ack
    assert not LogConfig.resolve(BrokerConfig.from_properties()).flush_before_ack
    with pytest.raises(InvalidConfigError, match=r"kafkapy.flush.*String must be one of: kafka, ack"):
        validate_topic_overrides({"kafkapy.flush": "never"})
