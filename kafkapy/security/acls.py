"""Access control entries of Apache Kafka's AclAuthorizer: what they select, what they decide, how they are stored.

An entry allows or denies a principal an operation from a host. It belongs to a *resource pattern*: a kind of resources,
and a literal name, the name ``*`` for all of them, or a prefix of names. ``AclIndex`` has the entries of all patterns
and decides as ``kafka.security.authorizer.AclAuthorizer`` of release 2.7.2 does:

1. All patterns that select the resource count together, none has precedence. Without any entry ``matches`` tells so.
2. An entry that denies the operation, or all operations, decides.
3. Else one that allows the operation, all operations, or an operation that implies it: Read, Write, Delete and Alter
   imply Describe; AlterConfigs implies DescribeConfigs. A denied operation implies no denial.

An entry is for a principal ``TYPE:NAME`` or for ``User:*``, and for a host's numeric address or for ``*``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kafkapy.errors import BrokerError
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType

WILDCARD: Final = "*"
"""The name of every resource of a kind, or every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
"""Every principal, of any type."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of the kind CLUSTER."""

RESOURCE_TYPES: Final = tuple(each for each in AclResourceType if each is not AclResourceType.ANY)
"""The kinds of resources that have entries."""
PATTERN_TYPES: Final = (AclPatternType.LITERAL, AclPatternType.PREFIXED)
"""The types of the patterns of entries; the others are for filters."""

_ALL: Final = AclOperation.ALL
_IMPLIED_BY: Final[dict[int, tuple[int, ...]]] = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


class ResourcePattern(NamedTuple):
    """The resources that entries are for; the fields of the protocol."""

    resource_type: int
    name: str
    pattern_type: int

    def selects(self, resource_type: int, name: str) -> bool:
        """Whether the pattern selects the resource."""
        if resource_type != self.resource_type:
            return False
        if self.pattern_type == AclPatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclEntry(NamedTuple):
    """What a principal may do from a host, or may not; the fields of the protocol."""

    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Selects entries, as DescribeAcls and DeleteAcls do; None and ANY select everything."""

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def selects_pattern(self, pattern: ResourcePattern) -> bool:
        """Whether it selects entries of this pattern."""
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type == AclPatternType.MATCH:
            return self.name is None or pattern.selects(pattern.resource_type, self.name)
        if self.pattern_type not in (AclPatternType.ANY, pattern.pattern_type):
            return False
        return self.name is None or self.name == pattern.name

    def selects_entry(self, entry: AclEntry) -> bool:
        """Whether it selects this entry, if the entry's pattern is selected."""
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission_type in (AclPermissionType.ANY, entry.permission_type)
        )

    @property
    def pattern(self) -> ResourcePattern | None:
        """The only pattern that it can select; None if there may be several."""
        is_exact = self.resource_type in RESOURCE_TYPES and self.pattern_type in PATTERN_TYPES
        if not is_exact or self.name is None:
            return None
        return ResourcePattern(self.resource_type, self.name, self.pattern_type)


def kafka_name(value: IntEnum) -> str:
    """Return Kafka's name of an enumeration's value in text: ``ClusterAction`` for CLUSTER_ACTION."""
    return "".join(word.capitalize() for word in value.name.split("_"))


class InvalidPrincipalError(BrokerError):
    """A text has not the form of a principal, ``TYPE:NAME``."""


def check_principal(principal: str) -> None:
    """Raise InvalidPrincipalError unless ``principal`` has the form ``TYPE:NAME``."""
    if ":" not in principal:
        raise InvalidPrincipalError(f"{principal!r} is no principal: it has the form TYPE:NAME, for example User:alice")


class _Grants:
    """The entries of a pattern by permission and principal, so that no decision depends on their number."""

    __slots__ = ("allowed", "denied")

    def __init__(self, entries: Iterable[AclEntry]) -> None:
        self.allowed: dict[str, set[tuple[int, str]]] = {}
        self.denied: dict[str, set[tuple[int, str]]] = {}
        for principal, host, operation, permission_type in entries:
            found = self.denied if permission_type == AclPermissionType.DENY else self.allowed
            found.setdefault(principal, set()).add((operation, host))


def _has(
    grants: Mapping[str, set[tuple[int, str]]], principals: Sequence[str], wanted: Sequence[tuple[int, str]]
) -> bool:
    for principal in principals:
        found = grants.get(principal)
        if found is not None and not found.isdisjoint(wanted):
            return True
    return False


class AclIndex:
    """The entries of all patterns. A decision takes some look-ups: one for each length of a prefix that is in use."""

    __slots__ = ("_entries", "_literal", "_prefixed", "_lengths")

    def __init__(self) -> None:
        self._entries: dict[ResourcePattern, tuple[AclEntry, ...]] = {}
        self._literal: dict[tuple[int, str], _Grants] = {}
        self._prefixed: dict[tuple[int, str], _Grants] = {}
        self._lengths: dict[int, int] = {}
        """Length of a prefix → the number of patterns with prefixes of that length."""

    def patterns(self) -> list[ResourcePattern]:
        """Return the patterns that have entries."""
        return list(self._entries)

    def entries(self, pattern: ResourcePattern) -> tuple[AclEntry, ...]:
        """Return the entries of a pattern; none if there is no such pattern."""
        return self._entries.get(pattern, ())

    def replace(self, pattern: ResourcePattern, entries: Sequence[AclEntry]) -> None:
        """Let a pattern have these entries, and no others."""
        resource_type, name, pattern_type = pattern
        is_prefixed = pattern_type == AclPatternType.PREFIXED
        grants = self._prefixed if is_prefixed else self._literal
        is_known = self._entries.pop(pattern, None) is not None
        grants.pop((resource_type, name), None)
        if entries:
            self._entries[pattern] = tuple(entries)
            grants[resource_type, name] = _Grants(entries)
        if is_prefixed:
            self._count_length(len(name), bool(entries) - is_known)

    def _count_length(self, length: int, change: int) -> None:
        count = self._lengths.get(length, 0) + change
        if count:
            self._lengths[length] = count
        else:
            self._lengths.pop(length, None)

    def decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool | None:
        """Return whether the operation on the resource is allowed; None if the resource has no entries at all."""
        found = list(self._grants(resource_type, name))
        if not found:
            return None
        principals, hosts = (principal, WILDCARD_PRINCIPAL), (host, WILDCARD)
        wanted = [(each, place) for each in (operation, _ALL) for place in hosts]
        if any(_has(each.denied, principals, wanted) for each in found):
            return False
        wanted += [(each, place) for each in _IMPLIED_BY.get(operation, ()) for place in hosts]
        return any(_has(each.allowed, principals, wanted) for each in found)

    def _grants(self, resource_type: int, name: str) -> Iterator[_Grants]:
        for literal in (name, WILDCARD):
            found = self._literal.get((resource_type, literal))
            if found is not None:
                yield found
        for length in self._lengths:
            if length <= len(name):
                found = self._prefixed.get((resource_type, name[:length]))
                if found is not None:
                    yield found
