"""DescribeConfigs v0-4: the configuration of topics, groups, this broker, all brokers (an empty name), its loggers.

Done: values, sources and synonyms as 2.7.2 answers them, secrets as null, types and documentation (v3), ``is_default``
never set (v0).
A resource that is named several times is answered each time, as in 2.7.2, but described and encoded once; resources
with equal configurations share the bytes of their entries, within a response and between responses. Those of chosen
keys are shared within a response only.
Resources that the client may not describe come last, as in 2.7.2.
Errors: UNKNOWN_TOPIC_OR_PARTITION 3, INVALID_TOPIC_EXCEPTION 17 (topic name), TOPIC_AUTHORIZATION_FAILED 29,
GROUP_AUTHORIZATION_FAILED 30, CLUSTER_AUTHORIZATION_FAILED 31 (a broker, with an authorizer), INVALID_REQUEST 42
(another broker's id, loggers without a broker's id, a group without an id; an unknown resource type fails all
resources of the request). A group need not exist, and its keys are those of Apache Kafka 4.4 for consumer groups.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkapy import kafka_texts
from kafkapy.config.describe import Description, Descriptions, describe_broker, describe_cluster_default, describe_topic
from kafkapy.config.errors import InvalidAlterationError
from kafkapy.config.group_keys import describe_group
from kafkapy.errors import BrokerError
from kafkapy.java_hashing import in_table_order
from kafkapy.metadata.errors import UnknownTopicOrPartitionError
from kafkapy.metadata.topic_rules import check_name
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.constants import AclOperation, AclResourceType, ResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkapy.protocol.primitives import encode, write_message
from kafkapy.protocol.writer import Part, Writer
from kafkapy.server.dispatch.context import RequestContext, Services
from kafkapy.server.dispatch.encoding import EncodedParts
from kafkapy.server.handlers.shared.broker_loggers import describe_loggers
from kafkapy.server.handlers.shared.config_resources import check_broker_name, check_types, error_text
from kafkapy.turns import Steps, in_turns, pause

if TYPE_CHECKING:
    from kafkapy.security.authorizer import Rights

MOST_RESPONSE_BYTES: Final = 2**31 - 1_000
"""The largest size of a frame, less its header. A small request for equal resources may have a larger response."""
MOST_CHOSEN_BYTES: Final = 100 * 1024 * 1024
"""The entries of chosen keys, equal ones counted once: they are encoded for one request, and take memory until it is
read."""
KEYS_PER_STEP: Final = 5_000
_FIRST_FLEXIBLE: Final = 4


TextOf = Callable[[str], str | None]
"""From a key's name to its documentation, None where there is none."""


class Entries:
    """The entries of a description, and their bytes."""

    def __init__(self, found: Descriptions, documentation_of: TextOf, *, include_synonyms: bool) -> None:
        by_name = {each.name: _entry(each, include_synonyms, documentation_of(each.name)) for each in found}
        self.by_name = {name: by_name[name] for name in in_table_order(by_name)}
        self._encoded: dict[int, bytes] = {}

    def encoded(self, version: int) -> bytes:
        """Return the array of all entries as a response of ``version`` has it."""
        found = self._encoded.get(version)
        if found is None:
            found = self._encoded[version] = _array(list(self.by_name.values()), version)
        return found


class Described(NamedTuple):
    """A resource's result: the bytes before its entries, and the entries, None in the result of an error."""

    head: bytes
    entries: Entries | None


async def handle(context: RequestContext, request: DescribeConfigsRequest) -> EncodedParts:
    """See the card."""
    version = context.header.api_version
    describer = _ResourceDescriber(context, request)
    try:
        await check_types(request.resources)
    except BrokerError as error:
        describer.refusal = error.with_traceback(None)  # the traceback refers to this frame
    rights = None if describer.refusal is not None else context.rights()
    allowed: Sequence[DescribeConfigsResource] = request.resources
    denied: Sequence[DescribeConfigsResource] = ()
    if rights is not None:
        allowed, denied = await in_turns(_by_rights(rights, request.resources))
    results = _Results(len(request.resources), version)
    for resource in allowed:
        head, entries = await describer.describe(resource)
        if entries is None:
            results.add(head, _end_of_struct(version))
        elif resource.configuration_keys:
            chosen = await _chosen(entries, resource.configuration_keys)
            results.add(head, results.encoded_of(entries, chosen))
        else:
            results.add(head, entries.encoded(version))
        await pause()
    for resource in denied:
        results.add(describer.denied(resource), _end_of_struct(version))
        await pause()
    return EncodedParts(DescribeConfigsResponse, version, results.parts())


def _by_rights(
    rights: "Rights", resources: Sequence[DescribeConfigsResource]
) -> Steps[tuple[list[DescribeConfigsResource], list[DescribeConfigsResource]]]:
    """Return the resources that the client may describe, and the others: DescribeConfigs on each."""
    allowed: list[DescribeConfigsResource] = []
    denied: list[DescribeConfigsResource] = []
    for resource in resources:
        if resource.resource_type == ResourceType.TOPIC:
            may = rights.may(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, resource.resource_name)
        elif resource.resource_type == ResourceType.GROUP:
            may = rights.may(AclOperation.DESCRIBE_CONFIGS, AclResourceType.GROUP, resource.resource_name)
        else:
            may = rights.may_on_cluster(AclOperation.DESCRIBE_CONFIGS)
        (allowed if may else denied).append(resource)
        yield
    return allowed, denied


class _Results:
    """The encoded results of one request."""

    def __init__(self, count: int, version: int) -> None:
        self._version = version
        self._writer = Writer()
        write_message(DescribeConfigsResponse(), self._writer, version)
        del self._writer.buffer[-len(_end_of_struct(version)) :]
        _write_count(self._writer, count, version)
        self._encoded: dict[tuple[Entries, tuple[str, ...]], bytes] = {}
        self._size = self._chosen_size = 0

    def add(self, head: bytes, content: bytes) -> None:
        """Add a result: its bytes before the entries, and the array of these.

        Raises ``RefusedError`` if the results are larger than a response can be.
        """
        self._writer.buffer += head
        self._writer.write_encoded(content)
        self._size += len(head) + len(content)
        if self._size > MOST_RESPONSE_BYTES:
            raise RefusedError(f"the response of DescribeConfigs has more than {MOST_RESPONSE_BYTES} bytes")

    def encoded_of(self, entries: Entries, names: tuple[str, ...]) -> bytes:
        """Return the array of the entries of ``names``: the same bytes for equal names.

        Raises ``RefusedError`` if the arrays that are not the same take more than ``MOST_CHOSEN_BYTES``.
        """
        found = self._encoded.get((entries, names))
        if found is None:
            found = self._encoded[entries, names] = _array([entries.by_name[name] for name in names], self._version)
            self._chosen_size += len(found)
            if self._chosen_size > MOST_CHOSEN_BYTES:
                raise RefusedError(f"the chosen keys of DescribeConfigs take more than {MOST_CHOSEN_BYTES} bytes")
        return found

    def parts(self) -> list[Part]:
        """All results."""
        if self._version >= _FIRST_FLEXIBLE:
            self._writer.write_unknown_tagged_fields(None)
        return self._writer.parts()


class _ResourceDescriber:
    """Describes the resources of one request."""

    def __init__(self, context: RequestContext, request: DescribeConfigsRequest) -> None:
        self.refusal: BrokerError | None = None
        """The error for all resources; None if each has a result of its own."""
        self._services: Services = context.services
        self._version = context.header.api_version
        self._include_synonyms = request.include_synonyms and self._version >= 1
        self._include_documentation = request.include_documentation and self._version >= 3
        self._described: dict[tuple[int, str], Described] = {}
        self._loggers: Descriptions | None = None

    async def describe(self, resource: DescribeConfigsResource) -> Described:
        """Describe one resource; equal ones get the same result."""
        place = (resource.resource_type, resource.resource_name)
        described = self._described.get(place)
        if described is not None:
            return described
        if self.refusal is not None:
            return self._failed(place, self.refusal)
        try:
            found = await self._descriptions(*place)
        except BrokerError as error:
            return self._failed(place, error)
        fine = DescribeConfigsResult(0, "", *place, [])
        described = Described(_head(fine, self._version), self._entries(found, resource_type=place[0]))
        self._described[place] = described
        return described

    def denied(self, resource: DescribeConfigsResource) -> bytes:
        """Return the bytes before the entries, of which there are none, of a resource that the client may not see."""
        error, text = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, kafka_texts.CLUSTER_NOT_AUTHORIZED
        if resource.resource_type == ResourceType.TOPIC:
            error, text = ErrorCode.TOPIC_AUTHORIZATION_FAILED, kafka_texts.TOPIC_NOT_AUTHORIZED
        elif resource.resource_type == ResourceType.GROUP:
            error, text = ErrorCode.GROUP_AUTHORIZATION_FAILED, kafka_texts.GROUP_NOT_AUTHORIZED
        refused = DescribeConfigsResult(error, text, resource.resource_type, resource.resource_name, [])
        return _head(refused, self._version)

    def _failed(self, place: tuple[int, str], error: BrokerError) -> Described:
        failed = DescribeConfigsResult(error.error_code, error_text(error), *place, [])
        return Described(_head(failed, self._version), None)

    async def _descriptions(self, resource_type: int, name: str) -> Descriptions:
        services = self._services
        if resource_type == ResourceType.TOPIC:
            check_name(name)
            if name not in services.metadata.image.topics:
                raise UnknownTopicOrPartitionError("")
            return describe_topic(services.config, await services.config_admin.topic_overrides(name))
        if resource_type == ResourceType.GROUP:
            if not name:
                raise InvalidAlterationError("Group name must not be empty")
            return describe_group(services.config, await services.config_admin.group_overrides(name))
        if resource_type == ResourceType.BROKER_LOGGER:
            check_broker_name(services, name)
            if self._loggers is None:
                self._loggers = Descriptions(describe_loggers())
            return self._loggers
        if not name:
            return describe_cluster_default(services.config)
        check_broker_name(services, name)
        return describe_broker(services.config)

    def _entries(self, found: Descriptions, *, resource_type: int) -> Entries:
        key = (self._include_synonyms, self._include_documentation)
        entries = found.derived.get(key)
        if entries is None:
            documentation_of = _documentation(resource_type) if self._include_documentation else _no_documentation
            entries = found.derived[key] = Entries(found, documentation_of, include_synonyms=self._include_synonyms)
        assert isinstance(entries, Entries)
        return entries


def _entry(
    description: Description, include_synonyms: bool, documentation: str | None
) -> DescribeConfigsResourceResult:
    synonyms = description.synonyms if include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=description.name,
        value=description.value,
        read_only=description.read_only,
        config_source=description.source,
        is_sensitive=description.sensitive,
        synonyms=[DescribeConfigsSynonym(*synonym) for synonym in synonyms],
        config_type=description.type,
        documentation=documentation,
    )


def _documentation(resource_type: int) -> TextOf:
    from kafkapy.config import documentation  # much text, which most brokers never need

    if resource_type == ResourceType.BROKER_LOGGER:
        return lambda _name: ""
    if resource_type == ResourceType.TOPIC:
        return documentation.topic_documentation
    if resource_type == ResourceType.GROUP:
        return documentation.group_documentation
    return documentation.broker_documentation


def _no_documentation(_name: str) -> None:
    return None


async def _chosen(entries: Entries, names: list[str]) -> tuple[str, ...]:
    """Return those of ``names`` that have entries, in the order in which Apache Kafka lists so many."""
    wanted: set[str] = set()
    for start in range(0, len(names), KEYS_PER_STEP):
        wanted.update(entries.by_name.keys() & names[start : start + KEYS_PER_STEP])
        await pause()
    return tuple(in_table_order(wanted))


def _head(result: DescribeConfigsResult, version: int) -> bytes:
    """The bytes of a result without entries, up to where these would be."""
    return encode(result, version)[: -len(_end_of_struct(version))]


def _end_of_struct(version: int) -> bytes:
    """The bytes of an empty array that ends its struct: the entries of a result, the results of a response."""
    return _array([], version)


def _array(entries: list[DescribeConfigsResourceResult], version: int) -> bytes:
    """The entries of a result, and what follows them there: tagged fields, of which there are none."""
    writer = Writer()
    _write_count(writer, len(entries), version)
    writer.write_structs(entries, version)
    if version >= _FIRST_FLEXIBLE:
        writer.write_unknown_tagged_fields(None)
    return writer.getvalue()


def _write_count(writer: Writer, count: int, version: int) -> None:
    if version >= _FIRST_FLEXIBLE:
        writer.write_compact_count(count)
    else:
        writer.write_count(count)
