"""A producer that continues while brokers end and replicas move, and a reader of the logs."""

import asyncio

from harness.client import Client, batch, produce_request
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.replication.brokers import TP, Brokers


class Producer:
    """Writes one record after the other to whichever broker the newest metadata call the leader."""

    def __init__(self, cluster: Brokers) -> None:
        self.acknowledged: dict[int, bytes] = {}
        self.is_stopping = False
        self._cluster = cluster
        self._number = 0

    async def run(self) -> None:
        while not self.is_stopping:
            leader = self._leader()
            if leader is None:
                await asyncio.sleep(0.005)
                continue
            try:
                await self._write_to(leader)
            except (OSError, asyncio.IncompleteReadError):
                continue  # the broker was killed

    def _leader(self) -> BrokerServer | None:
        found = [
            partition
            for broker in self._cluster.all
            if (partition := broker.services.metadata.image.partition(*TP)) is not None
        ]
        newest = max(found, key=lambda each: each.leader_epoch, default=None)
        return None if newest is None else self._cluster.running.get(newest.leader)

    async def _write_to(self, leader: BrokerServer) -> None:
        client = await Client.connect(leader)
        try:
            while not self.is_stopping:
                self._number += 1
                value = b"%d" % self._number
                response = await client.ask(produce_request(TP.topic, batch(value), acks=-1), 8)
                (answer,) = response.responses[0].partition_responses
                if answer.error_code != ErrorCode.NONE:
                    await asyncio.sleep(0.005)
                    return
                self.acknowledged[answer.base_offset] = value
        finally:
            client.writer.close()


def values_by_offset(content: bytes) -> dict[int, bytes | None]:
    return {
        record.offset: record.value
        for position, header in iterate_headers(content)
        for record in read_records(content[position : position + header.size], header)
    }
