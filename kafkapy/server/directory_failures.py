"""When a data directory fails under a running broker: its partitions go offline here, and the controller hears of it.

As in Apache Kafka the controller is told through a node under ``/log_dir_event_notification``; it then asks for
every replica of this broker, and those that are gone answer KAFKA_STORAGE_ERROR. When no directory is left the broker
has nothing to serve.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from kafkapy.clock import Clock
from kafkapy.metadata.store import Create, MetadataStore, StoreError
from kafkapy.metadata.znodes import LogDirEventNotificationZNode
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.node import STORE_PATIENCE_MS
from kafkapy.storage.log_directory import LogManager
from kafkapy.types import TopicPartition

logger: Final = logging.getLogger(__name__)


class DirectoryFailures:
    """Listens to the log manager; ``all_failed`` is called when the last directory is offline."""

    def __init__(
        self,
        logs: LogManager,
        replicas: ReplicaManager,
        store: MetadataStore,
        clock: Clock,
        all_failed: Callable[[], object],
    ) -> None:
        self._logs = logs
        self._replicas = replicas
        self._store = store
        self._clock = clock
        self._all_failed = all_failed
        self._notifications: set[asyncio.Task[None]] = set()

    def directory_failed(self, _path: str, partitions: Sequence[TopicPartition]) -> None:
        """See ``LogManager.directory_listener``."""
        self._replicas.take_offline(partitions)
        if not self._logs.directories.online:
            self._all_failed()
            return
        task = asyncio.get_running_loop().create_task(self._notify(), name="log-directory-event")
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def _notify(self) -> None:
        event = LogDirEventNotificationZNode(self._replicas.broker_id)
        try:
            await self._store.multi([Create(event.SEQUENTIAL_PATH, event.encode(), sequential=True)])
        except StoreError as error:
            logger.error("The controller could not be told of the data directory that failed: %s", error)

    async def stop(self) -> None:
        """Wait for what is under way, but not long for a store that does not answer."""
        late = [self._clock.call_later(STORE_PATIENCE_MS, task.cancel) for task in self._notifications]
        if self._notifications:
            await asyncio.wait(self._notifications)
        for timer in late:
            timer.cancel()
