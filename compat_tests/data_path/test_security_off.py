"""The APIs of security, features and quotas without security, as a running Apache Kafka 2.7.2 answers them."""

from typing import Any

import pytest

from compat_tests.groups.wire import Wire
from compat_tests.process import Broker
from compat_tests.scenarios import IN_KRAFT
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafkapy.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkapy.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

ANY, LITERAL = 1, 3
MANY = 10_000
NO_AUTHORIZER = (54, "No Authorizer is configured on the broker.")
REPEATED_DESCRIPTION = "Cannot describe SCRAM credentials for the same user twice in a single request: b"
UNKNOWN_FEATURE = "Could not apply finalized feature update because the provided feature is not supported."

pytestmark = pytest.mark.differs(*IN_KRAFT, reason="has features and credentials in its own metadata, and other texts")


def ask(broker: Broker, request: Any, version: int) -> Any:
    with Wire(broker.bootstrap) as wire:
        return wire.ask(request, version)


def codes(items: list[Any]) -> list[tuple[int, str | None]]:
    return [(each.error_code, each.error_message) for each in items]


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["PLAIN", "NO-SUCH"])
def test_a_handshake_is_refused(broker: Broker, mechanism: str, version: int) -> None:
    answer = ask(broker, SaslHandshakeRequest(mechanism), version)
    assert (answer.error_code, answer.mechanisms) == (34, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_authentication_is_refused(broker: Broker, version: int) -> None:
    answer = ask(broker, SaslAuthenticateRequest(b"\0user\0password"), version)
    text = "SaslAuthenticate request received after successful authentication"
    assert (answer.error_code, answer.error_message) == (34, text)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_access_control_lists_are_disabled(broker: Broker, version: int) -> None:
    pattern = ANY if version else LITERAL
    described = ask(broker, DescribeAclsRequest(ANY, None, pattern, None, None, ANY, ANY), version)
    assert (described.error_code, described.error_message) == (54, "No Authorizer is configured on the broker")
    assert described.resources == []
    for count in (0, 2, MANY):
        created = ask(broker, CreateAclsRequest([AclCreation(2, "t", LITERAL, "User:a", "*", 3, 3)] * count), version)
        assert codes(created.results) == [NO_AUTHORIZER] * count
        each = DeleteAclsFilter(ANY, None, pattern, None, None, ANY, ANY)
        deleted = ask(broker, DeleteAclsRequest([each] * count), version)
        assert codes(deleted.filter_results) == [NO_AUTHORIZER] * count


@pytest.mark.parametrize("version", [0, 1, 2])
def test_delegation_tokens_are_refused(broker: Broker, version: int) -> None:
    created = ask(broker, CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    times = (created.issue_timestamp_ms, created.expiry_timestamp_ms, created.max_timestamp_ms)
    assert (created.error_code, created.principal_type, created.principal_name) == (64, "User", "ANONYMOUS")
    assert (times, created.token_id, created.hmac) == ((-1, -1, -1), "", b"")
    for request in (RenewDelegationTokenRequest(b"hmac", 5), ExpireDelegationTokenRequest(b"hmac", 5)):
        answer = ask(broker, request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (64, -1)
    owners: list[Any] | None
    for owners in (None, []):
        answer = ask(broker, DescribeDelegationTokenRequest(owners), version)
        assert (answer.error_code, answer.tokens) == (64, [])


def test_there_are_no_quotas(broker: Broker) -> None:
    for asked in ([], [ComponentData("user", 0, "a")], [ComponentData("client-id", 2, None)]):
        answer = ask(broker, DescribeClientQuotasRequest(asked, False), 0)
        assert (answer.error_code, answer.error_message, answer.entries) == (0, None, [])


def test_filters_and_changes_of_quotas_are_checked(broker: Broker) -> None:
    def described(*components: ComponentData) -> tuple[int, str | None, Any]:
        answer = ask(broker, DescribeClientQuotasRequest(list(components), False), 0)
        return answer.error_code, answer.error_message, answer.entries

    assert described(ComponentData("ip", 2, None)) == (35, "Custom entity type 'ip' not supported", None)
    user, client = ComponentData("user", 2, None), ComponentData("client-id", 2, None)
    assert described(user, user) == (42, "Duplicate user filter component entity type", None)
    assert described(client, user, client) == (42, "Duplicate client filter component entity type", None)
    assert described(ComponentData("", 2, None)) == (42, "Unexpected empty filter component entity type", None)

    def altered(entity: list[tuple[str, str | None]], *keys: str) -> tuple[int, str | None]:
        changes = [OpData(key, 5.0, False) for key in keys]
        entry = RequestEntryData([EntityData(*each) for each in entity], changes)
        (answer,) = ask(broker, AlterClientQuotasRequest([entry], True), 0).entries
        return answer.error_code, answer.error_message

    rate = "producer_byte_rate"
    assert altered([("ip", "x")], rate) == (42, "Unhandled client quota entity type: ip")
    assert altered([("user", "")], rate) == (42, "Empty user not supported")
    assert altered([("user", "x")], rate, "no_such_rate") == (42, "Invalid configuration key no_such_rate")
    assert altered([], rate)[0] == 42


def test_there_are_no_scram_credentials(broker: Broker) -> None:
    asked: list[Any] | None
    for asked in (None, []):
        answer = ask(broker, DescribeUserScramCredentialsRequest(asked), 0)
        assert (answer.error_code, answer.error_message, answer.results) == (0, "", [])
    answer = ask(broker, DescribeUserScramCredentialsRequest([UserName(name) for name in ("a", "", "b", "b")]), 0)
    assert {each.user: (each.error_code, each.error_message) for each in answer.results} == {
        "a": (91, "Attempt to describe a user credential that does not exist: a"),
        "": (91, "Username must not be empty"),
        "b": (92, REPEATED_DESCRIPTION),
    }
    deletions = [("gone", 1), ("odd", 9), ("", 1), ("twice", 1), ("twice", 1)]
    wanted = [ScramCredentialDeletion(*each) for each in deletions]
    answer = ask(broker, AlterUserScramCredentialsRequest(wanted, []), 0)
    assert {each.user: (each.error_code, each.error_message) for each in answer.results} == {
        "gone": (91, "Attempt to delete a user credential that does not exist"),
        "odd": (33, "Unknown SCRAM mechanism"),
        "": (93, "Username must not be empty"),
        "twice": (92, "A user credential cannot be altered twice in the same request"),
    }


def test_there_are_no_features(broker: Broker) -> None:
    updates = [FeatureUpdateKey("metadata.version", 3, False)] * 2
    answer = ask(broker, UpdateFeaturesRequest(60_000, updates), 0)
    found = [(each.feature, each.error_code, each.error_message) for each in answer.results]
    assert (answer.error_code, found) == (0, [("metadata.version", 42, UNKNOWN_FEATURE)])
    assert codes(ask(broker, UpdateFeaturesRequest(60_000, [FeatureUpdateKey("", 3, True)]), 0).results) == [
        (42, "Feature name can not be empty.")
    ]


def test_configurations_have_the_order_of_hash_maps(broker: Broker, topic_name: str) -> None:
    """Compared as a whole: programs that print what they get print the same."""
    created = ask(broker, CreateTopicsRequest([CreatableTopic(topic_name, 1, 1)], 20_000), 5).topics[0]
    names = [each.name for each in created.configs]
    assert names[:4] == [
        "compression.type",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "message.downconversion.enable",
    ]
    resources = [DescribeConfigsResource(ResourceType.TOPIC, topic_name, None)]
    (described,) = ask(broker, DescribeConfigsRequest(resources, False, False), 3).results
    assert [each.name for each in described.configs][:6] == [
        "compression.type",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "min.insync.replicas",
        "segment.jitter.ms",
        "cleanup.policy",
    ]
    few = ["retention.ms", "segment.bytes", "cleanup.policy", "no.such.key"]
    resources = [DescribeConfigsResource(ResourceType.TOPIC, topic_name, few)]
    (described,) = ask(broker, DescribeConfigsRequest(resources, False, False), 3).results
    assert [each.name for each in described.configs] == ["cleanup.policy", "segment.bytes", "retention.ms"]
