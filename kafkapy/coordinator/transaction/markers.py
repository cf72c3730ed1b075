"""Ends transactions: a marker into each of their partitions, tried until all have it, then the completing record.

Markers of up to about a hundred partitions that this broker leads alone, and the record, are written before ``start``
returns; those of more partitions in steps. After an EndTxn that is in the loop's next turn, before any socket is read
again: a producer that waits for the answer, as all clients do, never meets CONCURRENT_TRANSACTIONS then. What came
together with the EndTxn may, as in Kafka, and so may the producer of a larger transaction.
"""

import logging
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.errors import CoordinatorNotAvailableError
from kafkapy.coordinator.steps import Run, Soon, at_once, pieces
from kafkapy.coordinator.transaction import end, states
from kafkapy.coordinator.transaction.marker_channel import GONE, NO_LEADER, MarkerChannel
from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.shards import Shards
from kafkapy.coordinator.transaction.transaction import Transaction
from kafkapy.records.control import Marker
from kafkapy.turns import Steps
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

RETRY_MS: Final = 100
PARTITIONS_IN_A_STEP: Final = 128
"""Partitions whose leaders are looked up between two places to pause."""
NAMED_PARTITIONS: Final = 10
"""Partitions that one line of the log names."""

# 0; and 35 and 43 of partitions in a format without transactions: there is nothing to end
_WRITTEN: Final = frozenset({0, 35, 43})
# the leader moves, is not reached, or has not enough replicas: it will, or another one
_PASSING: Final = frozenset({3, 5, 6, 7, 13, 19, 20, 56})


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
            if error_code in _WRITTEN:
                job.missing.pop(tp, None)
            elif error_code not in _PASSING:
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
        if error_code != CoordinatorNotAvailableError.error_code:
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
