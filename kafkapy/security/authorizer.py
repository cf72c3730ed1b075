"""The decisions of one broker about its clients: ACLs, super users, decisions made before, and the audit log."""

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from socket import ntohs
from typing import Final

from kafkapy.config.broker_config import ALLOW_IF_NO_ACL, SUPER_USERS, BrokerConfig
from kafkapy.config.errors import InvalidConfigError
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclResourceType
from kafkapy.security.acls import (
    CLUSTER_NAME,
    AclEntry,
    AclIndex,
    InvalidPrincipalError,
    ResourcePattern,
    check_principal,
    kafka_name,
)
from kafkapy.text import printable, shortened

MOST_DECISIONS: Final = 10_000
"""Decisions that are kept; all are dropped when there are more."""
LONGEST_KEPT_NAME: Final = 300
"""Characters of a resource's name: a decision about a longer one, which a hostile request may have, is not kept."""
LONGEST_LOGGED: Final = 300
"""Characters of a name in the audit log."""

logger: Final = logging.getLogger("kafka.authorizer.logger")
"""The audit log, by its name in Apache Kafka."""

_OPERATIONS_OF: Final[dict[int, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
"""The operations that a resource of each kind has, of those kinds whose operations clients may ask for (KIP-430)."""


@lru_cache(maxsize=1024)
def java_address(host: str) -> str:
    """Return a numeric address as Java writes it, and ACLs have it: ``0:0:0:0:0:0:0:1`` for ``::1``."""
    if ":" not in host:
        return host
    address, percent, scope = host.partition("%")
    parsed = IPv6Address(address)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    words = memoryview(parsed.packed).cast("H")
    return ":".join(f"{ntohs(word):x}" for word in words) + percent + scope


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of ``super.users``, separated by semicolons; raises InvalidPrincipalError."""
    users = frozenset(user.strip() for user in text.split(";")) if text else frozenset()
    for user in users:
        check_principal(user)
    return users


def authorizer_of(config: BrokerConfig) -> "AclAuthorizer":
    """Return the authorizer of a broker, without entries; raises InvalidConfigError for a value it can't have."""
    try:
        super_users = super_users_of(config.originals.get(SUPER_USERS, ""))
    except InvalidPrincipalError as error:
        raise InvalidConfigError(f"{SUPER_USERS}: {error}") from error
    text = config.originals.get(ALLOW_IF_NO_ACL, "false")
    if text.lower() not in ("true", "false"):
        raise InvalidConfigError(f"{ALLOW_IF_NO_ACL} is {text}: it must be true or false")
    return AclAuthorizer(super_users, allows_without_entries=text.lower() == "true")


class AclAuthorizer:
    """Decides by the entries of an ``AclIndex``, of which it is told every change."""

    __slots__ = ("super_users", "_index", "_allows_without_entries", "_decisions")

    def __init__(self, super_users: Iterable[str] = (), *, allows_without_entries: bool = False) -> None:
        self.super_users: Final = frozenset(super_users)
        self._index = AclIndex()
        self._allows_without_entries = allows_without_entries
        """``allow.everyone.if.no.acl.found``."""
        self._decisions: dict[tuple[str, str, int, int, str], bool] = {}

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Whether the principal, at a host's numeric address, may do the operation on the resource."""
        key = (principal, host, operation, resource_type, name)
        found = self._decisions.get(key)
        if found is None:
            found = self._decide(*key)
            if len(name) <= LONGEST_KEPT_NAME:
                if len(self._decisions) >= MOST_DECISIONS:
                    self._decisions.clear()
                self._decisions[key] = found
        return found

    def _decide(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        decided = self._index.decide(principal, host, operation, resource_type, name)
        return self._allows_without_entries if decided is None else decided

    def patterns(self) -> list[ResourcePattern]:
        """Return the patterns that have entries."""
        return self._index.patterns()

    def entries(self, pattern: ResourcePattern) -> tuple[AclEntry, ...]:
        """Return the entries of a pattern."""
        return self._index.entries(pattern)

    def replace(self, pattern: ResourcePattern, entries: Sequence[AclEntry]) -> None:
        """Let a pattern have these entries, and no others, from the next decision on."""
        self._index.replace(pattern, entries)
        self._decisions.clear()


class Rights:
    """What one principal may do from one host, in one request; refused operations are in the audit log."""

    __slots__ = ("_authorizer", "_principal", "_host", "_api", "_may_log")

    def __init__(
        self, authorizer: AclAuthorizer, principal: str, host: str, api: str, may_log: Callable[[], bool]
    ) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._api = api
        """The name of the request, for the audit log."""
        self._may_log = may_log
        """Whether another line may be logged now: clients cause them."""

    @property
    def is_super_user(self) -> bool:
        """Whether everything is allowed."""
        return self._principal in self._authorizer.super_users

    def may(self, operation: AclOperation, resource_type: AclResourceType, name: str, *, logs: bool = True) -> bool:
        """Whether the operation is allowed; with ``logs`` a denial is logged, since the client named the resource."""
        is_allowed = self._authorizer.allows(self._principal, self._host, operation, resource_type, name)
        if logs and not is_allowed:
            self._log_denial(operation, resource_type, name)
        return is_allowed

    def may_on_cluster(self, operation: AclOperation, *, logs: bool = True) -> bool:
        """Whether the operation on the cluster is allowed."""
        return self.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME, logs=logs)

    def operations(self, resource_type: AclResourceType, name: str) -> int:
        """Return the allowed operations as bits, each at the operation's code (KIP-430)."""
        known = _OPERATIONS_OF[resource_type]
        return sum(1 << each for each in known if self.may(each, resource_type, name, logs=False))

    def operations_on_cluster(self) -> int:
        """Return the allowed operations on the cluster as bits."""
        return self.operations(AclResourceType.CLUSTER, CLUSTER_NAME)

    def _log_denial(self, operation: AclOperation, resource_type: AclResourceType, name: str) -> None:
        if not logger.isEnabledFor(logging.INFO) or not self._may_log():
            return
        logger.info(
            "Principal = %s is Denied Operation = %s from host = %s on resource = %s:%s:%s for request = %s",
            _shown(self._principal),
            kafka_name(operation),
            self._host,
            kafka_name(resource_type),
            AclPatternType.LITERAL.name,
            _shown(name),
            self._api,
        )


def _shown(name: str) -> str:
    return printable(shortened(name, LONGEST_LOGGED))
