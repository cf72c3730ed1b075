"""Ends transactions: a marker into each of their partitions, tried until all have it, then the completing record.

Markers of up to about a hundred partitions that this broker leads alone, and the record, are written before ``start``
returns; those of more partitions in steps. After an EndTxn that is in the loop's next turn, before any socket is read
again: a producer that waits for the answer, as all clients do, never meets CONCURRENT_TRANSACTIONS then. What came
together with the EndTxn may, as in Kafka, and so may the producer of a larger transaction.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.group.directory import Metadata
from kafkapy.coordinator.partition_log import BrokerLog, append_safely
from kafkapy.coordinator.steps import Run, Soon, at_once, pieces
from kafkapy.coordinator.transaction import end, states
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.shards import Shards
from kafkapy.coordinator.transaction.transaction import Transaction
from kafkapy.errors import BrokerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kafkapy.network.peer import BrokerChannel, PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.records.batch import MAGIC
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.storage.log.log import AppendResult
from kafkapy.turns import Steps
from kafkapy.types import NO_LEADER, TopicPartition

logger = logging.getLogger(__name__)

# Writes commit and abort markers into partitions that this broker leads (WriteTxnMarkers, KIP-98).
#
# The partition checks the producer's epoch and the coordinator's (47, 52). A marker in ``__consumer_offsets`` also
# settles the offsets that the transaction committed there.


class Ending(NamedTuple):
    """What the markers of a transaction say."""

    marker: Marker
    is_commit: bool


class SettlesOffsets(Protocol):
    """The group coordinator, told of markers in its topic."""

    def transaction_ended(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """The end of a producer's transaction stands in this partition of ``__consumer_offsets`` now."""
        ...


class MarkerWriter:
    """The broker's own partitions."""

    def __init__(self, log: BrokerLog, groups: SettlesOffsets, clock: Clock, timeout_ms: int) -> None:
        self._log = log
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def leads(self, tp: TopicPartition) -> bool:
        """Whether this broker leads the partition."""
        partition = self._partition(tp)
        return not isinstance(partition, int) and bool(partition.is_leader)

    def refusal(self, tp: TopicPartition) -> int:
        """Why nobody's marker can be written into the partition, or 0."""
        partition = self._partition(tp)
        if isinstance(partition, int):
            return partition
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if partition.log.config.message_format < MAGIC else 0

    def write(self, tp: TopicPartition, ending: Ending, on_done: Callable[[int], None]) -> None:
        """Append the marker; ``on_done`` gets 0 once all in-sync replicas have it, or an error code.

        With one replica that is before this returns.
        """
        if refusal := self.refusal(tp):
            on_done(refusal)
            return

        def finish(error_code: int, appended: AppendResult | None) -> None:
            if appended is not None and tp.topic == GROUP_METADATA_TOPIC:
                self._groups.transaction_ended(tp.partition, ending.marker.producer_id, is_commit=ending.is_commit)
            on_done(error_code)

        control_type = ControlType.COMMIT if ending.is_commit else ControlType.ABORT
        batch = encode_marker(control_type, ending.marker, self._clock.now_ms())
        append_safely(self._log, tp, batch, self._timeout_ms, finish)

    def _partition(self, tp: TopicPartition) -> Any:
        """The partition, or an error code; one that lies on other brokers is as unknown as one that does not exist."""
        try:
            return self._log.partition(tp)
        except BrokerError as error:
            is_elsewhere = error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_elsewhere else error.error_code


# The way of markers to the leaders of their partitions: a call for this broker's own, WriteTxnMarkers for others.


GONE: Final = -2
VERSION: Final = 0
"""Of WriteTxnMarkers, between brokers of 2.7."""

OWN_AT_ONCE: Final = 32
"""Markers of this broker's partitions that are written one after the other: about a millisecond."""
OTHERS_AT_ONCE: Final = 512
"""Markers in one request to another broker."""

OnWritten = Callable[[Mapping[TopicPartition, int]], None]


class MarkerChannel(Protocol):
    """What the sender of markers needs."""

    def leader_of(self, tp: TopicPartition) -> int:
        """The broker that leads the partition, ``NO_LEADER``, or ``GONE`` when its topic was deleted."""
        ...

    def most_at_once(self, broker_id: int) -> int:
        """How many markers ``write`` takes for the broker without holding the event loop for long."""
        ...

    def write(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        """Have the markers written by the broker; ``on_written`` gets the error code of each partition."""
        ...


class BrokerMarkers:
    """The channel of a running broker."""

    def __init__(self, broker_id: int, metadata: Metadata, writer: MarkerWriter, peers: BrokerChannel) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._writer = writer
        self._peers = peers
        self._requests: set[asyncio.Task[None]] = set()

    def leader_of(self, tp: TopicPartition) -> int:
        """See ``MarkerChannel``. Leadership of this broker is known earlier than the cluster's metadata.

        Only metadata that shows the coordinator's own topic is whole enough to tell what has been deleted.
        """
        if self._writer.leads(tp):
            return self._broker_id
        image = self._metadata.image
        partition = image.partition(tp.topic, tp.partition)
        if partition is not None:
            return int(partition.leader)
        return GONE if TRANSACTION_STATE_TOPIC in image.topics else NO_LEADER

    def most_at_once(self, broker_id: int) -> int:
        """See ``MarkerChannel``."""
        return OWN_AT_ONCE if broker_id == self._broker_id else OTHERS_AT_ONCE

    def write(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        """See ``MarkerChannel``."""
        if broker_id != self._broker_id:
            request = asyncio.get_running_loop().create_task(self._ask(broker_id, ending, partitions, on_written))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            return
        for tp in partitions:
            self._writer.write(tp, ending, partial(_tell, on_written, tp))

    async def _ask(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        errors = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        try:
            response: Any = await self._peers.send(broker_id, _request(ending, partitions), VERSION)
        except PeerUnreachableError:
            on_written(errors)
            return
        for marker in response.markers:
            for topic in marker.topics:
                for answer in topic.partitions:
                    errors[TopicPartition(topic.name, answer.partition_index)] = answer.error_code
        on_written(errors)


def _tell(on_written: OnWritten, tp: TopicPartition, error_code: int) -> None:
    on_written({tp: error_code})


def _request(ending: Ending, partitions: Sequence[TopicPartition]) -> WriteTxnMarkersRequest:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    marker = WritableTxnMarker(
        ending.marker.producer_id,
        ending.marker.producer_epoch,
        ending.is_commit,
        [WritableTxnMarkerTopic(*each) for each in topics.items()],
        ending.marker.coordinator_epoch,
    )
    return WriteTxnMarkersRequest([marker])


RETRY_MS: Final = 100
PARTITIONS_IN_A_STEP: Final = 128
"""Partitions whose leaders are looked up between two places to pause."""
NAMED_PARTITIONS: Final = 10
"""Partitions that one line of the log names."""

_NO_MARKER_NEEDED: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT}
)
"""The marker is written, or the partition's message format has no transactions."""
_RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The leader changes, is not reachable, or has too few in-sync replicas: the marker is sent again later."""


class _Job:
    """One transaction that is being ended: the partitions without a marker, and those that were asked just now."""

    __slots__ = ("shard", "transaction", "missing", "asked", "is_sending", "is_completing", "is_late")

    def __init__(self, shard: TransactionShard, transaction: Transaction) -> None:
        self.shard = shard
        self.transaction = transaction
        self.missing = dict.fromkeys(transaction.data.partitions)
        self.asked: set[TopicPartition] = set()
        self.is_sending = False
        self.is_completing = False
        self.is_late = False

    @property
    def ending(self) -> Ending:
        data = self.transaction.data
        marker = Marker(data.producer_id, data.producer_epoch, self.shard.coordinator_epoch)
        return Ending(marker, data.state is states.PREPARE_COMMIT)


class MarkerSender:
    """The transactions that are being ended."""

    def __init__(self, shards: Shards, channel: MarkerChannel, clock: Clock, run: Run) -> None:
        """``run`` runs what sends the markers of a transaction."""
        self._run = run
        self._is_trying = False
        self._is_due = False
        self._shards = shards
        self._channel = channel
        self._clock = clock
        self._jobs: dict[Transaction, _Job] = {}
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, shard: TransactionShard, transaction: Transaction, *, soon: Soon = at_once) -> None:
        """End a transaction whose Prepare record is in the log; ``soon`` calls what sends the first markers."""
        transaction.is_moving = True
        job = self._jobs[transaction] = _Job(shard, transaction)
        soon(partial(self._start, job))

    def _start(self, job: _Job) -> None:
        self._run(self._send(job))

    def forget(self, shard: TransactionShard) -> None:
        """Another broker coordinates them now, and ends them."""
        self._jobs = {transaction: job for transaction, job in self._jobs.items() if job.shard is not shard}

    def stop(self) -> None:
        """The broker stops; the next start goes on."""
        self._jobs.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def try_again(self) -> None:
        """Something has changed in the cluster, or some time has passed."""
        self._is_due = True
        if not self._is_trying:
            self._is_trying = True
            self._run(self._try_all())

    def _try_all(self) -> Steps[None]:
        """Go through all transactions, and once more if there was another reason to meanwhile."""
        try:
            while self._is_due:
                self._is_due = False
                for job in list(self._jobs.values()):
                    yield from self._send(job)
                    yield
        finally:
            self._is_trying = False

    def _send(self, job: _Job) -> Steps[None]:
        """Send the markers that are missing and not on their way.

        It ends early when the transaction becomes another broker's, or the next start's.
        """
        if job.is_sending:
            return
        job.is_sending = True
        by_leader: dict[int, list[TopicPartition]] = {}
        for piece in pieces([each for each in job.missing if each not in job.asked], PARTITIONS_IN_A_STEP):
            if not self._is_kept(job):
                return
            for tp in piece:
                self._find_leader(job, tp, by_leader)
            yield
        for leader, partitions in by_leader.items():
            for share in pieces(partitions, self._channel.most_at_once(leader)):
                if not self._is_kept(job):
                    return
                job.asked.update(share)
                self._channel.write(leader, job.ending, share, partial(self._written, job))
                yield
        job.is_sending = False
        self._go_on(job)

    def _find_leader(self, job: _Job, tp: TopicPartition, by_leader: dict[int, list[TopicPartition]]) -> None:
        leader = self._channel.leader_of(tp)
        if leader == GONE:
            del job.missing[tp]
        elif leader != NO_LEADER:
            by_leader.setdefault(leader, []).append(tp)

    def _is_kept(self, job: _Job) -> bool:
        return self._jobs.get(job.transaction) is job

    def _written(self, job: _Job, errors: Mapping[TopicPartition, int]) -> None:
        if self._jobs.get(job.transaction) is not job:
            return
        for tp, error_code in errors.items():
            job.asked.discard(tp)
            if error_code in _NO_MARKER_NEEDED:
                job.missing.pop(tp, None)
            elif error_code not in _RETRIED:
                self._give_up(job, tp, error_code)
                return
        self._go_on(job)

    def _give_up(self, job: _Job, tp: TopicPartition, error_code: int) -> None:
        """The partition knows a later producer or coordinator than this one: it is not for us to end it.

        As in Kafka the transactional id answers CONCURRENT_TRANSACTIONS until somebody loads it anew.
        """
        logger.error("%s refused the marker of %r with error %d", tp, job.transaction, error_code)
        del self._jobs[job.transaction]

    def _go_on(self, job: _Job) -> None:
        if job.asked or job.is_sending or job.is_completing or not self._is_kept(job):
            return
        if job.missing:
            if not job.is_late:
                job.is_late = True
                named = ", ".join(map(str, islice(job.missing, NAMED_PARTITIONS)))
                further = len(job.missing) - NAMED_PARTITIONS
                more = f" and {further} more" if further > 0 else ""
                logger.info("The end of %s waits for %s%s", job.transaction.transactional_id, named, more)
            self._wait()
            return
        job.is_completing = True
        move = end.complete(job.transaction, self._clock.now_ms())
        self._shards.append(job.shard, job.transaction, move, partial(self._completed, job))

    def _completed(self, job: _Job, error_code: int) -> None:
        if self._jobs.get(job.transaction) is not job:
            return
        if error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            del self._jobs[job.transaction]
            if error_code:
                logger.error("Could not complete %r: error %d", job.transaction, error_code)
            return
        job.is_completing = False
        job.transaction.is_moving = True
        self._wait()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(RETRY_MS, self._waited)

    def _waited(self) -> None:
        self._timer = None
        self.try_again()
