"""What may differ between Apache Kafka 2.7.2's answers and ours, each with its reason; anything else is a fault."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compat_tests.differential.neutral import Gap, at, told
from compat_tests.differential.sides import CLOSED
from kafkapy.records.errors import RecordsError

UNKNOWN_SERVER_ERROR: Final = -1
INVALID_REQUEST: Final = 42
UNSUPPORTED_COMPRESSION: Final = 76
UNSUPPORTED_VERSION: Final = 35
ROLLS_FIRST: Final = (45, 47)
"""Refusals of Produce before which Kafka may have rolled the segment already."""
OTHER_REASON: Final = {(87, 43), (87, 2), (2, 87), (87, 76), (2, 76), (76, 2), (32, 87), (32, 76), (45, 87)}
NAMED: Final = (2, 10, 32, 43, 76, 87, *ROLLS_FIRST)
NO_LIMIT: Final = 1 << 20


class Facts(NamedTuple):
    """What is known of the conversation."""

    stamped: bool
    """The brokers give records their times."""
    rolled: bool
    """A refusal came before which Kafka may have begun another segment, where its reads end."""
    waited: bool
    """The answer did not come at once."""
    damaged: bool


class Case(NamedTuple):
    """A request in which something differs: what was sent (by field), and both answers."""

    api: str
    version: int
    request: Any
    theirs: Any
    ours: Any
    gap: Gap
    facts: Facts


class Rule(NamedTuple):
    """``covers`` says whether a difference is this one; ``parts_ways``: from here on the two logs are not the same."""

    reason: str
    covers: Callable[[Case], bool]
    parts_ways: bool = False


def codes_of(case: Case) -> tuple[int, int]:
    """The error codes beside the field that differs, theirs and ours."""
    place = case.gap.path[:-1] if isinstance(case.gap.path[-1], str) else case.gap.path
    try:
        return at(case.theirs, place)["error_code"], at(case.ours, place)["error_code"]
    except (KeyError, IndexError, TypeError):
        return 0, 0


def _sent_records(case: Case) -> bytes:
    """The records of the partition of a Produce request that the gap is about."""
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


def _other_refusal(case: Case) -> bool:
    theirs, ours = codes_of(case)
    return _is_produced(case) and (theirs, ours) in OTHER_REASON


def _failure_named(case: Case) -> bool:
    theirs, ours = codes_of(case)
    return _is_produced(case) and theirs == UNKNOWN_SERVER_ERROR and ours in NAMED


def _stricter(case: Case) -> bool:
    theirs, ours = codes_of(case)
    if not _is_produced(case) or theirs != 0:
        return False
    sent = _sent_records(case)
    legacy = len(sent) > 16 and sent[16] < 2
    return ours == 2 or (ours == 87 and (legacy or abs(int.from_bytes(sent[27:35], signed=True)) > 2**62))


def _unconvertible(case: Case) -> bool:
    if case.api != "FETCH" or case.version >= 4:
        return False
    theirs, ours = case.gap.theirs, case.gap.ours
    if UNKNOWN_SERVER_ERROR in (theirs, codes_of(case)[0]):
        return True
    return case.gap.field == "records" and _is_beginning(theirs or b"", ours or b"")


def _is_beginning(theirs: bytes, ours: bytes) -> bool:
    try:
        first, second = told(theirs), told(ours)
    except RecordsError:
        return False
    return first == second[: len(first)]


def _same_contents(case: Case) -> bool:
    if case.gap.field != "records" or not isinstance(case.gap.theirs, bytes) or not isinstance(case.gap.ours, bytes):
        return False
    try:
        first, second = (told(each, stamped=case.facts.stamped) for each in (case.gap.theirs, case.gap.ours))
    except RecordsError:
        return False
    if first == second:
        return True
    shorter = min(len(first), len(second))
    return (case.facts.rolled or is_limited(case.request)) and first[:shorter] == second[:shorter]


def is_limited(request: Any) -> bool:
    """Whether a Fetch asks for less than all."""
    sizes: list[int] = [each.partition_max_bytes for topic in request.topics for each in topic.partitions]
    return bool(min([request.max_bytes, *sizes]) < NO_LIMIT)


def rolls_first(answer: Any) -> bool:
    """Whether Produce was refused in a way before which Kafka may have rolled the segment."""
    return any(each.error_code in ROLLS_FIRST for topic in answer.responses for each in topic.partition_responses)


def _other_leader(case: Case) -> bool:
    """Which of those that stayed leads when the leader is gone: the first of a hash table of random ids."""
    if case.api != "JOIN_GROUP" or not case.facts.waited or case.gap.field not in ("leader", "members"):
        return False
    theirs, ours = case.theirs["leader"], case.ours["leader"]
    return bool(theirs and ours and theirs != ours)


def _static_members(case: Case) -> bool:
    if case.api != "JOIN_GROUP" or case.version >= 5:
        return False
    return bool(case.theirs["error_code"] == UNSUPPORTED_VERSION and case.ours["error_code"] == 0)


def _compressed_size(case: Case) -> bool:
    return case.api == "DESCRIBE_LOG_DIRS" and case.gap.field == "partition_size" and 0 not in case.gap[1:]


def _documentation(case: Case) -> bool:
    return case.api == "DESCRIBE_CONFIGS" and case.gap.field == "documentation" and case.gap.ours is None


def _no_path(case: Case) -> bool:
    theirs, ours = codes_of(case)
    return case.api in ("ALTER_CONFIGS", "INCREMENTAL_ALTER_CONFIGS") and theirs == INVALID_REQUEST and ours in (3, 40)


def _own_time(case: Case) -> bool:
    return (
        case.api == "LIST_OFFSETS" and case.gap.field == "timestamp" and case.facts.stamped and -1 not in case.gap[1:]
    )


def _order_after_zstd(case: Case) -> bool:
    if case.api != "FETCH" or case.version >= 10 or case.gap.field not in ("responses", "topic", "partition_index"):
        return False
    return f"'error_code': {UNSUPPORTED_COMPRESSION}" in str(case.theirs) + str(case.ours)


def _isolation(case: Case) -> bool:
    wanted = getattr(case.request, "isolation_level", 0)
    return case.api in ("FETCH", "LIST_OFFSETS") and wanted not in (0, 1) and UNKNOWN_SERVER_ERROR in codes_of(case)


class Silence(NamedTuple):
    """Why one of the two may say nothing, or close the connection: ``covers`` gets both answers, and ours decoded."""

    reason: str
    covers: Callable[[str, int, Any, Any, Any], bool]


SILENCES: Final = (
    Silence(
        "Kafka never answers a join or sync that its member sends again elsewhere; we answer REBALANCE_IN_PROGRESS",
        lambda api, version, theirs, ours, message: (
            api in ("JOIN_GROUP", "SYNC_GROUP") and theirs is None and getattr(message, "error_code", 0) == 27
        ),
    ),
    Silence(
        "Kafka never answers when one of several transaction markers is for no partition",
        lambda api, version, theirs, ours, message: api == "WRITE_TXN_MARKERS" and theirs is None,
    ),
    Silence(
        "Kafka never answers when the settings of a resource are replaced twice",
        lambda api, version, theirs, ours, message: api == "ALTER_CONFIGS" and theirs is None,
    ),
    Silence(
        "Kafka can't convert some timestamps for old clients",
        lambda api, version, theirs, ours, message: api == "FETCH" and version < 4 and theirs == CLOSED,
    ),
)


def silence_for(api: str, version: int, theirs: Any, ours: Any, message: Any) -> Silence | None:
    """The reason why the one may say nothing where the other does."""
    return next((each for each in SILENCES if each.covers(api, version, theirs, ours, message)), None)


FAILS_INSIDE: Final = {
    "CREATE_PARTITIONS": (3, 17, 37, 39),
    "WRITE_TXN_MARKERS": (42,),
    "ALTER_CONFIGS": (42, 40, 3),
    "INCREMENTAL_ALTER_CONFIGS": (42, 40, 3),
    "TXN_OFFSET_COMMIT": (47,),
}
"""Where Kafka answers UNKNOWN_SERVER_ERROR to a client's mistake, and what we answer."""


def _fails_inside(case: Case) -> bool:
    theirs, ours = codes_of(case)
    return theirs == UNKNOWN_SERVER_ERROR and ours in FAILS_INSIDE.get(case.api, ())


def _fewer_apis(case: Case) -> bool:
    """Every API that we list is listed by Kafka in the same versions."""
    return (
        case.api == "API_VERSIONS"
        and case.gap.field == "api_keys"
        and all(each in case.gap.theirs for each in case.gap.ours)
    )


RULES: Final = (
    Rule("Kafka fails inside over what a client did wrong; we say what is wrong", _fails_inside),
    Rule("any member that stayed may lead when the leader has left", _other_leader, parts_ways=True),
    Rule(
        "2.7.2 can't tell old clients about a group with static members (later releases leave the names out, as we do)",
        _static_members,
        parts_ways=True,
    ),
    Rule("the same records in other compressed bytes take other space", _compressed_size),
    Rule("brokers give these records their times", _own_time),
    Rule(
        "Kafka's sessions go on to the next partition before they find out that a client knows no zstd",
        _order_after_zstd,
        parts_ways=True,
    ),
    Rule(
        "a topic's name can be no path of ZooKeeper: Kafka looks there for its settings before anything else", _no_path
    ),
    Rule("an isolation level that does not exist is read_uncommitted to us", _isolation, parts_ways=True),
    Rule("we have no documentation texts", _documentation),
    Rule("there are APIs that we do not serve", _fewer_apis),
    Rule("both refuse the records, for another one of several reasons", _other_refusal),
    Rule("Kafka fails inside over what a client did wrong; we say what is wrong", _failure_named),
    Rule(
        "we also refuse what lies behind a message's end, a wrong checksum behind compressed data, and timestamps"
        " whose sum is over 64 bits",
        _stricter,
        parts_ways=True,
    ),
    Rule("Kafka can't convert some timestamps for old clients, and leaves out what is before them", _unconvertible),
    Rule("other libraries compress to other bytes, and what is cut off by size is cut elsewhere", _same_contents),
)


def rule_for(case: Case) -> Rule | None:
    """The reason why this may differ."""
    return next((rule for rule in RULES if rule.covers(case)), None)
