"""The table of broker keys against the classes of the released 2.7.2 jars (``tests/golden``)."""

import json
from pathlib import Path

import pytest

from kafkapy.config.broker_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, base_name, broker_key, synonyms

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "config-keys-272.json").read_text())


def test_the_table_holds_the_216_keys_in_kafkas_order() -> None:
    assert list(BROKER_KEYS) == list(GOLDEN["broker"])
    assert len(BROKER_KEYS) == 216


@pytest.mark.parametrize("name", GOLDEN["broker"])
def test_a_key_has_kafkas_type_default_mode_and_importance(name: str) -> None:
    key, golden = BROKER_KEYS[name], GOLDEN["broker"][name]
    assert key.name == name
    assert key.type.name == golden["type"]
    assert key.format(key.default) == golden["default"]
    assert key.dynamic.name.lower().replace("_", "-") == golden["dynamic"]
    assert key.importance.name == golden["importance"]
    assert (key.allowed is None) == (golden["valid"] is None)
    assert list(synonyms(name)) == golden["synonyms"]


@pytest.mark.parametrize("name", [name for name, row in GOLDEN["broker"].items() if row["default"] is not None])
def test_the_text_of_a_default_is_its_value(name: str) -> None:
    key = BROKER_KEYS[name]
    assert key.parse(GOLDEN["broker"][name]["default"]) == key.default


def test_the_keys_that_are_only_dynamic() -> None:
    assert list(DYNAMIC_ONLY_KEYS) == list(GOLDEN["dynamic_only"])
    for name, golden in GOLDEN["dynamic_only"].items():
        key = DYNAMIC_ONLY_KEYS[name]
        assert (key.type.name, key.format(key.default)) == (golden["type"], golden["default"])


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("listener.name.inside.ssl.keystore.type", "ssl.keystore.type"),
        ("listener.name.inside.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("ssl.keystore.type", "ssl.keystore.type"),
    ],
)
def test_a_key_may_have_a_listeners_prefix(name: str, base: str) -> None:
    assert base_name(name) == base
    assert broker_key(name) is BROKER_KEYS[base]


def test_unknown_names_are_no_keys() -> None:
    assert broker_key("no.such.key") is None
    assert broker_key("listener.name.inside.no.such.key") is None
    assert synonyms("listener.name.inside.no.such.key") == ("listener.name.inside.no.such.key", "no.such.key")
