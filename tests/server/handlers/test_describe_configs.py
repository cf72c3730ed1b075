"""DescribeConfigs answers what a running 2.7.2 answered, in every version."""

from typing import Any

import pytest

from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.config.test_describe import ANSWERS, GOLDEN, golden_config
from tests.server.handlers.config_services import Broker

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


def _ask(broker: Broker, *resources: tuple[int, str, list[str] | None], version: int = 3, synonyms: bool = True) -> Any:
    asked = [DescribeConfigsResource(*resource) for resource in resources]
    return broker.send(DescribeConfigsRequest(asked, include_synonyms=version >= 1 and synonyms), version).results


def _entry(config: Any) -> dict[str, Any]:
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "source": config.config_source,
        "sensitive": config.is_sensitive,
        "synonyms": [[synonym.name, synonym.value, synonym.source] for synonym in config.synonyms],
        "type": config.config_type,
    }


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("place", range(4))
def test_the_golden_answers(place: int, version: int) -> None:
    golden = GOLDEN["answers"][place]
    broker = Broker(golden_config(), GOLDEN["topic_overrides"])
    (result,) = _ask(broker, (golden["rtype"], golden["rname"], None), version=version)
    assert (result.error_code, result.error_message) == (golden["error"], golden["message"])
    missing = {0: {"source", "synonyms", "type"}, 1: {"type"}, 2: {"type"}}.get(version, set())
    ours = {config.name: {k: v for k, v in _entry(config).items() if k not in missing} for config in result.configs}
    assert ours == {
        entry["name"]: {k: v for k, v in entry.items() if k not in missing} for entry in ANSWERS[golden["rname"]]
    }
    assert len(result.configs) == len(ours)


def test_only_the_keys_that_are_asked_for_and_synonyms_only_on_request() -> None:
    (result,) = _ask(Broker(), (TOPIC, "plain", ["retention.ms", "no.such.key"]), synonyms=False)
    (config,) = result.configs
    assert (config.name, config.value, config.synonyms, config.documentation) == ("retention.ms", "604800000", [], None)
    (result,) = _ask(Broker(), (TOPIC, "plain", []))
    assert len(result.configs) == 26


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "gone"), 3, ""),
        ((TOPIC, "bad name"), 17, "The topic name 'bad name' may hold only ASCII"),
        ((TOPIC, ""), 17, "A topic needs a name"),
        ((BROKER, "1"), 42, "This is broker 0, not 1"),
        ((BROKER, "abc"), 42, "A broker is named by its number, not by abc"),
        ((BROKER_LOGGER, "1"), 42, "This is broker 0, not 1"),
        ((BROKER_LOGGER, ""), 42, "A broker is named by its number"),
    ],
)
def test_errors_name_their_resource_and_leave_the_others_alone(
    resource: tuple[int, str], code: int, message: str
) -> None:
    failed, fine = _ask(Broker(), (*resource, None), (TOPIC, "plain", None))
    assert (failed.error_code, failed.resource_type, failed.resource_name) == (code, *resource)
    assert message in failed.error_message
    assert (failed.configs, fine.error_code, len(fine.configs)) == ([], 0, 26)


def test_the_loggers_of_this_broker() -> None:
    (result,) = _ask(Broker(), (BROKER_LOGGER, "0", ["root", "kafkapy.server.context", "no.such.logger"]))
    assert (result.error_code, result.resource_type, result.resource_name) == (0, BROKER_LOGGER, "0")
    assert {entry.name for entry in result.configs} == {"root", "kafkapy.server.context"}
    assert {(each.config_source, each.is_sensitive, each.read_only, each.config_type) for each in result.configs} == {
        (6, False, False, 0)
    }


def test_a_type_that_nobody_knows_fails_the_whole_request() -> None:
    results = _ask(Broker(), (99, "x", None), (TOPIC, "plain", None))
    assert [(result.error_code, result.resource_name) for result in results] == [(42, "x"), (42, "plain")]
