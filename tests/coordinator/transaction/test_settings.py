from kafkapy.config.broker_config import BrokerConfig
from kafkapy.coordinator.transaction.runtime import TransactionSettings


def test_the_defaults_are_those_of_the_brokers_configuration() -> None:
    config = BrokerConfig.from_properties({"zookeeper.connect": "localhost"})
    assert TransactionSettings.from_config(config) == TransactionSettings()
