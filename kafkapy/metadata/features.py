"""The features of the cluster (KIP-584): the levels that this broker supports, and those finalized in ``/feature``.

A level is finalized by UpdateFeatures, and by the first start of a broker with an embedded store, which finalizes the
newest of each feature. A cluster on ZooKeeper begins without any: its brokers may be of Apache Kafka 2.7.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafkapy.metadata.store import MetadataStore, NoNodeError, SessionEndedError, StoreError, WatchEvent
from kafkapy.metadata.znodes import FeatureZNode, ForeignDataError, decoded

TRANSACTION_VERSION: Final = "transaction.version"
FIRST_IMPLICIT_VERSION: Final = 2
"""The first transaction version in which leaders add partitions to transactions, and each transaction has an epoch."""


class SupportedFeature(NamedTuple):
    """The levels of a feature that this broker supports; level 0 means that the feature is off."""

    min_level: int
    max_level: int


SUPPORTED_FEATURES: Final[Mapping[str, SupportedFeature]] = {
    # 1: transaction log values with tagged fields, 2: an epoch for each transaction (KIP-890)
    TRANSACTION_VERSION: SupportedFeature(0, 2),
}
"""One row for each feature."""

NEWEST_LEVELS: Final = {name: feature.max_level for name, feature in SUPPORTED_FEATURES.items()}

logger: Final = logging.getLogger(__name__)


class Features:
    """The finalized levels as ``/feature`` has them; ``epoch`` is the node's version."""

    def __init__(self, store: MetadataStore) -> None:
        self.levels: Mapping[str, int] = {}
        self.epoch = -1
        self._store = store
        self._listeners: list[Callable[[], None]] = []
        self._reading: asyncio.Task[None] | None = None

    def level(self, name: str) -> int:
        """The finalized level of a feature; 0 if it is not finalized, or not to a level that this broker supports."""
        level = self.levels.get(name, 0)
        return min(level, SUPPORTED_FEATURES[name].max_level)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each change of the finalized levels."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read the finalized levels, and watch them."""
        try:
            node = await self._store.get(FeatureZNode.PATH, self._changed)
        except NoNodeError:
            if await self._store.exists(FeatureZNode.PATH, self._changed) is not None:
                await self.load()
            return
        self._set(decoded(FeatureZNode.PATH, node.data, FeatureZNode.decode), node.stat.version)

    async def finalize(self, levels: Mapping[str, int]) -> None:
        """Write finalized levels in place of those that were read; level 0 removes a feature.

        Raises ``BadVersionError`` if another broker has written levels in the meantime.
        """
        kept = {name: level for name, level in levels.items() if level}
        stat = await self._store.set(FeatureZNode.PATH, FeatureZNode.encode(kept), self.epoch)
        self._set(kept, stat.version)

    def session_renewed(self) -> None:
        """Read the levels again: the watch of the earlier session is gone."""
        self._read_again()

    async def stop(self) -> None:
        """Cancel the read that is running."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def _changed(self, _event: WatchEvent) -> None:
        self._read_again()

    def _read_again(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._reading = asyncio.get_running_loop().create_task(self._read(), name="read-features")

    async def _read(self) -> None:
        try:
            await self.load()
        except SessionEndedError as error:
            logger.debug("The features are not watched: %s", error)
        except (StoreError, ForeignDataError) as error:
            logger.error("The features can't be read, the earlier ones stay: %s", error)

    def _set(self, levels: Mapping[str, int], epoch: int) -> None:
        if epoch < self.epoch:
            return  # a read that was overtaken by a write
        is_changed = levels != self.levels
        self.levels, self.epoch = levels, epoch
        if is_changed:
            text = ", ".join(f"{name} {level}" for name, level in levels.items())
            logger.debug("Finalized features: %s", text or "none")
            for listener in self._listeners:
                listener()
