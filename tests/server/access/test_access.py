"""A client with few rights: parts of responses, sessions, repeated requests, changes while it is connected."""

import logging
from pathlib import Path
from typing import Any

import pytest

from harness.cases.access_cases import on_cluster, on_group, on_topic
from harness.client import batch, fetch_request, frame, produce_request
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.network.session import Session
from kafkapy.protocol.constants import AclOperation as Op
from kafkapy.protocol.constants import AclPermissionType
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.heartbeat import HeartbeatRequest
from kafkapy.protocol.messages.list_groups import ListGroupsRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.server.access import control
from kafkapy.server.dispatch.context import RequestContext
from tests.server.access.guarded import ALICE, Guarded, client_of, guarded_broker
from tests.server.harness import has_form, run, running_broker

NOT_ASKED = -(2**31)


def _metadata(*names: str, **fields: Any) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], **fields)


def _topics(response: Any) -> dict[str, int]:
    return {topic.name: topic.error_code for topic in response.topics}


def _commit(group_id: str, *topics: str) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, 1)]) for topic in topics]
    return OffsetCommitRequest(group_id, topics=rows)


async def _create(guarded: Guarded, *topics: str) -> None:
    for topic in topics:
        await guarded.admin.create_topic(topic)


def test_metadata_hides_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a", "b")
            guarded.allow(on_topic(Op.DESCRIBE, "a"), on_topic(Op.DESCRIBE, "missing"))
            ask = guarded.alice.ask
            assert _topics(await ask(MetadataRequest(None), 9)) == {"a": 0}
            assert _topics(await ask(MetadataRequest([]), 0)) == {"a": 0}
            assert _topics(await ask(_metadata("b"), 0)) == {"b": 29}
            named = _metadata("a", "b", "missing", "other", GROUP_METADATA_TOPIC)
            answer = await ask(named, 9)
            assert _topics(answer) == {"a": 0, "b": 29, "missing": 29, "other": 29, GROUP_METADATA_TOPIC: 29}
            assert not any(topic.is_internal for topic in answer.topics)
            named.allow_auto_topic_creation = False
            assert _topics(await ask(named, 9))["missing"] == 3
            assert _topics(await guarded.admin.ask(_metadata("a", "b"), 9)) == {"a": 0, "b": 0}

    run(scenario())


@pytest.mark.parametrize("right", [on_cluster(Op.CREATE), on_topic(Op.CREATE, "new")])
def test_metadata_creates_topics_for_those_who_may(right: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            guarded.allow(right, on_topic(Op.DESCRIBE, "new"), on_topic(Op.DESCRIBE, GROUP_METADATA_TOPIC))
            assert _topics(await guarded.alice.ask(_metadata("new", "b"), 9)) == {"new": 5, "b": 29}
            if right == on_topic(Op.CREATE, "new"):
                answer = await guarded.alice.ask(_metadata(GROUP_METADATA_TOPIC), 9)
                assert (answer.topics[0].error_code, answer.topics[0].is_internal) == (29, True)

    run(scenario())


def test_operations_of_topics_cluster_and_groups(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a", "b")
            guarded.allow(on_topic(Op.READ, "a"), on_group(Op.READ), on_cluster(Op.CREATE))
            asked = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
            answer = await guarded.alice.ask(_metadata("a", "b", **asked), 9)
            assert {each.name: each.topic_authorized_operations for each in answer.topics} == {
                "a": 1 << Op.READ | 1 << Op.DESCRIBE,
                "b": NOT_ASKED,
            }
            assert answer.cluster_authorized_operations == 0
            guarded.allow(on_cluster(Op.DESCRIBE), on_group(Op.READ))
            answer = await guarded.alice.ask(_metadata("a", **asked), 9)
            assert answer.cluster_authorized_operations == 1 << Op.DESCRIBE
            answer = await guarded.admin.ask(_metadata("a", **asked), 9)
            assert answer.cluster_authorized_operations == 8096
            assert answer.topics[0].topic_authorized_operations == 3576
            await guarded.admin.ask(FindCoordinatorRequest("g", 0), 3)
            request = DescribeGroupsRequest(["other", "g", "other"], include_authorized_operations=True)
            answer = await guarded.alice.ask(request, 5)
            operations = 1 << Op.READ | 1 << Op.DESCRIBE
            assert [(each.group_id, each.error_code, each.authorized_operations) for each in answer.groups] == [
                ("other", 30, NOT_ASKED),
                ("g", 0, operations),
                ("other", 30, NOT_ASKED),
            ]

    run(scenario())


def test_groups_are_hidden(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a", "b")
            for group_id in ("g", "h"):
                await guarded.admin.ask(FindCoordinatorRequest(group_id, 0), 3)
                await guarded.admin.ask(_commit(group_id, "a", "b"), 7)

            async def listed() -> set[str]:
                return {each.group_id for each in (await guarded.alice.ask(ListGroupsRequest(), 4)).groups}

            assert await listed() == set()
            guarded.allow(on_group(Op.READ, "h"))
            assert await listed() == {"h"}
            guarded.allow(on_cluster(Op.DESCRIBE))
            assert await listed() == {"g", "h"}
            guarded.allow(on_group(Op.DESCRIBE), on_topic(Op.DESCRIBE, "b"))
            answer = await guarded.alice.ask(OffsetFetchRequest("g", None), 7)
            assert [topic.name for topic in answer.topics] == ["b"]

    run(scenario())


def test_data_directories_are_hidden(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            assert (await guarded.alice.ask(DescribeLogDirsRequest(None), 2)).results == []
            guarded.allow(on_cluster(Op.DESCRIBE))
            assert len((await guarded.alice.ask(DescribeLogDirsRequest(None), 2)).results) == 1

    run(scenario())


def _partitions(*topics: str) -> list[FetchTopic]:
    return [FetchTopic(topic, partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)]) for topic in topics]


def _fetched(response: Any) -> dict[str, tuple[int, int]]:
    """Topic → error code and bytes of the records."""
    return {
        topic.topic: (topic.partitions[0].error_code, len(topic.partitions[0].records or b""))
        for topic in response.responses
    }


def test_fetch_sessions_ask_at_each_fetch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a", "b")
            for topic in ("a", "b"):
                await guarded.admin.produce(topic, batch(b"v"))
            size = len(batch(b"v"))
            guarded.allow(on_topic(Op.READ, "a"))
            request = FetchRequest(
                replica_id=-1, max_wait_ms=0, min_bytes=1, session_epoch=0, topics=_partitions("a", "b")
            )
            first = await guarded.alice.ask(request, 11)
            assert _fetched(first) == {"a": (0, size), "b": (29, 0)}
            assert first.session_id
            further = FetchRequest(
                replica_id=-1, max_wait_ms=0, min_bytes=1, session_id=first.session_id, session_epoch=1
            )
            assert _fetched(await guarded.alice.ask(further, 11)) == {"a": (0, size), "b": (29, 0)}
            guarded.allow(on_topic(Op.READ, "a"), on_topic(Op.READ, "b"))
            further.session_epoch = 2
            assert _fetched(await guarded.alice.ask(further, 11)) == {"a": (0, size), "b": (0, size)}
            guarded.allow()
            further.session_epoch = 3
            assert _fetched(await guarded.alice.ask(further, 11)) == {"a": (29, 0), "b": (29, 0)}

    run(scenario())


def test_a_fetch_of_many_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a")
            await guarded.admin.produce("a", batch(b"v"))
            guarded.allow(on_topic(Op.READ, "a"))
            hidden = [f"hidden{number}" for number in range(1_000)]
            request = FetchRequest(replica_id=-1, max_wait_ms=0, min_bytes=1, topics=_partitions(*hidden, "a"))
            answer = _fetched(await guarded.alice.ask(request, 11))
            assert answer.pop("a") == (0, len(batch(b"v")))
            assert answer == dict.fromkeys(hidden, (29, 0))

    run(scenario())


def test_repeated_requests_are_asked_about_each_time(tmp_path: Path) -> None:
    """A form gives a request back; the rules stand behind it."""

    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "t")
            guarded.allow(on_topic(Op.WRITE, "t"), on_group(Op.READ))
            for _ in range(4):
                assert (await guarded.alice.produce("t", batch(b"v"))).error_code == 0
                assert (await guarded.alice.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code != 30
            assert has_form(guarded.broker, guarded.alice, 0, 8)
            assert has_form(guarded.broker, guarded.alice, 12, 4)
            guarded.allow()
            assert (await guarded.alice.produce("t", batch(b"v"))).error_code == 29
            assert (await guarded.alice.ask(HeartbeatRequest("g", 1, "m"), 4)).error_code == 30
            guarded.allow(on_topic(Op.WRITE, "t"))
            assert (await guarded.alice.produce("t", batch(b"v"))).error_code == 0

    run(scenario())


def test_a_part_of_a_produce_request(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a", "b")
            guarded.allow(on_topic(Op.WRITE, "a"))
            data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch(b"v"))]) for topic in "ab"]
            answer = await guarded.alice.ask(ProduceRequest(None, 1, 1000, data), 8)
            rows = {topic.name: topic.partition_responses[0] for topic in answer.responses}
            assert (rows["a"].error_code, rows["a"].base_offset) == (0, 0)
            assert (rows["b"].error_code, rows["b"].base_offset, rows["b"].log_start_offset) == (29, -1, -1)
            assert _fetched(await guarded.admin.fetch("b")) == {"b": (0, 0)}
            guarded.alice.send(frame(ProduceRequest(None, 0, 1000, data), 8))
            assert await guarded.alice.is_closed()
            assert _fetched(await guarded.admin.fetch("a")) == {"a": (0, 2 * len(batch(b"v")))}

    run(scenario())


def test_a_produce_without_an_answer_that_is_not_allowed_at_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "t")
            records = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0)
            guarded.alice.send(frame(produce_request("t", records, acks=0), 8))
            assert await guarded.alice.is_closed()

    run(scenario())


def test_a_response_that_comes_later_gets_the_denied_part_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "a", "b")
            guarded.allow(on_topic(Op.READ, "a"))
            request = FetchRequest(replica_id=-1, max_wait_ms=10_000, min_bytes=1, topics=_partitions("a", "b"))
            guarded.alice.send(frame(request, 11))
            await guarded.broker.clock.sleep(50)
            await guarded.admin.produce("a", batch(b"v"))
            answer = guarded.alice.decode(1, 11, await guarded.alice.receive())
            assert _fetched(answer) == {"a": (0, len(batch(b"v"))), "b": (29, 0)}

    run(scenario())


def test_topics_that_are_created_in_part(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            guarded.allow(on_topic(Op.CREATE, "a"), on_topic(Op.CREATE, "c"), on_topic(Op.DESCRIBE_CONFIGS, "c"))
            names = ["b", "a", "twice", "c", "twice"]
            answer = await guarded.alice.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names]), 5)
            rows = [(each.name, each.error_code, each.topic_config_error_code) for each in answer.topics]
            assert rows == [("b", 29, 29), ("a", 0, 29), ("twice", 42, 29), ("c", 0, 0), ("twice", 42, 29)]
            assert [each.num_partitions for each in answer.topics] == [-1, -1, -1, 1, -1]
            assert [len(each.configs) > 0 for each in answer.topics] == [False, False, False, True, False]
            assert answer.topics[0].error_message == "Authorization failed."
            guarded.allow(on_topic(Op.ALTER, "a"), on_topic(Op.DELETE, "a"))
            wanted = [CreatePartitionsTopic(name, 2, None) for name in ("b", "a", "c", "c")]
            answer = await guarded.alice.ask(CreatePartitionsRequest(wanted, 5000), 2)
            assert {each.name: each.error_code for each in answer.results} == {"a": 0, "b": 29, "c": 42}
            answer = await guarded.alice.ask(DeleteTopicsRequest(topic_names=["b", "a", "c"], timeout_ms=5000), 5)
            assert [(each.name, each.error_code) for each in answer.responses] == [("b", 29), ("a", 0), ("c", 29)]

    run(scenario())


def test_deletion_that_is_switched_off_comes_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path, delete__topic__enable="false") as guarded:
            for version, code in ((2, 42), (3, 73)):
                answer = await guarded.alice.ask(DeleteTopicsRequest(topic_names=["a"]), version)
                assert [each.error_code for each in answer.responses] == [code]

    run(scenario())


def test_the_versions_are_for_everybody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            assert (await guarded.alice.ask(ApiVersionsRequest("a", "1"), 3)).error_code == 0
            unknown = bytearray(frame(ApiVersionsRequest("a", "1"), 3))
            unknown[7] = 99
            guarded.alice.send(bytes(unknown))
            assert (await guarded.alice.receive())[4:6] == b"\x00\x23"

    run(scenario())


def test_an_api_without_a_rule_is_for_super_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "RULES", {})

    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            assert (await guarded.admin.ask(ApiVersionsRequest("a", "1"), 3)).error_code == 0
            guarded.allow(on_cluster(Op.ALL))
            guarded.alice.send(frame(ApiVersionsRequest("a", "1"), 3))
            assert await guarded.alice.is_closed()

    run(scenario())


def test_the_broker_itself_may_do_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            services = guarded.broker.services
            header = RequestHeader(3, 9, 1, "controller")
            assert RequestContext(services, header, Session.local("PLAINTEXT")).rights() is None
            assert RequestContext(services, header, Session(("127.0.0.1", 7), "x", ("", 1))).rights() is not None

    run(scenario())


def test_without_an_authorizer_everybody_may_do_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            assert broker.services.access is None
            client = await client_of(broker, ALICE)
            await client.create_topic("t")
            assert _topics(await client.ask(MetadataRequest(None), 9)) == {"t": 0}
            await client.close()

    run(scenario())


def test_many_names_do_not_block_other_clients(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            names = [f"topic-{number}" for number in range(20_000)]
            topics = [ListOffsetsTopic(name, [ListOffsetsPartition(0, -1, -1)]) for name in names]
            guarded.alice.send(frame(ListOffsetsRequest(-1, topics=topics), 5))
            for _ in range(5):
                assert (await guarded.admin.ask(ApiVersionsRequest("a", "1"), 3)).error_code == 0
            answer = guarded.alice.decode(2, 5, await guarded.alice.receive())
            assert [topic.name for topic in answer.topics] == names
            assert {topic.partitions[0].error_code for topic in answer.topics} == {29}

    run(scenario())


def test_denials_are_in_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
                await guarded.alice.fetch("secret")
                topics = [MetadataRequestTopic(name=f"t{number}") for number in range(1_000)]
                await guarded.alice.ask(MetadataRequest(topics), 9)
            assert guarded.broker.services.metrics.audit_lines.left_out > 500

    run(scenario())
    lines = [each.getMessage() for each in caplog.records if each.name == "kafka.authorizer.logger"]
    assert lines[0] == (
        "Principal = User:alice is Denied Operation = Read from host = 127.0.0.1 on resource = Topic:LITERAL:secret "
        "for request = Fetch"
    )
    assert len(lines) < 400


# ACLs of clients


def _acl(name: str = "t", operation: int = Op.READ, **fields: Any) -> AclCreation:
    defaults = {"resource_type": 2, "resource_pattern_type": 3, "principal": ALICE, "host": "*", "permission_type": 3}
    return AclCreation(resource_name=name, operation=operation, **(defaults | fields))


def _described(response: Any) -> set[tuple[Any, ...]]:
    return {
        (found.resource_type, found.resource_name, found.pattern_type, acl.principal, acl.operation)
        for found in response.resources
        for acl in found.acls
    }


ALL_ACLS = DescribeAclsRequest(1, None, 1, None, None, 1, 1)


def test_acls_hold_from_the_next_request_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "t", "t2")
            creations = [_acl(), _acl(), _acl("t", resource_pattern_type=4), _acl("g", resource_type=3)]
            answer = await guarded.admin.ask(CreateAclsRequest(creations), 2)
            assert [(each.error_code, each.error_message) for each in answer.results] == [(0, "")] * 4
            assert _fetched(await guarded.alice.fetch("t2")) == {"t2": (0, 0)}
            answer = await guarded.admin.ask(ALL_ACLS, 2)
            assert (answer.error_code, answer.error_message) == (0, "")
            entries = {(2, "t", 3, ALICE, 3), (2, "t", 4, ALICE, 3), (3, "g", 3, ALICE, 3)}
            assert _described(answer) == entries
            filters = [
                DeleteAclsFilter(2, "t", 4, None, None, 1, 1),
                DeleteAclsFilter(2, None, 1, ALICE, None, 1, 1),
                DeleteAclsFilter(6, None, 1, None, None, 1, 1),
            ]
            answer = await guarded.admin.ask(DeleteAclsRequest(filters), 2)
            deleted = [
                [(each.error_code, each.resource_name, each.pattern_type) for each in result.matching_acls]
                for result in answer.filter_results
            ]
            assert deleted == [[(0, "t", 4)], [(0, "t", 3)], []]
            assert _fetched(await guarded.alice.fetch("t2")) == {"t2": (29, 0)}
            assert _described(await guarded.admin.ask(ALL_ACLS, 2)) == {(3, "g", 3, ALICE, 3)}

    run(scenario())


def test_acls_survive_a_restart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"in_memory_metadata": False}

    async def scenario() -> None:
        async with guarded_broker(tmp_path, **settings) as guarded:
            await guarded.admin.ask(CreateAclsRequest([_acl(resource_pattern_type=4)]), 2)
        async with guarded_broker(tmp_path, **settings) as guarded:
            assert _described(await guarded.admin.ask(ALL_ACLS, 2)) == {(2, "t", 4, ALICE, 3)}
            await _create(guarded, "t")
            assert _fetched(await guarded.alice.fetch("t")) == {"t": (0, 0)}

    run(scenario())


INVALID = {
    "empty name": (_acl(""), 42, "Invalid empty resource name"),
    "another cluster": (
        _acl("c", resource_type=4),
        42,
        "The only valid name for the CLUSTER resource is kafka-cluster",
    ),
    "unknown type": (_acl(resource_type=9), 42, "Failed to create ACL"),
    "unknown operation": (_acl(operation=99), 42, "Failed to create ACL"),
    "no principal type": (_acl(principal="alice"), -1, "TYPE:NAME"),
    "no path": (_acl("a/b"), -1, "can't have"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_acls(name: str, tmp_path: Path) -> None:
    creation, code, text = INVALID[name]

    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            answer = await guarded.admin.ask(CreateAclsRequest([creation, _acl("fine")]), 2)
            assert [each.error_code for each in answer.results] == [code, 0]
            assert text in answer.results[0].error_message
            assert len(_described(await guarded.admin.ask(ALL_ACLS, 2))) == 1

    run(scenario())


def test_acls_with_the_values_of_filters_are_refused_together(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            for wrong in ({"resource_type": 1}, {"resource_pattern_type": 2}, {"operation": 1}, {"permission_type": 1}):
                answer = await guarded.admin.ask(CreateAclsRequest([_acl("fine"), _acl(**wrong)]), 2)
                assert [each.error_code for each in answer.results] == [-1, -1]
            guarded.admin.send(frame(CreateAclsRequest([_acl(operation=0)]), 2))
            assert await guarded.admin.is_closed()

    run(scenario())


def test_deny_comes_before_allow(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path) as guarded:
            await _create(guarded, "t")
            everybody = _acl("*", principal="User:*")
            await guarded.admin.ask(CreateAclsRequest([everybody, _acl("t", permission_type=2)]), 2)
            assert _fetched(await guarded.alice.fetch("t")) == {"t": (29, 0)}
            assert _fetched(await guarded.alice.ask(fetch_request("u"), 11)) == {"u": (3, 0)}
            guarded.allow(on_topic(Op.READ, "t"), permission=AclPermissionType.DENY)
            assert _fetched(await guarded.alice.fetch("t")) == {"t": (29, 0)}

    run(scenario())


def test_resources_without_acls_may_be_open(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guarded_broker(tmp_path, allow__everyone__if__no__acl__found="true") as guarded:
            await guarded.alice.create_topic("t")
            await guarded.admin.ask(CreateAclsRequest([_acl(principal="User:bob")]), 2)
            assert _fetched(await guarded.alice.fetch("t")) == {"t": (29, 0)}

    run(scenario())
