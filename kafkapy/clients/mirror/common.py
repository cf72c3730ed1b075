"""The options and errors that the parts of a mirror share."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, NoBrokerError, RequestFailedError
from kafkapy.protocol.client_core import Request
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import Message

Place = tuple[str, int]
"""Topic and partition."""

DEFAULT_GROUP: Final = "kafkapy-mirror"
UNDER_WAY: Final = 50
"""Small requests that wait for their responses on one connection."""
_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_WITH_NEW_PRODUCER: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
    }
)
R = TypeVar("R", bound=Message)


class MirrorError(ClientError):
    """The mirror can't go on; the message says what to do."""


class MirrorFencedError(MirrorError):
    """Another producer with the same transactional id has taken over."""


class MirrorOptions(NamedTuple):
    """Topics and groups to copy, and how. Without ``transactional_id`` records are copied at least once."""

    topics: Sequence[re.Pattern[str]] = (re.compile(".*"),)
    groups: Sequence[re.Pattern[str]] = ()
    """Consumer groups whose committed offsets are translated; none by default, as in MirrorMaker 2."""
    group: str = DEFAULT_GROUP
    transactional_id: str | None = None
    once: bool = False
    replication_factor: int = -1
    """Replicas of topics that the mirror creates; -1: the target's default."""
    fetch_bytes: int = 16 << 20
    """Bytes that are fetched at a time, from all leaders together."""
    commit_every_s: float = 1.0
    """How long acknowledged records wait for the commit of their positions, or of their transaction."""
    sync_configs: bool = True
    """Whether changes of the topics' configuration on the source are made on the target."""
    refresh_every_s: float = 5.0
    """How often topics and partitions are looked up, and the offsets of groups."""


class OnceReport:
    """Passes a line on once, and again when ``MOST_LINES`` others have come since."""

    MOST_LINES: Final = 10_000

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._lines: dict[str, None] = {}  # the first is the oldest

    def __call__(self, line: str) -> None:
        """Report the line unless it was reported."""
        if line not in self._lines:
            if len(self._lines) >= self.MOST_LINES:
                del self._lines[next(iter(self._lines))]
            self._lines[line] = None
            self._report(line)


def passes(error: ClientError) -> bool:
    """Whether the error may be gone with new connections and, on the target, a new producer."""
    if isinstance(error, RequestFailedError) and error.code in set(ErrorCode):
        code = ErrorCode(error.code)
        return code.retriable or code in _WITH_NEW_PRODUCER
    return isinstance(error, NoBrokerError)


def pipelined(
    client: ClusterClient,
    requests: Sequence[tuple[int | None, Request]],
    response_class: type[R],
    under_way: int = UNDER_WAY,
) -> list[tuple[int | None, R]]:
    """The responses to small requests, in their order; None asks any broker. Some are under way at a time."""
    found: list[tuple[int | None, R]] = []
    step = min(under_way, UNDER_WAY)
    for at in range(0, len(requests), step):
        part = requests[at : at + step]
        connections = [client.any_broker() if node is None else client.node(node) for node, _ in part]
        for connection, (_, request) in zip(connections, part, strict=True):
            connection.post(request)
        for connection, (node, _) in zip(connections, part, strict=True):
            found.append((node, connection.take(response_class)))
    return found


def check_producer(code: int, what: str) -> None:
    """Raise ``MirrorFencedError`` or ``RequestFailedError`` unless ``code`` is 0."""
    if code in _FENCED:
        raise MirrorFencedError(
            f"{what}: another mirror with the same transactional id has taken over, or a transaction took longer than"
            " its time-out. This one ends; its open transaction is aborted"
        )
    if code != ErrorCode.NONE:
        raise RequestFailedError(code, what=what)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """The partitions of each topic."""
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def by_leader(places: Iterable[Place], leaders: dict[Place, int]) -> dict[int, list[Place]]:
    """The places of each leader."""
    found: dict[int, list[Place]] = {}
    for place in places:
        found.setdefault(leaders[place], []).append(place)
    return found
