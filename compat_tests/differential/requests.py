"""Conversations drawn by hypothesis: usual exchanges with something left out, single requests, damaged ones."""

from typing import Any

from hypothesis import strategies as st

from compat_tests.differential.damage import damages
from compat_tests.differential.scenes import SCENES, Draw
from compat_tests.differential.steps import Plan, Step, fields_of, request_definition
from compat_tests.differential.values import BY_TYPE, FIELDS
from harness.definitions.model import Field
from kafkapy.protocol.api_keys import ApiKey

Served = dict[int, tuple[int, int]]
"""The versions of each API that both brokers advertise."""
BETWEEN_BROKERS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
FORMATS = ("2.7", "2.7", "2.7", "0.10.0", "0.9.0")
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
OF_2_7 = ("timely", "refusing", "segments")
"""The kinds with keys, or values, that Apache Kafka 4 does not have any more."""
USUAL = {"retention.ms": "-1", "file.delete.delay.ms": "1000"}
LONGEST = 24


@st.composite
def topics(draw: Draw, release: str) -> dict[str, dict[str, Any]]:
    """The two topics of a conversation."""
    found: dict[str, dict[str, Any]] = {}
    is_2_7 = release.startswith("2.7")
    for name, partitions in (("a", 2), ("b", 1)):
        settings = dict(USUAL)
        if is_2_7:
            settings["message.format.version"] = draw(st.sampled_from(FORMATS))
        kind = draw(st.sampled_from(["plain"] * 8 + [each for each in KINDS if is_2_7 or each not in OF_2_7]))
        found[name] = {"partitions": partitions, "configs": {**settings, **KINDS[kind]}}
    return found


def _elements(draw: Draw, key: int, field: Field, place: str, version: int) -> list[Any]:
    count = draw(st.sampled_from([1, 1, 1, 1, 1, 2, 2, 0, 3]))
    return [_one(draw, key, field, place, version) for _ in range(count)]


def _values(place: str, field: Field) -> st.SearchStrategy[Any]:
    for name in (place, place.partition(".")[2]):
        if name in FIELDS:
            return FIELDS[name]
    return BY_TYPE[field.element]


def _one(draw: Draw, key: int, field: Field, place: str, version: int) -> Any:
    if field.is_struct:
        return body(draw, key, field.element, version)
    found = draw(_values(place, field))
    if found is None and version not in field.nullable:
        return "" if field.element == "string" else {"hex": ""}
    return found


def body(draw: Draw, key: int, struct: str, version: int) -> dict[str, Any]:
    """A struct of a request with something in each of its fields."""
    found: dict[str, Any] = {}
    for name, field in fields_of(key, struct, version):
        place = f"{struct}.{name}"
        if not field.is_array:
            found[name] = _one(draw, key, field, place, version)
        elif version in field.nullable and draw(st.sampled_from([False] * 4 + [True])):
            found[name] = None
        else:
            found[name] = _elements(draw, key, field, place, version)
    return found


def single(served: Served) -> st.SearchStrategy[list[Step]]:
    """One request of any API and version."""
    keys = sorted(key for key in served if key not in BETWEEN_BROKERS)

    @st.composite
    def build(draw: Draw) -> list[Step]:
        key = draw(st.sampled_from(keys))
        version = draw(st.integers(*served[key]))
        fields = body(draw, key, request_definition(key).name, version)
        damage = draw(st.none() | st.none() | st.none() | damages(served[key][1]))
        return [Step(ApiKey(key).name, version, fields, draw(st.sampled_from([0, 0, 0, 1])), damage)]

    return build()


def scenes(served: Served) -> st.SearchStrategy[list[Step]]:
    """A usual exchange, in some versions, now and then without one of its requests."""

    @st.composite
    def build(draw: Draw) -> list[Step]:
        steps = draw(st.sampled_from(SCENES))(draw, served)
        return [step for step in steps if draw(st.sampled_from([True] * 11 + [False]))]

    return build()


def plans(served: Served, release: str) -> st.SearchStrategy[Plan]:
    """Whole conversations."""
    part = st.one_of(scenes(served), single(served), single(served))

    @st.composite
    def build(draw: Draw) -> Plan:
        found = draw(topics(release))
        return Plan(found, [step for _ in range(draw(st.integers(1, LONGEST))) for step in draw(part)])

    return build()
