"""The table of topic keys against the classes of the released 2.7.2 jars (``tests/golden``), and kafkapy's own keys."""

import pytest

from kafkapy.config.broker_keys import BROKER_KEYS, KNOWN_KEYS
from kafkapy.config.own_keys import OWN_BROKER_KEYS, OWN_TOPIC_KEYS, is_own
from kafkapy.config.topic_keys import BROKER_KEY_OF, TOPIC_KEYS, topic_key
from tests.config.test_broker_keys import GOLDEN


def test_the_table_holds_the_26_keys() -> None:
    assert set(TOPIC_KEYS) == set(GOLDEN["topic"])
    assert len(TOPIC_KEYS) == 26


@pytest.mark.parametrize("name", GOLDEN["topic"])
def test_a_key_has_kafkas_type_default_importance_and_broker_key(name: str) -> None:
    key, golden = TOPIC_KEYS[name], GOLDEN["topic"][name]
    assert key.type.name == golden["type"]
    assert key.format(key.default) == golden["default"]
    assert key.parse(golden["default"]) == key.default
    assert key.importance.name == golden["importance"]
    assert (key.allowed is None) == (golden["valid"] is None)
    assert BROKER_KEY_OF.get(name) == golden["broker_key"]


def test_every_broker_key_behind_a_topic_key_exists() -> None:
    assert set(BROKER_KEY_OF.values()) <= set(KNOWN_KEYS)


def test_own_keys_differ_from_kafkas() -> None:
    own = OWN_BROKER_KEYS.keys() | OWN_TOPIC_KEYS.keys()
    assert all(is_own(name) for name in own)
    assert not any(is_own(name) for name in (*BROKER_KEYS, *TOPIC_KEYS))
    assert topic_key("kafkapy.flush") is OWN_TOPIC_KEYS["kafkapy.flush"]
    assert topic_key("kafkapy.other") is None
