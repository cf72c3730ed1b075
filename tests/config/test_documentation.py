"""Each key has its own text, and exactly the texts of unused keys say that the key is not used."""

import inspect
from pathlib import Path

import pytest

from kafkapy.config.broker_config import REFUSED_KEYS, BrokerConfig, check_built
from kafkapy.config.broker_keys import DYNAMIC_ONLY_KEYS, KNOWN_KEYS
from kafkapy.config.consumer_group_keys import CONSUMER_GROUP_KEYS
from kafkapy.config.documentation import UNUSED, broker_documentation, topic_documentation
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.oauth_keys import OAUTH_KEYS
from kafkapy.config.own_keys import OWN_BROKER_KEYS, OWN_TOPIC_KEYS
from kafkapy.config.topic_keys import BROKER_KEY_OF, TOPIC_KEYS
from kafkapy.config.transaction_keys import TRANSACTION_KEYS

BROKER_NAMES = [*KNOWN_KEYS, *DYNAMIC_ONLY_KEYS]
TOPIC_NAMES = [*TOPIC_KEYS, *OWN_TOPIC_KEYS]
SOURCES = Path(__file__).parents[2] / "kafkapy"
ONLY_CHECKED = {
    "broker_keys.py",
    "topic_keys.py",
    "documentation.py",
    "broker_config.py",
    "java_classes.py",
    "alteration.py",
}
"""Modules that know keys without using their values."""


def _texts() -> list[str]:
    texts = [broker_documentation(name) for name in BROKER_NAMES] + [topic_documentation(name) for name in TOPIC_NAMES]
    assert None not in texts
    return [text for text in texts if text is not None]


def test_every_key_has_its_own_text() -> None:
    texts = _texts()
    newer = len(OAUTH_KEYS) + len(CONSUMER_GROUP_KEYS) + len(TRANSACTION_KEYS)
    assert len(texts) == 216 + 3 + 26 + newer + len(OWN_BROKER_KEYS) + len(OWN_TOPIC_KEYS)
    assert len(set(texts)) == len(texts)


def test_texts_are_one_to_three_sentences() -> None:
    for text in _texts():
        assert len(text) > 20, text
        assert text.isascii(), text
        assert text.endswith("."), text
        assert text == " ".join(text.split()), text
        assert text[0].isupper() or text.startswith("kafkapy"), text
        assert 1 <= text.count(". ") + 1 <= 4, text


def test_a_key_of_one_listener_has_its_keys_text() -> None:
    assert broker_documentation("listener.name.internal.max.connections") == broker_documentation("max.connections")
    assert broker_documentation("no.such.key") is None
    assert topic_documentation("no.such.key") is None


def test_texts_name_units() -> None:
    for name in [*BROKER_NAMES, *TOPIC_NAMES]:
        text = broker_documentation(name) or topic_documentation(name) or ""
        for ending, word in ((".ms", "milliseconds"), (".minutes", "minutes"), (".hours", "hours")):
            assert not name.endswith(ending) or word in text, name


def test_the_texts_of_exactly_the_unused_keys_say_so() -> None:
    sources = "".join(path.read_text() for path in SOURCES.rglob("*.py") if path.name not in ONLY_CHECKED)
    sources += inspect.getsource(BrokerConfig)
    used = {name for name in BROKER_NAMES if f'"{name}"' in sources or name in BROKER_KEY_OF.values()}
    unused = set(BROKER_NAMES) - used - {"zookeeper.connect", "broker.id.generation.enable"}  # only rules read these
    assert unused == UNUSED, "kafkapy/config/documentation.py: UNUSED names the keys without use"
    for name in UNUSED - REFUSED_KEYS.keys():
        assert "changes nothing" in str(broker_documentation(name)) or str(broker_documentation(name)).endswith(
            ("kafkapy does not use this key.", "kafkapy has only Apache Kafka's own, and refuses others.")
        ), name


@pytest.mark.parametrize("name", sorted(REFUSED_KEYS))
def test_keys_whose_text_says_so_are_refused(name: str) -> None:
    assert str(broker_documentation(name)).endswith("kafkapy does not start while this key is set.")
    with pytest.raises(InvalidConfigError, match=name):
        check_built(BrokerConfig.from_properties({name: "x:1"}))
