"""OffsetCommit and TxnOffsetCommit: may this caller commit, and which of its offsets."""

from kafkapy.coordinator.errors import (
    CoordinatorNotAvailableError,
    FencedInstanceIdError,
    IllegalGenerationError,
    InvalidCommitOffsetSizeError,
    NotCoordinatorError,
    OffsetMetadataTooLargeError,
    UnknownMemberIdError,
)
from kafkapy.coordinator.group import states
from kafkapy.coordinator.group.checks import member_error
from kafkapy.coordinator.group.group import Group
from kafkapy.coordinator.group.rebalance import Rebalancer
from kafkapy.coordinator.group.results import CommitCall
from kafkapy.types import TopicPartition

# The log's error → what the committing client gets: it must look for the coordinator again, wait, or send less.
_LOG_ERRORS = {
    3: CoordinatorNotAvailableError.error_code,
    19: CoordinatorNotAvailableError.error_code,
    20: CoordinatorNotAvailableError.error_code,
    6: NotCoordinatorError.error_code,
    56: NotCoordinatorError.error_code,
    4: InvalidCommitOffsetSizeError.error_code,
    10: InvalidCommitOffsetSizeError.error_code,
    18: InvalidCommitOffsetSizeError.error_code,
}


def log_error(error_code: int) -> int:
    """The error of a commit whose append failed with ``error_code``."""
    return _LOG_ERRORS.get(error_code, error_code) if error_code else 0


def commit_error(group: Group, call: CommitCall) -> int:
    """The error code for all of the commit; 0 when it may be appended."""
    is_without_group = call.generation_id < 0 and group.state is states.EMPTY
    if is_without_group and (call.instance_id is None or not group.members.is_fenced(call.member_id, call.instance_id)):
        return 0
    error_code = member_error(group, call.member_id, call.instance_id, call.generation_id)
    return error_code or states.COMMIT_BY_MEMBER[group.state]


def transaction_commit_error(group: Group, call: CommitCall) -> int:
    """The error code for a commit in a transaction: member and generation count only if they are named (KIP-447)."""
    if group.state is states.DEAD:
        return CoordinatorNotAvailableError.error_code
    if call.instance_id is not None and group.members.is_fenced(call.member_id, call.instance_id):
        return FencedInstanceIdError.error_code
    if call.member_id and call.member_id not in group.members:
        return UnknownMemberIdError.error_code
    if call.generation_id >= 0 and call.generation_id != group.generation_id:
        return IllegalGenerationError.error_code
    return 0


def touch_member(rebalancer: Rebalancer, group: Group, call: CommitCall) -> None:
    """Who commits lives."""
    if call.member_id and call.member_id in group.members:
        rebalancer.touch(group.members[call.member_id])


def too_large(call: CommitCall, max_length: int) -> set[TopicPartition]:
    """The partitions whose metadata is longer than allowed, in UTF-16 units as Java counts."""
    refused = set()
    for partition, committed in call.offsets.items():  # no comprehension: its frame costs more than most commits need
        metadata = committed.metadata
        # a string of n characters has at most 2n units: most need no encoding to be counted
        if metadata and len(metadata) * 2 > max_length and utf16_length(metadata) > max_length:
            refused.add(partition)
    return refused


def utf16_length(text: str) -> int:
    """The length of a string as Java sees it."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


TOO_LARGE = OffsetMetadataTooLargeError.error_code
