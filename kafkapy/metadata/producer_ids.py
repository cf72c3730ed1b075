"""Producer ids, unique in the cluster: a broker claims them a thousand at a time (and a block anew at each start)."""

import asyncio
from typing import Final

from kafkapy.metadata.store import BadVersionError, MetadataStore
from kafkapy.metadata.znodes import ProducerIdBlockZNode, decoded

BLOCK_SIZE: Final = 1000


class ProducerIds:
    """Hands out ids from this broker's block."""

    def __init__(self, broker_id: int, store: MetadataStore) -> None:
        self._broker_id = broker_id
        self._store = store
        self._block = ProducerIdBlockZNode(broker_id, 0, -1)
        self._next = 0
        self._claiming = asyncio.Lock()
        self._is_confirmed = True

    async def start(self) -> None:
        """Claim the first block; the store may not have it on its disk yet when this returns."""
        await self._claim()
        self._is_confirmed = False

    async def next_producer_id(self) -> int:
        """An id that was never handed out; the next block is claimed when this one is used up."""
        async with self._claiming:
            if not self._is_confirmed:
                await self._store.exists(ProducerIdBlockZNode.PATH)  # returns when all changes are on the disk
                self._is_confirmed = True
            if self._next > self._block.last:
                await self._claim()
            self._next += 1
            return self._next - 1

    async def _claim(self) -> None:
        while True:
            node = await self._store.get(ProducerIdBlockZNode.PATH)
            last = decoded(ProducerIdBlockZNode.PATH, node.data, ProducerIdBlockZNode.decode)
            first = 0 if last is None else last.last + 1
            block = ProducerIdBlockZNode(self._broker_id, first, first + BLOCK_SIZE - 1)
            try:
                await self._store.set(ProducerIdBlockZNode.PATH, block.encode(), node.stat.version)
            except BadVersionError:
                continue
            self._block, self._next = block, first
            return
