"""Usual exchanges of clients, each request in any version."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from compat_tests.differential.steps import Step
from compat_tests.differential.values import BATCHES, RECORDS
from kafkapy.protocol.api_keys import ApiKey

Draw = Callable[[st.SearchStrategy[Any]], Any]
Served = dict[int, tuple[int, int]]
Scene = Callable[[Draw, Served], list[Step]]
WHOLE = 1 << 22


class Speaker:
    """Draws a version for each request; ``least`` is the first one that can express it."""

    def __init__(self, draw: Draw, served: Served) -> None:
        self.draw = draw
        self._served = served

    def say(self, api: ApiKey, least: int = 0, *, on: int = 0, **fields: Any) -> Step:
        low, high = self._served[api]
        return Step(api.name, self.draw(st.integers(max(low, least), high)), fields, on)

    def choice(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def produce(self, topic: str, records: Any, partition: int = 0, **fields: Any) -> Step:
        """Records of magic 2 need version 3."""
        least = 3 if records and "batch" in records else 0
        data = [{"name": topic, "topic_id": topic, "partition_data": [{"index": partition, "records": records}]}]
        return self.say(ApiKey.PRODUCE, least, **{"acks": -1, "timeout_ms": 5000, "topic_data": data, **fields})

    def fetch(self, topic: str, offset: int = 0, partitions: tuple[int, ...] = (0,), **fields: Any) -> Step:
        least = fields.pop("least", 0)
        wanted = [
            {"partition": each, "fetch_offset": offset, "partition_max_bytes": WHOLE, "current_leader_epoch": -1}
            for each in partitions
        ]
        sent = {"max_wait_ms": 0, "max_bytes": WHOLE, **fields}
        sent.setdefault("topics", [{"topic": topic, "topic_id": topic, "partitions": wanted}])
        return self.say(ApiKey.FETCH, least, **sent)

    def list_offsets(self, topic: str, timestamp: int, **fields: Any) -> Step:
        asked = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1, "max_num_offsets": 5}
        topics = [{"name": topic, "partitions": [asked]}]
        return self.say(ApiKey.LIST_OFFSETS, **{"replica_id": -1, "topics": topics, **fields})


def records(draw: Draw, served: Served) -> list[Step]:
    """Valid and invalid records, read from the start in two versions."""
    speaker = Speaker(draw, served)
    topic, partition = speaker.choice("@a", "@a", "@b"), 0
    steps = []
    for _ in range(speaker.choice(1, 2, 3)):
        steps.append(speaker.produce(topic, draw(RECORDS), partition, acks=speaker.choice(-1, 1)))
        steps.append(speaker.fetch(topic, isolation_level=speaker.choice(0, 1)))
    steps.append(speaker.fetch(topic, speaker.choice(0, 1, 2, 3)))
    return [*steps, speaker.list_offsets(topic, speaker.choice(-1, -2, 0, 2**62))]


def start_of_log(draw: Draw, served: Served) -> list[Step]:
    """Records, and reads after the log's beginning was deleted."""
    speaker = Speaker(draw, served)
    wanted = [{"partition_index": 0, "offset": speaker.choice(-1, 1, 2, 5)}]
    epoch = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": speaker.choice(0, 0, 1)}]
    return [
        speaker.produce("@a", draw(BATCHES)),
        speaker.produce("@a", draw(BATCHES)),
        speaker.say(ApiKey.DELETE_RECORDS, topics=[{"name": "@a", "partitions": wanted}], timeout_ms=10_000),
        speaker.list_offsets("@a", -2),
        speaker.fetch("@a", speaker.choice(0, 1, 2)),
        speaker.say(ApiKey.OFFSET_FOR_LEADER_EPOCH, topics=[{"topic": "@a", "partitions": epoch}]),
        speaker.say(ApiKey.DESCRIBE_LOG_DIRS, topics=[{"topic": "@a", "partitions": [0, 1]}]),
    ]


def fetch_session(draw: Draw, served: Served) -> list[Step]:
    """A fetch session: full, then incremental, one partition forgotten, another added, closed."""
    speaker = Speaker(draw, served)
    session: dict[str, Any] = {"session_id": "@session:0", "least": 7}
    forgotten = [{"topic": "@a", "topic_id": "@a", "partitions": [1]}]
    return [
        speaker.fetch("@a", partitions=(0, 1), session_id=0, session_epoch=0, least=7),
        speaker.fetch("@a", session_epoch=1, **session),
        speaker.produce("@a", draw(BATCHES)),
        speaker.fetch("@a", session_epoch=2, **{**session, "topics": []}),
        speaker.fetch("@b", session_epoch=3, **session, forgotten_topics_data=forgotten),
        speaker.produce("@a", draw(BATCHES), partition=1),
        speaker.fetch("@a", session_epoch=speaker.choice(4, 4, 5, 0), **{**session, "topics": []}),
        speaker.fetch("@a", session_epoch=-1, **session),
    ]


def _member(speaker: Speaker, group: str, **fields: Any) -> list[Step]:
    """Joins (twice, if the version first hands out a member id) and gets an assignment."""
    who: dict[str, Any] = {"group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, **fields}
    protocols = [{"name": "range", "metadata": {"hex": "000000000001000174ffffffff"}}]
    join: dict[str, Any] = {**who, "protocol_type": "consumer", "protocols": protocols}
    again = speaker.say(ApiKey.JOIN_GROUP, 4, **join, member_id="@member:0")
    first = speaker.say(ApiKey.JOIN_GROUP, **join, member_id="")
    assignments = [{"member_id": "@member:0", "assignment": {"hex": "0001"}}]
    sync = speaker.say(
        ApiKey.SYNC_GROUP, group_id=group, generation_id="@generation:0", member_id="@member:0",
        protocol_type="consumer", protocol_name="range", assignments=assignments,
    )  # fmt: skip
    return [first, *([again] if first.version >= 4 else []), sync]


def group(draw: Draw, served: Served) -> list[Step]:
    """A member joins, sends a heartbeat, commits and fetches offsets, is described, leaves; the group is deleted."""
    speaker = Speaker(draw, served)
    name = speaker.choice("@g", "@g", "@h")
    who: dict[str, Any] = {"group_id": name, "generation_id": "@generation:0", "member_id": "@member:0"}
    partitions = [{"partition_index": each, "committed_offset": 3 + each, "committed_metadata": ""} for each in (0, 1)]
    commit: dict[str, Any] = {**who, "generation_id_or_member_epoch": "@generation:0", "committed_leader_epoch": -1}
    wanted = [{"name": "@a", "topic_id": "@a", "partition_indexes": [0, 1]}]
    of_all = [{"group_id": name, "topics": None}]
    deleted = [{"name": "@a", "partitions": [{"partition_index": 0}]}]
    leave: dict[str, Any] = {"group_id": name, "member_id": "@member:0", "members": [{"member_id": "@member:0"}]}
    return [
        *_member(speaker, name),
        speaker.say(ApiKey.HEARTBEAT, **who),
        speaker.say(ApiKey.OFFSET_COMMIT, 1, **commit,
                    topics=[{"name": "@a", "topic_id": "@a", "partitions": partitions}]),
        speaker.say(ApiKey.OFFSET_FETCH, group_id=name, topics=wanted, groups=[{"group_id": name, "topics": wanted}]),
        speaker.say(ApiKey.DESCRIBE_GROUPS, groups=[name]),
        speaker.say(ApiKey.OFFSET_DELETE, group_id=name, topics=deleted),
        speaker.say(ApiKey.LEAVE_GROUP, **leave),
        speaker.say(ApiKey.LIST_GROUPS, states_filter=[]),
        speaker.say(ApiKey.OFFSET_DELETE, group_id=name, topics=deleted),
        speaker.say(ApiKey.OFFSET_FETCH, 2, group_id=name, topics=None, groups=of_all),
        speaker.say(ApiKey.DELETE_GROUPS, groups_names=[name]),
        speaker.say(ApiKey.DESCRIBE_GROUPS, groups=[name]),
    ]  # fmt: skip


def rebalance(draw: Draw, served: Served) -> list[Step]:
    """A second member waits for the first to join again, which the first does or leaves."""
    speaker = Speaker(draw, served)
    who: dict[str, Any] = {
        "group_id": "@g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 60_000,
        "protocol_type": "consumer",
    }
    join: dict[str, Any] = {**who, "protocols": [{"name": "range", "metadata": {"hex": "00"}}]}
    second = speaker.say(ApiKey.JOIN_GROUP, **join, member_id="", on=1)
    again = [speaker.say(ApiKey.JOIN_GROUP, 4, **join, member_id="@member:0", on=1)] if second.version >= 4 else []
    first = "@member:1" if second.version >= 4 else "@member:0"
    leave = speaker.say(ApiKey.LEAVE_GROUP, group_id="@g", member_id=first, members=[{"member_id": first}])
    back = speaker.say(ApiKey.JOIN_GROUP, **join, member_id=first)
    beat = speaker.say(ApiKey.HEARTBEAT, group_id="@g", generation_id="@generation:0", member_id=first)
    described = speaker.say(ApiKey.DESCRIBE_GROUPS, groups=["@g"])
    return [*_member(speaker, "@g"), second, *again, beat, described, speaker.choice(leave, back), described]


def static_member(draw: Draw, served: Served) -> list[Step]:
    """A static member, which restarts and fences its old member id."""
    speaker = Speaker(draw, served)
    named: dict[str, Any] = {"group_instance_id": "i"}
    who: dict[str, Any] = {"group_id": "@g", "generation_id": "@generation:0", "group_instance_id": "i"}
    return [
        *_member(speaker, "@g", **named),
        *_member(speaker, "@g", **named),
        speaker.say(ApiKey.HEARTBEAT, 3, **who, member_id="@member:1"),
        speaker.say(ApiKey.HEARTBEAT, 3, **who, member_id="@member:0"),
        speaker.say(ApiKey.DESCRIBE_GROUPS, groups=["@g"]),
        speaker.say(ApiKey.LEAVE_GROUP, 3, group_id="@g", members=[{"member_id": "", **named}]),
    ]


def transaction(draw: Draw, served: Served) -> list[Step]:
    """A transaction with offsets, committed or aborted, read with each isolation level."""
    speaker = Speaker(draw, served)
    producer: dict[str, Any] = {"producer_id": "@producer:0", "producer_epoch": "@epoch:0"}
    mine: dict[str, Any] = {"transactional_id": "@t", **producer}
    old: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in mine.items()}
    added = [{"name": "@a", "partitions": [0, 1]}]
    batch: dict[str, Any] = {"batch": {"count": 2, **producer, "base_sequence": 0, "is_transactional": True}}
    committed = [{"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}]
    offsets = [{"name": "@a", "topic_id": "@a", "partitions": committed}]
    commit: dict[str, Any] = {**mine, "group_id": "@g", "topics": offsets}
    wanted = [{"name": "@a", "topic_id": "@a", "partition_indexes": [0]}]
    asked: dict[str, Any] = {"group_id": "@g", "topics": wanted, "groups": [{"group_id": "@g", "topics": wanted}]}
    return [
        speaker.say(ApiKey.FIND_COORDINATOR, 1, key="@t", key_type=1, coordinator_keys=["@t"]),
        speaker.say(ApiKey.INIT_PRODUCER_ID, transactional_id="@t", transaction_timeout_ms=60_000),
        speaker.say(ApiKey.ADD_PARTITIONS_TO_TXN, **old, v3_and_below_topics=added,
                    transactions=[{**mine, "verify_only": False, "topics": added}]),
        speaker.produce("@a", batch, transactional_id="@t"),
        speaker.fetch("@a", isolation_level=1, least=4),
        speaker.say(ApiKey.ADD_OFFSETS_TO_TXN, **mine, group_id="@g"),
        speaker.say(ApiKey.TXN_OFFSET_COMMIT, **commit),
        speaker.say(ApiKey.OFFSET_FETCH, **asked, require_stable=True),
        speaker.say(ApiKey.END_TXN, **mine, committed=speaker.choice(True, False)),
        speaker.say(ApiKey.OFFSET_FETCH, **asked, require_stable=True),
        speaker.fetch("@a", isolation_level=speaker.choice(0, 1, 1), least=4),
        speaker.list_offsets("@a", -1, isolation_level=1),
    ]  # fmt: skip


def topic_life(draw: Draw, served: Served) -> list[Step]:
    """A topic is created, described, extended, configured, written to, and deleted."""
    speaker = Speaker(draw, served)
    name = "@n"
    resource = [{"resource_type": 2, "resource_name": name, "configuration_keys": None}]
    value = speaker.choice("100000", "5")
    change = [{"resource_type": 2, "resource_name": name, "configs": [{"name": "max.message.bytes", "value": value}]}]
    creation: dict[str, Any] = {
        "name": name,
        "num_partitions": 2,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    alter = speaker.choice(ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
    return [
        speaker.say(ApiKey.CREATE_TOPICS, topics=[creation], timeout_ms=20_000),
        speaker.say(ApiKey.METADATA, topics=[{"name": name}], allow_auto_topic_creation=False),
        speaker.say(ApiKey.DESCRIBE_CONFIGS, resources=resource, include_synonyms=speaker.choice(True, False)),
        speaker.say(alter, resources=change),
        speaker.say(ApiKey.DESCRIBE_CONFIGS, resources=resource),
        speaker.produce(name, draw(BATCHES)),
        speaker.say(ApiKey.CREATE_PARTITIONS, topics=[{"name": name, "count": 3, "assignments": None}],
                    timeout_ms=20_000),
        speaker.produce(name, draw(BATCHES), partition=2),
        speaker.say(ApiKey.DELETE_TOPICS, topic_names=[name], topics=[{"name": name}], timeout_ms=20_000),
        speaker.say(ApiKey.METADATA, topics=[{"name": name}], allow_auto_topic_creation=False),
    ]  # fmt: skip


SCENES: tuple[Scene, ...] = (
    records, records, records, start_of_log, fetch_session, group, rebalance, static_member, transaction, topic_life,
)  # fmt: skip
