"""Descriptions against the answers of a running Apache Kafka 2.7.2 (``tests/golden``), field by field.

The broker of the golden file had the static and dynamic settings that the file lists; the order of the keys is the
one thing that is not compared (2.7.2 answers in a hash table's order).
"""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.describe import (
    MOST_SHARED_TOPICS,
    Description,
    describe_broker,
    describe_cluster_default,
    describe_topic,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "describe-configs-272.json").read_text())
ANSWERS: dict[str, Any] = {answer["rname"]: answer["configs"] for answer in GOLDEN["answers"]}


def golden_config() -> BrokerConfig:
    config = BrokerConfig.from_properties(GOLDEN["static"])
    config.update_dynamic(cluster_default=GOLDEN["cluster_overrides"], per_broker=GOLDEN["broker_overrides"])
    return config


def _plain(description: Description) -> dict[str, Any]:
    fields = description._asdict() | {"synonyms": [list(synonym) for synonym in description.synonyms]}
    return {name: int(value) if name in {"source", "type"} else value for name, value in fields.items()}


def _by_name(descriptions: list[Description]) -> dict[str, Any]:
    return {description.name: _plain(description) for description in descriptions}


def _golden_by_name(resource: str) -> dict[str, Any]:
    return {entry["name"]: entry for entry in ANSWERS[resource]}


def test_a_broker_is_described_as_2_7_2_describes_it() -> None:
    ours, theirs = _by_name(describe_broker(golden_config())), _golden_by_name("0")
    assert len(theirs) == 220
    assert {name: (ours.get(name), entry) for name, entry in theirs.items() if ours.get(name) != entry} == {}
    assert ours.keys() == theirs.keys()


@pytest.mark.parametrize("topic", ["plain", "tuned"])
def test_a_topic_is_described_as_2_7_2_describes_it(topic: str) -> None:
    ours = _by_name(describe_topic(golden_config(), GOLDEN["topic_overrides"][topic]))
    theirs = _golden_by_name(topic)
    assert len(theirs) == 26
    assert {name: (ours.get(name), entry) for name, entry in theirs.items() if ours.get(name) != entry} == {}
    assert ours.keys() == theirs.keys()


def test_the_defaults_of_all_brokers_are_described_as_2_7_2_describes_them() -> None:
    assert _by_name(describe_cluster_default(golden_config())) == _golden_by_name("")


def test_kafkapys_own_defaults_are_described_as_defaults() -> None:
    ours = _by_name(describe_broker(BrokerConfig.from_properties()))
    assert len(ours) == 216
    assert ours["listeners"]["value"] == "PLAINTEXT://127.0.0.1:9092"
    assert ours["offsets.topic.replication.factor"]["synonyms"] == [["offsets.topic.replication.factor", "1", 5]]
    assert {entry["source"] for entry in ours.values()} == {5}


def test_kafkapys_own_topic_key_is_described_only_if_it_is_set() -> None:
    broker = BrokerConfig.from_properties({"kafkapy.flush": "ack"})
    for described in (_by_name(describe_broker(broker)), _by_name(describe_topic(broker, {}))):
        assert described["kafkapy.flush"]["value"] == "ack"
    described = _by_name(describe_topic(BrokerConfig.from_properties(), {"kafkapy.flush": "ack"}))
    assert described["kafkapy.flush"]["synonyms"][0] == ["kafkapy.flush", "ack", 1]
    for described in (
        _by_name(describe_broker(BrokerConfig.from_properties())),
        _by_name(describe_topic(BrokerConfig.from_properties(), {})),
    ):
        assert "kafkapy.flush" not in described


def test_an_unknown_stored_topic_key_is_described_without_its_value() -> None:
    described = describe_topic(golden_config(), {"retention.ms": "5000", "another.release": "1"})
    assert len(described) == 27
    assert _plain(described[-1]) == {
        "name": "another.release",
        "value": None,
        "read_only": False,
        "source": 1,
        "sensitive": True,
        "synonyms": [["another.release", None, 1]],
        "type": 0,
    }


def test_a_description_is_made_once_until_the_configuration_changes() -> None:
    config = BrokerConfig.from_properties({"broker.id": "0"})
    broker, default, topic = describe_broker(config), describe_cluster_default(config), describe_topic(config, {})
    assert describe_broker(config) is broker
    assert describe_cluster_default(config) is default
    assert describe_topic(config, {}) is topic
    assert describe_topic(config, {"retention.ms": "5"}) is describe_topic(config, {"retention.ms": "5"})
    assert describe_topic(config, {"retention.ms": "5"}) is not topic
    config.update_dynamic(cluster_default={"log.retention.ms": "7"})
    assert _by_name(describe_broker(config))["log.retention.ms"]["value"] == "7"
    assert _by_name(describe_cluster_default(config)).keys() == {"log.retention.ms"}
    assert _by_name(describe_topic(config, {}))["retention.ms"]["value"] == "7"
    assert describe_broker(BrokerConfig.from_properties({"broker.id": "0"})) == broker
    config.assign_broker_id(5)
    assert _by_name(describe_broker(config))["broker.id"]["value"] == "5"


def test_descriptions_of_topics_are_kept_for_a_bounded_number_of_overrides() -> None:
    config = BrokerConfig.from_properties()
    first = describe_topic(config, {"retention.ms": "0"})
    assert describe_topic(config, {"retention.ms": "0"}) is first
    for number in range(MOST_SHARED_TOPICS + 1):
        describe_topic(config, {"retention.ms": str(number)})
    assert describe_topic(config, {"retention.ms": "0"}) is not first
    assert describe_topic(config, {"retention.ms": "0"}) == first
