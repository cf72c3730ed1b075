"""Ends transactions: a marker into each of their partitions, tried until all have it, then the completing record.

Markers of partitions that this broker leads alone, and the record, are written before ``start`` returns. After an
EndTxn that is in the loop's next turn, before any socket is read again: a producer that waits for the answer, as all
clients do, never meets CONCURRENT_TRANSACTIONS then. What came together with the EndTxn may, as in Kafka.
"""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.errors import CoordinatorNotAvailableError
from kafkapy.coordinator.steps import Soon, at_once
from kafkapy.coordinator.transaction import end, states
from kafkapy.coordinator.transaction.marker_channel import GONE, NO_LEADER, MarkerChannel
from kafkapy.coordinator.transaction.marker_writer import Ending
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.shards import Shards
from kafkapy.coordinator.transaction.transaction import Transaction
from kafkapy.records.control import Marker
from kafkapy.types import TopicPartition

logger = logging.getLogger(__name__)

RETRY_MS: Final = 100

# 0; and 35 and 43 of partitions in a format without transactions: there is nothing to end
_WRITTEN: Final = frozenset({0, 35, 43})
# the leader moves, is not reached, or has not enough replicas: it will, or another one
_PASSING: Final = frozenset({3, 5, 6, 7, 13, 19, 20, 56})


class _Job:
    """One transaction that is being ended: the partitions without a marker, and those that were asked just now."""

    __slots__ = ("shard", "transaction", "missing", "asked", "is_completing", "is_late")

    def __init__(self, shard: TransactionShard, transaction: Transaction) -> None:
        self.shard = shard
        self.transaction = transaction
        self.missing = dict.fromkeys(transaction.data.partitions)
        self.asked: set[TopicPartition] = set()
        self.is_completing = False
        self.is_late = False

    @property
    def ending(self) -> Ending:
        data = self.transaction.data
        marker = Marker(data.producer_id, data.producer_epoch, self.shard.coordinator_epoch)
        return Ending(marker, data.state is states.PREPARE_COMMIT)


class MarkerSender:
    """The transactions that are being ended."""

    def __init__(self, shards: Shards, channel: MarkerChannel, clock: Clock) -> None:
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
        soon(partial(self._send, job))

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
        for job in list(self._jobs.values()):
            self._send(job)

    def _send(self, job: _Job) -> None:
        if self._jobs.get(job.transaction) is not job:
            return  # it was not sent soon enough: another broker's now, or the next start's
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in [each for each in job.missing if each not in job.asked]:
            leader = self._channel.leader_of(tp)
            if leader == GONE:
                del job.missing[tp]
            elif leader != NO_LEADER:
                by_leader.setdefault(leader, []).append(tp)
                job.asked.add(tp)
        for leader, partitions in by_leader.items():
            self._channel.write(leader, job.ending, partitions, partial(self._written, job))
        self._go_on(job)

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
        if job.asked or job.is_completing or self._jobs.get(job.transaction) is not job:
            return
        if job.missing:
            if not job.is_late:
                job.is_late = True
                missing = ", ".join(map(str, job.missing))
                logger.info("The end of %s waits for %s", job.transaction.transactional_id, missing)
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
