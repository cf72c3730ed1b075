"""The configuration of topics, groups and brokers: describe it, and alter single keys."""

from collections.abc import Iterable, Mapping
from typing import Final

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import RequestFailedError, check
from kafkapy.protocol.constants import ResourceType
from kafkapy.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

RESOURCE_TYPES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "broker": ResourceType.BROKER,
}
SOURCES: Final = {
    1: "topic",
    2: "broker, dynamic",
    3: "all brokers, dynamic",
    4: "server.properties",
    5: "default",
    8: "group",
}
FIRST_WITH_DOCUMENTATION: Final = 3
"""The first version of DescribeConfigs with the documentation of keys."""
SET: Final = 0
DELETE: Final = 1


def _serving(client: ClusterClient, kind: str, name: str) -> Connection:
    """The connection to the broker with that id, which answers for itself only, or to any broker for the rest."""
    return client.node(int(name)) if kind == "broker" and name.isdecimal() else client.any_broker()


def describe(
    client: ClusterClient, kind: str, name: str, *, documentation: bool = False
) -> list[DescribeConfigsResourceResult]:
    """All keys of a topic, group or broker (an empty name: of all brokers), by name; raises RequestFailedError.

    With ``documentation`` also the texts about keys, which brokers before Apache Kafka 2.6 don't have.
    """
    request = DescribeConfigsRequest([DescribeConfigsResource(RESOURCE_TYPES[kind], name, None)])
    serving = _serving(client, kind, name)
    request.include_documentation = documentation and serving.version_for(request) >= FIRST_WITH_DOCUMENTATION
    answer = serving.call(request, DescribeConfigsResponse)
    (result,) = answer.results
    check(result.error_code, result.error_message, what=f"{kind} {name}".strip())
    return sorted(result.configs, key=lambda config: config.name)


def describe_topics(
    client: ClusterClient, names: Iterable[str]
) -> dict[str, list[DescribeConfigsResourceResult] | RequestFailedError]:  # fmt: skip
    """All keys of each topic, with one request, or why a topic is not described."""
    resources = [DescribeConfigsResource(ResourceType.TOPIC, name, None) for name in names]
    answer = client.call(DescribeConfigsRequest(resources), DescribeConfigsResponse)
    return {
        each.resource_name: each.configs
        if not each.error_code
        else RequestFailedError(each.error_code, each.error_message, what=f"topic {each.resource_name}")
        for each in answer.results
    }


def alter(client: ClusterClient, kind: str, name: str, values: Mapping[str, str], deleted: Iterable[str] = ()) -> None:
    """Set and delete single keys; raises RequestFailedError."""
    changes = [AlterableConfig(key, SET, value) for key, value in values.items()]
    changes += [AlterableConfig(key, DELETE, None) for key in deleted]
    resource = AlterConfigsResource(RESOURCE_TYPES[kind], name, changes)
    request = IncrementalAlterConfigsRequest([resource])
    answer = _serving(client, kind, name).call(request, IncrementalAlterConfigsResponse)
    (result,) = answer.responses
    check(result.error_code, result.error_message, what=f"{kind} {name}".strip())
