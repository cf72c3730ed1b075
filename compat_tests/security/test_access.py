"""Access control beside Apache Kafka 2.7.2: each API with no rights, with some of them, and with all.

Both brokers have a ZooKeeper and the same ACLs for the one principal of a listener without authentication. Apache Kafka
needs rights for its requests to itself: it sends them over a listener with SASL, as a super user.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from compat_tests.cluster.both import APACHE
from compat_tests.security.rights import EVERYTHING, Rights
from harness.cases.access_cases import ROWS, committed
from harness.cluster import CHROOTS, SETTINGS
from harness.kafkapy_process import KafkapyProcess
from harness.process import HOST, Broker, free_port, wait_for
from harness.real_kafka import RealKafka, ZooKeeper
from harness.wire import Wire
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequest
from kafkapy.security.acls import AclEntry, ResourcePattern

pytestmark = [pytest.mark.java, pytest.mark.together, pytest.mark.timeout(600)]

AUTHORIZER: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:broker;User:admin",
    "auto.create.topics.enable": "false",
}
DENIED: Final = frozenset({29, 30, 31, 53})
_REQUEST: Final = re.compile(r"Request Request\(.*\) is not authorized\.", re.DOTALL)


class Side(NamedTuple):
    """One broker, and the rights of the client on it."""

    name: str
    bootstrap: str
    rights: Rights

    def ask(self, request: Any, version: int) -> Any:
        with Wire(self.bootstrap) as wire:
            return wire.ask(request, version)


def _apache_settings(broker: Broker, chroot_connect: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        **AUTHORIZER,
        "zookeeper.connect": chroot_connect,
        "listeners": f"PLAINTEXT://{broker.bootstrap},INTERNAL://{HOST}:{free_port()}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.internal.plain.sasl.jaas.config": (
            f'{module} required username="broker" password="secret" user_broker="secret";'
        ),
    }


@pytest.fixture(scope="module")
def sides(zookeeper: ZooKeeper) -> Iterator[list[Side]]:
    """Apache Kafka and kafkapy, each below a chroot of the ZooKeeper."""
    chroots = next(CHROOTS), next(CHROOTS)
    apache = RealKafka(APACHE, zookeeper=zookeeper, heap="256M")
    apache.overrides = _apache_settings(apache, f"{zookeeper.bootstrap}{chroots[0]}")
    ours = KafkapyProcess(
        config={**SETTINGS, **AUTHORIZER, "broker.id": "0", "zookeeper.connect": f"{zookeeper.bootstrap}{chroots[1]}"}
    )
    names = "Apache Kafka", "kafkapy"
    with apache, ours:
        made = [
            Side(name, broker.bootstrap, Rights(zookeeper.port, chroot, broker.bootstrap))
            for name, broker, chroot in zip(names, (apache, ours), chroots, strict=True)
        ]
        for side in made:
            _prepare(side)
        yield made


def _prepare(side: Side) -> None:
    side.rights.allow(*EVERYTHING)
    topics = [CreatableTopic(name, 1, 1) for name in ("t", "hidden")]
    answer = side.ask(CreateTopicsRequest(topics, timeout_ms=20_000), 4)
    assert {topic.error_code for topic in answer.topics} <= {0, 36}, side.name

    def has_coordinators() -> bool:
        found = [side.ask(FindCoordinatorRequest(key, kind), 3).error_code for key, kind in (("g", 0), ("x", 1))]
        commit = side.ask(OffsetCommitRequest("g", topics=committed("t", "hidden")), 7)
        return found == [0, 0] and all(row.error_code == 0 for topic in commit.topics for row in topic.partitions)

    assert wait_for(has_coordinators, 60), side.name


def codes(value: Any) -> set[int]:
    """All error codes in a response, but 0."""
    found: set[int] = set()
    for each in value if isinstance(value, list) else ():
        found |= codes(each)
    for slot in value.__slots__ if isinstance(value, Message) else ():
        content = getattr(value, slot)
        found |= {content} if slot.endswith("error_code") else codes(content)
    return found - {0}


def denials(value: Any) -> list[str]:
    """The parts of a response with a code of a denial, with their fields, in an order of their own."""
    found: list[str] = []
    for each in value if isinstance(value, list) else ():
        found += denials(each)
    if isinstance(value, Message):
        fields = {slot: getattr(value, slot) for slot in value.__slots__}
        for content in fields.values():
            found += denials(content)
        if DENIED & {content for slot, content in fields.items() if slot.endswith("error_code")}:
            plain = {slot: _plain(content) for slot, content in fields.items() if slot != "throttle_time_ms"}
            found.append(repr(plain))
    return sorted(found)


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return "…"
    if isinstance(value, list):
        return len(value)
    if isinstance(value, memoryview):
        return bytes(value)
    return _REQUEST.sub("Request is not authorized.", value) if isinstance(value, str) else value


@pytest.mark.parametrize("name", ROWS)
def test_denials_are_those_of_apache_kafka(name: str, sides: list[Side]) -> None:
    row = ROWS[name]
    for rights, expected in row.answers:
        found = []
        for side in sides:
            side.rights.allow(*rights)
            found.append(side.ask(row.request, row.version))
        apache, ours = found
        assert codes(apache) == expected, f"Apache Kafka with {rights}: {apache!r}"
        assert codes(ours) == expected, f"kafkapy with {rights}: {ours!r}"
        assert denials(ours) == denials(apache), rights


def test_metadata_hide_the_same_topics(sides: list[Side]) -> None:
    named = MetadataRequest(
        [MetadataRequestTopic(name=each) for each in ("t", "hidden", "missing", "__consumer_offsets")]
    )
    named.include_topic_authorized_operations = named.include_cluster_authorized_operations = True
    everything = MetadataRequest(None, include_cluster_authorized_operations=True)
    for rights in (EVERYTHING[:1], EVERYTHING[3:], ()):
        answers = []
        for side in sides:
            side.rights.allow(*rights)
            for request in (named, everything):
                answer = side.ask(request, 9)
                topics = {
                    topic.name: (topic.error_code, topic.is_internal, topic.topic_authorized_operations)
                    for topic in answer.topics
                }
                answers.append((topics, answer.cluster_authorized_operations))
        assert answers[:2] == answers[2:], rights


def _acl(**fields: Any) -> AclCreation:
    defaults: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:b",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return AclCreation(**(defaults | fields))


CREATIONS: Final = {
    "several": [_acl(), _acl(), _acl(resource_pattern_type=4), _acl(resource_type=3, permission_type=2, operation=2)],
    "empty name": [_acl(resource_name=""), _acl()],
    "another cluster": [_acl(resource_type=4), _acl(resource_type=4, resource_name="kafka-cluster")],
    "unknown type": [_acl(resource_type=9), _acl()],
    "unknown operation": [_acl(operation=99), _acl()],
    "any type": [_acl(resource_type=1), _acl()],
    "match": [_acl(resource_pattern_type=2), _acl()],
    "any operation": [_acl(operation=1), _acl()],
    "any permission": [_acl(permission_type=1), _acl()],
    "no principal type": [_acl(principal="b"), _acl(), _acl(resource_name="u")],
    "slash": [_acl(resource_type=3, resource_name="a/b"), _acl()],
    "nothing": [],
}
TEXT_OF_OUR_OWN: Final = {"no principal type", "slash", "any type", "match", "any operation", "any permission"}
"""2.7.2 has the texts of Java's and ZooKeeper's exceptions there."""
FILTERS: Final = [
    DeleteAclsFilter(2, "t", 3, None, None, 1, 1),
    DeleteAclsFilter(1, None, 2, "User:b", "*", 1, 1),
    DeleteAclsFilter(2, "none", 3, None, None, 1, 1),
    DeleteAclsFilter(2, "t", 4, "User:b", None, 99, 1),
]


@pytest.mark.parametrize("name", CREATIONS)
def test_acls_are_changed_as_by_apache_kafka(name: str, sides: list[Side]) -> None:
    answers: list[Any] = []
    for side in sides:
        side.rights.allow(*EVERYTHING)
        created = side.ask(CreateAclsRequest(CREATIONS[name]), 2)
        results = [(each.error_code, each.error_message) for each in created.results]
        if name in TEXT_OF_OUR_OWN:
            results = [(code, None) for code, _ in results]
        stored = {pattern: found for pattern, found in side.rights.read().items() if _is_made(found)}
        described = side.ask(DescribeAclsRequest(1, None, 1, "User:b", None, 1, 1), 2)
        deleted = side.ask(DeleteAclsRequest(FILTERS), 2)
        answers.append((results, stored, _described(described), _deleted(deleted)))
    assert answers[1] == answers[0]


def _is_made(entries: set[AclEntry]) -> bool:
    return any(entry.principal == "User:b" for entry in entries)


def _described(response: Any) -> Any:
    found = {
        (ResourcePattern(each.resource_type, each.resource_name, each.pattern_type), *_fields(acl))
        for each in response.resources
        for acl in each.acls
    }
    return response.error_code, response.error_message, found


def _deleted(response: Any) -> Any:
    return [
        (
            result.error_code,
            result.error_message,
            {
                (each.resource_type, each.resource_name, each.pattern_type, *_fields(each))
                for each in result.matching_acls
            },
        )
        for result in response.filter_results
    ]


def _fields(acl: Any) -> tuple[Any, ...]:
    return acl.principal, acl.host, acl.operation, acl.permission_type


def test_settings_of_the_authorizer_are_described_as_by_apache_kafka(sides: list[Side]) -> None:
    answers = []
    names = ["authorizer.class.name", "super.users"]
    for side in sides:
        side.rights.allow(*EVERYTHING)
        answer = side.ask(DescribeConfigsRequest([DescribeConfigsResource(4, "0", names)], include_synonyms=True), 3)
        answers.append(
            {
                each.name: (each.value, each.read_only, each.config_source, each.is_sensitive, each.config_type)
                for each in answer.results[0].configs
            }
        )
    assert answers[1] == answers[0]
