"""The arguments of a handler beside the request: the broker's parts, the request's header and session."""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.errors import BrokerError
from kafkapy.network.session import Session

if TYPE_CHECKING:
    from kafkapy.controller.controller import Controller
    from kafkapy.controller.topics import Budget, TopicAdmin
    from kafkapy.coordinator.group.coordinator import GroupCoordinator
    from kafkapy.coordinator.transaction.coordinator import TransactionCoordinator
    from kafkapy.coordinator.transaction.marker_writer import MarkerWriter
    from kafkapy.coordinator.transaction.verifier import TransactionVerifier
    from kafkapy.metadata.configs import ConfigAdmin
    from kafkapy.metadata.delegation_tokens import TokenStore
    from kafkapy.metadata.features import Features
    from kafkapy.metadata.image import MetadataCache
    from kafkapy.metadata.producer_ids import ProducerIds
    from kafkapy.metadata.store import MetadataStore
    from kafkapy.metrics import Metrics
    from kafkapy.network.budget import FrameBudget
    from kafkapy.protocol.headers import RequestHeader
    from kafkapy.quotas.clients import ClientQuotas
    from kafkapy.replication.fencing import ControllerFence
    from kafkapy.replication.fetch_sessions import FetchSessionCache
    from kafkapy.replication.replica_manager import ReplicaManager
    from kafkapy.security.authorizer import Rights
    from kafkapy.server.dispatch.access import AccessControl
    from kafkapy.server.dispatch.api_table import ApiTable
    from kafkapy.server.dispatch.compute_thread import ComputeThread
    from kafkapy.storage.log_manager import LogManager

logger: Final = logging.getLogger(__name__)

LOGGED_REFUSALS: Final = 10
"""Refusals of one request that have a log line each; further ones are only counted."""
REFUSALS_INTERVAL_MS: Final = 1_000
"""How often the number of further refusals is logged."""

WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::", "0:0:0:0:0:0:0:0"})  # noqa: S104  # compared with, not bound


@dataclass(slots=True, eq=False)
class Services:
    """The parts of one running broker."""

    config: BrokerConfig
    clock: Clock
    metadata: "MetadataCache"
    fence: "ControllerFence"
    store: "MetadataStore"
    features: "Features"
    controller: "Controller"
    topic_admin: "TopicAdmin"
    config_admin: "ConfigAdmin"
    producer_ids: "ProducerIds"
    replica_manager: "ReplicaManager"
    log_manager: "LogManager"
    group_coordinator: "GroupCoordinator"
    transaction_coordinator: "TransactionCoordinator"
    marker_writer: "MarkerWriter"
    fetch_sessions: "FetchSessionCache"
    metrics: "Metrics"
    apis: "dict[str, ApiTable]"
    """The APIs of each listener, by its name."""
    compute: "ComputeThread"
    memory: "FrameBudget"
    """Limits the bytes of responses and decoded requests; the same object as ``ListenerResources.response_budget``."""
    large_requests: asyncio.Semaphore
    """Limits how many large requests of all listeners are decoded and handled at a time."""
    transaction_verifier: "TransactionVerifier | None" = None
    """None where the brokers of the cluster do not verify transactions."""
    access: "AccessControl | None" = None
    """None without ``authorizer.class.name``: every client may do everything."""
    quotas: "ClientQuotas | None" = None
    """None before the first quota: clients may take as much as they can."""
    tokens: "TokenStore | None" = None
    """The delegation tokens; None without ``delegation.token.master.key``."""


class RequestContext:
    """Services, header and session of one request. It is made for each request, so it has few fields."""

    __slots__ = ("services", "header", "session", "frame_size", "_refusals")

    def __init__(self, services: Services, header: "RequestHeader", session: Session, frame_size: int = 0) -> None:
        self.services = services
        self.header = header
        """Its correlation id may be that of an earlier request of the connection: do not use it."""
        self.session = session
        self.frame_size = frame_size
        """Bytes of the request, header included."""
        self._refusals = 0

    def rights(self) -> "Rights | None":
        """Return what the client may do; None if that is everything: no authorizer is set, or it is the broker."""
        access = self.services.access
        return None if access is None else access.rights(self)

    def budget(self, strict_from: int) -> "Budget":
        """Return what limits the partitions that this request creates or deletes.

        From the version ``strict_from`` on clients know THROTTLING_QUOTA_EXCEEDED.
        """
        quotas = self.services.quotas
        if quotas is None:
            from kafkapy.controller.topics import UNLIMITED

            return UNLIMITED
        from kafkapy.server.dispatch.throttling import MutationBudget

        return MutationBudget(self, quotas, strict_from)

    def log_refusal(self, subject: str, error: BrokerError) -> None:
        """Log which part of the request is refused and why; the response has the error's code.

        After ``LOGGED_REFUSALS`` lines further refusals are only counted; one line a second has their number. All
        requests together have a limit too (``PeerLines``).
        """
        self._refusals += 1
        if self._refusals <= LOGGED_REFUSALS:
            if self._may_log():
                host = self.session.peer_host
                logger.info("Refused %s of %s: %s (error %d)", subject, host, error, error.error_code)
        elif self._refusals == LOGGED_REFUSALS + 1:
            self.services.clock.call_later(REFUSALS_INTERVAL_MS, self._log_further_refusals)

    def log_wanted_sasl(self) -> None:
        """Log that the client wants to authenticate with SASL on a listener without it, once a minute and address."""
        now_s = self.services.clock.monotonic_s()
        if self.services.metrics.sasl_lines.may_log(self.session.peer_host, now_s) and self._may_log():
            logger.info(
                "The client %s wants to authenticate with SASL, but listener %s is PLAINTEXT: it needs no credentials",
                self.session.peer_host,
                self.session.listener,
            )

    def _log_further_refusals(self) -> None:
        count, self._refusals = self._refusals - LOGGED_REFUSALS, LOGGED_REFUSALS
        if self._may_log():
            logger.info("Refused %d further elements of the same request of %s", count, self.session.peer_host)

    def _may_log(self) -> bool:
        return self.services.metrics.peer_lines.may_log(self.services.clock.monotonic_s())

    def own_endpoint(self) -> tuple[str, int]:
        """Return the (host, port) of this broker that this client can use.

        This is the listener's advertised address if one is configured (the connection's own host or port where
        that is empty or 0). Otherwise it is the address that the listener is bound to, or, for a listener on every
        interface, the address that the client has connected to.
        """
        name = self.session.listener
        host, port = self.session.local_address
        for endpoint in self.services.config.advertised_listeners:
            if endpoint.listener_name == name:
                return endpoint.host or host, endpoint.port or port
        for endpoint in self.services.config.listeners:
            if endpoint.listener_name == name and endpoint.host not in WILDCARD_HOSTS:
                return endpoint.host, port
        return host, port
