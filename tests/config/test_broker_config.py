"""One broker's configuration: kafkapy's defaults, typed values, and the layers above ``server.properties``."""

import pytest

from kafkapy.config.broker_config import BrokerConfig, Setting, Source, default_data_directory, layers
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.listeners import EndPoint


def _config(**properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties({name.replace("_", "."): text for name, text in properties.items()})


def test_the_default_is_a_single_broker_on_loopback() -> None:
    config = BrokerConfig.from_properties()
    assert config.embedded_store
    assert config.broker_id == -1
    assert config.listeners == (EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)
    assert config["listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert config.advertised_listeners == ()
    assert config["offsets.topic.replication.factor"] == 1
    assert config["transaction.state.log.replication.factor"] == 1
    assert config["transaction.state.log.min.isr"] == 1
    assert config["group.initial.rebalance.delay.ms"] == 3000
    assert config.log_dirs == (default_data_directory(),)


def test_with_zookeeper_kafkas_defaults_are_used() -> None:
    config = _config(zookeeper_connect="localhost:2181")
    assert not config.embedded_store
    assert config["offsets.topic.replication.factor"] == 3
    assert config["listeners"] is None
    assert config.listeners[0].port == 9092


def test_the_default_data_directory_is_in_the_users_home() -> None:
    assert default_data_directory({"XDG_DATA_HOME": "/data", "HOME": "/home/a"}) == "/data/kafkapy"
    assert default_data_directory({"HOME": "/home/a"}) == "/home/a/.local/share/kafkapy"


def test_log_dirs_has_precedence_over_log_dir() -> None:
    assert _config(log_dir="/a").log_dirs == ("/a",)
    assert _config(log_dir="/a", log_dirs="/b, /c,").log_dirs == ("/b", "/c")


def test_host_and_port_replace_missing_listeners() -> None:
    assert str(_config(port="9999").listeners[0]) == "PLAINTEXT://127.0.0.1:9999"
    assert str(_config(host_name="10.0.0.1").listeners[0]) == "PLAINTEXT://10.0.0.1:9092"
    assert str(_config(listeners="PLAINTEXT://:1", port="2").listeners[0]) == "PLAINTEXT://:1"


@pytest.mark.parametrize(
    ("settings", "advertised"),
    [
        ({"advertised_host_name": "me"}, "PLAINTEXT://me:9092"),
        ({"advertised_port": "7"}, "PLAINTEXT://:7"),
        ({"advertised_host_name": "me", "port": "5"}, "PLAINTEXT://me:5"),
        ({"advertised_port": "7", "host_name": "h"}, "PLAINTEXT://h:7"),
        ({"advertised_host_name": "me", "advertised_listeners": "PLAINTEXT://you:1"}, "PLAINTEXT://you:1"),
    ],
)
def test_the_advertised_host_and_port_replace_missing_advertised_listeners(
    settings: dict[str, str], advertised: str
) -> None:
    """As in ``KafkaConfig.advertisedListeners`` of Apache Kafka 2.7.2."""
    assert [str(endpoint) for endpoint in _config(**settings).advertised_listeners] == [advertised]


def test_values_are_typed() -> None:
    config = _config(num_partitions="4", delete_topic_enable="FALSE", log_cleanup_policy="compact,delete")
    assert config["num.partitions"] == config.integer("num.partitions") == 4
    assert config.flag("delete.topic.enable") is False
    assert config["log.cleanup.policy"] == ("compact", "delete")
    assert config.text("broker.rack") == ""
    assert config.text("compression.type") == "producer"


def test_unknown_names_are_kept_and_listed() -> None:
    config = BrokerConfig.from_properties({"num.partition": "4", "broker.id": "1"})
    assert config.unknown == ("num.partition",)
    assert config.originals == {"num.partition": "4", "broker.id": "1"}
    with pytest.raises(KeyError):
        config["num.partition"]


def test_a_bad_value_is_refused_with_its_key() -> None:
    with pytest.raises(InvalidConfigError, match=r"Invalid value many for configuration num\.partitions"):
        _config(num_partitions="many")


def test_the_key_with_the_finer_unit_has_precedence() -> None:
    assert _config(log_retention_hours="1").log_retention_ms == 3_600_000
    assert _config(log_retention_hours="1", log_retention_minutes="1").log_retention_ms == 60_000
    assert _config(log_retention_minutes="1", log_retention_ms="5").log_retention_ms == 5
    assert _config(log_retention_hours="-1").log_retention_ms == -1
    assert _config(log_roll_hours="2").log_roll_ms == 7_200_000
    assert _config(log_roll_jitter_hours="2", log_roll_jitter_ms="7").log_roll_jitter_ms == 7
    assert _config(log_flush_scheduler_interval_ms="7").log_flush_interval_ms == 7


def test_layers_of_dynamic_overrides() -> None:
    config = _config(log_retention_ms="100")
    config.update_dynamic(cluster_default={"log.retention.ms": "200"}, per_broker={"log.retention.ms": "300"})
    assert config["log.retention.ms"] == 300
    assert list(config.settings("log.retention.ms")) == [
        Setting("log.retention.ms", "300", Source.DYNAMIC_BROKER),
        Setting("log.retention.ms", "200", Source.DYNAMIC_DEFAULT_BROKER),
        Setting("log.retention.ms", "100", Source.STATIC_BROKER),
        Setting("log.retention.hours", "168", Source.DEFAULT),
    ]
    config.update_dynamic(per_broker={})
    assert config["log.retention.ms"] == 200
    config.update_dynamic(cluster_default={})
    assert config["log.retention.ms"] == 100


def test_listeners_get_exactly_the_changed_keys() -> None:
    config = _config()
    heard: list[frozenset[str]] = []
    config.add_listener(heard.append)
    config.update_dynamic(cluster_default={"num.io.threads": "4", "num.network.threads": "2"})
    config.update_dynamic(per_broker={"num.io.threads": "4"})
    config.update_dynamic(cluster_default={"num.io.threads": "4"})
    assert heard == [{"num.io.threads", "num.network.threads"}, set(), {"num.network.threads"}]


def test_keys_that_can_not_change_at_a_level_are_ignored() -> None:
    config = _config()
    config.update_dynamic(
        cluster_default={"num.partitions": "9", "ssl.keystore.type": "PKCS12", "no.such.key": "1"},
        per_broker={"ssl.truststore.type": "PKCS12", "leader.replication.throttled.rate": "10"},
    )
    assert config["num.partitions"] == 1
    assert config["ssl.keystore.type"] == "JKS"
    assert config["ssl.truststore.type"] == "PKCS12"
    assert config["leader.replication.throttled.rate"] == 10


def test_contradicting_overrides_change_nothing() -> None:
    config = _config()
    heard: list[frozenset[str]] = []
    config.add_listener(heard.append)
    with pytest.raises(InvalidConfigError):
        config.update_dynamic(cluster_default={"log.retention.ms": "0"})
    assert config["log.retention.ms"] is None
    assert heard == []


def test_a_generated_id_is_assigned_later() -> None:
    config = _config()
    config.assign_broker_id(1001)
    assert config.broker_id == 1001
    assert config["broker.id"] == 1001
    assert "broker.id" not in config.originals


# The two dynamic layers, and which of their keys count


def test_the_layer_of_one_broker_has_precedence() -> None:
    both = layers({"num.io.threads": "4", "num.network.threads": "2"}, {"num.io.threads": "6"})
    assert both.values == {"num.io.threads": 6, "num.network.threads": 2}


def test_keys_that_can_not_change_at_a_level_are_left_out() -> None:
    both = layers({"ssl.keystore.type": "JKS", "num.partitions": "3"}, {"ssl.keystore.type": "PKCS12"})
    assert (both.cluster_texts, both.broker_texts) == ({}, {"ssl.keystore.type": "PKCS12"})


def test_unknown_keys_are_kept_as_texts_alone() -> None:
    both = layers({"who.knows": "1"}, {})
    assert (both.cluster_texts, both.values) == ({"who.knows": "1"}, {})


def test_a_dynamic_value_hides_the_static_synonyms() -> None:
    assert layers({}, {"log.roll.ms": "7"}).hidden == {"log.roll.ms", "log.roll.hours"}


def test_changed_names_are_the_keys_with_different_values() -> None:
    before = layers({"num.io.threads": "4", "log.roll.ms": "7"}, {})
    after = layers({"num.io.threads": "5"}, {"log.roll.ms": "7", "log.retention.ms": "1"})
    assert before.changed_names(after) == after.changed_names(before) == {"num.io.threads", "log.retention.ms"}


@pytest.mark.parametrize(
    ("zookeeper", "protocol", "expected"),
    [
        ("", "2.7", True),
        ("h:1", "2.7", False),
        ("h:1", "2.8-IV0", False),
        ("h:1", "2.8", True),
        ("h:1", "2.8-IV1", True),
    ],
)
def test_a_cluster_has_ids_of_topics_from_2_8_on(zookeeper: str, protocol: str, expected: bool) -> None:
    keys = {"zookeeper.connect": zookeeper, "inter.broker.protocol.version": protocol}
    assert BrokerConfig.from_properties(keys).has_topic_ids is expected
