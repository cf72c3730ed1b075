"""The clients of a simulated cluster: producers that are acknowledged by all replicas, others that are not, a consumer.

They speak frames over the simulated network, and know the leader as the metadata of some broker have it, which may be
old.
"""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kafkapy.network.peer import PeerUnreachableError
from kafkapy.network.peer_connection import PeerSettings, PeerTimes, RemoteBrokers
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition
from tests.simulation.cluster.invariants import Violation
from tests.simulation.cluster.loop import Node, SimulatedClock
from tests.simulation.cluster.schedule import BROKERS

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

TP: Final = TopicPartition("t", 0)
PRODUCERS: Final = (101, 102)
GROUP: Final = "group"
OFFSETS: Final = TopicPartition("__consumer_offsets", 0)
STALE_COORDINATOR_S: Final = 10.0
"""How long a broker may take, when all faults have ended, to learn that it is a group's coordinator no longer."""
TIMES: Final = PeerTimes(request_ms=1200, connect_ms=500, backoff_ms=20, backoff_max_ms=200)


class Clients:
    """All clients of one history."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self._is_finishing = False
        self._tasks: list[asyncio.Task[Any]] = []
        self.acknowledged: list[tuple[int, int, int]] = []
        """(producer, sequence, offset)."""

    def _client(self, name: str) -> "Client":
        return Client(self.world, name)

    # the topic

    async def create_topic(self) -> None:
        """Create ``t`` with a replica on each broker, in a drawn order."""
        replicas = list(BROKERS)
        self.world.loop.random.shuffle(replicas)
        topic = CreatableTopic(TP.topic, -1, -1, [CreatableReplicaAssignment(0, replicas)])
        request = CreateTopicsRequest([topic], timeout_ms=5000)
        done = self.world.spawn(self._create(request), Node("admin"))
        await done

    async def _create(self, request: CreateTopicsRequest) -> None:
        client = self._client("admin")
        while True:
            response = await client.ask(client.controller(), request, 5)
            if response is not None and response.topics[0].error_code in (0, 36):
                break
            await asyncio.sleep(0.05)
        client.close()

    def elect_preferred(self) -> None:
        self.world.spawn(self._elect(), Node("admin"))

    async def _elect(self) -> None:
        client = self._client("admin")
        request = ElectLeadersRequest(0, [TopicPartitions(TP.topic, [TP.partition])], 1000)
        await client.ask(client.controller(), request, 2)
        client.close()

    # records

    def begin(self) -> None:
        for producer in PRODUCERS:
            self._spawn(self._produce(producer), f"producer {producer}")
        self._spawn(self._consume(), "consumer")
        if self.world.plan.has_group:
            self._spawn(self._commit(), "committer")

    def _spawn(self, coroutine: Any, name: str) -> None:
        self._tasks.append(self.world.spawn(coroutine, Node(name)))

    def finish(self) -> None:
        """Producers end after the record that they are writing."""
        self._is_finishing = True

    @property
    def are_idle(self) -> bool:
        return all(task.done() for task in self._tasks)

    def check(self) -> None:
        """In the end what was acknowledged is still there."""
        for producer, sequence, offset in self.acknowledged:
            self.world.invariants.record_acknowledged(producer, sequence, offset)

    async def _produce(self, producer: int) -> None:
        """Write one record after the other with acks=all, each until it is acknowledged."""
        client, random = self._client(f"producer {producer}"), self.world.loop.random
        sequence = 0
        while not self._is_finishing:
            await self._write(client, producer, sequence)
            sequence += 1
            await asyncio.sleep(random.choice((0.005, 0.1, 0.6)) * random.random())
        client.close()

    async def _write(self, client: "Client", producer: int, sequence: int) -> None:
        content = _batch(producer, sequence)
        while True:
            leader = client.leader()
            response = await client.ask(leader, _produce_request(content, -1), 8)
            if response is not None:
                (answer,) = response.responses[0].partition_responses
                if answer.error_code == 0:
                    self.world.note(f"sequence {sequence} is acknowledged at offset {answer.base_offset} by {leader}")
                    self.acknowledged.append((producer, sequence, answer.base_offset))
                    self.world.invariants.record_acknowledged(producer, sequence, answer.base_offset)
                    return
            await asyncio.sleep(0.05)

    def write_to(self, broker: int) -> None:
        """Write with acks=1 to a broker, which may lead or think so."""
        self.world.spawn(self._write_some(broker), Node("writer"))

    async def _write_some(self, broker: int) -> None:
        client = self._client("writer")
        for _ in range(self.world.loop.random.randint(1, 3)):
            await client.ask(broker, _produce_request(_batch(-1, -1), 1), 8)
        client.close()

    async def _consume(self) -> None:
        client, random = self._client("consumer"), self.world.loop.random
        offset = 0
        while not self._is_finishing:
            broker = client.leader() if random.random() < 0.8 else random.choice(BROKERS)
            asked = FetchPartition(0, -1, offset, partition_max_bytes=1000)
            request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(TP.topic, partitions=[asked])])
            response = await client.ask(broker, request, 11)
            if response is not None and response.responses:
                (data,) = response.responses[0].partitions
                if data.error_code == 0 and data.records:
                    offset = max(offset, self.world.invariants.records_read(bytes(data.records)))
            await asyncio.sleep(random.choice((0.05, 0.4)))
        client.close()

    # a group

    async def _commit(self) -> None:
        """Commit growing offsets of a group; in the end its coordinator still has the last one."""
        client = self._client("committer")
        offset = 0
        while not self._is_finishing:
            offset += 1
            asked = OffsetCommitRequestTopic(TP.topic, partitions=[OffsetCommitRequestPartition(TP.partition, offset)])
            request = OffsetCommitRequest(GROUP, topics=[asked])
            await self._of_group(client, request, 7)
            self.world.note(f"the offset {offset} is committed")
            await asyncio.sleep(0.3 * self.world.loop.random.random())
        fetch = OffsetFetchRequest(GROUP, [OffsetFetchRequestTopic(TP.topic, [TP.partition])])
        deadline_s = self.world.loop.time() + STALE_COORDINATOR_S
        answer = await self._of_group(client, fetch, 5)
        while answer.committed_offset != offset:  # OffsetFetch is not fenced: a deposed coordinator answers, too
            if self.world.loop.time() > deadline_s:
                raise Violation(f"the group's offset is {answer.committed_offset}, {offset} was committed")
            await asyncio.sleep(0.1)
            answer = await self._of_group(client, fetch, 5)
        client.close()

    async def _of_group(self, client: "Client", request: Message, version: int) -> Any:
        """Return what the group's coordinator says of the partition, once it answers without an error."""
        while True:
            found = await client.ask(self.world.loop.random.choice(BROKERS), FindCoordinatorRequest(GROUP), 2)
            if found is not None and not found.error_code:
                response = await client.ask(found.node_id, request, version)
                if response is not None and not getattr(response, "error_code", 0):
                    answer = response.topics[0].partitions[0]
                    if not answer.error_code:
                        return answer
            await asyncio.sleep(0.05)


class Client:
    """Connections of one client."""

    def __init__(self, world: "World", name: str, times: PeerTimes = TIMES) -> None:
        self.random: Final[Random] = world.loop.random
        self._world = world
        settings = PeerSettings(name, times)
        clock = SimulatedClock(world.loop)
        self._channel = RemoteBrokers(_address_of, clock, settings, Random(world.loop.random.getrandbits(32)))

    async def ask(self, broker: int, request: Message, version: int) -> Any:
        """Return the response, None if there is none."""
        try:
            return await self._channel.send(broker, request, version)
        except PeerUnreachableError:
            return None

    def close(self) -> None:
        self._channel.close()

    def leader(self) -> int:
        """The leader by the metadata of some broker that runs; any broker if that knows none."""
        image = self._image()
        found = None if image is None else image.partition(*TP)
        return found.leader if found is not None and found.leader > 0 else self.random.choice(BROKERS)

    def controller(self) -> int:
        image = self._image()
        found = -1 if image is None else image.controller_id
        return found if found > 0 else self.random.choice(BROKERS)

    def _image(self) -> Any:
        broker = self._world.brokers[self.random.choice(BROKERS)]
        return None if broker.services is None else broker.services.metadata.image


def _address_of(broker: int) -> tuple[str, int]:
    return f"broker{broker}.simulated", 9092


def _batch(producer: int, sequence: int) -> bytes:
    record = Record(offset=0, timestamp=1_600_000_000_000, key=None, value=b"v%d" % sequence, headers=())
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if producer >= 0 else {}
    return bytes(encode_batch([record], **fields))  # type: ignore[arg-type]  # the fields are whole numbers


def _produce_request(content: bytes, acks: int) -> ProduceRequest:
    data = TopicProduceData(TP.topic, partition_data=[PartitionProduceData(0, content)])
    return ProduceRequest(None, acks, 800, [data])
