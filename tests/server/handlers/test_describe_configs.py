"""DescribeConfigs answers what a running 2.7.2 answered, in every version."""

import asyncio
import tracemalloc
from typing import Any

import pytest

from kafkapy import turns
from kafkapy.config import documentation
from kafkapy.config.broker_keys import BROKER_KEYS
from kafkapy.config.topic_keys import TOPIC_KEYS
from kafkapy.network.errors import RefusedError
from kafkapy.network.session import Session
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.writer import Writer
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.encoding import EncodedParts
from kafkapy.server.handlers import describe_configs
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


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("place", range(4))
def test_the_answers_are_those_of_kafka(place: int, version: int) -> None:
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


def test_only_the_requested_keys_are_described_and_synonyms_only_on_request() -> None:
    (result,) = _ask(Broker(), (TOPIC, "plain", ["retention.ms", "no.such.key"]), synonyms=False)
    (config,) = result.configs
    assert (config.name, config.value, config.synonyms, config.documentation) == ("retention.ms", "604800000", [], None)
    (result,) = _ask(Broker(), (TOPIC, "plain", []))
    assert len(result.configs) == 26


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "gone"), 3, ""),
        ((TOPIC, "bad name"), 17, 'Topic name "bad name" is illegal'),
        ((TOPIC, ""), 17, "Topic name is illegal, it can't be empty"),
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
    (result,) = _ask(Broker(), (BROKER_LOGGER, "0", ["root", "kafkapy.server.dispatch.context", "no.such.logger"]))
    assert (result.error_code, result.resource_type, result.resource_name) == (0, BROKER_LOGGER, "0")
    assert {entry.name for entry in result.configs} == {"root", "kafkapy.server.dispatch.context"}
    assert {(each.config_source, each.is_sensitive, each.read_only, each.config_type) for each in result.configs} == {
        (6, False, False, 0)
    }


def test_an_unknown_resource_type_fails_the_whole_request() -> None:
    results = _ask(Broker(), (99, "x", None), (TOPIC, "plain", None))
    assert [(result.error_code, result.resource_name) for result in results] == [(42, "x"), (42, "plain")]


def test_a_resource_that_is_named_several_times_is_answered_each_time_as_2_7_2_does() -> None:
    named = [(TOPIC, "plain", None), (BROKER, "0", None), (TOPIC, "plain", ["retention.ms"]), (TOPIC, "plain", [])]
    results = _ask(
        Broker(), *named, (TOPIC, "plain", ["retention.ms"] * 3), (TOPIC, "gone", None), (TOPIC, "gone", None)
    )
    assert [(each.error_code, len(each.configs)) for each in results] == [
        (0, 26), (0, 216), (0, 1), (0, 26), (0, 1), (3, 0), (3, 0),
    ]  # fmt: skip
    assert results[0].configs == results[3].configs
    assert (
        results[2].configs == results[4].configs == [each for each in results[0].configs if each.name == "retention.ms"]
    )


def _encoded(broker: Broker, resources: list[DescribeConfigsResource]) -> EncodedParts:
    context = RequestContext(broker.services, RequestHeader(32, 3, 1, None), Session.local("PLAINTEXT"))  # type: ignore[arg-type]  # the few that are needed
    return asyncio.run(describe_configs.handle(context, DescribeConfigsRequest(resources, include_synonyms=True)))


def test_equal_configurations_share_their_bytes() -> None:
    count = 2_000
    names = [f"topic-{number}" for number in range(count)]
    broker = Broker(topics={name: {} for name in names})
    _encoded(broker, [DescribeConfigsResource(TOPIC, names[0], None)])
    for resources in (
        [DescribeConfigsResource(TOPIC, name, None) for name in names],
        [DescribeConfigsResource(BROKER, "0", None)] * count,
    ):
        tracemalloc.start()
        response = _encoded(broker, resources)
        assert tracemalloc.get_traced_memory()[1] < count * 1_000
        tracemalloc.stop()
        writer = Writer()
        response.write(writer, 3)
        assert writer.size() > count * 1_500
        assert len({id(part) for part in writer.parts() if len(part) > 1_000}) == 1


def test_other_work_runs_between_two_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SLICE_S", 0.0)
    granted = 0
    next_turn = turns.Turns.next_turn

    async def counted(self: turns.Turns) -> None:
        nonlocal granted
        granted += 1
        await next_turn(self)

    monkeypatch.setattr(turns.Turns, "next_turn", counted)
    _encoded(Broker(), [DescribeConfigsResource(TOPIC, "plain", None)] * 300)
    assert granted >= 300
    granted = 0
    _encoded(Broker(), [DescribeConfigsResource(99, "plain", None)] * 300)
    assert granted >= 300
    granted = 0
    _encoded(Broker(), [DescribeConfigsResource(TOPIC, "plain", ["x"] * 20_000)])
    assert granted >= 4


def test_a_response_larger_than_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "MOST_RESPONSE_BYTES", 100_000)
    with pytest.raises(RefusedError, match="has more than 100000 bytes"):
        _encoded(Broker(), [DescribeConfigsResource(BROKER, "0", None)] * 10)


def test_chosen_keys_count_towards_the_largest_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "MOST_RESPONSE_BYTES", 100_000)
    resources = [DescribeConfigsResource(TOPIC, "plain", ["retention.ms"])] * 2_000
    with pytest.raises(RefusedError, match="has more than 100000 bytes"):
        _encoded(Broker(), resources)


def test_equal_chosen_keys_share_their_bytes() -> None:
    keys = list(TOPIC_KEYS)[:20]
    chosen = [[*keys, "no.such.key"], keys[::-1]] * 1_000
    broker = Broker()
    _encoded(broker, [DescribeConfigsResource(TOPIC, "plain", None)])
    tracemalloc.start()
    response = _encoded(broker, [DescribeConfigsResource(TOPIC, "plain", each) for each in chosen])
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    writer = Writer()
    response.write(writer, 3)
    contents = [part for part in writer.parts() if isinstance(part, bytes)]
    assert (len(contents), len({id(part) for part in contents})) == (2_000, 1)


def test_chosen_keys_that_share_no_bytes_have_a_limit_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "MOST_CHOSEN_BYTES", 1_000)
    resources = [DescribeConfigsResource(TOPIC, "plain", [name]) for name in TOPIC_KEYS]
    _encoded(Broker(), [resources[0]] * 1_000)
    with pytest.raises(RefusedError, match="take more than 1000 bytes"):
        _encoded(Broker(), resources)


def test_a_resource_with_the_longest_name_is_answered() -> None:
    (result,) = _ask(Broker(), (BROKER, "x" * 32_767, None))
    assert result.error_code == 42
    assert len(result.error_message) < 1_100


def test_documentation_comes_on_request_from_version_3_on() -> None:
    resources = [DescribeConfigsResource(*each) for each in ((TOPIC, "plain"), (BROKER, "0"), (BROKER_LOGGER, "0"))]
    request = DescribeConfigsRequest(resources, include_documentation=True)
    topic, broker, loggers = Broker().send(request, 3).results
    assert {each.name: each.documentation for each in topic.configs} == {
        name: documentation.topic_documentation(name) for name in TOPIC_KEYS
    }
    assert {each.name: each.documentation for each in broker.configs} == {
        name: documentation.broker_documentation(name) for name in BROKER_KEYS
    }
    assert {each.documentation for each in loggers.configs} == {""}
    without = Broker().send(DescribeConfigsRequest(resources), 3).results
    assert {each.documentation for result in without for each in result.configs} == {None}
