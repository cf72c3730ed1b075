"""The rule of the two APIs that alter configurations; DescribeConfigs has its rule in its handler."""

from collections.abc import Callable
from typing import Any, Final

from kafkapy.protocol.constants import AclOperation, ResourceType
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages import alter_configs, incremental_alter_configs
from kafkapy.security.authorizer import Rights
from kafkapy.server.access.rules import GROUP, NO_CLUSTER, NO_GROUP, NO_TOPIC, TOPIC, Rule, with_fields
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.result import Response
from kafkapy.server.dispatch.verdicts import Partial, Verdict
from kafkapy.turns import Steps

_TYPES = frozenset(ResourceType)
_DENIED: Final = {ResourceType.TOPIC: NO_TOPIC, ResourceType.GROUP: NO_GROUP}


def _altering(row: Callable[[int, str | None, int, str], Any]) -> Rule:
    def rule(rights: Rights, _context: RequestContext, request: Any) -> Steps[Verdict]:
        """AlterConfigs on each topic and group; on the cluster for brokers and their loggers.

        The handler refuses a request with an unknown type as a whole, before its rights are asked for.
        """
        kept, denied = [], {}
        for resource in request.resources:
            kind, name = resource.resource_type, resource.resource_name
            if kind not in _TYPES:
                return None
            if _may_alter(rights, kind, name):
                kept.append(resource)
            else:
                denied[kind, name] = _DENIED.get(kind, NO_CLUSTER)
            yield
        if not denied:
            return None

        def merge(response: Any) -> Steps[Response]:
            for (kind, name), error_code in denied.items():
                response.responses.append(row(error_code, None, kind, name))
                yield
            merged: Message = response
            return merged

        return Partial(with_fields(request, resources=kept), merge)

    return rule


def _may_alter(rights: Rights, kind: int, name: str) -> bool:
    if kind == ResourceType.TOPIC:
        return rights.may(AclOperation.ALTER_CONFIGS, TOPIC, name)
    if kind == ResourceType.GROUP:
        return rights.may(AclOperation.ALTER_CONFIGS, GROUP, name)
    return rights.may_on_cluster(AclOperation.ALTER_CONFIGS)


alter = _altering(alter_configs.AlterConfigsResourceResponse)
incremental_alter = _altering(incremental_alter_configs.AlterConfigsResourceResponse)
