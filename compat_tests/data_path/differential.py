"""The same bytes to two brokers, and what differs in what they answer and keep."""

import random
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from compat_tests.data_path.frames import produce_request
from compat_tests.data_path.odd_records import OddRecords
from compat_tests.groups.wire import Wire, answer_to_creation
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.records.batch import iterate_headers
from kafkapy.records.record import read_records

FORMATS = ("0.9.0", "0.10.0", "2.7")
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "uncompressed": {"compression.type": "uncompressed"},
    "gzip": {"compression.type": "gzip"},
    "snappy": {"compression.type": "snappy"},
    "lz4": {"compression.type": "lz4"},
    "zstd": {"compression.type": "zstd"},
    "compact": {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**63 - 1)},
    "timely": {"message.timestamp.difference.max.ms": "100000"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "stamped-lz4": {"message.timestamp.type": "LogAppendTime", "compression.type": "lz4"},
    "small": {"max.message.bytes": "300"},
    "segments": {"segment.bytes": "400", "index.interval.bytes": "0"},
    "refusing": {"message.downconversion.enable": "false"},
}
CLOSED = "closed"
INVALID_TXN_STATE = 48
UNKNOWN_SERVER_ERROR = -1
ROLLS_FIRST = (45, 47)
"""Refusals before which Kafka may have rolled the segment already."""
KNOWN = {(87, 43), (87, 2), (2, 87), (87, 76), (2, 76), (76, 2), (32, 87), (32, 76), (45, 87)}
"""Both refuse, for another one of several reasons."""
NAMED = (2, 10, 32, 43, 76, 87)
"""What we say where Kafka fails inside."""


class Side:
    """One of the two brokers."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.wire = Wire(bootstrap)

    def ask(self, request: Any, version: int) -> Any:
        """The answer, or ``CLOSED``."""
        try:
            return self.wire.ask(request, version)
        except (AssertionError, ConnectionError) as error:
            if isinstance(error, AssertionError) and "closed the connection" not in str(error):
                raise
            self.wire.__exit__(None, None, None)
            self.wire = Wire(self.bootstrap)
            return CLOSED

    def create(self, name: str, configs: dict[str, str]) -> None:
        settings = [CreatableTopicConfig(*pair) for pair in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=settings)
        assert answer_to_creation(self.wire, topic) == 0, name
        for partition in (0, 1):
            while self.wire.ask(offsets_request(name, partition, -1), 5).topics[0].partitions[0].error_code:
                pass


@dataclass
class Topic:
    """A topic that both brokers have, and where its partitions end."""

    name: str
    format: str
    kind: str
    ends: list[int] = field(default_factory=lambda: [0, 0])
    history: list[Any] = field(default_factory=list)
    is_exact: bool = True
    """Whether the two logs are the same byte for byte: other libraries and clocks write other bytes."""


class Difference(NamedTuple):
    """What the two did not agree on."""

    what: str
    topic: str
    version: int
    theirs: object
    ours: object
    sent: object

    def __str__(self) -> str:
        sent = self.sent.hex() if isinstance(self.sent, bytes) else self.sent
        return f"{self.what} v{self.version} {self.topic}: Kafka {self.theirs} | kafkapy {self.ours}\n    {sent}"


class Comparison:
    """Feeds two brokers with the same requests; ``seed`` says which."""

    def __init__(self, theirs: str, ours: str, seed: int) -> None:
        self.sides = (Side(theirs), Side(ours))
        self.chance = random.Random(seed)
        self.odd = OddRecords(self.chance, int(time.time() * 1000))
        self.prefix = f"d{seed}"
        self.made = 0
        self.gone: list[Topic] = []
        self.topics = [self._topic(release, kind) for release in FORMATS for kind in KINDS]
        self.differences: list[Difference] = []
        self.known = 0
        self.refused = 0
        self.appended = 0

    def _topic(self, release: str, kind: str) -> Topic:
        self.made += 1
        topic = Topic(f"{self.prefix}-{self.made}-{release}-{kind}", release, kind)
        for side in self.sides:
            side.create(topic.name, {"message.format.version": release, "retention.ms": "-1", **KINDS[kind]})
        return topic

    def _replace(self, topic: Topic) -> None:
        """From here on the two logs differ: go on with a new topic."""
        self.gone.append(topic)
        self.topics[self.topics.index(topic)] = self._topic(topic.format, topic.kind)

    def _differ(self, what: str, topic: Topic, version: int, theirs: object, ours: object, sent: object) -> None:
        self.differences.append(Difference(what, topic.name, version, theirs, ours, sent))

    def produce(self) -> None:
        """One request for one partition."""
        chance = self.chance
        topic, version = chance.choice(self.topics), chance.choice([0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 8])
        partition, sent = chance.choice([0, 0, 0, 1]), self.odd.draw()
        request = produce_request(topic.name, sent, partition=partition, acks=chance.choice([1, -1]))
        request.transactional_id = chance.choice([None] * 9 + ["t"]) if version >= 3 else None
        theirs, ours = (_produced(side.ask(request, version)) for side in self.sides)
        topic.history.append((version, partition, sent, theirs, ours))
        if theirs == ours == CLOSED:
            return
        if theirs != ours:
            self._refused_otherwise(topic, version, theirs, ours, sent)
        elif theirs[0]:
            self.refused += 1
            topic.is_exact &= theirs[0] not in ROLLS_FIRST
        else:
            self.appended += 1
            topic.is_exact &= theirs[1] == topic.ends[partition]
            self._fetch_what_was_appended(topic, partition)

    def _refused_otherwise(self, topic: Topic, version: int, theirs: Any, ours: Any, sent: bytes | None) -> None:
        if CLOSED in (theirs, ours) or not _is_known(theirs[0], ours[0], sent):
            self._differ("produce", topic, version, theirs, ours, sent)
        else:
            self.known += 1
        if CLOSED in (theirs, ours) or 0 in (theirs[0], ours[0]):
            self._replace(topic)

    def _fetch_what_was_appended(self, topic: Topic, partition: int) -> None:
        first, end = topic.ends[partition], self._end(topic, partition)
        if end is None:
            self._replace(topic)
            return
        topic.ends[partition] = end
        for place, version in enumerate((11, *self.chance.sample(range(13), 3))):
            if not self.fetch(topic, partition, version, first, from_anywhere=place > 0):
                self._replace(topic)
                return

    def _end(self, topic: Topic, partition: int) -> int | None:
        theirs, ours = (_latest(side, topic.name, partition) for side in self.sides)
        if theirs != ours:
            self._differ("end", topic, 5, theirs, ours, None)
            return None
        return theirs

    def fetch(self, topic: Topic, partition: int, version: int, first: int, *, from_anywhere: bool) -> bool:
        """Compare what a fetch gets: of what was just written, or of anything in any size where bytes are the same."""
        chance = self.chance
        offset, size, most = first, 1 << 20, 1 << 25
        if from_anywhere and chance.random() < 0.5 and topic.is_exact:
            offset, size = chance.randrange(topic.ends[partition] + 1), chance.choice([1, 60, 200, 500, 3000, 1 << 20])
            most = chance.choice([1 << 25, 1 << 25, 100, 1000])
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=size)
        wanted.current_leader_epoch = -1
        request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=chance.choice([0, 1]), max_bytes=most)
        request.topics = [FetchTopic(topic=topic.name, partitions=[wanted])]
        if from_anywhere and topic.is_exact:
            request.topics[0].partitions.append(
                FetchPartition(partition=1 - partition, current_leader_epoch=-1, partition_max_bytes=size)
            )
        theirs, ours = (_fetched(side.ask(request, version), version) for side in self.sides)
        if theirs == ours:
            return True
        if version < 4 and (theirs == CLOSED or UNKNOWN_SERVER_ERROR in (theirs[0], *(each[0] for each in theirs[5]))):
            return True  # Kafka can't convert timestamps below -1
        if version < 4 and _is_beginning(_told(theirs, topic), _told(ours, topic)):
            return True  # of batches before one that it can't convert Kafka leaves out more
        if offset == first and size == 1 << 20 and most == 1 << 25 and _told(theirs, topic) == _told(ours, topic):
            topic.is_exact = False
            return True
        wanted.partition_max_bytes, request.max_bytes = 1 << 20, 1 << 25
        stored = _fetched(self.sides[0].ask(request, 11), 11)[-1]
        self._differ(f"fetch of {offset} size {size}/{most}", topic, version, theirs, ours, stored)
        return False

    def list_offsets(self) -> None:
        """Compare the offset of a time."""
        topic, version = self.chance.choice(self.topics), self.chance.randrange(6)
        at = self.chance.choice([-1, -2, 0, 1_000_000, self.odd.now_ms, self.odd.now_ms + 2_000, 2**62])
        if version == 0 and not topic.is_exact:
            return
        if version == 0 or topic.kind.startswith("stamped"):
            at = self.chance.choice([-1, -2])
        request = offsets_request(topic.name, 0, at, 100 if version == 0 else 1)
        theirs, ours = (_listed(side.ask(request, version)) for side in self.sides)
        if theirs != ours:
            self._differ(f"offset of {at}", topic, version, theirs, ours, None)


def _is_known(theirs: int, ours: int, sent: bytes | None) -> bool:
    """Whether a difference is one that the documentation of ``kafkapy.records`` names.

    Kafka does not look at what goes beyond a message's end, at the checksum behind compressed data, nor at timestamps
    whose sum is over 64 bits.
    """
    assert sent is not None
    if theirs == UNKNOWN_SERVER_ERROR:
        return ours in NAMED + ROLLS_FIRST
    if ours == INVALID_TXN_STATE:
        return True  # nobody can have begun a transaction with us
    if theirs in ROLLS_FIRST and ours == 0:
        return True  # old timestamps: Kafka forgets silent producers each ten minutes, we first after half a minute
    if theirs == 0:
        return ours == 2 or (ours == 87 and (sent[16] < 2 or abs(int.from_bytes(sent[27:35], signed=True)) > 2**62))
    return (theirs, ours) in KNOWN


def _produced(answer: Any) -> Any:
    if answer == CLOSED:
        return CLOSED
    found = answer.responses[0].partition_responses[0]
    return (
        found.error_code, found.base_offset, found.log_append_time_ms >= 0, found.log_start_offset,
        [each.batch_index for each in found.record_errors],
    )  # fmt: skip


def _fetched(answer: Any, version: int) -> Any:
    """Below version 4 a second partition counts by its size alone: what is converted may be compressed otherwise."""
    if answer == CLOSED:
        return CLOSED
    found = answer.responses[0].partitions[0]
    others = [
        (each.error_code, each.high_watermark, bytes(each.records) if version > 3 else len(each.records))
        for each in answer.responses[0].partitions[1:]
    ]
    return (
        found.error_code, found.high_watermark, found.last_stable_offset, found.log_start_offset,
        found.aborted_transactions, others, bytes(found.records or b""),
    )  # fmt: skip


def _told(answer: Any, topic: Topic) -> Any:
    """A fetch's answer with what the records say in the place of their bytes; times that brokers give don't count."""
    if answer == CLOSED or answer[0]:
        return answer
    content = answer[-1]
    told: list[Any] = []
    stamped = topic.kind.startswith("stamped")
    for position, header in iterate_headers(content):
        kept = header._replace(size=0, crc=0)
        told.append(kept._replace(base_timestamp=0, max_timestamp=0) if stamped else kept)
        for record in read_records(content, header, position):
            told.append(record._replace(timestamp=0) if stamped else record)
    return (*answer[:-1], told)


def _is_beginning(theirs: Any, ours: Any) -> bool:
    return bool(theirs[:-1] == ours[:-1] and ours[0] == 0 and theirs[-1] == ours[-1][: len(theirs[-1])])


def _latest(side: Side, topic: str, partition: int) -> int:
    found: int = side.wire.ask(offsets_request(topic, partition, -1), 5).topics[0].partitions[0].offset
    return found


def _listed(answer: Any) -> Any:
    if answer == CLOSED:
        return CLOSED
    found = answer.topics[0].partitions[0]
    return found.error_code, found.timestamp, found.offset, found.leader_epoch, found.old_style_offsets


def offsets_request(topic: str, partition: int, timestamp: int, most: int = 1) -> ListOffsetsRequest:
    """For one partition; ``most`` is for version 0 alone."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, max_num_offsets=most)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
