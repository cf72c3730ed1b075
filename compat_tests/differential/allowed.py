"""The allowed differences between the answers of Apache Kafka and kafkapy, each with its reason.

``RULES`` are about 2.7.2, and about 4.4.0 as far as these have stayed; ``RULES_OF_4`` about 4.4.0 alone.
"""

from typing import Any, Final

from compat_tests.differential.cases import Case, Rule, codes_of
from compat_tests.differential.ids import NOW_MS
from compat_tests.differential.neutral import at, told
from kafkapy.protocol.api_keys import ApiKey
from kafkapy.records.batch import iterate_headers
from kafkapy.records.compression import ZSTD
from kafkapy.records.errors import RecordsError
from kafkapy.records.record import read_records

UNKNOWN_SERVER_ERROR: Final = -1
NO_SUCH_TOPIC, UNKNOWN_MEMBER, REBALANCING, UNSUPPORTED_VERSION = 3, 25, 27, 35
INVALID_CONFIG, INVALID_REQUEST, INVALID_EPOCH = 40, 42, 47
TOO_LARGE: Final = 12
BAD_ASSIGNMENT: Final = 39
BAD_ACKS: Final = 21
CORRUPT, BAD_TIME, OLD_FORMAT, BAD_CODEC, BAD_RECORD = 2, 32, 43, 76, 87
OTHER_REASON: Final = {
    *((BAD_RECORD, OLD_FORMAT), (BAD_RECORD, CORRUPT), (CORRUPT, BAD_RECORD), (BAD_RECORD, BAD_CODEC)),
    *((CORRUPT, BAD_CODEC), (BAD_CODEC, CORRUPT), (BAD_TIME, BAD_RECORD), (BAD_TIME, BAD_CODEC), (45, BAD_RECORD)),
}
NOT_LISTED: Final = {
    *(ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN),
    ApiKey.ALTER_PARTITION,
}
"""APIs that 2.7.2 lists and kafkapy does not: those between the brokers of one cluster."""
INVALID_TOPIC, NO_SUCH_GROUP = 17, 69
NO_LIMIT: Final = 1 << 20
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
OWN_SETTINGS: Final = {
    *("controlled.shutdown.enable", "delete.topic.enable", "listeners", "log.dirs", "offsets.topic.replication.factor"),
    *("transaction.state.log.min.isr", "transaction.state.log.replication.factor"),
    *("zookeeper.connect", "zookeeper.session.timeout.ms"),
    *("kafkapy.api.release", "transaction.partition.verification.enable"),
}
"""Keys that only one of the two needs, or that have different defaults."""
CODEC_MASK: Final = 7
APART_MS: Final = 60_000
NAMED_TWICE: Final = (
    "JoinGroup: Kafka fails inside, and the group with it, when a member names protocols twice and none then counts as"
    " common to all; we choose one that is"
)


def _beside(case: Case) -> Any:
    """The struct of Kafka's answer that has the field."""
    return at(case.theirs, case.gap.path[:-1])


# Produce


def _sent_records(case: Case) -> bytes:
    """The records of the Produce request for the partition of the difference."""
    _, topic, _, partition, *_ = case.gap.path
    answer = at(case.theirs, ("responses", topic))
    index = answer["partition_responses"][partition]["index"]
    for data in case.request.topic_data:
        for each in data.partition_data:
            if data.name == answer["name"] and each.index == index:
                return bytes(each.records or b"")
    return b""


def _is_produced(case: Case) -> bool:
    return case.api == "PRODUCE" and len(case.gap.path) > 3


def is_compressed(sent: bytes) -> bool:
    """Whether the attributes of the first batch or entry name a codec."""
    at_byte = 22 if len(sent) > 22 and sent[16] >= 2 else 17
    return len(sent) > at_byte and bool(sent[at_byte] & CODEC_MASK)


def _is_modern(sent: bytes) -> bool:
    """Whether the first batch is of format 2."""
    return len(sent) > 16 and sent[16] >= 2


def _other_refusal(case: Case) -> bool:
    return _is_produced(case) and codes_of(case) in OTHER_REASON


def _old_format(case: Case) -> bool:
    return (
        _is_produced(case) and codes_of(case) == (UNKNOWN_SERVER_ERROR, OLD_FORMAT) and _is_modern(_sent_records(case))
    )


def _unreadable(case: Case) -> bool:
    if not _is_produced(case):
        return False
    theirs, ours = codes_of(case)
    return theirs == UNKNOWN_SERVER_ERROR and (
        ours in (BAD_RECORD, BAD_TIME)
        or (ours == BAD_CODEC and case.facts.compressed)
        or (ours == CORRUPT and is_compressed(_sent_records(case)))
        or (ours == BAD_ACKS and (case.facts.damaged or is_compressed(_sent_records(case))))
    )


def _stricter(case: Case) -> bool:
    theirs, ours = codes_of(case)
    if not _is_produced(case) or theirs != 0:
        return False
    sent = _sent_records(case)
    if ours == CORRUPT:
        return is_compressed(sent)
    legacy = len(sent) > 16 and sent[16] < 2
    strange = legacy or abs(int.from_bytes(sent[27:35], signed=True)) > 2**62 or _has_other_offsets(sent)
    return ours == BAD_RECORD and strange


def _has_other_offsets(sent: bytes) -> bool:
    """Whether the records of a batch do not have the offsets 0, 1, 2, …"""
    try:
        (_, header), *_ = iterate_headers(sent)
        offsets = [record.offset - header.base_offset for record in read_records(sent, header, 0)]
    except RecordsError:
        return False
    return offsets != list(range(len(offsets)))


def _zstd_of_later_releases(case: Case) -> bool:
    sent = _sent_records(case) if _is_produced(case) else b""
    return codes_of(case) == (UNKNOWN_SERVER_ERROR, 0) and _is_modern(sent) and sent[22] & CODEC_MASK == ZSTD


# Fetch and ListOffsets


def _contents(case: Case) -> tuple[list[Any], list[Any]] | None:
    """The content of the records of both, if it can be decoded."""
    if case.api != "FETCH" or case.gap.field != "records":
        return None
    try:
        first, second = (told(each or b"", stamped=case.facts.stamped) for each in case.gap[1:])
    except RecordsError:
        return None
    return first, second


def _same_contents(case: Case) -> bool:
    contents = _contents(case)
    if contents is None or not (case.facts.compressed or case.facts.stamped):
        return False
    first, second = contents
    shorter = min(len(first), len(second))
    is_cut = case.version < 4 or is_limited(case.request)  # converted records fill as many bytes as the log's
    return first == second or (is_cut and first[:shorter] == second[:shorter])


def _repeated(case: Case) -> bool:
    contents = _contents(case)
    if contents is None or case.version >= 4:
        return False
    first, second = contents
    again = next((place for place in range(1, len(first)) if first[place] == first[0]), 0)
    repeated = second[:again] + second
    return again > 0 and len(first) > 0 and first == repeated[: len(first)]


def _unconvertible(case: Case) -> bool:
    if case.api != "FETCH" or case.version >= 4:
        return False
    if UNKNOWN_SERVER_ERROR in (case.gap.theirs, codes_of(case)[0]):
        return True
    contents = _contents(case)
    return contents is not None and len(contents[0]) < len(contents[1]) and _begins(contents[1], contents[0])


def _begins(whole: list[Any], part: list[Any]) -> bool:
    return whole[: len(part)] == part


def is_limited(request: Any) -> bool:
    """Whether a Fetch has a limit below the size of all records."""
    sizes: list[int] = [each.partition_max_bytes for topic in request.topics for each in topic.partitions]
    return bool(min([request.max_bytes, *sizes]) < NO_LIMIT)


def _own_time(case: Case) -> bool:
    """Whether both times are from this run: records of clients have equal times on both brokers."""
    if case.api != "LIST_OFFSETS" or case.gap.field != "timestamp":
        return False
    return bool(min(case.gap[1:]) >= NOW_MS and abs(case.gap.theirs - case.gap.ours) < APART_MS)


def _is_size(case: Case) -> bool:
    return case.api == "DESCRIBE_LOG_DIRS" and case.gap.field == "partition_size" and 0 not in case.gap[1:]


def _compressed_size(case: Case) -> bool:
    return _is_size(case) and case.facts.compressed


def _internal_size(case: Case) -> bool:
    """``results.0.topics.0.partitions.0.partition_size``."""
    return _is_size(case) and bool(at(case.theirs, case.gap.path[:4])["name"].startswith("__"))


# Groups and transactions


def _other_leader(case: Case) -> bool:
    if case.api != "JOIN_GROUP" or not case.facts.waited or case.gap.field not in ("leader", "members"):
        return False
    theirs, ours = case.theirs["leader"], case.ours["leader"]
    return bool(theirs and ours and theirs != ours)


def names_twice(request: Any) -> bool:
    """Whether a JoinGroup has a protocol more than once."""
    names = [each.name for each in request.protocols]
    return len(names) > len(set(names))


def _nothing_common(case: Case) -> bool:
    codes = (case.theirs["error_code"], case.ours["error_code"]) if case.api == "JOIN_GROUP" else None
    return codes == (UNKNOWN_SERVER_ERROR, 0) and names_twice(case.request)


def _static_members(case: Case) -> bool:
    if case.api != "JOIN_GROUP" or case.version >= 5:
        return False
    return bool(case.theirs["error_code"] == UNSUPPORTED_VERSION and case.ours["error_code"] == 0)


def _left_to_static_members(case: Case) -> bool:
    if case.api != "LEAVE_GROUP":
        return False
    return bool(case.theirs["error_code"] == UNSUPPORTED_VERSION and case.ours["error_code"] == 0)


def _all_failed(answer: dict[str, Any]) -> bool:
    codes = [each["error_code"] for topic in answer["topics"] for each in topic["partitions"]]
    return set(codes) == {UNKNOWN_SERVER_ERROR}


def _no_producer_epoch(case: Case) -> bool:
    if case.api != "TXN_OFFSET_COMMIT" or not _all_failed(case.theirs):
        return False
    ours = {each["error_code"] for topic in case.ours["topics"] for each in topic["partitions"]}
    return INVALID_EPOCH in ours <= {INVALID_EPOCH, NO_SUCH_TOPIC, TOO_LARGE} and (
        case.facts.damaged or case.request.producer_epoch < 0
    )


# Topics and configurations


def is_no_path(name: str) -> bool:
    """Whether ZooKeeper refuses a node of this name."""
    return name in ("", ".", "..") or any(
        each == "/" or each < " " or "\x7f" <= each <= "\x9f" or "\ud800" <= each <= "\uf8ff" or each >= "\ufff0"
        for each in name
    )


def _fails_all(case: Case) -> bool:
    """Whether CreatePartitions failed for a name."""
    if case.api != "CREATE_PARTITIONS":
        return False
    results = case.theirs["results"]
    return {each["error_code"] for each in results} == {UNKNOWN_SERVER_ERROR} and any(
        is_no_path(each["name"]) for each in results
    )


def _fails_all_but_made(case: Case) -> bool:
    return _fails_all(case) and any(each["error_code"] == 0 for each in case.ours["results"])


def _no_path(case: Case) -> bool:
    if case.api not in ("ALTER_CONFIGS", "INCREMENTAL_ALTER_CONFIGS"):
        return False
    theirs, ours = codes_of(case)
    is_one = (theirs, ours) in ((INVALID_REQUEST, NO_SUCH_TOPIC), (INVALID_REQUEST, INVALID_CONFIG))
    return is_one and is_no_path(_beside(case)["resource_name"])


def _trips_over_change(case: Case) -> bool:
    """Whether the request has no value, an unknown operation, or a list operation on an unknown key."""
    theirs, ours = codes_of(case)
    if theirs != UNKNOWN_SERVER_ERROR:
        return False
    if case.api == "ALTER_CONFIGS":
        changes = [each for resource in case.request.resources for each in resource.configs]
        codes = {each["error_code"] for each in case.ours["responses"]}
        return INVALID_REQUEST in codes and (case.facts.damaged or any(each.value is None for each in changes))
    if case.api != "INCREMENTAL_ALTER_CONFIGS" or ours not in (INVALID_REQUEST, INVALID_CONFIG):
        return False
    operations = {each.config_operation for resource in case.request.resources for each in resource.configs}
    return case.facts.damaged or bool(operations - {0, 1})


def _documentation(case: Case) -> bool:
    both_have_one = bool(case.gap.theirs) and bool(case.gap.ours)
    return case.api == "DESCRIBE_CONFIGS" and case.gap.field == "documentation" and both_have_one


def _loggers(case: Case) -> bool:
    if case.api != "DESCRIBE_CONFIGS" or "configs" not in case.gap.path:
        return False
    result = at(case.theirs, case.gap.path[:2])
    return bool(result["resource_type"] == BROKER_LOGGER and codes_of(case) == (0, 0))


def _own_settings(case: Case) -> bool:
    if case.api != "DESCRIBE_CONFIGS" or len(case.gap.path) < len(("results", 0, "configs", 0, "value")):
        return False
    is_broker = at(case.theirs, case.gap.path[:2])["resource_type"] == BROKER
    return bool(is_broker and at(case.theirs, case.gap.path[:4])["name"] in OWN_SETTINGS)


def _negative_partition(case: Case) -> bool:
    """Whether Kafka, which leaves negative partitions out of its sum of all numbers, found another fault, or failed."""
    if case.api != "CREATE_TOPICS" or codes_of(case) not in (
        (UNKNOWN_SERVER_ERROR, BAD_ASSIGNMENT),
        (INVALID_CONFIG, BAD_ASSIGNMENT),
    ):
        return False
    name = _beside(case)["name"].rpartition("-")[2]
    topics = [each for each in case.request.topics if each.name.endswith(name)]
    return any(assigned.partition_index < 0 for each in topics for assigned in each.assignments)


def _fewer_apis(case: Case) -> bool:
    if case.api != "API_VERSIONS" or case.gap.field != "api_keys":
        return False
    missing = [each for each in case.gap.theirs if each not in case.gap.ours]
    more = [each for each in case.gap.ours if each not in case.gap.theirs]
    return not more and {each["api_key"] for each in missing} == NOT_LISTED


def _no_way_to_match(case: Case) -> bool:
    return case.api == "DESCRIBE_CLIENT_QUOTAS" and codes_of(case) == (UNKNOWN_SERVER_ERROR, INVALID_REQUEST)


def _trips_over_empty_name(case: Case) -> bool:
    if case.api != "DESCRIBE_CLIENT_QUOTAS" or codes_of(case) != (UNKNOWN_SERVER_ERROR, 0):
        return False
    return case.facts.damaged or any(each.match == "" for each in case.request.components)


RULES: Final = (
    Rule(
        "DescribeClientQuotas: Kafka fails with -1 over an unknown way to match; we say INVALID_REQUEST",
        _no_way_to_match,
    ),
    Rule(
        "DescribeClientQuotas: Kafka fails with -1 over some conditions with an empty name; we have no quota of that"
        " name either",
        _trips_over_empty_name,
    ),
    Rule(
        "CreatePartitions: a topic's name that can be no path of ZooKeeper fails the whole of Kafka's request, after"
        " what came before it; we make the others",
        _fails_all_but_made,
        parts_ways=True,
    ),
    Rule(
        "CreatePartitions: a topic's name that can be no path of ZooKeeper fails the whole of Kafka's request with -1;"
        " we say what is wrong with each",
        _fails_all,
    ),
    Rule(
        "AlterConfigs: Kafka fails with -1 over no value, an operation that is none, and one on a list that it does"
        " not know; we say what is wrong",
        _trips_over_change,
    ),
    Rule(
        "AlterConfigs: a topic's name can be no path of ZooKeeper, where Kafka looks for its settings before anything"
        " else, and says so; we say that there is no such topic, or key",
        _no_path,
    ),
    Rule(
        "CreateTopics: Kafka overlooks a negative partition, and refuses the topic's configuration or fails with -1; we"
        " say INVALID_REPLICA_ASSIGNMENT",
        _negative_partition,
    ),
    Rule(
        "TxnOffsetCommit: Kafka fails with -1 over a producer without an epoch; we say INVALID_PRODUCER_EPOCH",
        _no_producer_epoch,
        parts_ways=True,
    ),
    Rule(NAMED_TWICE, _nothing_common, parts_ways=True),
    Rule(
        "JoinGroup: when the leader has left, any member may lead: Kafka takes the first of a hash table of random ids",
        _other_leader,
        parts_ways=True,
    ),
    Rule(
        "LeaveGroup: 2.7.2 can't tell a leader below version 5 about static members; who ends its wait by leaving is"
        " answered UNSUPPORTED_VERSION, who waits is not answered; we answer all",
        _left_to_static_members,
        parts_ways=True,
    ),
    Rule(
        "JoinGroup: 2.7.2 can't tell clients below version 5 about a group with static members, and answers"
        " UNSUPPORTED_VERSION; later releases leave the names out, as we do",
        _static_members,
        parts_ways=True,
    ),
    Rule("DescribeLogDirs: the same records in other libraries' compressed bytes take other space", _compressed_size),
    Rule("DescribeLogDirs: the brokers' own topics keep what all conversations left, at other moments", _internal_size),
    Rule("ListOffsets: the brokers give these records, or markers, their times", _own_time),
    Rule("DescribeConfigs: the documentation texts are our own", _documentation),
    Rule("DescribeConfigs: each broker has places, and a few settings, of its own", _own_settings),
    Rule("DescribeConfigs: each broker has loggers of its own", _loggers),
    Rule("ApiVersions: 2.7.2 also lists to clients the APIs between brokers", _fewer_apis),
    Rule("Produce: both refuse the records, for another one of several reasons", _other_refusal),
    Rule(
        "Produce: Kafka fails with -1 over a producer's, a transaction's, or records' headers that an old format can't"
        " keep; we say UNSUPPORTED_FOR_MESSAGE_FORMAT",
        _old_format,
    ),
    Rule(
        "Produce: Kafka fails with -1 over records that can't be read, decompressed or, for their times or the topic's"
        " zstd, written again for an older format; we say which of it is the case",
        _unreadable,
    ),
    Rule(
        "Produce: we also refuse what lies behind a message's end, a wrong checksum behind compressed data, and"
        " timestamps whose sum is over 64 bits",
        _stricter,
        parts_ways=True,
    ),
    Rule(
        "Produce: the zstd library of 2.7.2 takes a few whole frames for corrupt, and Kafka answers -1; ours and the"
        " zstd command decompress them",
        _zstd_of_later_releases,
        parts_ways=True,
    ),
    Rule(
        "Fetch: other libraries compress to other bytes, and what is cut off by size is cut elsewhere", _same_contents
    ),
    Rule(
        "Fetch below 4: where nothing comes of the first batches, as of markers, 2.7.2 sends the first that it converts"
        " twice",
        _repeated,
    ),
    Rule(
        "Fetch below 4: Kafka can't convert some timestamps, nor zstd, and leaves out what is before them in 128 KiB",
        _unconvertible,
    ),
)


# Apache Kafka 4.4.0


_OF_ADMINISTRATORS: Final = (
    "CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS", "ALTER_CONFIGS", "INCREMENTAL_ALTER_CONFIGS",
    "ALTER_PARTITION_REASSIGNMENTS", "ELECT_LEADERS", "ALTER_CLIENT_QUOTAS", "ALTER_USER_SCRAM_CREDENTIALS",
    "DESCRIBE_CONFIGS",
)  # fmt: skip


def _both_refuse(case: Case) -> bool:
    return case.api in _OF_ADMINISTRATORS and case.gap.field == "error_code" and 0 not in case.gap[1:]


def _one_sentence(case: Case) -> bool:
    """A sentence beside an error, or an empty one beside none."""
    return "error_message" in case.gap.field


def _other_ranges(case: Case) -> bool:
    return case.api == "API_VERSIONS" and case.gap.field in (
        "api_keys",
        "supported_features",
        "finalized_features",
        "finalized_features_epoch",
    )


def _other_keys(case: Case) -> bool:
    """Whether the keys that only one of the two has make the difference."""
    if case.api not in ("DESCRIBE_CONFIGS", "CREATE_TOPICS") or case.gap.field != "configs":
        return False
    ours = {each["name"]: each for each in case.gap.ours or ()}
    return all(
        each == ours[each["name"]] or each["name"] == "min.insync.replicas"  # KRaft sets it for the whole cluster
        for each in case.gap.theirs or ()
        if each["name"] in ours
    )


def _last_assignment(case: Case) -> bool:
    return case.api == "DESCRIBE_GROUPS" and case.gap.field == "member_assignment" and case.gap.ours == ""


def _in_the_future(case: Case) -> bool:
    return _is_produced(case) and codes_of(case) == (BAD_TIME, 0)


def _no_versions_of_timestamps(case: Case) -> bool:
    if case.api != "LIST_OFFSETS":
        return False
    if case.gap.field == "topics":
        return any(
            each["error_code"] == UNSUPPORTED_VERSION for one in case.gap.theirs or () for each in one["partitions"]
        )
    return codes_of(case) == (UNSUPPORTED_VERSION, NO_SUCH_TOPIC)


def _zstd_to_old_clients(case: Case) -> bool:
    return case.api == "FETCH" and case.version < 10 and codes_of(case)[1] == BAD_CODEC


def _topics_without_partitions(case: Case) -> bool:
    if case.api != "DESCRIBE_LOG_DIRS" or case.gap.field != "topics":
        return False
    return bool([each for each in case.gap.ours if each["partitions"]] == case.gap.theirs)


def _aborted_of_none(case: Case) -> bool:
    return (
        case.api == "FETCH" and case.gap.field == "aborted_transactions" and not case.gap.theirs and not case.gap.ours
    )


def _emptied(case: Case) -> bool:
    if case.api in ("DELETE_GROUPS", "OFFSET_DELETE"):
        return codes_of(case) == (0, NO_SUCH_GROUP)
    if case.api != "LIST_GROUPS" or case.gap.field != "groups":
        return False
    left = [each for each in case.gap.theirs if each not in case.gap.ours]
    return all(each["protocol_type"] == "" for each in left) and all(each in case.gap.theirs for each in case.gap.ours)


def _unknown_instance(case: Case) -> bool:
    """Whether the member has a group instance id that the group does not know."""
    names = getattr(case.request, "group_instance_id", None) is not None
    return names and codes_of(case)[0] == UNKNOWN_MEMBER


def _all_topics(case: Case) -> bool:
    if case.api != "ELECT_LEADERS" or case.gap.field != "replica_election_results":
        return False
    return bool([each for each in case.gap.theirs if each["partition_result"]] == case.gap.ours)


def _named_several_times(case: Case) -> bool:
    """Whether the request names a topic, or a partition of it, more than once."""
    of_groups = [
        topic for each in getattr(case.request, "groups", None) or () for topic in getattr(each, "topics", None) or ()
    ]
    topics = [*(getattr(case.request, "topics", None) or ()), *of_groups]
    names = [getattr(each, "name", None) or getattr(each, "topic_id", None) for each in topics]
    indexes = [getattr(each, "partition_indexes", None) or getattr(each, "partitions", None) or () for each in topics]
    numbers = [[getattr(one, "partition_index", getattr(one, "partition", one)) for one in each] for each in indexes]
    twice = len(set(names)) < len(names) or any(len(set(each)) < len(each) for each in numbers)
    return case.gap.field in ("topics", "partitions") and (twice or case.facts.damaged or not all(numbers))


def _both_refuse_records(case: Case) -> bool:
    return _is_produced(case) and 0 not in codes_of(case)


def _fails_whole(case: Case) -> bool:
    """Whether all partitions of a Produce request failed with the error of one of them."""
    if not _is_produced(case) or codes_of(case)[1] != 0:
        return False
    codes = {each["error_code"] for topic in case.theirs["responses"] for each in topic["partition_responses"]}
    return codes == {CORRUPT}


def _aborted_without_records(case: Case) -> bool:
    if case.api != "FETCH" or case.gap.field != "aborted_transactions":
        return False
    return all(each in case.gap.ours for each in case.gap.theirs or ())


def _left_before_it_joined(case: Case) -> bool:
    return case.api == "DESCRIBE_GROUPS" and case.gap[1:] == ("PreparingRebalance", "CompletingRebalance")


def _illegal_name(case: Case) -> bool:
    return case.api == "METADATA" and codes_of(case) == (INVALID_TOPIC, NO_SUCH_TOPIC)


def _time_of_append(case: Case) -> bool:
    return case.api == "DESCRIBE_PRODUCERS" and case.gap.field == "last_timestamp"


def _unknown_isolation(case: Case) -> bool:
    return case.api == "LIST_OFFSETS" and codes_of(case) == (UNKNOWN_SERVER_ERROR, INVALID_REQUEST)


def _feature_of_2_7(case: Case) -> bool:
    return case.api == "UPDATE_FEATURES" and case.version == 0


def _no_way_to_match_by_name(case: Case) -> bool:
    if case.api != "DESCRIBE_CLIENT_QUOTAS":
        return False
    return bool(case.theirs["error_code"] == INVALID_REQUEST and case.ours["error_code"] == 0)


def _blank_group(case: Case) -> bool:
    return case.api == "TXN_OFFSET_COMMIT" and 0 not in codes_of(case)


RULES_OF_4: Final = (
    Rule(
        "Groups: 4.4.0 does not know a member with a group instance id that its group has not",
        _unknown_instance,
        parts_ways=True,
    ),
    Rule("ElectLeaders: 4.4.0 also lists the topics without an election", _all_topics),
    Rule("Topics that are named several times: 4.4.0 answers each time, we answer once", _named_several_times),
    Rule("Produce: 4.4.0 checks in another order; both refuse", _both_refuse_records),
    Rule(
        "Produce: 4.4.0 fails the whole request over records that are no batch; we append to the other partitions",
        _fails_whole,
        parts_ways=True,
    ),
    Rule("TxnOffsetCommit: 4.4.0 looks at the group before it asks the transaction's coordinator", _blank_group),
    Rule(
        "Fetch: 4.4.0 does not list an aborted transaction without records in the partition, 2.7.2 and we do",
        _aborted_without_records,
    ),
    Rule(
        "LeaveGroup: 4.4.0 rebalances a group that a member leaves which has not joined yet",
        _left_before_it_joined,
        parts_ways=True,
    ),
    Rule(
        "Metadata: 4.4.0 calls a name invalid that no topic can have, 2.7.2 and we say that there is none",
        _illegal_name,
    ),
    Rule("DescribeProducers: brokers give records their times", _time_of_append),
    Rule(
        "ListOffsets: 4.4.0 fails with -1 over an unknown isolation level; we say INVALID_REQUEST", _unknown_isolation
    ),
    Rule("UpdateFeatures 0: of features that 4.4.0 does not know we say what 2.7.2 says", _feature_of_2_7),
    Rule(
        "DescribeClientQuotas: 4.4.0 refuses a name beside another way to match; 2.7.2 and we overlook it",
        _no_way_to_match_by_name,
    ),
    Rule(
        "Administration: KRaft checks in another order; both refuse, for another one of several reasons", _both_refuse
    ),
    Rule("Errors: whether a sentence says more of a refusal", _one_sentence),
    Rule("ApiVersions: each has versions and features of its own", _other_ranges),
    Rule("Configurations: each release has keys of its own", _other_keys),
    Rule(
        "DescribeGroups: 4.4.0 shows the assignments of the last generation while a group rebalances", _last_assignment
    ),
    Rule(
        "Produce: since 3.6 Kafka refuses records of more than an hour from now, by a key that kafkapy does not have",
        _in_the_future,
        parts_ways=True,
    ),
    Rule(
        "ListOffsets: 4.4.0 says that a timestamp needs a later version before it looks for the partition",
        _no_versions_of_timestamps,
    ),
    Rule("Fetch below 10: 4.4.0 sends zstd to clients that can't read it; we refuse, as 2.7.2", _zstd_to_old_clients),
    Rule("DescribeLogDirs: 4.4.0 leaves out topics of which it lists no partition", _topics_without_partitions),
    Rule("Fetch: 4.4.0 says that no transaction was aborted where nothing was asked", _aborted_of_none),
    Rule("OffsetDelete: 4.4.0 leaves an empty group where 2.7.2 and we delete it", _emptied),
)


def rule_for(case: Case) -> Rule | None:
    """The reason for which this difference is allowed."""
    rules = RULES if case.facts.release.startswith("2.7") else (*RULES_OF_4, *RULES)
    return next((rule for rule in rules if rule.covers(case)), None)
