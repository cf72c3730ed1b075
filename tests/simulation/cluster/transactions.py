"""A worker with a transactional id, and what it was told of each of its transactions.

A request that was not answered may be executed later: its connection is closed, but what was sent still arrives. A late
EndTxn would end the transaction that is open then, so after an unanswered request the worker takes the next producer
epoch (KIP-360), until a request for it was answered at once. Then a correct cluster never fences it. In transaction
version 2 (KIP-890) each end gives the next epoch, and leaders add their partitions.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kafkapy.coordinator.transaction.transaction import EPOCH_PER_TRANSACTION
from kafkapy.network.peer_connection import PeerTimes
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkapy.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.records.control import ControlType, read_control
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.types import TopicPartition
from tests.simulation.cluster.asking import RETRIED, CoordinatorClient, errors_in, refuse
from tests.simulation.cluster.invariants import Batch, Violation
from tests.simulation.cluster.schedule import BROKERS

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

TIMEOUT_MS: Final = 600_000
"""The time-out of transactions, which no history reaches."""
CALM_TIMES: Final = PeerTimes(request_ms=10_000, connect_ms=5_000, backoff_ms=20, backoff_max_ms=200)
"""When all faults have ended every request is answered within this time."""
ALL_ARRIVED_S: Final = 2.0
"""When all faults have ended everything that was sent arrives within this time."""

_ATTRIBUTES: Final = slice(21, 23)
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20

LeaderOf = Callable[[TopicPartition], int]


class Told:
    """A transaction; ``is_committed`` is what the worker was told, False until then."""

    def __init__(self, number: int, name: str, partitions: Iterable[TopicPartition]) -> None:
        self.number = number
        self.values = {partition: f"{name} {number} {partition}".encode() for partition in partitions}
        self.is_committed = False


class Worker:
    """Copies from ``source`` to ``targets``: each transaction writes records and commits an offset of its group."""

    def __init__(
        self,
        world: "World",
        name: str,
        source: TopicPartition,
        targets: list[TopicPartition],
        *,
        transaction_version: int,
    ) -> None:
        self.transactional_id: Final = name
        self.group: Final = f"group of {name}"
        self.source: Final = source
        self.told: list[Told] = []
        self._world = world
        self.targets: Final = targets
        self._random = world.loop.random
        self._is_version_2 = transaction_version >= EPOCH_PER_TRANSACTION
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    @property
    def committed_offset(self) -> int:
        """The offset that the group must have, -1 for none."""
        return next((each.number for each in reversed(self.told) if each.is_committed), -1)

    # the producer id

    async def restart(self) -> None:
        """Begin as a new process with the same name; the cluster has no faults now.

        It gets its producer id again, with a later epoch, and a transaction that it has left open is aborted.
        """
        client = CoordinatorClient(self._world, self.transactional_id, CALM_TIMES)
        while True:
            await self._init(client, -1, -1)
            if not client.unanswered:
                break
            client.unanswered = 0
            await asyncio.sleep(ALL_ARRIVED_S)
        client.close()

    async def _renew(self, client: CoordinatorClient) -> bool:
        """Take the next epoch; False if that is refused. In version 2 the end of the transaction has given one.

        A late AddPartitionsToTxn may have opened a transaction, which the coordinator aborts in an epoch of its own.
        """
        while client.unanswered and not self._is_version_2:
            client.unanswered = 0
            if not await self._init(client, self._producer_id, self._epoch, _FENCED):
                return False
        return True

    async def _init(
        self, client: CoordinatorClient, producer_id: int, epoch: int, last: frozenset[ErrorCode] = frozenset()
    ) -> bool:
        request = InitProducerIdRequest(self.transactional_id, TIMEOUT_MS, producer_id, epoch)
        response: InitProducerIdResponse = await client.of_transactional_id(self.transactional_id, request, 4, last)
        if response.error_code:
            return False
        self._take(response.producer_id, response.producer_epoch)
        return True

    def _take(self, producer_id: int, epoch: int) -> None:
        """Go on with another epoch; raises ``Violation`` if it is no later one of the same producer id."""
        given = producer_id, epoch
        if self._producer_id >= 0 and (given[0] != self._producer_id or given[1] <= self._epoch):
            raise Violation(
                f"{self.transactional_id} had producer id {self._producer_id} with epoch {self._epoch} and has got "
                f"{given[0]} with epoch {given[1]}"
            )
        self._producer_id, self._epoch = given
        self._sequences = {}

    # transactions

    async def work(self, leader_of: LeaderOf, is_finishing: Callable[[], bool]) -> None:
        """Make one transaction after the other; the last one may stay open."""
        client = CoordinatorClient(self._world, self.transactional_id)
        while not is_finishing():
            client.unanswered = 0
            if not await self._transact(client, leader_of, is_finishing) or not await self._renew(client):
                break
            await asyncio.sleep(0.3 * self._random.random())
        client.close()

    async def _transact(self, client: CoordinatorClient, leader_of: LeaderOf, is_finishing: Callable[[], bool]) -> bool:
        """Make a transaction; False if it stays open."""
        partitions = self._random.sample(self.targets, self._random.randint(1, len(self.targets)))
        told = Told(len(self.told) + 1, self.transactional_id, partitions)
        self.told.append(told)
        whose = self.transactional_id, self._producer_id, self._epoch
        if not self._is_version_2:
            topics = [AddPartitionsToTxnTopic(topic, [partition]) for topic, partition in partitions]
            add = AddPartitionsToTxnRequest([], *whose, topics)
            await client.of_transactional_id(self.transactional_id, add, 1)
        for partition, value in told.values.items():
            await self._write(client, leader_of, partition, value)
        if not self._is_version_2:
            add_offsets = AddOffsetsToTxnRequest(*whose, self.group)
            await client.of_transactional_id(self.transactional_id, add_offsets, 1)
        commit = TxnOffsetCommitRequestPartition(self.source.partition, told.number)
        topic = TxnOffsetCommitRequestTopic(self.source.topic, partitions=[commit])
        offsets = TxnOffsetCommitRequest(self.transactional_id, self.group, *whose[1:], topics=[topic])
        await client.of_group(self.group, offsets, 5 if self._is_version_2 else 2)
        if is_finishing() and self._random.random() < 0.5:
            return False
        is_committed = self._random.random() < 0.7
        end = EndTxnRequest(*whose, is_committed)
        response = await client.of_transactional_id(self.transactional_id, end, 5 if self._is_version_2 else 1)
        if self._is_version_2:
            self._take(response.producer_id, response.producer_epoch)
        told.is_committed = is_committed
        outcome = "committed" if is_committed else "aborted"
        self._world.note(f"transaction {told.number} of producer id {whose[1]} is {outcome}")
        return True

    async def _write(
        self, client: CoordinatorClient, leader_of: LeaderOf, partition: TopicPartition, value: bytes
    ) -> None:
        """Write a record until it is acknowledged, mostly to the leader."""
        sequence = self._sequences.get(partition, 0)
        record = Record(offset=0, timestamp=1_600_000_000_000, key=None, value=value, headers=())
        batch = encode_batch(
            [record],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(partition.topic, partition_data=[PartitionProduceData(partition.partition, batch)])
        request = ProduceRequest(self.transactional_id, -1, 800, [data])
        while True:
            leader = leader_of(partition) if self._random.random() < 0.8 else -1
            broker = leader if leader >= 0 else self._random.choice(BROKERS)
            response = await client.ask(broker, request, 12 if self._is_version_2 else 8)
            if response is not None:
                refuse(response, f"Produce of {self.transactional_id} to {partition}", broker, _RETRIED_WRITES)
                if not any(errors_in(response)):
                    self._sequences[partition] = sequence + 1
                    return
            await asyncio.sleep(0.05)


_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_RETRIED_WRITES: Final = RETRIED | {ErrorCode.KAFKA_STORAGE_ERROR}


# outcomes


def outcomes_in(batches: Iterable[Batch]) -> dict[bytes, list[ControlType | None]]:
    """Return the markers behind each record of a transaction, None for one whose transaction is open."""
    ended: dict[bytes, list[ControlType | None]] = {}
    open_now: dict[int, list[bytes]] = {}
    for batch in batches:
        attributes = int.from_bytes(batch.content[_ATTRIBUTES], "big")
        if attributes & _CONTROL:
            marker = ControlType(read_control(batch.content).type)
            for value in open_now.pop(batch.producer, ()):
                ended.setdefault(value, []).append(marker)
        elif attributes & _TRANSACTIONAL:
            open_now.setdefault(batch.producer, []).extend(each.value or b"" for each in read_records(batch.content))
    for values in open_now.values():
        for value in values:
            ended.setdefault(value, []).append(None)
    return ended


def wrong_outcome(
    told: Iterable[Told], ended: Mapping[TopicPartition, Mapping[bytes, list[ControlType | None]]]
) -> str:
    """Return in words which transaction has another outcome in a log than its worker was told; "" if none has."""
    for each in told:
        for partition, value in each.values.items():
            found = ended[partition].get(value, [])
            is_right = found == [ControlType.COMMIT] if each.is_committed else found in ([], [ControlType.ABORT])
            if not is_right:
                wanted = "committed" if each.is_committed else "not committed"
                names = [marker.name if marker is not None else "open" for marker in found]
                return f"the record {value!r} was told to be {wanted}, {partition} has it as {names}"
    return ""
