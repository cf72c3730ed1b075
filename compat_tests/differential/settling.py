"""Wait for the work that Kafka does after its answer, so that both brokers are in one state at the next request."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from compat_tests.differential.damage import frame_of
from compat_tests.differential.sides import Side, decoded
from compat_tests.differential.steps import Step
from kafkapy.protocol.headers import RequestHeader
from kafkapy.protocol.message import Message
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafkapy.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkapy.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafkapy.protocol.primitives import encode

PATIENCE_S: Final = 0.15
"""Seconds after which a missing answer means that the request waits."""
TIMEOUT_S: Final = 20.0
PASSING: Final = (14, 15, 16, 51)
"""The errors while a coordinator is loading, or has not ended the last transaction yet."""
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, UNSTABLE_OFFSET, CONCURRENT_TRANSACTIONS = 3, 5, 88, 51
NOT_LEADER, TOPIC_EXISTS = 6, 36
SETTINGS_TAKE_S: Final = 0.1
"""Seconds until Kafka has applied changed settings: it gets them through ZooKeeper after its answer."""
CORRELATION_ID: Final = 7

TOPICS_TAKE_S: Final = 5.0
ENDS_TAKE_S: Final = 2.0


class DisagreeError(Exception):
    """The brokers did not reach the same state; ``states`` has both."""

    def __init__(self, *states: Any) -> None:
        super().__init__(*states)
        self.states = states


READS: Final[dict[str, Callable[[dict[str, Any]], bool]]] = {
    **dict.fromkeys(
        (
            "LIST_OFFSETS", "OFFSET_FETCH", "OFFSET_FOR_LEADER_EPOCH", "DESCRIBE_GROUPS", "LIST_GROUPS", "METADATA",
            "DESCRIBE_CONFIGS", "DESCRIBE_LOG_DIRS", "FIND_COORDINATOR",
        ),
        lambda body: True,
    ),
    "FETCH": lambda body: body.get("session_epoch", -1) == -1 and body.get("session_id", 0) == 0,
}  # fmt: skip
"""Requests that change nothing, so that they can be repeated while one broker is still working."""


def is_passing(message: Any) -> bool:
    """Whether any code in the answer is retriable."""
    if isinstance(message, list):
        return any(map(is_passing, message))
    if not isinstance(message, Message):
        return False
    codes = (getattr(message, name) for name in message.__slots__ if name.endswith("error_code"))
    if any(code in PASSING for code in codes):
        return True
    return any(is_passing(getattr(message, name)) for name in message.__slots__)


def ask(side: Side, request: Any, version: int) -> Any:
    """The answer to a request of the harness."""
    header = RequestHeader(request.API_KEY, version, CORRELATION_ID, "settling")
    answer = side.ask(frame_of(header, encode(request, version), None))
    message = decoded(answer, request.API_KEY, version)
    assert message is not None, f"{side.bootstrap} answers {request!r} with {answer.hex()}"
    return message


def _until(settled: Callable[[Side], bool], sides: tuple[Side, ...]) -> None:
    """Wait for both; raises DisagreeError if only one of them reaches the condition."""
    states = [_is_in_time(settled, side) for side in sides]
    if len(set(states)) > 1:
        raise DisagreeError(*states)


def _is_in_time(settled: Callable[[Side], bool], side: Side) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while not settled(side):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _topic_state(side: Side, names: Iterable[str]) -> list[Any]:
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
    found = ask(side, request, 5).topics
    return sorted((each.name, each.error_code, sorted(_partition(one) for one in each.partitions)) for each in found)


def _partition(found: Any) -> tuple[int, int]:
    return found.partition_index, found.error_code


def _are_served(state: list[Any]) -> bool:
    return all(code == 0 for _, code, _ in state) and _is_served(state)


def _is_served(state: list[Any]) -> bool:
    return all(code != LEADER_NOT_AVAILABLE and not any(each[1] for each in parts) for _, code, parts in state)


def await_creation(sides: tuple[Side, ...], message: Any) -> None:
    """Until the topics that Metadata is making are there: the answer says that they have no leader yet.

    Raises DisagreeError when they never are with one alone.
    """
    names = [each.name for each in message.topics if each.error_code == LEADER_NOT_AVAILABLE]
    _until(lambda side: not names or _are_served(_topic_state(side, names)), sides)


def await_topics(sides: tuple[Side, ...], topics: Mapping[str, dict[str, Any] | None], *, gone: bool = False) -> None:
    """Create (if settings are given) or delete topics, and wait until both brokers describe all topics alike.

    Raises DisagreeError if they don't.
    """
    names = [name for name in topics if len(name) < 200]
    made = {name: each for name, each in topics.items() if each is not None}
    for side in sides:
        if made:
            _create(side, made)
        if gone:
            _delete(side, names)

    deadline = time.monotonic() + TOPICS_TAKE_S
    while True:
        states = [_topic_state(side, names) for side in sides]
        if all(map(_is_served, states)) and states[0] == states[1]:
            return
        if time.monotonic() > deadline:
            raise DisagreeError(states[0], states[1])
        time.sleep(0.005)


def await_leaders(side: Side, names: list[str]) -> Any:
    """Until the broker serves the partitions that it describes; returns the description, with the topics' ids.

    A KRaft broker describes a topic a moment before it leads its partitions.
    """
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
    described = ask(side, request, 12)
    wanted = [
        OffsetForLeaderTopic(
            topic.name, [OffsetForLeaderPartition(each.partition_index, -1, 0) for each in topic.partitions]
        )
        for topic in described.topics
        if not topic.error_code
    ]
    _is_in_time(
        lambda side: not wanted or not _lead_elsewhere(ask(side, OffsetForLeaderEpochRequest(-1, wanted), 3)), side
    )
    return described


def _lead_elsewhere(answer: Any) -> bool:
    return any(each.error_code == NOT_LEADER for topic in answer.topics for each in topic.partitions)


def _create(side: Side, topics: dict[str, dict[str, Any]]) -> None:
    request = CreateTopicsRequest(timeout_ms=20_000)
    for name, wanted in topics.items():
        configs = [CreatableTopicConfig(*each) for each in wanted["configs"].items()]
        request.topics.append(CreatableTopic(name, wanted["partitions"], 1, configs=configs))
    codes = {each.name: each.error_code for each in ask(side, request, 4).topics}
    assert not any(codes.values()), codes


def _delete(side: Side, names: list[str]) -> None:
    present = [name for name, code, _ in _topic_state(side, names) if code == 0]
    if present:
        ask(side, DeleteTopicsRequest(topic_names=present, timeout_ms=20_000), 3)


def await_deletion(sides: tuple[Side, ...], names: list[str]) -> None:
    """Until topics that no broker serves any more could be made again: Kafka's controller is done a moment later.

    Raises DisagreeError when one alone never is.
    """
    gone = [{name for name, code, _ in _topic_state(side, names) if code == UNKNOWN_TOPIC} for side in sides]
    request = CreateTopicsRequest(
        [CreatableTopic(name, 1, 1) for name in sorted(set.intersection(*gone))], validate_only=True
    )
    _until(lambda side: _is_free(side, request), sides)


def _is_free(side: Side, request: CreateTopicsRequest) -> bool:
    return not any(each.error_code == TOPIC_EXISTS for each in ask(side, request, 4).topics)


def named_topics(step: Step, request: Any) -> list[str]:
    """The topics that a request may have made, changed or deleted: of Metadata's those that it may have made."""
    if step.api == "DELETE_TOPICS":
        names = [*request.topic_names, *(each.name for each in request.topics if each.name is not None)]
    elif step.api in ("CREATE_TOPICS", "CREATE_PARTITIONS"):
        names = [each.name for each in request.topics]
    else:
        return []
    return [name for name in dict.fromkeys(names) if name and len(name) < 200]


def ends_transaction(step: Step, message: Any) -> bool:
    return step.api == "END_TXN" and message.error_code == 0


def await_transaction(sides: tuple[Side, ...], frames: list[bytes], prefix: str | None) -> None:
    """Ask for the same end until the markers are written, then until no offset of the groups is pending.

    A partition that has seen a later epoch of the producer refuses the marker, and the transaction stays as it is.

    Raises DisagreeError when it does with one broker alone.
    """
    deadline = time.monotonic() + ENDS_TAKE_S
    while any(ending := [_is_ending(side, frame) for side, frame in zip(sides, frames, strict=True)]):
        if time.monotonic() > deadline:
            if not all(ending):
                raise DisagreeError(*ending)
            return
        time.sleep(0.005)
    deadline = time.monotonic() + 0.3  # another transaction's may stay
    while prefix is not None and time.monotonic() < deadline:
        pending = [_has_pending_offsets(side, prefix + name) for side in sides for name in ("g", "h", "nobody")]
        if not any(pending):
            break
        time.sleep(0.01)


def _is_ending(side: Side, frame: bytes) -> bool:
    return side.ask(frame)[-2:] == CONCURRENT_TRANSACTIONS.to_bytes(2, "big")


def _has_pending_offsets(side: Side, group: str) -> bool:
    answer = ask(side, OffsetFetchRequest(group, None, require_stable=True), 7)
    return any(each.error_code == UNSTABLE_OFFSET for topic in answer.topics for each in topic.partitions)


def await_settings(step: Step, message: Any, patience: float) -> None:
    """Wait until changed settings of topics have reached the log."""
    if step.api in ("ALTER_CONFIGS", "INCREMENTAL_ALTER_CONFIGS") and any(
        not each.error_code for each in message.responses
    ):
        time.sleep(SETTINGS_TAKE_S * patience)
