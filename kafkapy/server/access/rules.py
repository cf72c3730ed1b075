"""The shape of a rule, and what most rules are made of.

A rule gets the client's ``Rights``, and returns its verdict on a decoded request, at once or in steps
(``server/dispatch/verdicts.py``).
"""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Final, TypeVar

from kafkapy.protocol.constants import AclOperation, AclResourceType
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message
from kafkapy.security.authorizer import Rights
from kafkapy.server.dispatch.context import RequestContext
from kafkapy.server.dispatch.verdicts import Partial, Verdict
from kafkapy.turns import MaybeSteps, Steps

CHECKS_IN_A_STEP: Final = 64
"""Names that are checked, or rows that are built, between two places to pause."""

T = TypeVar("T")
Row = TypeVar("Row")
TopicRow = TypeVar("TopicRow")
R = TypeVar("R", bound=Message)


Rule = Callable[[Rights, RequestContext, Any], MaybeSteps[Verdict]]

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
NO_TRANSACTION = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def allowed(_rights: Rights, _context: RequestContext, _request: object) -> None:
    """Allow the request as it is: it needs no right, or its handler looks at the rights itself."""


def on_cluster(operation: AclOperation, deny: Callable[[RequestContext, Any], MaybeSteps[Message]]) -> Rule:
    """Return the rule of an API that needs one operation on the cluster; ``deny`` builds the response without it."""

    def rule(rights: Rights, context: RequestContext, request: object) -> MaybeSteps[Verdict]:
        return None if rights.may_on_cluster(operation) else deny(context, request)

    return rule


def with_fields(request: R, **fields: object) -> R:
    """Return a copy of a request with other fields."""
    changed = copy(request)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def split(
    items: Sequence[T], name_of: Callable[[T], str], is_allowed: Callable[[str], bool]
) -> Steps[tuple[list[T], list[T]]]:
    """Return the items whose names are allowed, and the others; each name is checked once."""
    known: dict[str, bool] = {}
    kept: list[T] = []
    denied: list[T] = []
    for number, item in enumerate(items, start=1):
        name = name_of(item)
        found = known.get(name)
        if found is None:
            found = known[name] = is_allowed(name)
        (kept if found else denied).append(item)
        if number % CHECKS_IN_A_STEP == 0:
            yield
    return kept, denied


def may_on_topics(
    rights: Rights, operation: AclOperation, topics: Sequence[T], name_of: Callable[[T], str]
) -> Steps[tuple[list[T], list[T]]]:
    """``split`` topics by an operation on them."""
    return split(topics, name_of, lambda name: rights.may(operation, TOPIC, name))


def may_on_only_topic(
    rights: Rights, operation: AclOperation, topics: Sequence[T], name_of: Callable[[T], str]
) -> bool:
    """Whether a request is for one topic, on which the operation is allowed: the usual case, which takes no steps."""
    return len(topics) == 1 and rights.may(operation, TOPIC, name_of(topics[0]), logs=False)


def without_denied(
    rights: Rights,
    operation: AclOperation,
    request: Any,
    name_of: Callable[[Any], str],
    rows_of_denied: Callable[[list[Any]], Steps[list[Any]]],
) -> Steps[Verdict]:
    """Allow the part of a request whose ``topics`` allow an operation; the response gets rows for the others."""
    kept, denied = yield from may_on_topics(rights, operation, request.topics, name_of)
    if not denied:
        return None
    rows = yield from rows_of_denied(denied)

    def merge(response: Any) -> Message:
        response.topics += rows
        merged: Message = response
        return merged

    return Partial(with_fields(request, topics=kept), merge)


def rows_of(
    topics: Iterable[T],
    parts: tuple[Callable[[T], str], Callable[[T], Iterable[int]]],
    make_row: Callable[[int], Row],
    make_topic: Callable[[str, list[Row]], TopicRow],
) -> Steps[list[TopicRow]]:
    """Build a row for each partition of topics; ``parts`` are the functions of a topic's name and of its partitions.

    A topic or a partition that is listed twice gets one row, as where Kafka builds its response from a map. A topic
    without partitions gets none.
    """
    found: dict[str, dict[int, Row]] = {}
    name_of, partitions_of = parts
    count = 0
    for topic in topics:
        name = name_of(topic)
        for index in partitions_of(topic):
            found.setdefault(name, {})[index] = make_row(index)
            count += 1
            if count % CHECKS_IN_A_STEP == 0:
                yield
        yield
    return [make_topic(name, list(rows.values())) for name, rows in found.items()]


def rows_as_listed(
    topics: Iterable[T],
    parts: tuple[Callable[[T], str], Callable[[T], Iterable[int]]],
    make_row: Callable[[int], Row],
    make_topic: Callable[[str, list[Row]], TopicRow],
) -> Steps[list[TopicRow]]:
    """Do what ``rows_of`` does, with a row for each mention of a topic and of a partition."""
    found = []
    name_of, partitions_of = parts
    for topic in topics:
        rows = []
        for number, index in enumerate(partitions_of(topic), start=1):
            rows.append(make_row(index))
            if number % CHECKS_IN_A_STEP == 0:
                yield
        found.append(make_topic(name_of(topic), rows))
        yield
    return found


def name(item: Any) -> str:
    """The field ``name``, which most topics of requests have."""
    text: str = item.name
    return text


def partition_indexes(topic: Any) -> Iterable[int]:
    """The partitions of a topic whose ``partitions`` have an index each."""
    return (each.partition_index for each in topic.partitions)
