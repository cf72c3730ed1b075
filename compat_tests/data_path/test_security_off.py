"""The APIs of security, quotas and features on a broker without them: whole answers of Apache Kafka 2.7.2.

Run it with `--target kafka-2.7.2` too. Nothing here is stored, so the cases do not depend on each other. Beside usual
arguments there are hostile ones: numbers that no enumeration has, empty and null lists, names twice, 10,000 entries.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest

from compat_tests.groups.wire import Wire
from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from kafkapy.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kafkapy.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kafkapy.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kafkapy.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafkapy.protocol.messages.describe_acls import DescribeAclsRequest
from kafkapy.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from kafkapy.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kafkapy.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kafkapy.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kafkapy.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kafkapy.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkapy.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

CLOSED: Final = "closed"
MANY: Final = 10_000
LONGEST: Final = 32_000
LARGEST: Final = 2**63 - 1
UNSUPPORTED, SECURITY_DISABLED, ILLEGAL_SASL_STATE, NOT_ALLOWED = 35, 54, 34, 64
INVALID, NO_MECHANISM, NOT_FOUND, TWICE, UNACCEPTABLE = 42, 33, 91, 92, 93
ALL, SINCE_PATTERNS, FIRST = (0, 1, 2), (1, 2), (0,)
ENUMERATORS: Final = (-128, -1, 0, 1, 2, 3, 4, 6, 7, 12, 14, 127)
"""Numbers that the enumerations of ACLs have, and some that none has."""


class Case(NamedTuple):
    """A request in some versions, and the whole answer to each."""

    name: str
    request: Any
    versions: tuple[int, ...]
    answer: Any


def _sasl() -> Iterator[Case]:
    for mechanism in ("PLAIN", "", "x" * LONGEST):
        answer = {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
        yield Case(f"handshake {mechanism[:5]}", SaslHandshakeRequest(mechanism), (0, 1), answer)
    for message in (b"\0user\0password", b"", b"x" * 1_000_000):
        text = "SaslAuthenticate request received after successful authentication"
        answer = {"error_code": ILLEGAL_SASL_STATE, "error_message": text, "auth_bytes": b"", "session_lifetime_ms": 0}
        yield Case(f"authenticate {len(message)} bytes", SaslAuthenticateRequest(message), ALL, answer)


ENTRY: Final[dict[str, Any]] = {"principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
FILTER: Final[dict[str, Any]] = {"principal_filter": "User:a", "host_filter": "*", "operation": 3, "permission_type": 3}


def _creation(**fields: Any) -> AclCreation:
    return AclCreation(**({"resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, **ENTRY} | fields))


def _filter(**fields: Any) -> dict[str, Any]:
    return {"resource_type_filter": 2, "resource_name_filter": "t", "pattern_type_filter": 3, **FILTER} | fields


def _acls() -> Iterator[Case]:
    text = "No Authorizer is configured on the broker."
    created = {"error_code": SECURITY_DISABLED, "error_message": text}
    deleted = {**created, "matching_acls": []}
    described = {"error_code": SECURITY_DISABLED, "error_message": text.removesuffix("."), "resources": []}
    for field in ("resource_type", "pattern_type", "operation", "permission_type"):
        ours, theirs = {
            "resource_type": ("resource_type", "resource_type_filter"),
            "pattern_type": ("resource_pattern_type", "pattern_type_filter"),
        }.get(field, (field, field))
        for number in ENUMERATORS:
            versions = SINCE_PATTERNS if field == "pattern_type" else ALL
            chosen = _filter(**{theirs: number})
            two = [_creation(), _creation(**{ours: number})]
            answer = {"results": [created, created]} if number else CLOSED
            yield Case(f"create ACLs {field} {number}", CreateAclsRequest(two), versions, answer)
            yield Case(f"describe ACLs {field} {number}", DescribeAclsRequest(**chosen), versions, described)
            filters = [DeleteAclsFilter(**_filter()), DeleteAclsFilter(**chosen)]
            answer = {"filter_results": [deleted, deleted]}
            yield Case(f"delete ACLs {field} {number}", DeleteAclsRequest(filters), versions, answer)
    for name in ("", "no type", "x" * LONGEST):
        creation = _creation(resource_name=name, principal=name, host=name)
        yield Case(f"create ACLs of {name[:7]}", CreateAclsRequest([creation]), ALL, {"results": [created]})
    for anything in (None, "", "no type", "x" * LONGEST):
        chosen = _filter(resource_name_filter=anything, principal_filter=anything, host_filter=anything)
        shown = anything and anything[:7]
        yield Case(f"describe ACLs of {shown}", DescribeAclsRequest(**chosen), ALL, described)
        answer = {"filter_results": [deleted]}
        yield Case(f"delete ACLs of {shown}", DeleteAclsRequest([DeleteAclsFilter(**chosen)]), ALL, answer)
    for count in (0, MANY):
        yield Case(
            f"create {count} ACLs", CreateAclsRequest([_creation()] * count), ALL, {"results": [created] * count}
        )
        filters = [DeleteAclsFilter(**_filter())] * count
        yield Case(f"delete {count} ACLs", DeleteAclsRequest(filters), ALL, {"filter_results": [deleted] * count})


def _tokens() -> Iterator[Case]:
    nobody = {"principal_type": "User", "principal_name": "ANONYMOUS"}
    times = {"issue_timestamp_ms": -1, "expiry_timestamp_ms": -1, "max_timestamp_ms": -1}
    none = {"error_code": NOT_ALLOWED, **nobody, **times, "token_id": "", "hmac": b""}
    requester = {"token_requester_principal_type": "", "token_requester_principal_name": ""}  # of version 3
    for count, kind in ((0, ""), (1, "User"), (1, "Group"), (1, ""), (MANY, "User")):
        for lifetime in (-1, 0, LARGEST):
            request = CreateDelegationTokenRequest(
                renewers=[CreatableRenewers(kind, "a")] * count, max_lifetime_ms=lifetime
            )
            yield Case(f"create token {count} {kind} {lifetime}", request, ALL, {**none, **requester})
    for size in (0, 1, 100_000):
        for period in (-1, 0, LARGEST):
            answer = {"error_code": NOT_ALLOWED, "expiry_timestamp_ms": -1}
            hmac = b"x" * size
            yield Case(f"renew token {size} {period}", RenewDelegationTokenRequest(hmac, period), ALL, answer)
            yield Case(f"expire token {size} {period}", ExpireDelegationTokenRequest(hmac, period), ALL, answer)
    owner = DescribeDelegationTokenOwner("User", "a")
    for owners in (None, [], [owner], [owner] * MANY):
        shown = "all" if owners is None else str(len(owners))
        described = {"error_code": NOT_ALLOWED, "tokens": []}
        yield Case(f"describe tokens of {shown}", DescribeDelegationTokenRequest(owners), ALL, described)


EXACT, DEFAULT, ANY = range(3)
NO_QUOTAS: Final[dict[str, Any]] = {"error_code": 0, "error_message": None, "entries": []}


def _no_such_type(name: str) -> tuple[int, str]:
    return UNSUPPORTED, f"Custom entity type '{name}' not supported"


REPEATED: Final = (INVALID, "Duplicate user filter component entity type")
REPEATED_CLIENT: Final = (INVALID, "Duplicate client filter component entity type")
NAMELESS: Final = (INVALID, "Unexpected empty filter component entity type")
CONDITIONS: Final[list[tuple[list[tuple[str, int, str | None]], tuple[int, str] | None]]] = [
    ([], None),
    ([("user", EXACT, "a")], None),
    ([("user", DEFAULT, None)], None),
    ([("user", DEFAULT, "x")], None),
    ([("user", ANY, "x")], None),
    ([("client-id", ANY, None), ("user", EXACT, "a")], None),
    ([("ip", EXACT, "10.0.0.1")], _no_such_type("ip")),
    ([("User", EXACT, "a")], _no_such_type("User")),
    ([("a\nb", EXACT, "a")], _no_such_type("a\nb")),
    ([("", EXACT, "a"), ("bogus", EXACT, "a")], NAMELESS),
    ([("bogus", EXACT, "a"), ("", EXACT, "a")], _no_such_type("bogus")),
    ([("user", EXACT, "a"), ("user", ANY, None), ("bogus", EXACT, "a")], REPEATED),
    ([("bogus", EXACT, "a"), ("user", EXACT, "a"), ("user", EXACT, "a")], _no_such_type("bogus")),
    ([("client-id", EXACT, "a"), ("client-id", DEFAULT, None)], REPEATED_CLIENT),
    ([("user", EXACT, "a")] * MANY, REPEATED),
]
RATE: Final = "producer_byte_rate"
NO_INTEGER: Final = f"Configuration {RATE} must be a Long value"
Entity = list[tuple[str, str | None]]
CHANGES: Final[list[tuple[Entity, list[tuple[str, float, bool]], str]]] = [
    ([], [(RATE, 5.0, False)], "Invalid empty client quota entity"),
    ([("ip", "10.0.0.1")], [(RATE, 5.0, False)], "Unhandled client quota entity type: ip"),
    ([("", None), ("user", None)], [(RATE, 5.0, False)], "Unhandled client quota entity type: "),
    ([("user", ""), ("bogus", "x")], [(RATE, 5.0, False)], "Empty user not supported"),
    ([("bogus", "x"), ("user", "")], [(RATE, 5.0, False)], "Unhandled client quota entity type: bogus"),
    ([("client-id", ""), ("user", "")], [(RATE, 5.0, False)], "Empty client-id not supported"),
    ([("user", "a")], [("x", 1.0, True), ("y", 1.0, False), ("z", 1.0, False)], "Invalid configuration key y"),
    ([("user", "a")], [(RATE, 0.5, False), ("y", 1.0, False)], NO_INTEGER),
    ([("user", "a")], [(RATE, -1.0, False)], NO_INTEGER),
    ([("user", "a")], [(RATE, 1.00001, False)], NO_INTEGER),
    ([("user", "a")], [(RATE, 1e300, False)], NO_INTEGER),
    ([("user", "a")], [(RATE, float("-inf"), False)], NO_INTEGER),
]
"""Changes that 2.7.2 refuses; it stores others."""


def _quotas() -> Iterator[Case]:
    for place, (conditions, refusal) in enumerate(CONDITIONS):
        answer: dict[str, Any] = NO_QUOTAS
        if refusal is not None:
            answer = {"error_code": refusal[0], "error_message": refusal[1], "entries": None}
        for strict in (False, True):
            request = DescribeClientQuotasRequest([ComponentData(*each) for each in conditions], strict)
            yield Case(f"describe quotas {place} {'strictly' if strict else ''}", request, FIRST, answer)
    yield Case("alter no quotas", AlterClientQuotasRequest([], False), FIRST, {"entries": []})
    for place, (entity, changes, text) in enumerate(CHANGES):
        entry = RequestEntryData([EntityData(*each) for each in entity], [OpData(*each) for each in changes])
        named = [{"entity_type": kind, "entity_name": name} for kind, name in entity]
        for validate_only in (False, True):
            twice = AlterClientQuotasRequest([entry, entry], validate_only)
            answered = {"error_code": INVALID, "error_message": text, "entity": named}
            yield Case(f"alter quotas {place} {validate_only}", twice, FIRST, {"entries": [answered]})


def _missing(name: str) -> tuple[int, str]:
    return NOT_FOUND, f"Attempt to describe a user credential that does not exist: {name}"


USER_TWICE: Final = (TWICE, "Cannot describe SCRAM credentials for the same user twice in a single request: b")
EMPTY_NAME: Final = "Username must not be empty"
USERS: Final[list[tuple[list[str] | None, dict[str, tuple[int, str]]]]] = [
    (None, {}),
    ([], {}),
    (["b", "a", "ü\n"], {name: _missing(name) for name in ("b", "a", "ü\n")}),
    (["a", "", "b", "b", ""], {"a": _missing("a"), "": (NOT_FOUND, EMPTY_NAME), "b": USER_TWICE}),
    (["b"] * MANY, {"b": USER_TWICE}),
]
SHA_256, SHA_512 = 1, 2
GONE: Final = (NOT_FOUND, "Attempt to delete a user credential that does not exist")
UNKNOWN: Final = (NO_MECHANISM, "Unknown SCRAM mechanism")
ALTERED_TWICE: Final = (TWICE, "A user credential cannot be altered twice in the same request")
Deletions = list[tuple[str, int]]
Upsertions = list[tuple[str, int, int]]
ALTERATIONS: Final[list[tuple[Deletions, Upsertions, dict[str, tuple[int, str]]]]] = [
    ([], [], {}),
    ([("c", SHA_256), ("a", SHA_512)], [], {"c": GONE, "a": GONE}),
    ([("a", SHA_256), ("a", SHA_512)], [], {"a": GONE}),
    ([("a", SHA_256), ("a", SHA_256)], [], {"a": ALTERED_TWICE}),
    ([("a", SHA_256), ("a", 0)], [], {"a": UNKNOWN}),
    ([("a", 3), ("b", -1)], [], {"a": UNKNOWN, "b": UNKNOWN}),
    ([("", 9)], [], {"": (UNACCEPTABLE, EMPTY_NAME)}),
    ([("a", SHA_512)], [("a", SHA_256, 4096)], {"a": GONE}),
    ([("a", SHA_256)], [("a", SHA_256, 4096)], {"a": ALTERED_TWICE}),
    ([], [("a", 0, 4096)], {"a": UNKNOWN}),
    ([], [("a", SHA_256, 4095), ("", SHA_256, 4096)], {
        "a": (UNACCEPTABLE, "Too few iterations"),
        "": (UNACCEPTABLE, EMPTY_NAME),
    }),
    ([], [("a", SHA_256, -1)], {"a": (UNACCEPTABLE, "Too few iterations")}),
    ([], [("a", SHA_512, 16385)], {"a": (UNACCEPTABLE, "Too many iterations")}),
    ([("z", SHA_256), ("", SHA_256), ("q", 7)], [("a", SHA_256, 1), ("b", 9, 4096)], {
        "": (UNACCEPTABLE, EMPTY_NAME),
        "q": UNKNOWN,
        "a": (UNACCEPTABLE, "Too few iterations"),
        "b": UNKNOWN,
        "z": GONE,
    }),
    ([(f"u{number}", SHA_256) for number in range(MANY)], [], {f"u{number}": GONE for number in range(MANY)}),
]  # fmt: skip


def _results(key: str, refusals: dict[str, tuple[int, str]], **more: Any) -> list[dict[str, Any]]:
    return [{key: name, "error_code": code, "error_message": text, **more} for name, (code, text) in refusals.items()]


def _credentials() -> Iterator[Case]:
    for place, (names, refusals) in enumerate(USERS):
        users = None if names is None else [UserName(name) for name in names]
        answer = {"error_code": 0, "error_message": "", "results": _results("user", refusals, credential_infos=[])}
        yield Case(f"describe credentials {place}", DescribeUserScramCredentialsRequest(users), FIRST, answer)
    for place, (deleted, upserted, refusals) in enumerate(ALTERATIONS):
        request = AlterUserScramCredentialsRequest(
            [ScramCredentialDeletion(*each) for each in deleted],
            [ScramCredentialUpsertion(*each, b"salt", b"password") for each in upserted],
        )
        yield Case(f"alter credentials {place}", request, FIRST, {"results": _results("user", refusals)})


NO_FEATURE: Final = (
    INVALID,
    "Could not apply finalized feature update because the provided feature is not supported.",
)
NOTHING_TO_DELETE: Final = (INVALID, "Can not delete non-existing finalized feature.")
EMPTY_FEATURE: Final = (INVALID, "Feature name can not be empty.")


def _too_low(level: int) -> tuple[int, str]:
    return INVALID, (
        f"Can not provide maxVersionLevel: {level} less than 1 without setting the allowDowngrade flag to true in the"
        " request."
    )


FEATURES: Final[list[tuple[list[tuple[str, int, bool]], dict[str, tuple[int, str]]]]] = [
    ([], {}),
    ([("metadata.version", 3, False)], {"metadata.version": NO_FEATURE}),
    ([("f", 1, True)], {"f": NO_FEATURE}),
    ([("f", 0, False)], {"f": _too_low(0)}),
    ([("f", -5, False)], {"f": _too_low(-5)}),
    ([("f", 0, True), ("g", -5, True)], {"f": NOTHING_TO_DELETE, "g": NOTHING_TO_DELETE}),
    ([("", 1, False)], {"": EMPTY_FEATURE}),
    ([("", 0, True)], {"": EMPTY_FEATURE}),
    ([("f", 1, False), ("f", 0, True)], {"f": NOTHING_TO_DELETE}),
    ([(f"f{number}", 1, False) for number in range(MANY)], {f"f{number}": NO_FEATURE for number in range(MANY)}),
]


def _features() -> Iterator[Case]:
    for place, (updates, refusals) in enumerate(FEATURES):
        for timeout_ms in (60_000, 0, -1):
            request = UpdateFeaturesRequest(timeout_ms, [FeatureUpdateKey(*each) for each in updates])
            answer = {"error_code": 0, "error_message": None, "results": _results("feature", refusals)}
            yield Case(f"update features {place} {timeout_ms} ms", request, FIRST, answer)


CASES: Final = {
    "sasl": _sasl,
    "acls": _acls,
    "tokens": _tokens,
    "quotas": _quotas,
    "credentials": _credentials,
    "features": _features,
}
LONGEST_SHOWN: Final = 500


def _plain(value: Any) -> Any:
    """A response as dicts and lists, without what quotas of requests and tagged fields say."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, Message):
        return value
    left_out = ("throttle_time_ms", "unknown_tagged_fields")
    return {slot: _plain(getattr(value, slot)) for slot in value.__slots__ if slot not in left_out}


def _ordered(answer: Any) -> Any:
    """The answer with its results by name: on Kafka, some are in the order of a hash table."""
    if answer == CLOSED or "results" not in answer:
        return answer
    return {**answer, "results": sorted(answer["results"], key=repr)}


def _answer(broker: Broker, request: Any, version: int) -> Any:
    with Wire(broker.bootstrap) as wire:
        wire.send(request, version)
        try:
            return _plain(wire.receive())
        except AssertionError:
            return CLOSED


@pytest.mark.differs(*IN_KRAFT, cases=["acls"], reason="another sentence; unknown types close connections elsewhere")
@pytest.mark.differs(*IN_KRAFT, cases=["quotas"], reason="other sentences; a default match has no name")
@pytest.mark.differs(
    *IN_KRAFT, cases=["credentials"], reason="an empty name twice is a duplicate, a deletion twice is not"
)
@pytest.mark.differs(*IN_KRAFT, cases=["features"], reason="features exist (KIP-778), with sentences of their own")
@pytest.mark.differs("kafka-4.4.0", cases=["tokens"], reason="version 0 is gone (KIP-896)")
@pytest.mark.parametrize("subject", CASES)
def test_whole_answers(subject: str, broker: Broker) -> None:
    differences = []
    for name, request, versions, expected in CASES[subject]():
        for version in versions:
            answer = _answer(broker, request, version)
            if _ordered(answer) != _ordered(expected):
                differences.append(f"{name} v{version}: {str(answer)[:LONGEST_SHOWN]}")
    assert differences == []
