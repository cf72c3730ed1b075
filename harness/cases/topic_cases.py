"""Requests about topics, in the order in which they are sent to a one-broker cluster (broker 0).

``topic_answers.json`` holds what Apache Kafka 2.7.2 answered (``compat_tests/cluster/record_topic_answers.py``).
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkapy.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

SETTINGS = {
    "broker.id": "0",
    "num.partitions": "3",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "100",
}

TOPIC_KEYS = [
    "compression.type",
    "leader.replication.throttled.replicas",
    "message.downconversion.enable",
    "min.insync.replicas",
    "segment.jitter.ms",
    "cleanup.policy",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "segment.bytes",
    "retention.ms",
    "flush.messages",
    "message.format.version",
    "max.compaction.lag.ms",
    "file.delete.delay.ms",
    "max.message.bytes",
    "min.compaction.lag.ms",
    "message.timestamp.type",
    "preallocate",
    "min.cleanable.dirty.ratio",
    "index.interval.bytes",
    "unclean.leader.election.enable",
    "retention.bytes",
    "delete.retention.ms",
    "segment.ms",
    "message.timestamp.difference.max.ms",
    "segment.index.bytes",
]
"""In the order in which a running Apache Kafka 2.7.2 describes a topic."""


class Case(NamedTuple):
    label: str
    request: Message
    version: int


def creatable(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in more.get("assignments", {}).items()
    ]
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in more.get("configs", {}).items()]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=factor, assignments=assignments, configs=configs
    )


def create(label: str, *topics: CreatableTopic, version: int = 5, timeout_ms: int = 10000, only: bool = False) -> Case:
    return Case(label, CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=only), version)


def grow(label: str, name: str, count: int, assignments: list[list[int]] | None = None, only: bool = False) -> Case:
    wanted = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=wanted)
    return Case(label, CreatePartitionsRequest(topics=[topic], timeout_ms=10000, validate_only=only), 2)


def delete(label: str, *names: str, version: int = 5, timeout_ms: int = 10000) -> Case:
    return Case(label, DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms), version)


def metadata(label: str, *names: str, version: int = 9, auto: bool = True, operations: bool = False) -> Case:
    topics = [MetadataRequestTopic(name=name) for name in names] or None
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=auto)
    if operations:
        request.include_cluster_authorized_operations = request.include_topic_authorized_operations = True
    return Case(label, request, version)


def cases() -> Iterator[Case]:  # noqa: PLR0915  (a list, in the order of the conversation)
    yield metadata("nothing there", version=1)
    yield create("plain", creatable("plain", 2, 1, configs={"retention.ms": "5000", "cleanup.policy": "compact"}))
    yield create("plain again", creatable("plain"))
    yield create("plain, checked only", creatable("plain"), only=True)
    yield create("defaults", creatable("defaults", -1, -1), version=4)
    yield create("assigned", creatable("assigned", -1, -1, assignments={0: [0], 1: [0]}))
    yield create("checked only", creatable("never", 2, 1), only=True)
    yield create("no time", creatable("slow"), timeout_ms=0, version=4)
    yield create("twice in one request", creatable("twice"), creatable("other"), creatable("twice"), version=4)
    yield create("some good, some bad", creatable("good"), creatable("bad", 0, 1), version=4)
    for number in (0, -2):
        yield create(f"{number} partitions", creatable("x", number, 1))
        yield create(f"{number} replicas", creatable("x", 1, number))
    yield create("more replicas than brokers", creatable("x", 1, 2))
    for name in ("", ".", "..", "a b", "a/b", "ä", "x" * 249, "x" * 250):
        yield create(f"name {name[:3]!r} {len(name)}", creatable(name), version=4, only=True)
    yield create("bad name and no partitions", creatable("a b", 0, 1))
    yield create("bad name and bad config", creatable("a b", configs={"nope": "1"}))
    yield create("with dot", creatable("a.b"), version=4)
    yield create("collides", creatable("a_b"))
    yield create("numbers and assignment", creatable("x", 1, 1, assignments={0: [0]}))
    yield create("partitions and assignment", creatable("x", 2, -1, assignments={0: [0]}))
    yield create("assigned with a gap", creatable("x", -1, -1, assignments={0: [0], 2: [0]}))
    yield create("assigned without 0", creatable("x", -1, -1, assignments={1: [0]}))
    yield create("assigned twice", creatable("x", -1, -1, assignments={0: [0, 0]}))
    yield create("assigned unevenly", creatable("x", -1, -1, assignments={0: [0], 1: [0, 1]}))
    yield create("assigned to nobody", creatable("x", -1, -1, assignments={0: []}), only=True)
    yield create("assigned to a stranger, checked", creatable("x", -1, -1, assignments={0: [7]}), only=True)
    yield create("unknown config", creatable("x", configs={"nope": "1"}))
    yield create("bad config", creatable("x", configs={"retention.ms": "soon"}))
    yield create("forbidden config", creatable("x", configs={"segment.bytes": "3"}))
    yield create("null config", creatable("x", configs={"retention.ms": None}))
    yield create("null config and unknown config", creatable("x", configs={"retention.ms": None, "nope": "1"}))
    yield create("internal by hand", creatable("__transaction_state", 1, 1), version=4)
    yield grow("grow", "plain", 4)
    yield grow("grow, checked only", "plain", 9, only=True)
    yield grow("same", "plain", 4)
    yield grow("shrink", "plain", 1)
    yield grow("to nothing", "plain", 0)
    yield grow("to less than nothing", "plain", -1)
    yield grow("unknown", "nobody", 4)
    yield grow("illegal name", "a b", 4)
    yield grow("assigned growth", "plain", 6, [[0], [0]])
    yield grow("too few assignments", "plain", 8, [[0]])
    yield grow("too many assignments", "plain", 7, [[0], [0]])
    yield grow("assigned to a stranger", "plain", 7, [[7]])
    yield grow("assigned to nobody", "plain", 7, [[]])
    yield grow("broker twice", "plain", 7, [[0, 0]])
    topics = [CreatePartitionsTopic(name="plain", count=count, assignments=None) for count in (9, 9)]
    yield Case("growth twice", CreatePartitionsRequest(topics=topics, timeout_ms=10000, validate_only=False), 2)
    yield metadata("one", "plain")
    yield metadata("one, version 0", "plain", version=0)
    yield metadata("with operations", "plain", version=8, operations=True)
    yield metadata("missing, not created", "missing", auto=False, version=5)
    yield metadata("missing, created", "auto.topic", version=5)
    yield metadata("missing, version 0", "auto0", version=0)
    yield metadata("missing, bad name", "a b", version=5)
    yield metadata("missing, bad name, not created", "a b", version=5, auto=False)
    yield metadata("missing, collides", "a_b", version=5)
    yield metadata("missing, empty name", "", version=5)
    yield metadata("internal, created", "__consumer_offsets", version=5)
    yield metadata("the same twice", "plain", "plain", version=5)
    yield delete("delete", "plain", "defaults")
    yield delete("unknown", "plain", "nobody")
    yield delete("twice", "good", "good", version=4)
    yield delete("illegal", "a b", version=1)
    yield delete("no time", "other", timeout_ms=0)


WAITED_FOR = {"missing, created": "auto.topic", "internal, created": "__consumer_offsets"}
"""After these the next request waits until the topic is there."""


SAID: Final = "(said)"
"""Replaces the text of an error: only its presence is compared, since the wording differs."""


def plain(message: Any) -> Any:
    """A message as JSON values, without what depends on the broker (addresses, ids, wording) or on chance."""
    if isinstance(message, list):
        return [plain(found) for found in message]
    if not isinstance(message, Message):
        return message
    skipped = ("unknown_tagged_fields", "host", "port", "cluster_id", "topic_id", "throttle_time_ms")
    values = {slot: plain(getattr(message, slot)) for slot in message.__slots__ if slot not in skipped}
    return values | {slot: SAID for slot in ("error_message",) if values.get(slot) is not None}
