"""The APIs of security, quotas and features, which a broker without them answers as Apache Kafka 2.7.2 does."""

import logging
from pathlib import Path
from typing import Any

import pytest

from harness.client import Client, frame
from kafkapy import kafka_texts
from kafkapy.metrics import MOST_SASL_ADDRESSES, SaslLines
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages import alter_client_quotas as alter_quotas
from kafkapy.protocol.messages import alter_user_scram_credentials as alter_scram
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafkapy.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.server.harness import run, running_broker, until

MANY = 10_000
ANY = 1
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def _answer(tmp_path: Path, request: Any, version: int) -> Any:
    answers: list[Any] = []

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            answers.append(await (await Client.connect(broker)).ask(request, version))

    run(scenario())
    return answers[0]


@pytest.mark.parametrize("version", [0, 1])
def test_no_mechanism_is_offered(version: int, tmp_path: Path) -> None:
    answer = _answer(tmp_path, SaslHandshakeRequest("PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_sasl_messages_are_refused(version: int, tmp_path: Path) -> None:
    answer = _answer(tmp_path, SaslAuthenticateRequest(b"\0user\0password"), version)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received after successful authentication",
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_there_are_no_access_control_lists(version: int, tmp_path: Path) -> None:
    pattern = ANY if version else 3
    answer = _answer(tmp_path, DescribeAclsRequest(ANY, None, pattern, None, None, ANY, ANY), version)
    assert (answer.error_code, answer.error_message, answer.resources) == (
        ErrorCode.SECURITY_DISABLED,
        "No Authorizer is configured on the broker",
        [],
    )


@pytest.mark.parametrize("count", [0, 2, MANY])
def test_each_access_control_entry_is_refused(count: int, tmp_path: Path) -> None:
    created = _answer(tmp_path, CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)] * count), 2)
    refusal = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
    assert [(each.error_code, each.error_message) for each in created.results] == [refusal] * count


@pytest.mark.parametrize("count", [0, 2, MANY])
def test_each_filter_is_refused(count: int, tmp_path: Path) -> None:
    deleted = _answer(tmp_path, DeleteAclsRequest([DeleteAclsFilter(ANY, None, ANY, None, None, ANY, ANY)] * count), 2)
    refusal = (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.", [])
    found = [(each.error_code, each.error_message, each.matching_acls) for each in deleted.filter_results]
    assert found == [refusal] * count


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_delegation_token_is_issued(version: int, tmp_path: Path) -> None:
    answer = _answer(tmp_path, CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (NOT_ALLOWED, "User", "ANONYMOUS")
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)
    assert (answer.token_id, answer.hmac) == ("", b"")


@pytest.mark.parametrize("request_class", [RenewDelegationTokenRequest, ExpireDelegationTokenRequest])
@pytest.mark.parametrize("version", [0, 2])
def test_no_delegation_token_is_changed(request_class: type[Any], version: int, tmp_path: Path) -> None:
    answer = _answer(tmp_path, request_class(b"hmac", 5), version)
    assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)


@pytest.mark.parametrize("version", [0, 2])
def test_no_delegation_token_is_described(version: int, tmp_path: Path) -> None:
    answer = _answer(tmp_path, DescribeDelegationTokenRequest(None), version)
    assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, [])


def test_there_are_no_quotas(tmp_path: Path) -> None:
    described = _answer(tmp_path, DescribeClientQuotasRequest([], False), 0)
    assert (described.error_code, described.error_message, described.entries) == (0, None, [])


@pytest.mark.parametrize("users", [None, []])
def test_no_user_has_scram_credentials(users: list[UserName] | None, tmp_path: Path) -> None:
    answer = _answer(tmp_path, DescribeUserScramCredentialsRequest(users), 0)
    assert (answer.error_code, answer.error_message, answer.results) == (0, "", [])


def test_each_user_is_described_once(tmp_path: Path) -> None:
    names = ["a", "", *["b"] * MANY]
    answer = _answer(tmp_path, DescribeUserScramCredentialsRequest([UserName(name) for name in names]), 0)
    assert [(each.user, each.error_code, each.error_message) for each in answer.results] == [
        ("a", ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.no_scram_credential("a")),
        ("", ErrorCode.RESOURCE_NOT_FOUND, "Username must not be empty"),
        ("b", ErrorCode.DUPLICATE_RESOURCE, kafka_texts.scram_user_repeated("b")),
    ]


def test_scram_credentials_are_stored_without_the_password(tmp_path: Path) -> None:
    def upsertion(mechanism: int, iterations: int) -> alter_scram.ScramCredentialUpsertion:
        return alter_scram.ScramCredentialUpsertion("new", mechanism, iterations, b"salt", b"password")

    deletion = alter_scram.ScramCredentialDeletion
    changes = [
        alter_scram.AlterUserScramCredentialsRequest([deletion("gone", 1)], [upsertion(1, 4096)]),
        alter_scram.AlterUserScramCredentialsRequest([], [upsertion(2, 8192)]),
        alter_scram.AlterUserScramCredentialsRequest([deletion("new", 1)], []),
    ]
    described = DescribeUserScramCredentialsRequest(None)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            found = []
            for request in changes:
                answer = await client.ask(request, 0)
                found.append([(each.user, each.error_code, each.error_message) for each in answer.results])
                await until(lambda: bool(broker.services.config_admin.cached_user_overrides("new")))
            refusal = ("gone", ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE)
            assert found == [[refusal, ("new", 0, "")], [("new", 0, "")], [("new", 0, "")]]
            stored = await broker.services.config_admin.user_overrides("new")
            assert list(stored) == ["SCRAM-SHA-512"]
            assert "iterations=8192" in stored["SCRAM-SHA-512"]
            await until(lambda: len(broker.services.config_admin.cached_user_overrides("new")) == 1)
            [user] = (await client.ask(described, 0)).results
            assert [(each.mechanism, each.iterations) for each in user.credential_infos] == [(2, 8192)]

    run(scenario())


def test_changes_of_credentials_have_the_first_reason_of_2_7_2(tmp_path: Path) -> None:
    def deletion(name: str, mechanism: int) -> alter_scram.ScramCredentialDeletion:
        return alter_scram.ScramCredentialDeletion(name, mechanism)

    def upsertion(name: str, mechanism: int, iterations: int) -> alter_scram.ScramCredentialUpsertion:
        return alter_scram.ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"password")

    request = alter_scram.AlterUserScramCredentialsRequest(
        [deletion("gone", 1), deletion("twice", 1), deletion("both", 2), deletion("", 9), deletion("odd", 3)],
        [
            upsertion("twice", 1, 4096),
            upsertion("both", 1, 4096),
            upsertion("few", 1, 4095),
            upsertion("many", 2, 16385),
        ],
    )
    answer = _answer(tmp_path, request, 0)
    assert [(each.user, each.error_code, each.error_message) for each in answer.results] == [
        ("", ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.EMPTY_USER_NAME),
        ("odd", ErrorCode.UNSUPPORTED_SASL_MECHANISM, kafka_texts.UNKNOWN_SCRAM_MECHANISM),
        ("few", ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.TOO_FEW_ITERATIONS),
        ("many", ErrorCode.UNACCEPTABLE_CREDENTIAL, kafka_texts.TOO_MANY_ITERATIONS),
        ("twice", ErrorCode.DUPLICATE_RESOURCE, kafka_texts.SCRAM_CHANGE_REPEATED),
        ("gone", ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE),
        ("both", ErrorCode.RESOURCE_NOT_FOUND, kafka_texts.NO_SCRAM_CREDENTIAL_TO_DELETE),
    ]


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_an_access_control_entry_of_an_unknown_type_closes_the_connection(field: str, tmp_path: Path) -> None:
    fine = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
    odd = AclCreation(2, "t", 3, "User:a", "*", 3, 3)
    setattr(odd, field, 0)

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)
            client.send(frame(CreateAclsRequest([fine, odd]), 2))
            assert await client.is_closed()

    run(scenario())


@pytest.mark.parametrize(
    ("conditions", "code", "text"),
    [
        ([("user", 0, "a"), ("client-id", 1, None)], 0, None),
        ([("user", 2, None), ("user", 0, "a")], ErrorCode.INVALID_REQUEST, kafka_texts.quota_filter_repeated("user")),
        ([("", 0, "a")], ErrorCode.INVALID_REQUEST, kafka_texts.EMPTY_QUOTA_FILTER),
        ([("ip", 2, None)], ErrorCode.UNSUPPORTED_VERSION, kafka_texts.custom_quota_entity("ip")),
    ],
)
def test_conditions_for_quotas_are_checked(
    conditions: list[tuple[str, int, str | None]], code: int, text: str | None, tmp_path: Path
) -> None:
    request = DescribeClientQuotasRequest([ComponentData(*each) for each in conditions], True)
    answer = _answer(tmp_path, request, 0)
    assert (answer.error_code, answer.error_message, answer.entries) == (code, text, None if code else [])


def _altered(tmp_path: Path, entries: list[alter_quotas.RequestEntryData]) -> list[tuple[int, str | None, list[Any]]]:
    answer = _answer(tmp_path, alter_quotas.AlterClientQuotasRequest(entries, True), 0)
    return [
        (each.error_code, each.error_message, [(named.entity_type, named.entity_name) for named in each.entity])
        for each in answer.entries
    ]


@pytest.mark.parametrize("value", [0.0, 1.0000001, -1e-7, 2.0**63, float("nan")])
def test_whole_quotas_are_valid(value: float, tmp_path: Path) -> None:
    user = [alter_quotas.EntityData("user", "a")]
    change = alter_quotas.OpData("consumer_byte_rate", value, False)
    assert _altered(tmp_path, [alter_quotas.RequestEntryData(user, [change])]) == [(0, None, [("user", "a")])]


@pytest.mark.parametrize("value", [0.5, 1.00001, -1.0, 1e300, float("inf"), float("-inf")])
def test_quotas_in_bytes_are_whole_numbers(value: float, tmp_path: Path) -> None:
    user = [alter_quotas.EntityData("user", "a")]
    change = alter_quotas.OpData("consumer_byte_rate", value, False)
    [(code, text, _)] = _altered(tmp_path, [alter_quotas.RequestEntryData(user, [change])])
    assert (code, text) == (ErrorCode.INVALID_REQUEST, kafka_texts.quota_is_no_integer("consumer_byte_rate"))


def test_an_entity_is_answered_once_by_its_last_changes(tmp_path: Path) -> None:
    both = [alter_quotas.EntityData("user", "a"), alter_quotas.EntityData("client-id", None)]
    unknown, removed = alter_quotas.OpData("x", 1.0, False), alter_quotas.OpData("x", 1.0, True)
    entries = [alter_quotas.RequestEntryData(both, [removed]), alter_quotas.RequestEntryData(both[::-1], [unknown])]
    refusal = (ErrorCode.INVALID_REQUEST, kafka_texts.unknown_quota_key("x"))
    assert _altered(tmp_path, entries) == [(*refusal, [("client-id", None), ("user", "a")])]
    [(code, _, _)] = _altered(tmp_path / "other", entries[::-1])
    assert code == 0, "keys that are removed are not checked"


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ([], kafka_texts.NO_QUOTA_ENTITY),
        ([("ip", "x")], kafka_texts.unknown_quota_entity("ip")),
        ([("client-id", "")], kafka_texts.empty_quota_entity("client-id")),
    ],
)
def test_entities_of_quotas_are_checked(entity: list[tuple[str, str]], text: str, tmp_path: Path) -> None:
    entry = alter_quotas.RequestEntryData([alter_quotas.EntityData(*each) for each in entity], [])
    assert _altered(tmp_path, [entry]) == [(ErrorCode.INVALID_REQUEST, text, entity)]


@pytest.mark.parametrize(("match_type", "match"), [(3, "a"), (-1, "a"), (0, None)])
def test_conditions_for_quotas_without_a_match_are_refused(match_type: int, match: str | None, tmp_path: Path) -> None:
    request = DescribeClientQuotasRequest([ComponentData("bogus", 0, "a"), ComponentData("user", match_type, match)])
    answer = _answer(tmp_path, request, 0)
    assert (answer.error_code, answer.entries) == (ErrorCode.INVALID_REQUEST, None)


def test_the_longest_type_of_an_entity_is_shown_in_part(tmp_path: Path) -> None:
    answer = _answer(tmp_path, DescribeClientQuotasRequest([ComponentData("x" * 32_767, 2, None)]), 0)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(answer.error_message) < 2_000


def test_no_feature_is_known(tmp_path: Path) -> None:
    updates = [
        *(FeatureUpdateKey("metadata.version", 3, False), FeatureUpdateKey("f", 1, False)),
        *(FeatureUpdateKey("", 1, True), FeatureUpdateKey("low", -1, False), FeatureUpdateKey("f", 0, True)),
    ]
    answer = _answer(tmp_path, UpdateFeaturesRequest(60_000, updates), 0)
    assert answer.error_code == 0
    assert {each.error_code for each in answer.results} == {ErrorCode.INVALID_REQUEST}
    assert [(each.feature, each.error_message) for each in answer.results] == [
        ("metadata.version", kafka_texts.UNSUPPORTED_FEATURE),
        ("f", kafka_texts.NO_FEATURE_TO_DELETE),
        ("", kafka_texts.EMPTY_FEATURE_NAME),
        ("low", kafka_texts.feature_level_too_low(-1)),
    ]


def test_a_client_that_wants_sasl_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for _ in range(3):
                client = await Client.connect(broker)
                await client.ask(SaslHandshakeRequest("PLAIN"), 1)
                await client.ask(SaslAuthenticateRequest(b"\0secret"), 2)

    with caplog.at_level(logging.INFO):
        run(scenario())
    lines = [record.getMessage() for record in caplog.records if "SASL" in record.getMessage()]
    assert len(lines) == 1
    assert "127.0.0.1" in lines[0]
    assert "secret" not in caplog.text


def test_a_line_for_each_address_and_minute() -> None:
    lines = SaslLines()
    assert lines.may_log("10.0.0.1", 0.0)
    assert not lines.may_log("10.0.0.1", 59.9)
    assert lines.may_log("10.0.0.2", 59.9)
    assert lines.may_log("10.0.0.1", 60.0)
    assert not lines.may_log("10.0.0.1", 119.0)


def test_the_remembered_addresses_are_bounded() -> None:
    lines = SaslLines()
    assert all(lines.may_log(str(address), 0.0) for address in range(MOST_SASL_ADDRESSES + 1))
    assert lines.may_log("0", 1.0)  # forgotten
    assert not lines.may_log(str(MOST_SASL_ADDRESSES), 1.0)
