"""The APIs of a listener, and the rules for a request of each."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkapy.protocol.api_keys import ApiKey
from kafkapy.protocol.constants import AclOperation, AclResourceType


class Permission(NamedTuple):
    """An operation on the resources of a kind that a request names: the arguments of Apache Kafka's authorizer."""

    operation: AclOperation
    resource_type: AclResourceType


class Api(NamedTuple):
    """An API and the versions that this broker understands: those of Apache Kafka 2.7.2 unless a card says more."""

    key: ApiKey
    min_version: int
    max_version: int
    module: str
    """Name of the handler's module in ``kafkapy.server.handlers``."""
    permissions: tuple[Permission, ...]
    """The permissions for all functions of the API; one request may use only some of them. Empty: nothing."""
    between_brokers: bool = False
    """Whether only brokers send it: a listener without other brokers does not serve it."""
    needs_whole_image: bool = False
    """Whether the answer depends on which topics exist: requests wait until the metadata image has been whole."""


class ApiTable:
    """The APIs that a listener serves, in the order of their keys."""

    __slots__ = ("_apis",)

    def __init__(self, apis: Iterable[Api]) -> None:
        self._apis = {int(api.key): api for api in sorted(apis)}

    def __iter__(self) -> Iterator[Api]:
        return iter(self._apis.values())

    def serving(self, key: int, version: int) -> Api | None:
        """Return the API whose requests of this version are answered; None if they are not."""
        api = self._apis.get(key)
        return api if api is not None and api.min_version <= version <= api.max_version else None
