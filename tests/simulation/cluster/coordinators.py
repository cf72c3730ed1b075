"""Groups and transactional ids of many coordinators in one history, and what must hold of them after each disturbance.

The internal topics have 10 or 50 partitions and there are other topics beside them, so that a broker learns of the
cluster in several pieces. Some clients commit offsets of groups, workers make transactions, and one asks brokers what
topics there are. ``inspect`` ends all faults and compares:

- *Coordinators*: every broker names for every group and transactional id the leader of partition ``hash mod n`` of the
  internal topic, where ``n`` is the number of partitions that the metadata store has.
- *Offsets*: the coordinator of a group has the offset that its client was told to be committed.
- *Transactions*: a transactional id keeps its producer id; what was told to be committed is committed in every
  partition, once, and nothing else is; no transaction stays open.
- *Topics*: every broker knows every partition. At no time does a broker deny a topic that exists, or show a part of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from kafkapy.metadata.features import TRANSACTION_VERSION
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.metadata.znodes import LeaderIsr, PartitionStateZNode, TopicZNode
from kafkapy.protocol.constants import GROUP_KEY, TRANSACTIONAL_ID_KEY
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kafkapy.types import TopicPartition
from tests.simulation.cluster.asking import CoordinatorClient
from tests.simulation.cluster.clients import TP
from tests.simulation.cluster.invariants import Violation, read_batches
from tests.simulation.cluster.loop import Node
from tests.simulation.cluster.schedule import BROKERS, CoordinatorPlan
from tests.simulation.cluster.transactions import ALL_ARRIVED_S, CALM_TIMES, Worker, outcomes_in, wrong_outcome

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

INTERNAL: Final = {GROUP_KEY: GROUP_METADATA_TOPIC, TRANSACTIONAL_ID_KEY: TRANSACTION_STATE_TOPIC}
GROUPS: Final = 5
WORKERS: Final = 3
TARGETS: Final = 3
"""The partitions to which one worker writes, each of another topic."""
UNUSED_NAMES: Final = 15
"""Names of each kind that no client uses: their coordinators are checked, too."""
SETTLED_S: Final = 10.0
"""How long brokers may take, when all faults have ended, to learn what is true."""
TOPIC: Final = 2
"""The resource type of a topic."""


def kafka_partition(name: str, count: int) -> int:
    """Return the partition of an internal topic that keeps ``name``: Java's hash of the string, without its sign."""
    found = 0
    for unit in memoryview(name.encode("utf-16-le")).cast("H"):
        found = (31 * found + unit) & 0xFFFFFFFF
    signed = found - (1 << 32) if found & 0x80000000 else found
    return (0 if signed == -(1 << 31) else abs(signed)) % count


class Coordinators:
    """The answers that the clients of groups and transactional ids have received."""

    def __init__(self, world: "World", plan: CoordinatorPlan) -> None:
        self._world = world
        random = world.loop.random
        self._topics = {f"topic-{number}": random.randint(1, plan.partitions_max) for number in range(plan.topics)}
        self._committed = {f"group-{number}": 0 for number in range(GROUPS)}
        self._workers = [
            Worker(
                world,
                f"worker-{number}",
                TP,
                [TopicPartition(topic, 0) for topic in self._draw_topics()],
                transaction_version=plan.transaction_version,
            )
            for number in range(WORKERS)
        ]
        self._transaction_version = plan.transaction_version
        self._is_finishing = False
        self._tasks: list[asyncio.Task[Any]] = []
        self.inspections = 0
        """How often everything was compared."""

    def _draw_topics(self) -> list[str]:
        return self._world.loop.random.sample(list(self._topics), TARGETS)

    # the begin

    async def prepare(self) -> None:
        """Create the topics; return when all brokers know all of them and each name has its coordinator."""
        await self._world.spawn(self._create_topics(), Node("admin"))
        finding = [self._spawn(self._find_first(broker), f"finder {broker}") for broker in BROKERS]
        await asyncio.gather(*finding)
        await self._world.until(self._have_begun, "the topics are not there")
        self._topics |= {TP.topic: 1} | {topic: self._count(topic) for topic in INTERNAL.values()}
        await self._in_time(self._wrong_topic)
        await self._in_time(self._wrong_coordinator)
        for worker in self._workers:
            await worker.restart()
        self.begin()

    async def _create_topics(self) -> None:
        client = CoordinatorClient(self._world, "admin", CALM_TIMES)
        topics = [CreatableTopic(topic, count, len(BROKERS)) for topic, count in self._topics.items()]
        while True:
            response = await client.ask(client.controller(), CreateTopicsRequest(topics, timeout_ms=5000), 5)
            if response is not None and all(topic.error_code in (0, 36) for topic in response.topics):
                break
            await asyncio.sleep(0.05)
        if self._transaction_version:
            await self._finalize(client)
        client.close()

    async def _finalize(self, client: CoordinatorClient) -> None:
        """Finalize the transaction version."""
        update = FeatureUpdateKey(TRANSACTION_VERSION, self._transaction_version)
        while True:
            request = UpdateFeaturesRequest(5000, [update], validate_only=False)
            response = await client.ask(client.controller(), request, 1)
            if response is not None and not response.error_code:
                return
            await asyncio.sleep(0.05)

    async def _find_first(self, broker: int) -> None:
        client = CoordinatorClient(self._world, f"finder {broker}", CALM_TIMES)
        for key_type, name in self._names():
            found = -1
            while found < 0:
                found = await client.find(broker, key_type, name)
        client.close()

    def _have_begun(self) -> bool:
        topics = [*self._topics, *INTERNAL.values()]
        return all(set(state.isr) == set(BROKERS) for topic in topics for state in self._states(topic).values())

    # the store

    def _count(self, topic: str) -> int:
        node = self._world.store.tree.nodes.get(TopicZNode.path(topic))
        return 0 if node is None else len(TopicZNode.decode(node.data).partitions)

    def _states(self, topic: str) -> dict[int, LeaderIsr]:
        """The states of all partitions; one without a state has no leader and no ISR."""
        found = {}
        for partition in range(self._count(topic)):
            node = self._world.store.tree.nodes.get(PartitionStateZNode.path(TopicPartition(topic, partition)))
            found[partition] = (
                LeaderIsr(-1, -1, (), -1) if node is None else PartitionStateZNode.decode(node.data, node.version)
            )
        return found

    def _leader(self, partition: TopicPartition) -> int:
        node = self._world.store.tree.nodes.get(PartitionStateZNode.path(partition))
        return -1 if node is None else PartitionStateZNode.decode(node.data, node.version).leader

    # the clients

    def begin(self) -> None:
        """Let the clients work until the next inspection."""
        self._is_finishing = False
        for group in self._committed:
            self._spawn(self._commit(group), group)
        for worker in self._workers:
            self._spawn(worker.work(self._leader, self._finishes), worker.transactional_id)
        self._spawn(self._look(), "looker")

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        task = self._world.spawn(coroutine, Node(name))
        self._tasks.append(task)
        return task

    def _finishes(self) -> bool:
        return self._is_finishing

    async def _commit(self, group: str) -> None:
        client = CoordinatorClient(self._world, group)
        while not self._is_finishing:
            offset = self._committed[group] + 1
            topic = OffsetCommitRequestTopic(TP.topic, partitions=[OffsetCommitRequestPartition(TP.partition, offset)])
            await client.of_group(group, OffsetCommitRequest(group, topics=[topic]), 7)
            self._committed[group] = offset
            self._world.note(f"the offset {offset} is committed")
            await asyncio.sleep(0.5 * client.random.random())
        client.close()

    async def _look(self) -> None:
        """Ask brokers for topics, which all exist."""
        client = CoordinatorClient(self._world, "looker")
        while not self._is_finishing:
            broker = client.random.choice(BROKERS)
            topic = client.random.choice(list(self._topics))
            asked = client.random.choice((self._look_at_all, self._look_at_one, self._look_at_configuration))
            problem = await asked(client, broker, topic)
            if problem:
                raise Violation(problem)
            await asyncio.sleep(0.2 * client.random.random())
        client.close()

    async def _look_at_all(self, client: CoordinatorClient, broker: int, _: str) -> str:
        response = await client.ask(broker, MetadataRequest(None, allow_auto_topic_creation=False), 8)
        return "" if response is None else self._denied(broker, response, set(self._topics))

    async def _look_at_one(self, client: CoordinatorClient, broker: int, topic: str) -> str:
        request = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        response = await client.ask(broker, request, 8)
        return "" if response is None else self._denied(broker, response, {topic})

    async def _look_at_configuration(self, client: CoordinatorClient, broker: int, topic: str) -> str:
        resource = AlterConfigsResource(TOPIC, topic, [AlterableConfig("retention.ms", 0, "1000000")])
        response = await client.ask(broker, IncrementalAlterConfigsRequest([resource], validate_only=True), 1)
        if response is None or response.responses[0].error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return ""
        return f"broker {broker} has answered that {topic} has no configuration, as it does not exist"

    def _denied(self, broker: int, response: MetadataResponse, asked: set[str]) -> str:
        """Say which topic is denied or shown in part; an answer without brokers says that nothing is known."""
        if not response.brokers:
            return ""
        for topic in response.topics:
            asked.discard(topic.name or "")
            expected, found = self._topics.get(topic.name or "", 0), len(topic.partitions)
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return f"broker {broker} has answered that {topic.name} does not exist"
            if not topic.error_code and found < expected:
                return f"broker {broker} has answered that {topic.name} has {found} partitions, it has {expected}"
        return f"broker {broker} has answered without the topics {sorted(asked)}" if asked else ""

    # the inspection

    async def inspect(self) -> None:
        """End all faults, wait for the clients, and compare everything; raises ``Violation``."""
        world = self._world
        world.note("all faults end for an inspection")
        self._is_finishing = True
        world.calm()
        await world.until(self._is_calm, "the healed cluster does not serve groups and transactions")
        await asyncio.sleep(ALL_ARRIVED_S)
        await self._in_time(self._wrong_coordinator)
        for worker in self._workers:
            await worker.restart()
        await self._in_time(self._wrong_offset)
        await self._in_time(self._wrong_transaction)
        await self._in_time(self._wrong_topic)
        self.inspections += 1
        world.note("the inspection has found nothing")

    def _is_calm(self) -> bool:
        self._tasks = [task for task in self._tasks if not task.done()]
        return self._world.are_up() and not self._tasks

    async def _in_time(self, compare: Callable[[CoordinatorClient], Awaitable[str]]) -> None:
        client = CoordinatorClient(self._world, "inspector", CALM_TIMES)
        last_s = self._world.loop.time() + SETTLED_S
        while True:
            problem = await compare(client)
            if not problem:
                break
            if self._world.loop.time() >= last_s:
                raise Violation(problem)
            await asyncio.sleep(0.25)
        client.close()

    def _names(self) -> list[tuple[int, str]]:
        unused = [(key_type, f"unused-{number}") for key_type in INTERNAL for number in range(UNUSED_NAMES)]
        groups = [*self._committed, *(worker.group for worker in self._workers)]
        ids = [worker.transactional_id for worker in self._workers]
        return [(GROUP_KEY, name) for name in groups] + [(TRANSACTIONAL_ID_KEY, name) for name in ids] + unused

    async def _wrong_coordinator(self, client: CoordinatorClient) -> str:
        leaders = {key_type: self._states(topic) for key_type, topic in INTERNAL.items()}
        for broker in BROKERS:
            for key_type, name in self._names():
                partition = kafka_partition(name, len(leaders[key_type]))
                found, expected = await client.find(broker, key_type, name), leaders[key_type][partition].leader
                if found != expected:
                    return (
                        f"broker {broker} names {found} as coordinator of {name}, which is in partition {partition} of "
                        f"{INTERNAL[key_type]}, led by {expected}"
                    )
        return ""

    async def _wrong_offset(self, client: CoordinatorClient) -> str:
        told = {**self._committed, **{worker.group: worker.committed_offset for worker in self._workers}}
        for group, expected in told.items():
            fetch = OffsetFetchRequest(group, [OffsetFetchRequestTopic(TP.topic, [TP.partition])])
            response = await client.of_group(group, fetch, 5)
            found = response.topics[0].partitions[0].committed_offset
            if found != expected and (found, expected) != (-1, 0):
                return f"the offset of {group} is {found}, it was told that {expected} is committed"
        return ""

    async def _wrong_transaction(self, _: CoordinatorClient) -> str:
        ended = {}
        for partition in {partition for worker in self._workers for partition in worker.targets}:
            services = self._world.brokers[self._leader(partition)].services
            assert services is not None, "all brokers run"
            ended[partition] = outcomes_in(read_batches(services.replica_manager.partitions[partition].log, 0))
        return wrong_outcome([told for worker in self._workers for told in worker.told], ended)

    async def _wrong_topic(self, client: CoordinatorClient) -> str:
        for broker in BROKERS:
            problem = await self._look_at_all(client, broker, "")
            if problem:
                return problem
        return ""
