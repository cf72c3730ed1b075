"""Configuration changes reach the open logs."""

import weakref
from pathlib import Path

import pytest

from harness.client import Client, batch
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.log_config import LogConfig
from kafkapy.server.lifecycle.log_configs import LogConfigs
from kafkapy.storage.log_manager import LogManager
from kafkapy.testing.clock import ManualClock
from kafkapy.types import TopicPartition
from tests.server.harness import run, running_broker, until


def test_topics_and_brokers_changes_reach_the_logs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("own", max__message__bytes="3000")
            await client.create_topic("plain")
            own, plain = (broker.services.log_manager.get(TopicPartition(name, 0)) for name in ("own", "plain"))
            assert own is not None
            assert plain is not None
            assert (await client.produce("own", batch(b"x" * 4000))).error_code == 10
            admin = broker.services.config_admin
            await admin.set_topic_overrides("own", {"max.message.bytes": "5000"})
            await until(lambda: own.config.max_message_bytes == 5000)
            assert (await client.produce("own", batch(b"x" * 4000))).error_code == 0
            await admin.set_broker_overrides(None, {"message.max.bytes": "2000"})
            await until(lambda: plain.config.max_message_bytes == 2000)
            assert own.config.max_message_bytes == 5000
            assert (await client.produce("plain", batch(b"x" * 4000))).error_code == 10
            await admin.set_broker_overrides(None, {"log.cleaner.threads": "2"})
            await until(lambda: plain.config.max_message_bytes == 1048588)

    run(scenario())


def test_topics_with_the_same_overrides_share_their_configuration(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            for name in ("one", "two"):
                await client.create_topic(name, partitions=2, segment__ms="5000")
            logs = broker.services.log_manager
            assert len({id(log.config) for log in logs.all_logs() if log.config.segment_ms == 5000}) == 1

    run(scenario())


def test_only_overrides_that_are_in_use_are_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("changed")
            log = broker.services.log_manager.get(TopicPartition("changed", 0))
            assert log is not None
            used = []
            for segment_ms in (5000, 6000, 7000):
                await broker.services.config_admin.set_topic_overrides("changed", {"segment.ms": str(segment_ms)})
                await until(lambda expected=segment_ms: log.config.segment_ms == expected)
                used.append(weakref.ref(log.config))
            await until(lambda: [each() for each in used] == [None, None, log.config])

    run(scenario())


def test_unknown_keys_are_ignored_and_invalid_values_are_reported_with_their_topic(tmp_path: Path) -> None:
    """They are keys and values that another program has written. Unknown keys are ignored, as in Apache Kafka."""
    stored = {"later": {"confluent.tier.enable": "true", "retention.ms": "5"}, "odd": {"retention.ms": "soon"}}
    logs = LogManager([str(tmp_path)], LogConfig(), ManualClock(1))
    configs = LogConfigs(BrokerConfig.from_properties({}), logs, stored.__getitem__)
    assert configs.of("later").retention_ms == 5
    with pytest.raises(InvalidConfigError, match="topic odd: Invalid value soon for configuration retention"):
        configs.of("odd")
