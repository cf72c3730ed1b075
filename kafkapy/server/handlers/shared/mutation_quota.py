"""The quota of a client's changes of topics (KIP-599), as the handlers of these requests use it."""

from typing import TYPE_CHECKING

from kafkapy import kafka_texts
from kafkapy.metadata.errors import ThrottlingQuotaExceededError
from kafkapy.server.dispatch.context import RequestContext

if TYPE_CHECKING:
    from kafkapy.quotas.clients import MutationQuota


class Mutations:
    """Counts the partitions that one request creates or deletes.

    From the version ``strict_from`` on, a change is refused while the quota is used up. Older clients do not know that
    error: their changes are made, and they have to wait afterwards.
    """

    __slots__ = ("throttle_ms", "_quota", "_is_strict")

    def __init__(self, context: RequestContext, strict_from: int) -> None:
        self.throttle_ms = 0
        """How long the client has to wait, for the response."""
        self._quota = _quota_of(context)
        self._is_strict = context.header.api_version >= strict_from

    def charge(self, partitions: int) -> None:
        """See ``controller.topics.Charge``."""
        quota = self._quota
        if quota is None:
            return
        if self._is_strict and (throttle_ms := quota.throttle_ms):
            self.throttle_ms = throttle_ms
            raise ThrottlingQuotaExceededError(kafka_texts.THROTTLING_QUOTA_EXCEEDED)
        quota.take(partitions)
        if not self._is_strict:
            self.throttle_ms = quota.throttle_ms


def _quota_of(context: RequestContext) -> "MutationQuota | None":
    quotas = context.services.quotas
    if quotas is None or context.session.is_local:
        return None
    from kafkapy.server.dispatch.throttling import client_names

    return quotas.mutations(*client_names(context))
