from kafkapy.config.broker_keys import BROKER_KEYS
from kafkapy.config.own_keys import OWN_BROKER_KEYS, OWN_TOPIC_KEYS, is_own
from kafkapy.config.topic_keys import TOPIC_KEYS, topic_key


def test_own_keys_differ_from_kafkas() -> None:
    own = OWN_BROKER_KEYS.keys() | OWN_TOPIC_KEYS.keys()
    assert all(is_own(name) for name in own)
    assert not any(is_own(name) for name in (*BROKER_KEYS, *TOPIC_KEYS))
    assert topic_key("kafkapy.flush") is OWN_TOPIC_KEYS["kafkapy.flush"]
    assert topic_key("kafkapy.other") is None
