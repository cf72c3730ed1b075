import logging

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.security.acls import AclEntry, InvalidPrincipalError, ResourcePattern
from kafkapy.security.authorizer import (
    LONGEST_KEPT_NAME,
    LONGEST_LOGGED,
    MOST_DECISIONS,
    AclAuthorizer,
    Rights,
    authorizer_of,
    java_address,
    super_users_of,
)

TOPIC, CLUSTER = AclResourceType.TOPIC, AclResourceType.CLUSTER
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE
PATTERN = ResourcePattern(TOPIC, "t", AclPatternType.LITERAL)
ENTRY = AclEntry("User:a", "*", READ, AclPermissionType.ALLOW)


def _rights(authorizer: AclAuthorizer, principal: str = "User:a", *, logs: bool = True) -> Rights:
    return Rights(authorizer, principal, "::1", "Fetch", lambda: logs)


def test_super_users() -> None:
    assert super_users_of("") == frozenset()
    assert super_users_of("User:a; User:CN=b,O=c") == {"User:a", "User:CN=b,O=c"}
    with pytest.raises(InvalidPrincipalError):
        super_users_of("User:a;b")
    authorizer = AclAuthorizer(["User:a"])
    assert authorizer.allows("User:a", "::1", READ, TOPIC, "t")
    assert not authorizer.allows("User:b", "::1", READ, TOPIC, "t")
    assert _rights(authorizer).is_super_user
    assert not _rights(authorizer, "User:b").is_super_user


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"super.users": "alice"}, "super.users: 'alice' is no principal"),
        ({"allow.everyone.if.no.acl.found": "yes"}, "must be true or false"),
    ],
)
def test_settings_that_no_authorizer_can_have(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        authorizer_of(BrokerConfig.from_properties(settings))


def test_settings_of_an_authorizer() -> None:
    authorizer = authorizer_of(
        BrokerConfig.from_properties({"super.users": "User:a;User:b", "allow.everyone.if.no.acl.found": "True"})
    )
    assert authorizer.super_users == {"User:a", "User:b"}
    assert authorizer.allows("User:c", "::1", READ, TOPIC, "t")


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff", "2001:db8:0:0:0:0:0:ff"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
    ],
)
def test_addresses_are_those_of_java(host: str, written: str) -> None:
    assert java_address(host) == written


def test_resources_without_entries() -> None:
    authorizer = AclAuthorizer(allows_without_entries=True)
    assert authorizer.allows("User:b", "::1", READ, TOPIC, "t")
    authorizer.replace(PATTERN, [ENTRY])
    assert not authorizer.allows("User:b", "::1", READ, TOPIC, "t")
    assert authorizer.allows("User:b", "::1", READ, TOPIC, "u")


def test_a_change_holds_at_once() -> None:
    authorizer = AclAuthorizer()
    assert not authorizer.allows("User:a", "::1", READ, TOPIC, "t")
    authorizer.replace(PATTERN, [ENTRY])
    assert authorizer.allows("User:a", "::1", READ, TOPIC, "t")
    assert authorizer.patterns() == [PATTERN]
    assert authorizer.entries(PATTERN) == (ENTRY,)
    authorizer.replace(PATTERN, [])
    assert not authorizer.allows("User:a", "::1", READ, TOPIC, "t")


def test_decisions_take_bounded_memory() -> None:
    authorizer = AclAuthorizer()
    for number in range(MOST_DECISIONS + 10):
        authorizer.allows("User:a", "::1", READ, TOPIC, f"t{number}")
    assert len(authorizer._decisions) <= MOST_DECISIONS
    before = len(authorizer._decisions)
    authorizer.allows("User:a", "::1", READ, TOPIC, "x" * (LONGEST_KEPT_NAME + 1))
    assert len(authorizer._decisions) == before


def test_operations_as_bits() -> None:
    authorizer = AclAuthorizer()
    authorizer.replace(PATTERN, [ENTRY])
    assert _rights(authorizer).operations(TOPIC, "t") == 1 << READ | 1 << DESCRIBE
    assert _rights(authorizer).operations(CLUSTER, "kafka-cluster") == 0


def test_denials_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = AclAuthorizer()
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        assert not _rights(authorizer).may(READ, TOPIC, "t\n2026 forged")
        assert not _rights(authorizer, "User:\x1b[2J").may_on_cluster(AclOperation.CLUSTER_ACTION)
        assert not _rights(authorizer).may(READ, TOPIC, "hidden", logs=False)
        assert not _rights(authorizer, logs=False).may(READ, TOPIC, "too many")
        assert not _rights(authorizer).may(READ, TOPIC, "x" * 30_000)
    first, second, third = caplog.messages
    assert first == (
        "Principal = User:a is Denied Operation = Read from host = ::1 on resource = Topic:LITERAL:t\\n2026 forged "
        "for request = Fetch"
    )
    assert "User:\\x1b[2J is Denied Operation = ClusterAction" in second
    assert "Cluster:LITERAL:kafka-cluster" in second
    assert len(third) < LONGEST_LOGGED + 250
