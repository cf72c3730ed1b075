"""The start of an orderly stop in a cluster: the controller moves this broker's leaderships to other brokers first.

Without it clients find no leader from the broker's stop until the controller has noticed that. The broker still serves
its clients during this time. If leaderships can't be moved, it stops after ``controlled.shutdown.max.retries``
requests.
"""

import logging
from collections.abc import Callable
from typing import Final

from kafkapy.clock import Clock
from kafkapy.config.broker_config import BrokerConfig
from kafkapy.metadata.image import MetadataImage
from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

VERSION: Final = 3

logger: Final = logging.getLogger(__name__)


class ControlledShutdown:
    """Asks the controller on behalf of one broker; ``image_of`` returns its metadata, ``broker_epoch_of`` its epoch."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        channel: BrokerChannel,
        image_of: Callable[[], MetadataImage],
        broker_epoch_of: Callable[[], int],
    ) -> None:
        self._config = config
        self._clock = clock
        self._channel = channel
        self._image_of = image_of
        self._broker_epoch_of = broker_epoch_of

    async def run(self) -> None:
        """Move all leaderships to other live brokers where that is possible; log the ones that could not be moved."""
        if not self._config.flag("controlled.shutdown.enable") or not self._has_others():
            return
        backoff_ms = self._config.integer("controlled.shutdown.retry.backoff.ms")
        problem = ""
        for attempt in range(self._config.integer("controlled.shutdown.max.retries")):
            if attempt:
                logger.info("Asking the controller again to move leaderships away: %s", problem)
                await self._clock.sleep(backoff_ms)
            problem = await self._attempt()
            if not problem:
                logger.info("The controller has moved the leaderships of this broker to others")
                return
            if not self._has_others():
                break
        logger.warning(
            "Stopping without all leaderships moved to other brokers: %s", problem or "no attempt is allowed"
        )

    def _has_others(self) -> bool:
        return bool(self._image_of().brokers.keys() - {self._config.broker_id})

    async def _attempt(self) -> str:
        """Send one request; return a description of the partitions that remain, "" if there are none."""
        request = ControlledShutdownRequest(self._config.broker_id, self._broker_epoch_of())
        try:
            response = await self._channel.send(self._image_of().controller_id, request, VERSION)
        except (PeerUnreachableError, ProtocolError) as error:
            return f"the controller did not answer: {error}"
        assert isinstance(response, ControlledShutdownResponse), "a request is answered with its response"
        if response.error_code:
            return f"the controller refused with error {response.error_code}"
        remaining = len(response.remaining_partitions)
        return f"{remaining} partitions have no other replica in sync" if remaining else ""
