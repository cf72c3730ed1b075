"""Fetchers: one thread for each broker that leads partitions of this consumer, and one that looks for leaders.

A fetcher asks for all partitions whose streams have room, and puts the records of the response into the streams.
A partition whose leader has changed, or can't be reached, goes back to the thread that looks for leaders, which pauses
for ``refresh.leader.backoff.ms`` after each look. At a rebalance all threads are told to end and new ones begin: a
response to an old request finds its partitions taken away, and is dropped.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Final

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.connection import Connection
from kafkapy.clients.errors import ClientError, RequestFailedError, check
from kafkapy.clients.original.settings import ConsumerConnectorSettings
from kafkapy.clients.original.streams import OwnedPartition
from kafkapy.protocol.constants import EARLIEST, LATEST
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafkapy.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkapy.records.batch import iterate_headers
from kafkapy.records.errors import CorruptRecordError
from kafkapy.types import NO_OFFSET

MAX_RESPONSE_BYTES: Final = 50 << 20
"""The most bytes of records in one response; the partitions of a request come in another order each time."""
ROOM_WAIT_S: Final = 0.1
"""After so long a fetcher without room checks whether it has to end; room is reported at once."""
_RESETS: Final = {"smallest": EARLIEST, "largest": LATEST}

logger = logging.getLogger(__name__)


class Room:
    """Lets fetchers wait until a stream may have room again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()

    def appeared(self) -> None:
        """A stream has given a chunk to its user."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, at most ROOM_WAIT_S."""
        with self._changed:
            self._changed.wait_for(condition, ROOM_WAIT_S)


class PartitionFetcher:
    """All fetching for one assignment; ``bootstrap`` returns the addresses of the brokers at that moment."""

    def __init__(self, settings: ConsumerConnectorSettings, bootstrap: Callable[[], str], room: Room) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._room = room
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._leaderless: list[OwnedPartition] = []
        self._returned = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, partitions: Iterable[OwnedPartition]) -> None:
        """Begin to fetch."""
        self.look_for_leaders(partitions)
        if self._leaderless:
            self._run(self._find_leaders, "leader-finder")

    def stop(self) -> None:
        """Tell the threads to end, without waiting for them."""
        self._stopped.set()
        self._returned.set()
        self._room.appeared()

    def join(self, timeout_s: float) -> None:
        """Wait for each thread, after ``stop``; one that waits for a silent broker may last longer."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout_s)

    def look_for_leaders(self, partitions: Iterable[OwnedPartition]) -> None:
        """Give partitions to the thread that looks for leaders."""
        with self._lock:
            self._leaderless += partitions
        self._returned.set()

    def _run(self, target: Callable[..., None], name: str, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name=f"kafkapy-{name}", daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _find_leaders(self) -> None:
        fetchers: dict[tuple[str, int], _BrokerFetcher] = {}
        while not self._stopped.is_set():
            self._returned.wait()
            self._returned.clear()
            with self._lock:
                wanted, self._leaderless = self._leaderless, []
            left = wanted
            try:
                left = self._hand_out(wanted, fetchers)
            except ClientError as error:
                logger.warning("The leaders of %d partitions are not known: %s", len(wanted), error)
            if left:
                self.look_for_leaders(left)
            self._stopped.wait(self._settings.refresh_leader_backoff_ms / 1000)  # a leader may give all back at once

    def _hand_out(
        self, wanted: list[OwnedPartition], fetchers: "dict[tuple[str, int], _BrokerFetcher]"
    ) -> list[OwnedPartition]:
        """Give each partition to the fetcher of its leader; return those without a leader."""
        bootstrap = self._bootstrap()
        if not wanted or not bootstrap:
            return wanted
        with ClusterClient(bootstrap, self._settings.socket_timeout_ms / 1000) as client:
            found = client.metadata({partition.topic for partition in wanted})
        addresses = {broker.node_id: (broker.host, broker.port) for broker in found.brokers}
        leaders = {
            (topic.name, each.partition_index): addresses.get(each.leader_id)
            for topic in found.topics
            for each in topic.partitions
        }
        left = []
        for partition in wanted:
            leader = leaders.get((partition.topic, partition.partition))
            if leader is None:
                left.append(partition)
            elif leader in fetchers:
                fetchers[leader].add(partition)
            else:
                fetcher = fetchers[leader] = _BrokerFetcher(leader, self._settings, self._room, self._stopped, self)
                fetcher.add(partition)
                self._run(fetcher.run, f"fetcher-{leader[0]}:{leader[1]}")
        return left


class _BrokerFetcher:
    """Fetches from one broker; the connection is opened when there is something to ask."""

    def __init__(
        self,
        leader: tuple[str, int],
        settings: ConsumerConnectorSettings,
        room: Room,
        stopped: threading.Event,
        owner: PartitionFetcher,
    ) -> None:
        self._leader = leader
        self._settings = settings
        self._room = room
        self._stopped = stopped
        self._owner = owner
        self._lock = threading.Lock()
        self._partitions: list[OwnedPartition] = []
        self._connection: Connection | None = None
        self._told: dict[str, str] = {}  # partition, or empty for the broker → the problem that was logged

    def add(self, partition: OwnedPartition) -> None:
        with self._lock:
            self._partitions.append(partition)
        self._room.appeared()

    def run(self) -> None:
        """Fetch until ``stopped``."""
        try:
            while not self._stopped.is_set():
                self._room.wait_for(lambda: bool(self._askable()) or self._stopped.is_set())
                asked = self._askable()
                if asked and not self._stopped.is_set():
                    self._attempt(asked)
        finally:
            self._disconnect()

    def _askable(self) -> list[OwnedPartition]:
        with self._lock:
            return [partition for partition in self._partitions if partition.stream.has_room]

    def _attempt(self, asked: list[OwnedPartition]) -> None:
        """One round of requests; partitions that can't be fetched here are given back."""
        try:
            if self._connection is None:
                self._connection = Connection(*self._leader, self._settings.socket_timeout_ms / 1000)
            failed = self._reset([partition for partition in asked if partition.fetch_offset == NO_OFFSET])
            failed += self._fetch([partition for partition in asked if partition.fetch_offset != NO_OFFSET])
        except ClientError as error:
            if not self._stopped.is_set():
                self._tell("", str(error))
            self._disconnect()
            failed = list(self._partitions)
        else:
            self._told.pop("", None)
        if failed:
            with self._lock:
                self._partitions = [partition for partition in self._partitions if partition not in failed]
            self._owner.look_for_leaders(failed)

    def _tell(self, place: str, problem: str) -> None:
        """Log a problem of a partition, or of the broker (empty ``place``), unless it was the last one as well."""
        if self._told.get(place) != problem:
            self._told[place] = problem
            what = f"The broker {self._leader[0]}:{self._leader[1]}"
            logger.warning("%s can't be fetched from: %s", f"{what}, {place}," if place else what, problem)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _fetch(self, asked: list[OwnedPartition]) -> list[OwnedPartition]:
        """Fetch once; return the partitions that this broker does not serve."""
        if not asked:
            return []
        settings = self._settings
        topics: dict[str, list[FetchPartition]] = {}
        for each in asked:
            question = FetchPartition(
                each.partition, fetch_offset=each.fetch_offset, partition_max_bytes=settings.fetch_message_max_bytes
            )
            topics.setdefault(each.topic, []).append(question)
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_max_ms,
            min_bytes=settings.fetch_min_bytes,
            max_bytes=MAX_RESPONSE_BYTES,
            topics=[FetchTopic(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        assert self._connection is not None, "connected before"
        answer = self._connection.call(request, FetchResponse)
        check(answer.error_code)
        by_place = {(each.topic, each.partition): each for each in asked}
        failed = []
        for topic in answer.responses:
            for data in topic.partitions:
                partition = by_place[topic.topic, data.partition_index]
                if not self._take(partition, data):
                    failed.append(partition)
        with self._lock:  # another order next time: a full response leaves the last ones out
            self._partitions = self._partitions[1:] + self._partitions[:1]
        return failed

    def _take(self, partition: OwnedPartition, data: PartitionData) -> bool:
        """Put the records into the stream; false if this broker does not serve the partition."""
        place = f"{partition.topic}-{partition.partition}"
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            reset = self._settings.auto_offset_reset
            logger.warning("%s has no offset %d: continuing at the %s", place, partition.fetch_offset, reset)
            partition.fetch_offset = NO_OFFSET
            return True
        try:
            check(data.error_code)
        except RequestFailedError as error:
            self._tell(place, str(error))
            return False
        self._told.pop(place, None)
        assert data.records is None or isinstance(data.records, memoryview | bytes), "records come from the wire"
        batches = memoryview(data.records or b"")
        next_offset, is_whole = partition.fetch_offset, True
        try:
            for _, header in iterate_headers(batches):
                next_offset = max(next_offset, header.next_offset)
        except CorruptRecordError as error:  # the stream's reader gets it too, behind the records that are in front
            self._tell(place, str(error))
            is_whole = False
        if next_offset > partition.fetch_offset or not is_whole:
            partition.stream.put(partition, batches, next_offset)
        return True

    def _reset(self, partitions: list[OwnedPartition]) -> list[OwnedPartition]:
        """Find where to start with ListOffsets; return the partitions that this broker does not serve."""
        failed = []
        timestamp = _RESETS[self._settings.auto_offset_reset]
        assert self._connection is not None, "connected before"
        for partition in partitions:
            question = ListOffsetsPartition(partition.partition, timestamp=timestamp)
            request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(partition.topic, [question])])
            (found,) = self._connection.call(request, ListOffsetsResponse).topics[0].partitions
            try:
                check(found.error_code)
            except RequestFailedError as error:
                self._tell(f"{partition.topic}-{partition.partition}", str(error))
                failed.append(partition)
                continue
            partition.start_at(found.old_style_offsets[0] if found.old_style_offsets else found.offset)
        return failed
