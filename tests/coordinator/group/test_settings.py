from dataclasses import asdict

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.coordinator.group.settings import LARGEST_GROUP, GroupSettings
from tests.coordinator.world import CONFIG


def test_the_defaults_are_those_of_the_brokers_configuration() -> None:
    config = BrokerConfig.from_properties({"zookeeper.connect": "localhost"})
    assert asdict(GroupSettings.from_config(config)) == asdict(GroupSettings())


@pytest.mark.parametrize(("configured", "expected"), [(2**31 - 1, LARGEST_GROUP), (7, 7), (9_000, 9_000)])
def test_groups_are_bounded_unless_configured(configured: int, expected: int) -> None:
    assert GroupSettings.from_config({**CONFIG, "group.max.size": configured}).max_size == expected


def test_seconds_and_minutes_are_converted_to_milliseconds() -> None:
    settings = GroupSettings.from_config({**CONFIG, "offsets.retention.minutes": 2})
    assert settings.offsets_retention_ms == 120_000


@pytest.mark.parametrize(
    ("protocol", "offset_version", "group_version"),
    [
        ("0.8.2", 1, 0), ("0.10.0", 1, 0), ("0.10.1-IV0", 1, 1), ("2.0", 1, 1), ("2.1-IV0", 2, 2), ("2.1-IV1", 3, 2),
        ("2.2.2", 3, 2), ("2.3-IV0", 3, 3), ("2.7", 3, 3),
    ],
)  # fmt: skip
def test_the_version_of_values_follows_the_inter_broker_protocol(
    protocol: str, offset_version: int, group_version: int
) -> None:
    settings = GroupSettings.from_config({**CONFIG, "inter.broker.protocol.version": protocol})
    assert (settings.offset_value_version, settings.group_value_version) == (offset_version, group_version)
