"""The listeners of a broker: bound at its start, and changed with ``listeners`` while it runs (KIP-226)."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.config.broker_keys import LISTENER_KEYS
from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.listeners import EndPoint
from kafkapy.network.listener import Listener, ListenError
from kafkapy.server.dispatch.context import WILDCARD_HOSTS

logger: Final = logging.getLogger(__name__)


class BrokerListeners:
    """The open listeners, in the order in which they were opened: first those of the start.

    ``new_listener`` binds one; it raises ListenError, and InvalidConfigError if its certificates or passwords can't be
    used. ``forget`` is called with the name of one that was closed, or that could not be opened.
    """

    def __init__(
        self,
        config: BrokerConfig,
        new_listener: Callable[[EndPoint], Listener],
        forget: Callable[[str], None],
    ) -> None:
        self.open: Final[list[Listener]] = []
        self._config = config
        self._new_listener = new_listener
        self._forget = forget
        self._is_outdated = False
        """Whether the configuration has changed since ``_change`` last looked at it."""
        self._changes: asyncio.Task[None] | None = None

    def bind(self) -> None:
        """Bind the configured addresses. Raises ListenError and InvalidConfigError."""
        for endpoint in self._config.listeners:
            self.open.append(self._new_listener(endpoint))

    def follow(self, serve: Callable[[Listener], None], advertise: Callable[[], Awaitable[None]]) -> None:
        """From now on open and close listeners as the configuration changes.

        ``serve`` starts one that has been opened; ``advertise`` tells the cluster the addresses afterwards.
        """

        def changed(names: frozenset[str]) -> None:
            if names & LISTENER_KEYS:
                self._is_outdated = True
                if self._changes is None or self._changes.done():
                    self._changes = asyncio.create_task(self._keep_up(serve, advertise), name="listeners")

        self._config.add_listener(changed)

    async def stop(self) -> None:
        """Close all of them."""
        if self._changes is not None:
            self._changes.cancel()
            await asyncio.wait([self._changes])
        for listener in reversed(self.open):
            await listener.stop()

    def advertised(self) -> list[EndPoint]:
        """The end points to register: the configured ones, else the bound ones; a wildcard gets this machine's name.

        Port 0 is replaced by the port that the listener of that name is bound to.
        """
        bound = {listener.name: listener.endpoint for listener in self.open}
        endpoints = [
            endpoint if endpoint.port else endpoint._replace(port=bound[endpoint.listener_name].port)
            for endpoint in self._config.advertised_listeners or bound.values()
            if endpoint.listener_name in bound  # another one could not be opened
        ]
        return [
            endpoint._replace(host=socket.gethostname()) if endpoint.host in WILDCARD_HOSTS else endpoint
            for endpoint in endpoints
        ]

    async def _keep_up(self, serve: Callable[[Listener], None], advertise: Callable[[], Awaitable[None]]) -> None:
        while self._is_outdated:
            self._is_outdated = False
            await self._change(serve)
            await advertise()

    async def _change(self, serve: Callable[[Listener], None]) -> None:
        """Close and open what the configuration says now.

        As in Apache Kafka a listener of the same name stays as it is. One that can't be opened is left out.
        """
        wanted = {endpoint.listener_name: endpoint for endpoint in self._config.listeners}
        for listener in [each for each in self.open if each.name not in wanted]:
            self.open.remove(listener)
            await listener.stop()
            self._forget(listener.name)
            logger.info("Closed the listener %s", listener.endpoint)
        known = {listener.name for listener in self.open}
        for name, endpoint in wanted.items():
            if name in known:
                continue
            try:
                listener = self._new_listener(endpoint)
            except (ListenError, InvalidConfigError) as error:
                self._forget(name)
                logger.error("The listener %s is not opened: %s", endpoint, error)
            else:
                self.open.append(listener)
                serve(listener)
