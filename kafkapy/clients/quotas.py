"""Quotas of users and client ids: list, set and remove (KIP-546)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import check
from kafkapy.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from kafkapy.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse

KINDS: Final = ("user", "client-id")
KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")

Entity = Mapping[str, str | None]
"""``user``, ``client-id`` or both, with a name each; None is the default."""


class ClientQuota(NamedTuple):
    """The limits of an entity, by key."""

    entity: dict[str, str | None]
    limits: dict[str, float]


def list_quotas(client: ClusterClient) -> list[ClientQuota]:
    """All quotas, by the names of their entities; raises RequestFailedError."""
    answer = client.any_broker().call(DescribeClientQuotasRequest([]), DescribeClientQuotasResponse)
    check(answer.error_code, answer.error_message)
    found = [
        ClientQuota(
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in sorted(entry.values, key=lambda value: value.key)},
        )
        for entry in answer.entries or []
    ]
    return sorted(found, key=lambda quota: [(kind in quota.entity, quota.entity.get(kind) or "") for kind in KINDS])


def alter_quotas(client: ClusterClient, entity: Entity, limits: Mapping[str, float | None]) -> None:
    """Set limits of an entity, or remove those that are None; raises RequestFailedError."""
    request = AlterClientQuotasRequest(
        [
            RequestEntryData(
                [EntityData(kind, name) for kind, name in entity.items()],
                [OpData(key, limit or 0.0, limit is None) for key, limit in limits.items()],
            )
        ]
    )
    answer = client.any_broker().call(request, AlterClientQuotasResponse)
    for entry in answer.entries:
        check(entry.error_code, entry.error_message)
