"""The loop of a mirror: fetch from the source, produce to the target, commit the positions there.

Any error that may pass (a broker restarts, a leader moves) closes all connections; the mirror opens them again, with a
new producer epoch, from the positions that are acknowledged or, with transactions, committed.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError
from kafkapy.clients.mirror.common import MirrorError, MirrorOptions, Place, passes
from kafkapy.clients.mirror.groups import GroupOffsetSync
from kafkapy.clients.mirror.offset_map import MirrorOffsetMap
from kafkapy.clients.mirror.positions import Position
from kafkapy.clients.mirror.reading import FetchedBatches, FetchResult, SourceReader, list_offsets
from kafkapy.clients.mirror.settings import TopicConfigSync
from kafkapy.clients.mirror.topics import Selection, TopicSelector
from kafkapy.clients.mirror.writing import TargetWriter, TransactionalWriter
from kafkapy.protocol.constants import EARLIEST, EARLIEST_LOCAL, LATEST
from kafkapy.records.errors import RecordsError
from kafkapy.records.forward import Forwarded, forwarded
from kafkapy.types import NO_OFFSET

RETRY_PAUSE_S: Final = 0.5
ONCE_PATIENCE_S: Final = 60.0
"""With ``once``: how long a mirror goes on without a round that succeeds."""
TELL_AGAIN_S: Final = 10.0
"""While a mirror is not connected: how long after a line it tells another reason."""
LOOK_UP_SHARE: Final = 0.05
"""How much of its time a mirror looks up topics, at most; copying waits meanwhile."""
RAREST: Final = 12
"""But it looks them up after so many times ``refresh_every_s`` at the latest."""
KEEP_POSITIONS_S: Final = 3600.0
"""All positions and offsets of groups are committed again so often: brokers forget those that are a week old."""


class MirrorProgress(NamedTuple):
    """The progress of a mirror since it began; ``lag`` is the number of remaining offsets, ``size`` is in bytes.

    ``is_connected``: whether the last round has succeeded. If not, ``lag`` is what it was before.
    """

    records: int
    batches: int
    size: int
    lag: int
    partitions: int
    is_connected: bool


class Mirror:
    """Copies topics until it is stopped. ``now_s`` is a monotonic clock, ``report`` takes lines for the user."""

    def __init__(
        self,
        clients: tuple[ClusterClient, ClusterClient],
        options: MirrorOptions,
        *,
        now_s: Callable[[], float],
        report: Callable[[str], None],
    ) -> None:
        self._clients = self._source, self._target = clients
        self._options = options
        self._now_s = now_s
        self._report = report
        self._reader = SourceReader(self._source, options.fetch_bytes)
        self._configs = TopicConfigSync(self._source, self._target, report, is_on=options.sync_configs)
        self._selector = TopicSelector(clients, options, self._configs, now_s=now_s, report=report)
        self._writer = (
            TargetWriter(self._target, options.group, report)
            if options.transactional_id is None
            else TransactionalWriter(self._target, options.group, options.transactional_id, report)
        )
        others = self._selector.others
        self._groups = GroupOffsetSync(clients, options, others, report) if options.groups else None
        self._selection = Selection({}, {}, {}, [])
        self._positions: dict[Place, int] = {}
        self._waiting: dict[Place, int] = {}
        self._is_rolled_back = False
        self._offset_maps: dict[Place, MirrorOffsetMap] = {}
        self._uncommitted: set[Place] = set()
        self._ends: dict[Place, int] = {}
        self._goal: dict[Place, int] | None = None
        self._doubtful: set[Place] = set()  # with ``once``: the goal is before the position
        self._lag: int | None = None  # until positions or ends change
        self._committed_s = self._refreshed_s = self._kept_s = self._synced_s = self._groups_kept_s = now_s()
        self._refresh_every_s = options.refresh_every_s
        self._is_synced = not options.groups
        self._failed_since_s: float | None = None
        self._reason, self._told_s = "", now_s()
        self._stop = threading.Event()
        self._after_round: Callable[[MirrorProgress], None] = lambda _progress: None
        self._copied_s: float | None = None
        self._leaderless_s: float | None = None
        self._short_since_s: dict[Place, float] = {}
        self._records = self._batch_count = self._size = 0

    @property
    def progress(self) -> MirrorProgress:
        """The records that are copied so far."""
        ends = self._ends if self._goal is None else self._goal
        if self._lag is None:
            self._lag = sum(max(end - self._copied_to(place), 0) for place, end in ends.items())
        counts = self._records, self._batch_count, self._size
        partitions = len(self._positions) + len(self._waiting)
        return MirrorProgress(*counts, self._lag, partitions, self._failed_since_s is None)

    @property
    def is_done(self) -> bool:
        """With ``once``: whether all that the source had at the start is copied, and the offsets of groups are."""
        return self._is_copied and self._is_synced

    @property
    def _is_copied(self) -> bool:
        return self._goal is not None and not any(self._is_left(place) for place in self._goal)

    def _is_left(self, place: Place) -> bool:
        """With ``once``: whether a partition is to be fetched still."""
        goal = self._goal or {}
        return place in self._doubtful or self._copied_to(place) < goal.get(place, 0)

    def _copied_to(self, place: Place) -> int:
        """The position of a partition, also of one that waits for a leader."""
        at = self._positions.get(place)
        return self._waiting.get(place, 0) if at is None else at

    def open(self, stop: threading.Event) -> None:
        """Compare the clusters, prepare the topics, and find the positions, or return early when ``stop`` is set.

        When both clusters have answered, temporary errors, as after the failure of a leader, are tried again for a
        minute. Raises ClientError, and at once if no broker of a cluster answers.
        """
        self._stop = stop
        self._selector.check_clusters()
        while not stop.is_set():
            try:
                self._prepare()
                self._failed_since_s = None
                break
            except ClientError as error:
                self._has_failed(error, is_limited=True)
                stop.wait(RETRY_PAUSE_S)
                for client in self._clients:
                    client.close()

    def _prepare(self) -> None:
        self._writer.open()
        self._refresh()
        if not self._selection.matching:
            self._tell_nothing_matches()
        if self._options.once:
            if self._selection.without_leader:
                topic, partition = self._selection.without_leader[0]
                raise MirrorError(f"partition {topic}-{partition} has no leader, so it can't be copied now")
            self._goal, self._lag = self._offsets(self._positions, LATEST), None
            # A topic that was made again may end before its position, but a new leader may also answer with too low an
            # end for a while. The first fetch at the position decides.
            self._doubtful = {place for place, end in self._goal.items() if end < self._positions[place]}

    def _tell_nothing_matches(self) -> None:
        """A line, or with ``once`` MirrorError; a source without any topic is copied, too, if all are wanted."""
        text = ",".join(each.pattern for each in self._options.topics)
        line = f"no topic of the source matches --topics {text}"
        if self._options.once and text != ".*":
            raise MirrorError(f"{line}: the pattern must match the whole name (kafkapy topics list shows the names)")
        self._report(line if self._options.once else f"{line}; the mirror waits for one")

    def run(self, stop: threading.Event, after_round: Callable[[MirrorProgress], None]) -> None:
        """Copy until ``stop`` is set, or with ``once`` until all is copied; commits at the end.

        ``after_round`` is called after each round, and after each part of it that is written.

        Raises ClientError for what does not pass: MirrorFencedError if another mirror has taken over.
        """
        self._stop, self._after_round = stop, after_round
        while not stop.is_set() and not (self.is_done and self._failed_since_s is None):
            try:
                if self._failed_since_s is not None:
                    self._begin_anew()
                self.step()
                self._has_succeeded()
            except ClientError as error:
                self._has_failed(error, is_limited=self._options.once)
                stop.wait(RETRY_PAUSE_S)
            after_round(self.progress)
        if self._failed_since_s is None:
            self._commit()
            self._sync_groups()

    def _has_succeeded(self) -> None:
        if self._failed_since_s is not None:
            self._failed_since_s = None
            self._report("the mirror is connected again, and copies")

    def _has_failed(self, error: ClientError, *, is_limited: bool) -> None:
        """Report the first of the failures, and another reason if it comes some time after the line before.

        Raises ``error`` if it does not pass, or if the failures last too long and are limited.
        """
        now_s, since_s, reason = self._now_s(), self._failed_since_s, str(error)
        if not passes(error) or (is_limited and since_s is not None and now_s - since_s > ONCE_PATIENCE_S):
            raise error
        if self._stop.is_set():
            self._failed_since_s = now_s
            self._report(f"{reason}; the mirror ends without its last commit")
        elif since_s is None:
            self._failed_since_s = now_s
            self._report(f"{reason}; the mirror connects again")
        elif reason != self._reason and now_s - self._told_s >= TELL_AGAIN_S:
            self._report(f"{reason}; the mirror has not been connected for {now_s - since_s:.0f} s")
        else:
            return
        self._reason, self._told_s = reason, now_s

    def step(self) -> None:
        """Copy what one round of fetch requests brings; commit when it is time, and when there is no more."""
        waits = self._options.once and self._waits_for_leaders()
        if (waits or not self._options.once) and self._now_s() - self._refreshed_s >= self._refresh_every_s:
            self._refresh()
        result = self._reader.fetch(self._wanted(), self._selection.source_leaders)
        queues: dict[Place, deque[Forwarded]] = {}
        for place, fetched in result.batches.items():
            self._ends[place], self._lag = fetched.end, None
            if fetched.records:
                queues[place] = _forwarded(place, fetched)
        is_idle = not queues
        while queues and not self._stop.is_set():
            self._writer.write(queues, self._selection.target_leaders, self._acknowledge)
            queues = {place: queue for place, queue in queues.items() if queue}
            if self._now_s() - self._committed_s >= self._options.commit_every_s:
                self._commit()
            if queues:  # there may be so many batches that it takes a minute
                self._has_succeeded()
                self._after_round(self.progress)
        self._follow_ends(result, is_idle=is_idle)
        if is_idle or self._is_copied:
            self._commit()
        if self._is_copied or self._now_s() - self._synced_s >= self._options.refresh_every_s:
            self._sync_groups()

    def _waits_for_leaders(self) -> bool:
        """With ``once``: whether partitions that are to be copied have lost their leaders.

        No error tells when they have new ones, so topics are looked up meanwhile. Raises MirrorError after a minute.
        """
        lost = sorted(place for place in self._goal or () if place not in self._positions and self._is_left(place))
        if not lost:
            self._leaderless_s = None
            return False
        now = self._now_s()
        self._leaderless_s = now if self._leaderless_s is None else self._leaderless_s
        if now - self._leaderless_s > ONCE_PATIENCE_S:
            topic, partition = lost[0]
            raise MirrorError(
                f"partition {topic}-{partition} has had no leader for {ONCE_PATIENCE_S:.0f} s, so it can't be copied:"
                " start its brokers, and the mirror again; it goes on where it was"
            )
        return True

    def _wanted(self) -> dict[Place, int]:
        """Positions of the partitions to fetch: with ``once`` those that are not done."""
        if self._goal is None:
            return self._positions
        return {place: at for place, at in self._positions.items() if self._is_left(place)}

    def _acknowledge(self, place: Place, passed: Forwarded, target_offset: int) -> None:
        self._positions[place], self._lag = passed.next_offset, None
        self._uncommitted.add(place)
        if target_offset >= 0:
            offset_map = self._offset_maps[place]
            if not offset_map.add(passed.first_offset, passed.next_offset, target_offset, passed.record_count):
                self._forget_offsets({place})
        if passed.data is not None:
            self._records += passed.record_count
            self._batch_count += 1
            self._size += len(passed.data)

    def _commit(self) -> None:
        self._committed_s = now = self._now_s()
        if now - self._kept_s >= KEEP_POSITIONS_S:
            self._uncommitted.update(self._positions)
            self._kept_s = now
        if self._uncommitted:
            self._writer.commit({place: self._position(place) for place in self._uncommitted})
            self._uncommitted.clear()

    def _position(self, place: Place) -> Position:
        path = self._selection.paths.get(place[0], "")
        text = None if place[1] else self._configs.encoded(place[0])
        return Position(self._positions[place], path, self._offset_maps[place].encode(), text)

    def _sync_groups(self) -> None:
        """Commit the offsets of groups on the target; with ``once`` until all are there, for a minute at most."""
        if self._groups is None:
            return
        self._synced_s = now = self._now_s()
        keep = now - self._groups_kept_s >= KEEP_POSITIONS_S
        if keep:
            self._groups_kept_s = now
        is_complete = self._groups.sync(self._translated, self._selection.target_leaders, keep=keep)
        if self._is_copied and not self._is_synced:
            self._copied_s = now if self._copied_s is None else self._copied_s
            self._is_synced = is_complete or now - self._copied_s > ONCE_PATIENCE_S
            if self._is_synced and not is_complete:
                self._report("the offsets of some groups are not on the target, as brokers could not answer for them")
            if self._is_synced and self._groups.refused:
                names = ", ".join(sorted(self._groups.refused))
                raise MirrorError(f"all is copied, but not the offsets of groups, which other mirrors prevent: {names}")

    def _translated(self, place: Place, offset: int) -> int | None:
        """The target's offset for one of the source; records that are not copied yet will be behind the others."""
        return self._offset_maps[place].translate(min(offset, self._positions[place]))

    def _begin_anew(self) -> None:
        for client in self._clients:
            client.close()
        self._reader.reset()
        if self._groups is not None:
            self._groups.reset()
        self._writer.open()
        if self._writer.is_transactional:
            self._is_rolled_back = True
            self._uncommitted.clear()
        self._look_up()  # positions are committed behind it only: a topic that was deleted on the target takes none

    def _refresh(self) -> None:
        """Commit what is acknowledged, then look up topics: they begin at their committed positions."""
        if self._uncommitted:
            self._commit()
        self._look_up()

    def _look_up(self) -> None:
        """Look up topics and their configuration; new ones begin at their positions or with their first records.

        The first position is committed at once: it marks the topic as a copy. Then the marks of both sides are looked
        at again, as a mirror that goes the other way may have begun at the same time.
        """
        self._refreshed_s = self._now_s()
        self._select()
        listed = self._selection.paths.keys() - self._selection.missing
        changed = [(name, 0) for name in self._configs.sync(listed)]
        self._uncommitted.update(place for place in changed if place in self._positions)
        created = self._selection.created
        if self._uncommitted:
            self._commit()
            self._selector.begun(created)
            self._select()
        every_s, took_s = self._options.refresh_every_s, self._now_s() - self._refreshed_s
        self._refresh_every_s = max(every_s, min(took_s / LOOK_UP_SHARE, RAREST * every_s))

    def _select(self) -> None:
        committed = self._writer.positions()
        for (name, partition), position in committed.items():
            if partition == 0:
                self._configs.restore(name, position.configs)
        self._selection = self._selector.select(committed)
        if self._is_rolled_back:  # only now: until then progress shows what it was before
            self._positions.clear()
            self._is_rolled_back = False
        committed = self._without_deleted(committed)
        places = self._selection.source_leaders
        waiting = (place for place in self._selection.without_leader if place in committed)
        self._waiting = {place: committed[place].offset for place in waiting}
        new = [place for place in places if place not in self._positions]
        first = self._offsets((place for place in new if place not in committed), EARLIEST)
        ends = list_offsets(self._target, new, self._selection.target_leaders, LATEST, is_source=False)
        for place in new:
            self._offset_maps[place] = self._offset_map(place, committed.get(place), ends[place])
        self._positions = {place: at for place, at in self._positions.items() if place in places}
        self._positions.update({place: committed[place].offset for place in new if place in committed})
        self._positions.update(first)
        self._forget_offsets(first)
        self._offset_maps = {place: each for place, each in self._offset_maps.items() if place in places}
        self._uncommitted = {*(place for place in self._uncommitted if place in places), *first}
        self._ends = {place: end for place, end in self._ends.items() if place in places or place in self._waiting}
        self._lag = None
        if self._goal is not None:
            paths = self._selection.paths
            self._goal = {place: end for place, end in self._goal.items() if place[0] in paths}
            self._doubtful &= self._goal.keys()

    def _without_deleted(self, committed: dict[Place, Position]) -> dict[Place, Position]:
        """The positions without those of topics that were deleted on the target, which begin again."""
        created = self._selection.created
        for name in sorted({topic for topic, _ in {**committed, **self._positions} if topic in created}):
            self._report(f"topic {name} was deleted on the target; it is copied from its beginning")
        self._positions = {place: at for place, at in self._positions.items() if place[0] not in created}
        return {place: position for place, position in committed.items() if place[0] not in created}

    def _offset_map(self, place: Place, committed: Position | None, target_end: int) -> MirrorOffsetMap:
        """The map that is stored with a position, or a new one that begins with the next records.

        If a partition is copied from its first record, the map begins with offset 0: records that the source has
        removed before can't be read on the target either.
        """
        if committed is None:
            return MirrorOffsetMap(0, target_end)
        found = MirrorOffsetMap.decode(committed.offset_map or "")
        if found is not None and found.target_end > target_end:
            self._report(
                f"partition {place[0]}-{place[1]}: the target ends at offset {target_end}, before offset"
                f" {found.target_end}, to which records were copied: its records were lost, or its topic is a new one"
            )
            self._forget_offsets({place})
            found = None
        return MirrorOffsetMap(committed.offset, target_end) if found is None else found

    def _forget_offsets(self, places: Collection[Place]) -> None:
        """The target has the records at lower offsets than before, so those of groups are translated again."""
        if self._groups is not None:
            self._groups.forget(places)

    def _offsets(self, places: Iterable[Place], at: int) -> dict[Place, int]:
        return self._reader.offsets(places, self._selection.source_leaders, at)

    def _target_end(self, place: Place) -> int:
        leaders = self._selection.target_leaders
        return list_offsets(self._target, [place], leaders, LATEST, is_source=False)[place]

    def _follow_ends(self, result: FetchResult, *, is_idle: bool) -> None:
        """Move positions that the source has no record of."""
        self._doubtful.difference_update(result.batches)
        if result.without_records and self.progress.lag:
            self._pass_empty_ends(result)
        for place in result.out_of_range:
            self._move_into_range(place)
        if self._goal is not None:
            self._leave_short_ends(self._goal, is_idle=is_idle)

    def _pass_empty_ends(self, result: FetchResult) -> None:
        """Move positions to ends before which the source has no record, as compaction may leave a log (KAFKA-17076).

        Where tiered storage has the records, a response without them tells nothing: it may have taken too long to read.
        """
        asked = (place for places in result.without_records for place in places)
        behind = [place for place in asked if self._positions[place] < self._ends.get(place, NO_OFFSET)]
        for place, first in self._offsets(behind, EARLIEST_LOCAL).items():
            if self._positions[place] >= first:
                self._move(place, self._ends[place])

    def _move_into_range(self, place: Place) -> None:
        at = self._positions[place]
        first = self._offsets([place], EARLIEST)[place]
        if at < first:
            self._report(
                f"partition {place[0]}-{place[1]}: the source has removed {first - at} offsets before the copy"
            )
            self._move(place, first)
        else:
            self._begin_again(place, first, f"the source ends before offset {at}")

    def _begin_again(self, place: Place, first: int, why: str) -> None:
        """Copy a partition of another topic with the same name, with ``once`` up to the end that it has now."""
        self._report(
            f"partition {place[0]}-{place[1]}: {why}, so its topic is another one now; it is copied from its beginning"
        )
        self._offset_maps[place] = MirrorOffsetMap(0, self._target_end(place))
        self._move(place, first)
        if self._goal is not None:
            self._goal[place] = self._offsets([place], LATEST)[place]

    def _move(self, place: Place, position: int) -> None:
        self._positions[place], self._lag = position, None
        self._uncommitted.add(place)
        self._doubtful.discard(place)

    def _leave_short_ends(self, goal: dict[Place, int], *, is_idle: bool) -> None:
        """With ``once``: begin again with partitions whose goal does not come, as they were made again or truncated.

        Only after a minute: the end that a new leader tells may be too low until its followers have fetched from it.
        """
        now_s, before = self._now_s(), self._short_since_s
        self._short_since_s = {
            place: before.get(place, now_s) for place, end in goal.items() if self._is_short(place, end)
        }
        if self._short_since_s and is_idle:
            late = [place for place, since_s in self._short_since_s.items() if now_s - since_s > ONCE_PATIENCE_S]
            for place, first in self._offsets(late, EARLIEST).items():
                ends = f"the source has ended at offset {self._ends[place]} for {ONCE_PATIENCE_S:.0f} s"
                self._begin_again(place, first, f"{ends}, before offset {goal[place]}, at which it ended at the start")

    def _is_short(self, place: Place, goal: int) -> bool:
        """Whether all is copied that a partition has now, and the goal is behind it."""
        end = self._ends.get(place, goal)
        return end < goal and self._positions.get(place, NO_OFFSET) >= end


def _forwarded(place: Place, fetched: FetchedBatches) -> deque[Forwarded]:
    """The batches of a response to produce; raises MirrorError for damaged ones."""
    try:
        return deque(forwarded(fetched.records, fetched.aborted))
    except RecordsError as error:
        raise MirrorError(f"partition {place[0]}-{place[1]}: the source has sent damaged records: {error}") from error
