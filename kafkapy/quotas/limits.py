"""The quotas of clients: which limit holds for a user and a client id.

A quota belongs to an entity: a user, a client id, both, or a default of these. The most specific one that limits a kind
holds, in the order of ``DefaultQuotaCallback`` in Apache Kafka. Clients with the same user, or with the same client id,
share its limit.
"""

import logging
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

logger: Final = logging.getLogger(__name__)

DEFAULT: Final = "<default>"
"""The name of a default, in the tree; names are encoded there, so that no other is the same."""


class QuotaKind(StrEnum):
    """The kinds of quotas, by their keys in the configuration of users and clients."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"


WHOLE_NUMBERS: Final = frozenset({QuotaKind.PRODUCE, QuotaKind.FETCH})
"""Kinds whose limits are whole numbers."""


class QuotaEntity(NamedTuple):
    """The owner of quotas; names as in the tree (``tree_name``), ``DEFAULT`` for the default, None if it has none."""

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    """A limit for one second, and the clients that share it."""

    bound: float
    sharers: QuotaEntity


def quotas_of(entity: QuotaEntity, overrides: Mapping[str, str]) -> dict[QuotaKind, float]:
    """Return the limits in a configuration, which may have other keys; one that is no number is left out."""
    found: dict[QuotaKind, float] = {}
    for kind in QuotaKind:
        text = overrides.get(kind)
        if text is None:
            continue
        try:
            bound = float(text)
        except ValueError:
            bound = math.nan
        if math.isnan(bound):
            logger.error("The quota %s of %s is no number: it is not applied", kind, entity)
        else:
            found[kind] = bound
    return found


class QuotaLimits:
    """The limits of all entities. ``client_defaults`` hold for a client id that no quota limits."""

    __slots__ = ("_bounds", "_client_defaults")

    def __init__(self, client_defaults: Mapping[QuotaKind, float]) -> None:
        self._bounds: dict[QuotaKind, dict[QuotaEntity, float]] = {kind: {} for kind in QuotaKind}
        self._client_defaults = client_defaults

    def set(self, entity: QuotaEntity, quotas: Mapping[QuotaKind, float]) -> None:
        """Replace the quotas of an entity."""
        for kind, bounds in self._bounds.items():
            bounds.pop(entity, None)
            if kind in quotas:
                bounds[entity] = quotas[kind]

    def limit(self, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
        """Return what limits a client, by its names in the tree."""
        bounds = self._bounds[kind]
        if bounds and (found := _most_specific(bounds, user, client_id)) is not None:
            return found
        bound = self._client_defaults.get(kind) if client_id else None
        return None if bound is None else Limit(bound, QuotaEntity(None, client_id))


def _most_specific(bounds: Mapping[QuotaEntity, float], user: str, client_id: str) -> Limit | None:
    both, of_user, of_client = QuotaEntity(user, client_id), QuotaEntity(user, None), QuotaEntity(None, client_id)
    for owner, sharers in (
        (both, both),
        (QuotaEntity(user, DEFAULT), both),
        (of_user, of_user),
        (QuotaEntity(DEFAULT, client_id), both),
        (QuotaEntity(DEFAULT, DEFAULT), both),
        (QuotaEntity(DEFAULT, None), of_user),
        (of_client, of_client),
        (QuotaEntity(None, DEFAULT), of_client),
    ):
        bound = bounds.get(owner)
        if bound is not None and (client_id or sharers.client_id is None):
            return Limit(bound, sharers)
    return None
