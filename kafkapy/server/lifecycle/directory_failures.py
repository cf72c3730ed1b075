"""The failure of a data directory of a running broker: its partitions go offline, and the controller is notified.

As in Apache Kafka the notification is a node under ``/log_dir_event_notification``. The controller then sends
LeaderAndIsr for every replica of this broker, and gets KAFKA_STORAGE_ERROR for those that are offline. When no
directory is left the broker has nothing to serve.

A full disk takes no directory offline, but new replicas can't be created on it. The controller treats these replicas as
lost; the same notification makes it send the requests again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from kafkapy.clock import Clock
from kafkapy.metadata.store import Create, MetadataStore, StoreError
from kafkapy.metadata.znodes import LogDirEventNotificationZNode
from kafkapy.replication.replica_manager import ReplicaManager
from kafkapy.server.lifecycle.node import STORE_PATIENCE_MS
from kafkapy.storage.log_manager import LogManager
from kafkapy.types import TopicPartition

logger: Final = logging.getLogger(__name__)

REFUSED_RETRY_MS: Final = 60_000
"""The time between two attempts to create the replicas that a full disk has refused."""


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
        """See ``log_manager.DirectoryListener``."""
        self._replicas.take_offline(partitions)
        if not self._logs.directories.online:
            self._all_failed()
            return
        self._begin_notifying()

    def ask_for_refused(self) -> None:
        """Request LeaderAndIsr again for the replicas that could not be created for lack of space, if there are any."""
        if self._replicas.refused and not self._notifications:
            self._begin_notifying()

    def _begin_notifying(self) -> None:
        task = asyncio.get_running_loop().create_task(self._notify(), name="log-directory-event")
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def _notify(self) -> None:
        event = LogDirEventNotificationZNode(self._replicas.broker_id)
        try:
            await self._store.multi([Create(event.SEQUENTIAL_PATH, event.encode(), sequential=True)])
        except StoreError as error:
            logger.error("Could not notify the controller of replicas without a usable data directory: %s", error)

    async def stop(self) -> None:
        """Wait for pending notifications, but not long for a store that does not answer."""
        late = [self._clock.call_later(STORE_PATIENCE_MS, task.cancel) for task in self._notifications]
        if self._notifications:
            await asyncio.wait(self._notifications)
        for timer in late:
            timer.cancel()
