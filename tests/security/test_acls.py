"""The decisions of ``AclIndex``; ``compat_tests/security`` compares them with those of Apache Kafka's class."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType
from kafkapy.security.acls import AclEntry, AclFilter, AclIndex, InvalidPrincipalError, ResourcePattern, check_principal

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = AclPatternType.LITERAL, AclPatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL

ALICE, HOST = "User:alice", "127.0.0.1"
ORDERS = ResourcePattern(TOPIC, "orders", LITERAL)

Stored = dict[ResourcePattern, tuple[AclEntry, ...]]


def _index(stored: Stored) -> AclIndex:
    index = AclIndex()
    for pattern, entries in stored.items():
        index.replace(pattern, entries)
    return index


def _of(*entries: AclEntry, pattern: ResourcePattern = ORDERS) -> AclIndex:
    return _index({pattern: entries})


def _allow(operation: int, principal: str = ALICE, host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, ALLOW)


def _deny(operation: int, principal: str = ALICE, host: str = "*") -> AclEntry:
    return AclEntry(principal, host, operation, DENY)


@pytest.mark.parametrize(
    ("entries", "operation", "decision"),
    [
        ([], READ, None),
        ([_allow(READ)], READ, True),
        ([_allow(READ)], WRITE, False),
        ([_allow(READ, host=HOST)], READ, True),
        ([_allow(READ, host="10.0.0.1")], READ, False),
        ([_allow(READ, principal="User:bob")], READ, False),
        ([_allow(READ, principal="User:*")], READ, True),
        ([_allow(READ, principal="Group:alice")], READ, False),
        ([_allow(ALL)], AclOperation.ALTER_CONFIGS, True),
        ([_allow(READ), _deny(READ)], READ, False),
        ([_allow(READ), _deny(ALL)], READ, False),
        ([_allow(READ), _deny(READ, host="10.0.0.1")], READ, True),
        ([_allow(READ), _deny(READ, principal="User:*")], READ, False),
        ([_allow(READ)], DESCRIBE, True),
        ([_allow(WRITE)], DESCRIBE, True),
        ([_allow(AclOperation.DELETE)], DESCRIBE, True),
        ([_allow(AclOperation.ALTER)], DESCRIBE, True),
        ([_allow(AclOperation.CREATE)], DESCRIBE, False),
        ([_allow(DESCRIBE)], READ, False),
        ([_allow(DESCRIBE), _deny(READ)], DESCRIBE, True),
        ([_allow(READ), _deny(DESCRIBE)], DESCRIBE, False),
        ([_allow(AclOperation.ALTER_CONFIGS)], AclOperation.DESCRIBE_CONFIGS, True),
        ([_allow(AclOperation.DESCRIBE_CONFIGS)], AclOperation.ALTER_CONFIGS, False),
    ],
)
def test_decisions_of_one_pattern(entries: list[AclEntry], operation: int, decision: bool | None) -> None:
    assert _of(*entries).decide(ALICE, HOST, operation, TOPIC, "orders") is decision


@pytest.mark.parametrize(
    ("pattern", "name", "decision"),
    [
        (ResourcePattern(TOPIC, "*", LITERAL), "orders", True),
        (ResourcePattern(TOPIC, "or", PREFIXED), "orders", True),
        (ResourcePattern(TOPIC, "orders", PREFIXED), "orders", True),
        (ResourcePattern(TOPIC, "orders-", PREFIXED), "orders", None),
        (ResourcePattern(TOPIC, "or", LITERAL), "orders", None),
        (ResourcePattern(TOPIC, "*", PREFIXED), "orders", None),
        (ResourcePattern(GROUP, "orders", LITERAL), "orders", None),
    ],
)
def test_patterns_select_resources(pattern: ResourcePattern, name: str, decision: bool | None) -> None:
    assert _of(_allow(READ), pattern=pattern).decide(ALICE, HOST, READ, TOPIC, name) is decision


def test_entries_of_all_patterns_count_together() -> None:
    index = _of(_allow(READ))
    index.replace(ResourcePattern(TOPIC, "o", PREFIXED), [_deny(READ)])
    assert index.decide(ALICE, HOST, READ, TOPIC, "orders") is False
    index.replace(ResourcePattern(TOPIC, "o", PREFIXED), [])
    assert index.decide(ALICE, HOST, READ, TOPIC, "orders") is True
    index.replace(ORDERS, [])
    assert index.decide(ALICE, HOST, READ, TOPIC, "orders") is None
    assert index.patterns() == []


NAMES = st.sampled_from(["a", "ab", "abc", "b", "*"])
PATTERNS = st.builds(ResourcePattern, st.sampled_from([TOPIC, GROUP]), NAMES, st.sampled_from([LITERAL, PREFIXED]))
PRINCIPALS = st.sampled_from(["User:a", "User:b", "User:*", "Group:a"])
HOSTS = st.sampled_from(["*", "::1", HOST])
OPERATIONS = st.sampled_from([each for each in AclOperation if each is not AclOperation.ANY])
ENTRIES = st.builds(AclEntry, PRINCIPALS, HOSTS, OPERATIONS, st.sampled_from([ALLOW, DENY]))
STORED = st.dictionaries(PATTERNS, st.lists(ENTRIES, max_size=4).map(tuple), max_size=6)


def _plain_decision(stored: Stored, principal: str, host: str, operation: int, name: str) -> bool | None:
    """The decision as the rules are written, entry by entry."""
    found = [entry for pattern, entries in stored.items() if pattern.selects(TOPIC, name) for entry in entries]
    if not found:
        return None
    matching = [each for each in found if each.principal in (principal, "User:*") and each.host in (host, "*")]
    implied = {
        DESCRIBE: {READ, WRITE, AclOperation.DELETE, AclOperation.ALTER},
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
    }.get(AclOperation(operation), set())
    if any(each.permission_type == DENY and each.operation in (operation, ALL) for each in matching):
        return False
    return any(
        each.permission_type == ALLOW and (each.operation in (operation, ALL) or each.operation in implied)
        for each in matching
    )


@given(STORED, PRINCIPALS, HOSTS, OPERATIONS, NAMES)
def test_the_index_decides_as_the_rules_say(
    stored: Stored, principal: str, host: str, operation: AclOperation, name: str
) -> None:
    expected = _plain_decision(stored, principal, host, operation, name)
    assert _index(stored).decide(principal, host, operation, TOPIC, name) is expected


@given(STORED, STORED, OPERATIONS, NAMES)
def test_replaced_entries_leave_nothing_behind(first: Stored, then: Stored, operation: AclOperation, name: str) -> None:
    index = _index(first)
    for pattern in [*first, *then]:
        index.replace(pattern, then.get(pattern, ()))
    assert set(index.patterns()) == {pattern for pattern, entries in then.items() if entries}
    for principal in ("User:a", "Group:a"):
        expected = _plain_decision(then, principal, HOST, operation, name)
        assert index.decide(principal, HOST, operation, TOPIC, name) is expected


ANY_FILTER = AclFilter(1, None, 1, None, None, 1, 1)
PREFIX = ResourcePattern(TOPIC, "or", PREFIXED)
EVERY = ResourcePattern(TOPIC, "*", LITERAL)


@pytest.mark.parametrize(
    ("changes", "selected"),
    [
        ({}, {ORDERS, PREFIX, EVERY}),
        ({"resource_type": GROUP}, set()),
        ({"resource_type": TOPIC, "pattern_type": LITERAL}, {ORDERS, EVERY}),
        ({"pattern_type": AclPatternType.MATCH}, {ORDERS, PREFIX, EVERY}),
        ({"pattern_type": AclPatternType.MATCH, "name": "orders"}, {ORDERS, PREFIX, EVERY}),
        ({"pattern_type": AclPatternType.MATCH, "name": "or"}, {PREFIX, EVERY}),
        ({"pattern_type": AclPatternType.MATCH, "name": "x"}, {EVERY}),
        ({"pattern_type": AclPatternType.ANY, "name": "or"}, {PREFIX}),
        ({"pattern_type": LITERAL, "name": "or"}, set()),
        ({"pattern_type": PREFIXED, "name": "or"}, {PREFIX}),
        ({"pattern_type": LITERAL, "name": "*"}, {EVERY}),
    ],
)
def test_filters_select_patterns(changes: dict[str, object], selected: set[ResourcePattern]) -> None:
    chosen = ANY_FILTER._replace(**changes)
    assert {each for each in (ORDERS, PREFIX, EVERY) if chosen.selects_pattern(each)} == selected


@pytest.mark.parametrize(
    ("changes", "is_selected"),
    [
        ({}, True),
        ({"principal": ALICE}, True),
        ({"principal": "User:*"}, False),
        ({"host": "*"}, True),
        ({"host": HOST}, False),
        ({"operation": READ}, True),
        ({"operation": ALL}, False),
        ({"permission_type": ALLOW}, True),
        ({"permission_type": DENY}, False),
    ],
)
def test_filters_select_entries(changes: dict[str, object], is_selected: bool) -> None:
    assert ANY_FILTER._replace(**changes).selects_entry(_allow(READ)) is is_selected


def test_the_only_pattern_of_a_filter() -> None:
    exact = ANY_FILTER._replace(resource_type=TOPIC, name="or", pattern_type=PREFIXED)
    assert exact.pattern == PREFIX
    for changes in ({"resource_type": 1}, {"name": None}, {"pattern_type": AclPatternType.MATCH}):
        assert exact._replace(**changes).pattern is None


def test_principals_have_a_type() -> None:
    check_principal("User:a:b")
    check_principal(":")
    with pytest.raises(InvalidPrincipalError, match="TYPE:NAME"):
        check_principal("alice")
