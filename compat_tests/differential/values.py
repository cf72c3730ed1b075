"""The values of the fields of generated requests: few for each field, so that the requests of a conversation meet."""

from typing import Any, Final
from uuid import UUID

from hypothesis import strategies as st

Values = st.SearchStrategy[Any]
PRODUCED_TO = "__consumer_offsets"
"""Clients may not write to it; all other requests do not touch internal topics."""
MAX_INT32, MAX_INT64 = 2**31 - 1, 2**63 - 1


def _of(*values: Any) -> Values:
    return st.sampled_from(values)


TOPIC: Final = _of("@a", "@a", "@a", "@a", "@b", "@b", "@missing", "", "@a b", "@" + "x" * 250)
GROUP: Final = _of("@g", "@g", "@g", "@g", "@h", "@nobody", "")
MEMBER: Final = _of("@member:0", "@member:0", "@member:0", "@member:1", "", "nobody")
INSTANCE: Final = _of(None, None, None, None, "i", "j", "")
TRANSACTIONAL: Final = _of("@t", "@t", "@t", "@u", "")
PARTITION: Final = _of(0, 0, 0, 0, 1, 1, 2, -1, MAX_INT32)
GENERATION: Final = _of("@generation:0", "@generation:0", "@generation:0", "@generation:1", -1, 0, 1, 2, 9)
LEADER_EPOCH: Final = _of(-1, -1, -1, 0, 0, 1, -2, MAX_INT32)
OFFSET: Final = _of(0, 0, 1, 2, 3, 5, 9, -1, -2, 1000, 2**40, MAX_INT64)
PRODUCER: Final = _of("@producer:0", "@producer:0", "@producer:0", "@producer:1", -1, 0, 987_654)
EPOCH: Final = _of("@epoch:0", "@epoch:0", "@epoch:0", "@epoch:1", -1, 0, 1, 2, 32767)
TIMEOUT: Final = _of(10_000, 20_000)
ISOLATION: Final = _of(0, 1, 1, 0, 2, -1)
METADATA: Final = _of("", "", "kept", None, "m" * 4096, "m" * 4097, "ü" * 2049)
BYTES: Final = _of({"hex": ""}, {"hex": "000000000001000174ffffffff"}, {"hex": "00"}, {"hex": "ff" * 20})
RESOURCE: Final = _of("@a", "@a", "@a", "@b", "@missing", "0", "0", "", "1", "@a b")
CONFIG_NAME: Final = _of(
    "retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes", "min.insync.replicas", "compression.type",
    "message.timestamp.type", "leader.replication.throttled.replicas", "unclean.leader.election.enable", "bogus", "",
    "log.retention.ms", "num.io.threads", "min.cleanable.dirty.ratio", "message.downconversion.enable",
)  # fmt: skip
CONFIG_VALUE: Final = _of(
    "1000000", "compact", "delete", "compact,delete", "gzip", "producer", "LogAppendTime", "true", "false", "0.5", "",
    "-1", "0", "bogus", None, "*", "0:0", "9999999999999999999", " 1000000 ",
)  # fmt: skip
BATCHES: Final = st.fixed_dictionaries(
    {
        "count": _of(1, 1, 1, 2, 5),
        "compression": _of(0, 0, 0, 1, 2, 3, 4),
        "producer_id": _of(-1, -1, "@producer:0", "@producer:0", "@producer:1"),
        "producer_epoch": _of("@epoch:0", "@epoch:0", "@epoch:1", -1, 0, 5),
        "base_sequence": _of(0, 0, 1, 2, -1, MAX_INT32),
        "is_transactional": _of(False, False, True),
        "age": _of(0, 0, 1_000, 10**10, -(10**9)),
    }
).map(lambda fields: {"batch": fields})
RECORDS: Final = st.one_of(
    BATCHES,
    st.integers(0, 2**32 - 1).map(lambda seed: {"odd": seed}),
    _of(None, {"hex": ""}, {"hex": "00" * 17}, {"hex": "00" * 80}),
)

FIELDS: Final[dict[str, Values]] = {
    # by struct and field, where the field's name alone does not say it
    "TopicProduceData.name": _of("@a", "@a", "@a", "@b", "@b", "@missing", PRODUCED_TO, "", "@a b"),
    "CreatableTopic.name": _of("@n", "@n", "@o", "@a", "@missing", "", ".", "@a b", "@" + "x" * 250, "@with.dot"),
    "CreatePartitionsTopic.name": _of("@a", "@b", "@n", "@missing", "", "@a b"),
    "DeleteTopicsRequest.topic_names": _of("@n", "@o", "@n", "@b", "@missing", "", "@a b"),
    "AlterConfigsResource.resource_name": _of("@a", "@a", "@b", "@missing", "", "@a b"),
    "AlterConfigsResource.resource_type": _of(2, 2, 2, 2, 2, 0, 3, -1, 127),
    "DeleteTopicState.name": _of("@n", "@o", "@n", "@b", "@missing", None, ""),
    "DescribeConfigsResource.configuration_keys": CONFIG_NAME,
    "CreatableTopicConfig.name": CONFIG_NAME,
    "AlterableConfig.name": CONFIG_NAME,
    "JoinGroupRequestProtocol.name": _of("range", "range", "range", "sticky", "other", ""),
    "MetadataRequestTopic.name": _of("@a", "@a", "@b", "@missing", PRODUCED_TO, "", "@a b", "@auto"),
    "FindCoordinatorRequest.key": _of("@g", "@t", ""),
    "FindCoordinatorRequest.coordinator_keys": _of("@g", "@t", ""),
    # Nothing that 2.7.2 would store: its quotas would slow down what follows.
    "OpData.key": _of("bogus", ""),
    "OpData.value": _of(0.0, 1.0, 0.5, -1.0),
    "ScramCredentialDeletion.mechanism": _of(1, 1, 2, 2, 0, 3, -1),
    "ScramCredentialUpsertion.mechanism": _of(1, 1, 2, 2, 0, 3, -1),
    "ScramCredentialUpsertion.iterations": _of(4095, 16_385, 0, -1, MAX_INT32),
    "FeatureUpdateKey.max_version_level": _of(1, 1, 0, -1, 2),
    # by field
    "name": TOPIC,
    "topic": TOPIC,
    "topic_id": _of("@a", "@a", "@a", "@b", "@missing", str(UUID(int=0)), str(UUID(int=1))),
    "group_id": GROUP,
    "groups": GROUP,
    "groups_names": GROUP,
    "member_id": MEMBER,
    "group_instance_id": INSTANCE,
    "transactional_id": TRANSACTIONAL,
    "v3_and_below_transactional_id": TRANSACTIONAL,
    "partition": PARTITION,
    "partition_index": PARTITION,
    "partition_indexes": PARTITION,
    "partitions": PARTITION,
    "index": PARTITION,
    "generation_id": GENERATION,
    "generation_id_or_member_epoch": GENERATION,
    "producer_id": PRODUCER,
    "v3_and_below_producer_id": PRODUCER,
    "producer_epoch": EPOCH,
    "v3_and_below_producer_epoch": EPOCH,
    "current_leader_epoch": LEADER_EPOCH,
    "leader_epoch": LEADER_EPOCH,
    "last_fetched_epoch": _of(-1, -1, -1, 0, 0, 1),
    "committed_leader_epoch": LEADER_EPOCH,
    "coordinator_epoch": _of(0, 0, 1, -1),
    "fetch_offset": OFFSET,
    "offset": OFFSET,
    "committed_offset": OFFSET,
    "log_start_offset": _of(-1, -1, 0),
    "replica_id": _of(-1, -1, -1, -1, -1, -1, -2, 3),
    "max_wait_ms": _of(0, 0, 0, 20, -1),
    "min_bytes": _of(0, 0, 1, 1, 1_000_000, -1),
    "max_bytes": _of(MAX_INT32, 1 << 22, 1 << 22, 1000, 100, 0, -1),
    "partition_max_bytes": _of(1 << 20, 1 << 20, 1 << 20, 500, 60, 1, 0),
    "isolation_level": ISOLATION,
    "session_id": _of(0, 0, "@session:0", "@session:0", "@session:1", 12_345),
    "session_epoch": _of(-1, -1, 0, 0, 1, 2, 3),
    "rack_id": _of("", "r"),
    "cluster_id": _of(None, None, "bogus"),
    "acks": _of(-1, -1, -1, 1, 1, 0, 2, -2),
    "timeout_ms": TIMEOUT,
    "timestamp": _of(-1, -1, -2, -2, 0, 1_000_000, MAX_INT64, -3, -4),
    "max_num_offsets": _of(1, 1, 2, 100, 0),
    "session_timeout_ms": _of(30_000, 30_000, 30_000, 6_000, 5_999, 1_800_000, 1_800_001, 0, -1),
    "rebalance_timeout_ms": _of(60_000, 60_000, 30_000),
    "protocol_type": _of("consumer", "consumer", "consumer", "connect", "", None),
    "protocol_name": _of("range", "range", None, "sticky", ""),
    "metadata": BYTES,
    "assignment": BYTES,
    "committed_metadata": METADATA,
    "retention_time_ms": _of(-1, -1, 0, 1, 10**9),
    "commit_timestamp": _of(-1, -1, 0, 1, MAX_INT64),
    "states_filter": _of("Empty", "Stable", "PreparingRebalance", "Dead", "bogus", "stable", ""),
    "key_type": _of(0, 0, 1, 1, 2, -1),
    "client_software_name": _of("kafkapy", "k", "", "a b", "-k", "ü"),
    "client_software_version": _of("1.0", "", "1 0", "1.0-"),
    "transaction_timeout_ms": _of(60_000, 60_000, 60_000, 900_000, 900_001, 0, -1),
    "num_partitions": _of(1, 1, 2, -1, 0, -2),
    "replication_factor": _of(1, 1, 1, -1, 0, 2, -2),
    "broker_ids": _of(0, 0, 0, 1, -1),
    "count": _of(2, 3, 3, 4, 1, 0, -1),
    "value": CONFIG_VALUE,
    "config_operation": _of(0, 0, 1, 2, 3, 4, -1),
    "entity_type": _of("user", "user", "client-id", "client-id", "ip", "bogus", ""),
    "entity_name": _of("@a", "@b", None, ""),
    "match": _of("@a", "@b", None, None, ""),
    "match_type": _of(0, 0, 1, 1, 2, 2, 3, -1),
    "resource_type": _of(2, 2, 2, 2, 4, 8, 0, 3, -1, 127),
    "resource_name": RESOURCE,
    "records": RECORDS,
}

ABSENT: Final = "absent"
BY_TYPE: Final[dict[str, Values]] = {
    "bool": st.booleans(),
    "string": _of("", "@a", "bogus"),
    "bytes": BYTES,
    "float64": _of(0.0, 1.0),
    "int8": _of(0, 1, 2, 3, -1),
    "int16": _of(0, 1, -1),
    "int32": _of(0, 1, 2, -1, MAX_INT32),
    "int64": _of(0, 1, -1, MAX_INT64),
    "uuid": _of(str(UUID(int=0)), str(UUID(int=1))),
}
"""The values of fields that the table above does not name."""
