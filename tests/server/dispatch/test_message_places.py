from importlib import import_module
from pathlib import Path
from uuid import UUID

import pytest

from harness.client import Client
from kafkapy.network.session import Session
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages import response_class
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.places import PLACES
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.message_places import (
    NamedResource,
    groups_in,
    names_groups,
    names_in,
    names_partitions,
    names_topics,
)
from kafkapy.server.handlers import REGISTRY
from tests.server.harness import run, running_broker
from tests.testing.requests import RESULTS, TOPIC, request_of


@pytest.mark.parametrize("key", PLACES, ids=lambda key: ApiKey(key).name)
def test_every_place_is_in_the_messages(key: int) -> None:
    request, response = request_of(key), response_class(key)()
    module = import_module(response_class(key).__module__)
    for place in PLACES[key]:
        (asked,) = getattr(request, place.request)
        assert getattr(response, place.response) == []
        response, request = getattr(module, place.item)(), asked
        getattr(response, place.answered)
    getattr(response, PLACES[key][-1].error)


def test_responses_without_places_have_one_error_code() -> None:
    of_partitions = {ApiKey.STOP_REPLICA, ApiKey.LEADER_AND_ISR, ApiKey.ALTER_REPLICA_LOG_DIRS}
    without = {ApiKey.METADATA, ApiKey.UPDATE_METADATA, *of_partitions, *RESULTS}
    for api in REGISTRY.values():
        if api.key not in PLACES and api.key not in without:
            assert response_class(api.key)(error_code=5).error_code == 5  # type: ignore[call-arg, attr-defined]  # they have it


def test_which_apis_name_topics_and_partitions() -> None:
    assert names_topics(ApiKey.DESCRIBE_CONFIGS)
    assert names_topics(ApiKey.METADATA)
    assert not names_topics(ApiKey.DESCRIBE_GROUPS)
    assert not names_topics(ApiKey.HEARTBEAT)
    assert names_partitions(ApiKey.WRITE_TXN_MARKERS)
    assert not names_partitions(ApiKey.CREATE_TOPICS)


def test_which_requests_name_groups() -> None:
    """Every API whose request has a field for a group, by its messages, is one that names groups."""
    fields = {"group_id", "group_ids", "groups", "groups_names"}
    for api in REGISTRY.values():
        request = request_of(api.key)
        has_field = bool(fields & set(request.__slots__)) or api.key == ApiKey.FIND_COORDINATOR
        assert names_groups(api.key) == has_field, api.module
        if has_field:
            lists = (ApiKey.DESCRIBE_GROUPS, ApiKey.DELETE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE)
            named = "group" if api.key in lists else ""
            assert groups_in(api.key, request) == [named], api.module
        else:
            assert groups_in(api.key, request) == [], api.module
    assert groups_in(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("g")) == ["g"]
    assert groups_in(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("t", 1)) == [], "a transactional id"
    assert groups_in(ApiKey.API_VERSIONS, None) == []


def test_named_in_lists_topics_partitions_and_groups(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            await client.create_topic("a", 2)

            def named(request: object, key: int, version: int = 4) -> set[NamedResource]:
                header = RequestHeader(key, version, 1, "me")
                context = RequestContext(broker.services, header, Session.local("PLAINTEXT"))
                return set(names_in(context, request))

            assert named(None, ApiKey.API_VERSIONS) == set()
            assert named(request_of(ApiKey.HEARTBEAT), ApiKey.HEARTBEAT) == set()
            assert named(request_of(ApiKey.PRODUCE), ApiKey.PRODUCE) == {NamedResource(TOPIC, 0)}
            assert named(request_of(ApiKey.CREATE_TOPICS), ApiKey.CREATE_TOPICS) == {NamedResource(TOPIC, None)}
            assert named(request_of(ApiKey.DELETE_GROUPS), ApiKey.DELETE_GROUPS) == {NamedResource(None, None, "group")}
            everything = {NamedResource("a", None), NamedResource("a", 0), NamedResource("a", 1)}
            assert named(MetadataRequest(None), ApiKey.METADATA) == everything
            assert named(MetadataRequest([]), ApiKey.METADATA, 0) == everything
            assert named(MetadataRequest([]), ApiKey.METADATA) == set()
            other = MetadataRequest([MetadataRequestTopic(name="new")])
            assert named(other, ApiKey.METADATA) == {NamedResource("new", None)}

            wishes = [FetchTopic("a", partitions=[FetchPartition(at) for at in (0, 1)])]
            opened = await client.ask(FetchRequest(session_epoch=0, topics=wishes), 11)
            later = FetchRequest(session_id=opened.session_id, session_epoch=1, topics=[])
            assert named(later, ApiKey.FETCH) == {NamedResource("a", 0), NamedResource("a", 1)}
            later.forgotten_topics_data = [ForgottenTopic("a", partitions=[1])]
            assert named(later, ApiKey.FETCH) == {NamedResource("a", 0)}

            ids = [await client.topic_id("a"), UUID(int=7)]
            by_id = [FetchTopic(topic_id=each, partitions=[FetchPartition(0)]) for each in ids]
            opened = await client.ask(FetchRequest(session_epoch=0, topics=by_id), 13)
            later = FetchRequest(session_id=opened.session_id, session_epoch=1, topics=[])
            assert named(later, ApiKey.FETCH) == {NamedResource("a", 0)}
            await client.close()

    run(scenario())
