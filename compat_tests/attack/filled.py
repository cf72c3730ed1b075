"""Requests filled up to a size, generated from the message definitions alone.

A shape is an array of a request's version, or a field of bytes; it is filled until the frame has the wanted size,
while every other array has one element. The content of the elements follows from the names of the fields: topics,
groups, transactional ids, numbers of partitions. A kind says which of them:

    known      the prepared names of the broker, in turn
    repeated   one known name or number again and again
    unknown    valid, different, and not there
    invalid    not allowed as a name or number

The shape ``pipeline`` is many small requests in one write instead of one large one.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from compat_tests.attack.prepared import PARTITIONS_OF_FIRST, Counts, framed, group, topic, transactional_id
from compat_tests.differential.steps import definitions, fields_of, request_definition
from harness.definitions.model import Field
from kafkapy.protocol.headers import request_header_version
from kafkapy.protocol.message import ZERO_UUID
from kafkapy.protocol.writer import Writer
from kafkapy.records.compression import ZSTD
from kafkapy.records.record import Record, encode_batch

KNOWN, REPEATED, UNKNOWN, INVALID = "known", "repeated", "unknown", "invalid"
NAMES: Final = (KNOWN, REPEATED, UNKNOWN, INVALID)
TIME_MS: Final = 1_700_000_000_000
"""The time of records, the same in every run."""
PIPELINE: Final = "pipeline"
BOMB: Final = "bomb"
BOMB_SIZE: Final = 200 << 20
NULLS: Final = f"{PIPELINE} of null"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
BLOCK: Final = 1000
KNOWN_BLOCK: Final = 10_000
"""Elements of a large request that are encoded one by one; the rest is made of copies of them."""
DIGITS: Final = 8
"""Digits of the numbers in generated names."""
MOST_RECORDS: Final = 50_000
"""Records in one batch; a larger batch has larger values."""
RECORD_SIZE: Final = 9

TOPIC_FIELDS: Final = {"name", "topic", "topic_name", "topic_names", "resource_name"}
GROUP_FIELDS: Final = {"group_id", "groups", "groups_names", "key"}
TRANSACTIONAL_FIELDS: Final = {"transactional_id", "v3_and_below_transactional_id"}
PARTITION_FIELDS: Final = {"index", "partition", "partition_index", "partition_indexes", "partitions"}
CONFIGS: Final = (
    "retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes", "min.insync.replicas", "compression.type",
    "retention.bytes", "segment.ms", "delete.retention.ms", "flush.ms", "index.interval.bytes",
)  # fmt: skip
NUMBERS: Final[dict[str, int]] = {
    "acks": -1,
    "timeout_ms": 1000,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": 2**31 - 1,
    "partition_max_bytes": 1 << 20,
    "isolation_level": 1,
    "replica_id": -1,
    "current_leader_epoch": -1,
    "leader_epoch": 0,
    "last_fetched_epoch": -1,
    "committed_leader_epoch": -1,
    "log_start_offset": -1,
    "timestamp": -1,
    "commit_timestamp": -1,
    "retention_time_ms": -1,
    "max_num_offsets": 1,
    "session_timeout_ms": 6000,
    "rebalance_timeout_ms": 6000,
    "transaction_timeout_ms": 60_000,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "resource_type": TOPIC_RESOURCE,
}
"""Values of fields by name, where 0 would be refused or do nothing."""


class Kind(NamedTuple):
    """The content of the elements; ``settings`` are values of fields, by name, that all elements have."""

    names: str
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def title(self) -> str:
        """The kind's name in tables."""
        return " ".join([self.names, *(f"{name}={value}" for name, value in self.settings)])


class Shape(NamedTuple):
    """A request of one version, with the array or field of bytes that is filled (struct and field), or ``PIPELINE``."""

    api_key: int
    version: int
    place: tuple[str, str]

    @property
    def api(self) -> str:
        """The API's name as Kafka spells it."""
        return request_definition(self.api_key).name.removesuffix("Request")

    @property
    def title(self) -> str:
        """The name of the filled field in tables."""
        struct, field = self.place
        return field if struct in (f"{self.api}Request", PIPELINE) else f"{struct}.{field}"


Producer = tuple[str, int, int]
"""A transactional id with its producer id and epoch."""


def shapes(api_key: int, version: int) -> Iterator[Shape]:
    """All fields of a request that can be filled."""
    message = request_definition(api_key)
    for struct, versions in message.reachable():
        if version not in versions:
            continue
        for name, field in fields_of(api_key, struct.name, version):
            if field.is_array or field.element in ("bytes", "records"):
                yield Shape(api_key, version, (struct.name, name))
    yield Shape(api_key, version, (PIPELINE, PIPELINE))
    if any(version in field.nullable and field.is_array for _, field in fields_of(api_key, message.name, version)):
        yield Shape(api_key, version, (PIPELINE, NULLS))


@cache
def _names_of(api_key: int, version: int) -> frozenset[str]:
    message = request_definition(api_key)
    return frozenset(
        name
        for struct, versions in message.reachable()
        if version in versions
        for name, _ in fields_of(api_key, struct.name, version)
    )


def kinds(shape: Shape) -> Iterator[Kind]:
    """Kinds of names that fill a shape."""
    names = _names_of(shape.api_key, shape.version)
    if shape.place[0] == PIPELINE:
        yield from (Kind(each) for each in ((KNOWN, UNKNOWN) if shape.place[1] == PIPELINE else (KNOWN,)))
        if "records" in names:
            yield Kind(KNOWN, (("records", BOMB),))
        return
    yield from map(Kind, NAMES)
    if "validate_only" in names:
        yield from (Kind(each, (("validate_only", True),)) for each in (KNOWN, REPEATED, UNKNOWN))
    if "resource_type" in names:
        yield Kind(REPEATED, (("resource_type", BROKER_RESOURCE),))
    if "key_type" in names:
        yield Kind(KNOWN, (("key_type", 1),))


@cache
def _structs_within(api_key: int, struct: str) -> frozenset[str]:
    """The struct and all structs in its fields."""
    fields = request_definition(api_key).structs[struct].fields
    return frozenset({struct}.union(*(_structs_within(api_key, each.element) for each in fields if each.is_struct)))


class Filler:
    """Builds the frames of attacks on a broker with these topics, groups and transactional ids."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def frame(self, shape: Shape, kind: Kind, size: int, producer: Producer | None = None) -> tuple[bytes, int]:
        """Return about ``size`` bytes to be written at once, and the number of their requests."""
        if shape.place[0] == PIPELINE:
            return self._pipeline(shape, kind, size, producer)
        element = self._element_size(shape, kind, producer)
        fixed = len(self._one(shape, kind, 1, producer)) - element
        count = max(1, int((size - fixed) / element))
        block = KNOWN_BLOCK if kind.names == KNOWN else BLOCK
        if count >= 4 * block and self._is_array(shape):
            return self._copied(_Building(shape, kind, count // block * block, self._counts, producer), block), 1
        return self._one(shape, kind, count, producer), 1

    def small(self, shape: Shape, kind: Kind, count: int, producer: Producer) -> bytes:
        """One request's frame, with ``count`` elements in the field that the shape fills."""
        return self._one(shape, kind, count, producer if self.takes_producer(shape) else None)

    def _pipeline(self, shape: Shape, kind: Kind, size: int, producer: Producer | None) -> tuple[bytes, int]:
        frames: list[bytes] = []
        written = 0
        while written < size and len(frames) < 20_000:
            frames.append(self._one(shape, kind, 1, producer, first=len(frames)))
            written += len(frames[-1])
        return b"".join(frames), len(frames)

    @staticmethod
    def _is_array(shape: Shape) -> bool:
        struct, name = shape.place
        return any(field.is_array for each, field in fields_of(shape.api_key, struct, shape.version) if each == name)

    def _copied(self, building: "_Building", block: int) -> bytes:
        """A frame with copies of one encoded block of elements: fast for millions of them.

        Each copy has its own names, except where all are the same or the broker knows them. Numbers repeat.
        """
        count = building.count
        none, some = (building.frame(elements=each)[4:] for each in (0, block))
        lengths = [building.length_field(each) for each in (0, block, count)]
        start = _alike(none, some) - _alike(lengths[0], lengths[1])
        tail = none[start + len(lengths[0]) :]
        elements = some[start + len(lengths[1]) : len(some) - len(tail)]
        copies = building.copies(elements, block, count // block)
        data = b"".join([none[:start], lengths[2], *copies, tail])
        return len(data).to_bytes(4, "big") + data

    def _element_size(self, shape: Shape, kind: Kind, producer: Producer | None) -> float:
        few, many = (len(self._one(shape, kind, count, producer)) for count in (100, 300))
        return max(1.0, (many - few) / 200)

    def _one(self, shape: Shape, kind: Kind, count: int, producer: Producer | None, first: int = 0) -> bytes:
        return _Building(shape, kind, count, self._counts, producer).frame(first)

    def takes_producer(self, shape: Shape) -> bool:
        """Whether the request is that of a transactional producer."""
        names = _names_of(shape.api_key, shape.version)
        return bool(names & TRANSACTIONAL_FIELDS) and any(each.endswith("producer_id") for each in names)


class _Building:
    """One request."""

    def __init__(self, shape: Shape, kind: Kind, count: int, counts: Counts, producer: Producer | None) -> None:
        self._shape = shape
        self._kind = kind
        self._settings = dict(kind.settings)
        self.count = count
        self._elements = count
        self._counts = counts
        self._producer = producer

    def frame(self, first: int = 0, elements: int | None = None) -> bytes:
        """The frame; with ``elements`` it has these encoded elements, and its other fields agree with ``count``."""
        self._elements = self.count if elements is None else elements
        message = self.struct(request_definition(self._shape.api_key).name, first)
        return framed(message, self._shape.version, first)

    def length_field(self, count: int) -> bytes:
        """The bytes before the elements of an array of this version."""
        if request_header_version(self._shape.api_key, self._shape.version) < 2:
            return count.to_bytes(4, "big")
        writer = Writer()
        writer.write_unsigned_varint(count + 1)
        return writer.getvalue()

    def copies(self, elements: bytes, block: int, count: int) -> Iterator[bytes]:
        """``count`` encoded elements, each with other names if names are generated."""
        if self._kind.names == REPEATED:
            return iter([elements] * count)
        width = DIGITS - len(str(block - 1))
        marks = [mark.encode() for mark in ("u-", "ü ", "s") if mark.encode() + b"0" * width in elements]
        return (_renumbered(elements, marks, width, number) for number in range(count))

    def struct(self, name: str, number: int) -> Any:
        """The struct as element ``number`` of its array."""
        key, version = self._shape.api_key, self._shape.version
        values = {
            field_name: self._value(name, field_name, field, number)
            for field_name, field in fields_of(key, name, version)
            if version not in field.tagged
        }
        self._agree(values)
        return definitions().class_of(request_definition(key), name)(**values)

    def _agree(self, values: dict[str, Any]) -> None:
        """Numbers that must agree with other fields."""
        assignments = values.get("assignments")
        fills_assignments = self._shape.place[1] == "assignments"
        if "num_partitions" in values and (assignments or fills_assignments):
            values["num_partitions"] = values["replication_factor"] = -1
        if "count" in values:
            values["count"] = 1 + (self.count if fills_assignments else len(assignments or [None]))

    def _value(self, struct: str, name: str, field: Field, number: int) -> Any:
        is_filled = self._shape.place == (struct, name)
        if name in self._settings:
            return _bomb() if self._settings[name] == BOMB else self._settings[name]
        if not field.is_array:
            is_absent = field.is_struct and self._shape.version in field.nullable
            return None if is_absent else self._scalar(struct, name, field, number, is_filled=is_filled)
        if not is_filled and self._is_left_out(name, field):
            return None if self._shape.version in field.nullable else []
        count = self._elements if is_filled else 1
        numbers = range(count) if is_filled else [number]
        if field.is_struct:
            return [self.struct(field.element, each) for each in numbers]
        return [self._scalar(struct, name, field, each, is_filled=False) for each in numbers]

    def _is_left_out(self, name: str, field: Field) -> bool:
        """Arrays that ask for more work when they are absent, or that another value excludes."""
        if self._shape.place[1] == NULLS:
            return self._shape.version in field.nullable
        if field.is_struct and self._shape.place[0] in _structs_within(self._shape.api_key, field.element):
            return False
        is_option = name in ("configuration_keys", "forgotten_topics_data", "states_filter", "assignments")
        return is_option or (name == "configs" and self._shape.api == "CreateTopics")

    def _scalar(self, struct: str, name: str, field: Field, number: int, *, is_filled: bool) -> Any:
        match field.element:
            case "string":
                return self._string(struct, name, field, number)
            case "records":
                return _batch(self.count if is_filled else 1)
            case "bytes":
                return bytes(self.count if is_filled else 4)
            case "bool":
                return name == "allow_auto_topic_creation" and self._kind.names == UNKNOWN
            case "float64":
                return 0.0
            case "uuid":
                return ZERO_UUID
        return self._number(name, number)

    def _number(self, name: str, number: int) -> int:
        if self._producer is not None and name.endswith("producer_id"):
            return self._producer[1]
        if self._producer is not None and name.endswith("producer_epoch"):
            return self._producer[2]
        if name in PARTITION_FIELDS:
            known = number % PARTITIONS_OF_FIRST if self._fills_partitions else 0
            return {KNOWN: known, REPEATED: 0, UNKNOWN: number, INVALID: -1 - number}[self._kind.names]
        if name == "broker_ids":
            return {KNOWN: 0, REPEATED: 0, UNKNOWN: number + 1, INVALID: -1 - number}[self._kind.names]
        if name == "session_epoch":
            return 0
        return NUMBERS.get(name, 0)

    @property
    def _fills_partitions(self) -> bool:
        struct, name = self._shape.place
        return name in PARTITION_FIELDS or "Partition" in struct or name in ("partitions", "partition_data")

    def _string(self, struct: str, name: str, field: Field, number: int) -> str | None:
        if name == "resource_name" and self._settings.get("resource_type") == BROKER_RESOURCE:
            return "0"
        if self._producer is not None and name in TRANSACTIONAL_FIELDS:
            return self._producer[0]
        counts = self._counts
        if ("Config" in struct and name in ("name", "configuration_keys")) or name == "configuration_keys":
            return self._named(lambda each: CONFIGS[each % len(CONFIGS)], len(CONFIGS), number)
        if name in GROUP_FIELDS and self._settings.get("key_type") != 1:
            return self._named(group, counts.groups, number)
        if name in TRANSACTIONAL_FIELDS or name == "key":
            if name == "transactional_id" and self._shape.api == "Produce":
                return None
            return self._named(transactional_id, counts.transactional_ids, number)
        if name in TOPIC_FIELDS and struct != "JoinGroupRequestProtocol":
            inner = self._fills_partitions
            return self._named(topic, counts.topics, 0 if inner and self._kind.names == KNOWN else number)
        return self._other_string(name, field, number)

    def _other_string(self, name: str, field: Field, number: int) -> str | None:
        if name in ("client_software_name", "client_software_version"):
            return "a-1"
        if name == "value":
            return "1000000"
        if name == "member_id" and "Commit" in self._shape.api:
            return ""
        if self._shape.version in field.nullable and not field.is_array:
            return None
        if name == "member_id" and self._shape.api == "JoinGroup":
            return ""
        return f"s{0 if self._kind.names == REPEATED else number:0{DIGITS}}"

    def _named(self, known: Any, how_many: int, number: int) -> str:
        match self._kind.names:
            case "known":
                return str(known(number % how_many))
            case "repeated":
                return str(known(0))
            case "unknown":
                return f"u-{number:0{DIGITS}}"
        return f"ü {number:0{DIGITS}}/"


def _alike(one: bytes, other: bytes) -> int:
    """The length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _renumbered(elements: bytes, marks: list[bytes], width: int, number: int) -> bytes:
    for mark in marks:
        elements = elements.replace(mark + b"0" * width, b"%b%0*d" % (mark, width, number))
    return elements


@cache
def _bomb() -> bytes:
    """A batch of one record, a few kilobytes that decompress to more than a broker takes."""
    return encode_batch([Record(None, bytes(BOMB_SIZE), TIME_MS)], compression=ZSTD)


@cache
def _batch(count: int) -> bytes:
    records = min(count, MOST_RECORDS)
    value = b"v" if records == count else bytes(RECORD_SIZE * count // records - RECORD_SIZE)
    return encode_batch([Record(b"k", value, TIME_MS) for _ in range(records)])
