"""Two layers of overrides, and which of their keys count."""

from kafkapy.config.broker_config import layers


def test_a_brokers_own_value_wins() -> None:
    both = layers({"num.io.threads": "4", "num.network.threads": "2"}, {"num.io.threads": "6"})
    assert both.values == {"num.io.threads": 6, "num.network.threads": 2}


def test_keys_that_can_not_change_at_a_level_are_left_out() -> None:
    both = layers({"ssl.keystore.type": "JKS", "num.partitions": "3"}, {"ssl.keystore.type": "PKCS12"})
    assert (both.cluster_texts, both.broker_texts) == ({}, {"ssl.keystore.type": "PKCS12"})


def test_unknown_keys_are_kept_as_texts_alone() -> None:
    both = layers({"who.knows": "1"}, {})
    assert (both.cluster_texts, both.values) == ({"who.knows": "1"}, {})


def test_a_dynamic_value_hides_the_static_ones_that_say_the_same() -> None:
    assert layers({}, {"log.roll.ms": "7"}).hidden == {"log.roll.ms", "log.roll.hours"}


def test_changed_names_are_those_of_other_values() -> None:
    before = layers({"num.io.threads": "4", "log.roll.ms": "7"}, {})
    after = layers({"num.io.threads": "5"}, {"log.roll.ms": "7", "log.retention.ms": "1"})
    assert before.changed_names(after) == after.changed_names(before) == {"num.io.threads", "log.retention.ms"}
