"""The source's side of a mirror: one Fetch request for all partitions of a leader, committed records only."""

import threading
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError, check
from kafkapy.clients.mirror.common import Place, by_leader, by_topic
from kafkapy.clients.mirror.sessions import SourceSession, Wish
from kafkapy.protocol.constants import EARLIEST, EARLIEST_LOCAL
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkapy.types import READ_COMMITTED

WAIT_MS: Final = 200
"""The longest wait for the first new record."""
PARTITION_BYTES: Final = 1 << 20
"""The least that a request asks for of a partition, so that a few busy ones of many fill the response."""
_FIRST_WITH_LOCAL: Final = 8
"""The first version of ListOffsets that knows ``EARLIEST_LOCAL``."""


class FetchedBatches(NamedTuple):
    """A partition's answer; ``aborted`` has first offset and producer id of each aborted transaction in it."""

    records: memoryview
    aborted: list[tuple[int, int]]
    end: int
    """The last stable offset: a consumer of committed records reads up to it."""


class FetchResult(NamedTuple):
    """The result of a round of requests; ``out_of_range`` are places whose position the source has no record of.

    ``without_records`` are the places of each leader whose response had no record at all: there is none between their
    positions and their ends, as a response has the first batch that there is in any of its partitions, whatever the
    limits. An empty partition in another response may be one for which there was no room.
    """

    batches: dict[Place, FetchedBatches]
    out_of_range: list[Place]
    without_records: list[Mapping[Place, Wish]]


class SourceReader:
    """Fetches from all leaders of the source at once."""

    def __init__(self, client: ClusterClient, fetch_bytes: int) -> None:
        self._client = client
        self._fetch_bytes = fetch_bytes
        self._first = 0
        self._was_idle = False
        self._sessions: dict[int, SourceSession] = {}
        self._positions: dict[Place, int] = {}
        self._leaders: dict[Place, int] = {}
        self._wishes: dict[int, dict[Place, Wish]] = {}

    def reset(self) -> None:
        """Begin new sessions, after the connections were lost."""
        self._sessions.clear()

    def fetch(self, positions: Mapping[Place, int], leaders: dict[Place, int]) -> FetchResult:
        """Fetch from these positions; waits ``WAIT_MS`` for new records if the fetch before brought none.

        Partitions of which there is nothing new may be missing in the result. Requests that name all partitions begin
        with another one each time, as a response that is full has only the first ones' records; in a session the leader
        takes turns.
        """
        wait_ms = WAIT_MS if self._was_idle else 0
        asked = self._asked(positions, leaders)
        limit = self._limit(len(asked))
        if not asked:
            threading.Event().wait(WAIT_MS / 1000)
        for leader, wishes in asked.items():
            request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=limit, isolation_level=READ_COMMITTED)
            connection = self._client.node(leader)
            session = self._sessions.setdefault(leader, SourceSession())
            session.name(request, wishes, version=connection.version_for(request))
            connection.post(request)
        result = FetchResult({}, [], [])
        for leader, wishes in asked.items():
            response = self._client.node(leader).take(FetchResponse)
            if self._sessions[leader].answered(response):
                is_empty = _collect(response, result)
                if is_empty and not response.throttle_time_ms:  # a broker may leave out records because of a quota
                    result.without_records.append(wishes)
        self._was_idle = not any(each.records for each in result.batches.values())
        return result

    def _limit(self, leaders: int) -> int:
        return self._fetch_bytes // max(leaders, 1)

    def _asked(self, positions: Mapping[Place, int], leaders: dict[Place, int]) -> dict[int, dict[Place, Wish]]:
        """The requests for each leader: the same object as before if nothing has changed and sessions last."""
        if (
            leaders is self._leaders
            and positions == self._positions
            and all(leader in self._sessions and self._sessions[leader].lasts for leader in self._wishes)
        ):
            return self._wishes
        order = sorted(positions)
        self._first = (self._first + 1) % max(len(order), 1)
        places = by_leader(order[self._first :] + order[: self._first], leaders)
        limit = self._limit(len(places))
        self._wishes = {}
        for leader, led in places.items():
            share = max(limit // len(led), min(PARTITION_BYTES, limit))
            self._wishes[leader] = {place: Wish(positions[place], share) for place in led}
        self._positions, self._leaders = dict(positions), leaders
        return self._wishes

    def offsets(self, places: Iterable[Place], leaders: dict[Place, int], at: int) -> dict[Place, int]:
        """The offset of each place at a time (LATEST is the last stable offset).

        With ``EARLIEST_LOCAL`` that of sources without tiered storage is their log start offset.
        """
        return list_offsets(self._client, places, leaders, at, is_source=True)


def list_offsets(
    client: ClusterClient, places: Iterable[Place], leaders: dict[Place, int], at: int, *, is_source: bool
) -> dict[Place, int]:  # fmt: skip
    """The offset of each place at a time; of the target also of records that are not committed. RequestFailedError."""
    side, level = ("source", READ_COMMITTED) if is_source else ("target", 0)
    found: dict[Place, int] = {}
    for leader, asked in by_leader(places, leaders).items():
        connection, request = client.node(leader), ListOffsetsRequest(-1, level)
        is_known = at != EARLIEST_LOCAL or connection.version_for(request) >= _FIRST_WITH_LOCAL
        timestamp = at if is_known else EARLIEST
        request.topics = [
            ListOffsetsTopic(topic, [ListOffsetsPartition(index, timestamp=timestamp) for index in partitions])
            for topic, partitions in by_topic(asked).items()
        ]
        for topic in connection.call(request, ListOffsetsResponse).topics:
            for answer in topic.partitions:
                check(answer.error_code, what=f"partition {topic.name}-{answer.partition_index} of the {side}")
                found[topic.name, answer.partition_index] = answer.offset
    return found


def _collect(response: FetchResponse, result: FetchResult) -> bool:
    """Returns whether no partition had records, or a position that is out of range."""
    is_empty = True
    check(response.error_code, what="a fetch from the source")
    for topic in response.responses:
        for answer in topic.partitions:
            place = topic.topic, answer.partition_index
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                result.out_of_range.append(place)
                is_empty = False
                continue
            check(answer.error_code, what=f"partition {place[0]}-{place[1]} of the source")
            result.batches[place] = fetched = _batches(answer)
            is_empty = is_empty and not fetched.records
    return is_empty


def _batches(answer: PartitionData) -> FetchedBatches:
    records = answer.records
    if not isinstance(records, memoryview | bytes | None):
        raise ClientError("a response holds records that were not read from the wire")
    aborted = [(each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()]
    end = answer.last_stable_offset if answer.last_stable_offset >= 0 else answer.high_watermark
    return FetchedBatches(memoryview(records or b""), aborted, end)
