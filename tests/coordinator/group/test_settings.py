from kafkapy.config.broker_config import BrokerConfig
from kafkapy.coordinator.group.settings import GroupSettings
from tests.coordinator.world import CONFIG


def test_the_defaults_are_those_of_the_brokers_configuration() -> None:
    assert (
        GroupSettings.from_config(BrokerConfig.from_properties({"zookeeper.connect": "localhost"})) == GroupSettings()
    )


def test_units() -> None:
    settings = GroupSettings.from_config({**CONFIG, "offsets.retention.minutes": 2})
    assert settings.offsets_retention_ms == 120_000
