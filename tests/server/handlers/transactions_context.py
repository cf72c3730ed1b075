"""Calls the handlers of transactions; requests and responses are encoded and decoded as on the wire."""

from typing import Any

from kafkapy.coordinator.transaction.marker_writer import MarkerWriter
from kafkapy.metadata.embedded import EmbeddedStore
from tests.coordinator.transaction.world import TransactionWorld
from tests.server.handlers.groups_context import Asker


class ProducerIds:
    """Ids from 1000 on."""

    def __init__(self) -> None:
        self.next_id = 1000

    async def next_producer_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1


class TransactionAsker(Asker):
    """A world in which this broker leads all partitions, and its services for handlers."""

    def __init__(self, world: TransactionWorld | None = None) -> None:
        self.transactions = world or TransactionWorld()
        image = self.transactions.broker.image
        super().__init__(self.transactions.groups)
        self.transactions.broker.image = image
        services: Any = self.services
        services.transaction_coordinator = self.transactions.coordinator
        services.producer_ids = ProducerIds()
        services.store = EmbeddedStore(None, self.transactions.clock).session()
        services.marker_writer = MarkerWriter(
            self.transactions.broker, self.transactions.groups.coordinator, self.transactions.clock, 30_000
        )
