"""The reasons for which one of the two brokers may not answer, or close the connection, while the other answers."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from compat_tests.differential.allowed import (
    BAD_RECORD,
    CORRUPT,
    NAMED_TWICE,
    NO_SUCH_TOPIC,
    REBALANCING,
    UNKNOWN_MEMBER,
    UNKNOWN_SERVER_ERROR,
    names_twice,
)
from compat_tests.differential.sides import CLOSED
from kafkapy.records.validate import FIRST_VERSION_OF_BATCHES

KINDS: Final = (2, 4, 8)
"""Of resources with settings: topics, brokers and their loggers. To Kafka all others are of one kind."""
UNKNOWN_KIND: Final = 0


class Quiet(NamedTuple):
    """A request that one of the two has not answered: ``theirs`` is None, or CLOSED; ``message`` is our answer."""

    api: str
    version: int
    request: Any
    """Before it was damaged."""
    theirs: Any
    message: Any

    @property
    def error_code(self) -> int:
        """Ours."""
        return getattr(self.message, "error_code", 0)


class Silence(NamedTuple):
    """``covers`` says whether it is this one; ``parts_ways``: from here on the two are not in one state."""

    reason: str
    covers: Callable[[Quiet], bool]
    parts_ways: bool = False


def _sent_again(quiet: Quiet) -> bool:
    return quiet.api in ("JOIN_GROUP", "SYNC_GROUP") and quiet.theirs is None and quiet.error_code == REBALANCING


def _left(quiet: Quiet) -> bool:
    return quiet.api == "SYNC_GROUP" and quiet.theirs is None and quiet.error_code == UNKNOWN_MEMBER


def _null_topics(quiet: Quiet) -> bool:
    if quiet.api != "JOIN_GROUP" or quiet.theirs is not None or quiet.message is None:
        return False
    subscriptions = [each.metadata for each in (*quiet.request.protocols, *quiet.message.members)]
    return any(each[2:3] >= b"\x80" for each in subscriptions)


def _named_twice(quiet: Quiet) -> bool:
    return (
        quiet.api == "JOIN_GROUP" and quiet.theirs is None and quiet.message is not None and names_twice(quiet.request)
    )


def _marker_for_nothing(quiet: Quiet) -> bool:
    return quiet.api == "WRITE_TXN_MARKERS" and quiet.theirs is None and len(quiet.request.markers) > 1


def _set_twice(quiet: Quiet) -> bool:
    if quiet.api != "ALTER_CONFIGS" or quiet.theirs is not None or quiet.message is None:
        return False
    named = [
        (each.resource_type if each.resource_type in KINDS else UNKNOWN_KIND, each.resource_name)
        for each in quiet.request.resources
    ]
    return len(named) > len(set(named))


def _elects_all_in_no_way(quiet: Quiet) -> bool:
    """Whether the request had an unknown kind and no list, also by its damage: our answer is an error without items."""
    if quiet.api != "ELECT_LEADERS" or quiet.theirs is not None or quiet.message is None:
        return False
    return quiet.message.error_code == UNKNOWN_SERVER_ERROR and not quiet.message.replica_election_results


def _inconvertible(quiet: Quiet) -> bool:
    return quiet.api == "FETCH" and quiet.version < 4 and quiet.theirs == CLOSED


def _no_batch(quiet: Quiet) -> bool:
    """Whether 2.7.2 closed the connection, or 4.4.0 never answers records that are null."""
    if quiet.api != "PRODUCE" or quiet.version < FIRST_VERSION_OF_BATCHES or quiet.message is None:
        return False
    codes = {each.error_code for topic in quiet.message.responses for each in topic.partition_responses}
    return bool(codes & {CORRUPT, BAD_RECORD, NO_SUCH_TOPIC})


def _empty_end(quiet: Quiet) -> bool:
    return quiet.api == "ADD_PARTITIONS_TO_TXN" and quiet.version >= 4 and quiet.theirs is None


def _unknown_operation(quiet: Quiet) -> bool:
    """Of ACLs, without an authorizer: Kafka parses the request before it looks for one."""
    return quiet.api in ("DESCRIBE_ACLS", "DELETE_ACLS", "CREATE_ACLS") and quiet.theirs == CLOSED


SILENCES: Final = (
    Silence(
        "Produce: 2.7.2 closes the connection over records that are no batch, 4.4.0 never answers null; we tell the"
        " partition's error, as 4.4.0 does for the others",
        _no_batch,
        parts_ways=True,
    ),
    Silence("AddPartitionsToTxn from 4 on: Kafka never answers a request without transactions", _empty_end),
    Silence("ACLs: 4.4.0 closes the connection over kinds that it does not know", _unknown_operation),
    Silence(
        "JoinGroup, SyncGroup: Kafka never answers what its member sends again elsewhere; we say REBALANCE_IN_PROGRESS",
        _sent_again,
    ),
    Silence("SyncGroup: Kafka never answers a member that leaves meanwhile; we say UNKNOWN_MEMBER_ID", _left),
    Silence(
        "JoinGroup: Kafka fails inside, and the group with it, over a consumer's subscription to a null list of topics;"
        " we take it as the bytes that it is",
        _null_topics,
        parts_ways=True,
    ),
    Silence(NAMED_TWICE, _named_twice, parts_ways=True),
    Silence(
        "WriteTxnMarkers: Kafka never answers when the last of several markers is for no partition that is here",
        _marker_for_nothing,
        parts_ways=True,
    ),
    Silence(
        "AlterConfigs: Kafka never answers when a resource is named twice, and leaves it as it is; we alter it once,"
        " with its last settings",
        _set_twice,
        parts_ways=True,
    ),
    Silence(
        "ElectLeaders: Kafka never answers an unknown kind of election of all partitions; we answer -1",
        _elects_all_in_no_way,
    ),
    Silence("Fetch below 4: Kafka can't convert some timestamps, and closes the connection", _inconvertible),
)


def silence_for(quiet: Quiet) -> Silence | None:
    """The reason why the one may say nothing where the other does."""
    return next((each for each in SILENCES if each.covers(quiet)), None)
