"""The end of transactions: a marker in each of their partitions, sent until all have it, then the completing record.

If a transaction has up to about a hundred partitions, all led by this broker, the markers and the record are written
in one step; the markers of more partitions in several. After an EndTxn this first step is in the loop's next iteration,
before it reads any socket: a producer that has waited for the response, as all clients do, does not get
CONCURRENT_TRANSACTIONS. Requests that were sent together with the EndTxn may get it, as in Kafka, and so may the
producer of a larger transaction.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.runtime import Metadata, Run, Soon, at_once
from kafkapy.coordinator.transaction import decisions, states
from kafkapy.coordinator.transaction.marker_channel import MarkerChannel, MarkerErrors
from kafkapy.coordinator.transaction.marker_writer import Ending, MarkerWriter
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import Transaction, Transition
from kafkapy.network.peer import RETRY_MS
from kafkapy.protocol.errors import ErrorCode
from kafkapy.records.control import Marker
from kafkapy.turns import Steps, pieces
from kafkapy.types import NO_LEADER, TopicPartition

logger = logging.getLogger(__name__)

DELETED: Final = -2
"""Instead of a leader: the topic was deleted."""

OWN_AT_ONCE: Final = 32
"""Markers of this broker's partitions that are written in one step: about a millisecond."""
OTHERS_AT_ONCE: Final = 512
"""Markers in one request to another broker."""

PARTITIONS_IN_A_STEP: Final = 128
"""Partitions whose leaders are found between two places to pause."""
NAMED_PARTITIONS: Final = 10
"""Partitions that one log line names."""

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


class _Completion:
    """The end of one transaction: the partitions without a marker, and those whose markers were sent.

    ``is_logged`` is set when a log line has said that the markers are late.
    """

    __slots__ = ("shard", "transaction", "missing", "sent", "is_sending", "is_completing", "is_logged")

    def __init__(self, shard: TransactionShard, transaction: Transaction) -> None:
        self.shard = shard
        self.transaction = transaction
        self.missing = dict.fromkeys(transaction.data.partitions)
        self.sent: set[TopicPartition] = set()
        self.is_sending = False
        self.is_completing = False
        self.is_logged = False

    @property
    def ending(self) -> Ending:
        data = self.transaction.data
        marker = Marker(data.producer_id, data.producer_epoch, self.shard.leader_epoch)
        return Ending(marker, data.state is states.PREPARE_COMMIT)


WriteTransition = Callable[[TransactionShard, Transaction, Transition, int, Callable[[int], int]], Answer[int]]
"""Appends a transition and replays it (``TransactionRuntime.write_transition``)."""


class MarkerPaths(NamedTuple):
    """The two ways of a marker to the leader of its partition: this broker, with its id, and all others."""

    broker_id: int
    writer: MarkerWriter
    channel: MarkerChannel


class MarkerSender:
    """Sends the markers of transactions that are being ended, again every ``RETRY_MS`` until all are written."""

    def __init__(
        self, write_transition: WriteTransition, paths: MarkerPaths, metadata: Metadata, clock: Clock, run: Run
    ) -> None:
        """``run`` runs the steps that send the markers of a transaction."""
        self._run = run
        self._is_sending_all = False
        self._is_due = False
        self._write_transition = write_transition
        self._broker_id, self._writer, self._channel = paths
        self._metadata = metadata
        self._clock = clock
        self._completions: dict[Transaction, _Completion] = {}
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._completions)

    def start(self, shard: TransactionShard, transaction: Transaction, *, soon: Soon = at_once) -> None:
        """End a transaction whose Prepare record is in the log; ``soon`` calls the function that sends the markers."""
        transaction.has_pending_transition = True
        completion = self._completions[transaction] = _Completion(shard, transaction)
        soon(partial(self._start, completion))

    def start_prepared(self, shard: TransactionShard) -> Steps[None]:
        """End the transactions that were prepared when the shard was loaded."""
        for piece in pieces(list(shard.transactions.values())):
            for transaction in piece:
                # one that its producer has ended since the last step is being completed already
                if transaction.data.state in states.PREPARED and transaction not in self._completions:
                    self.start(shard, transaction)
                    yield
            yield

    def _start(self, completion: _Completion) -> None:
        self._run(self._send(completion))

    def forget(self, shard: TransactionShard) -> None:
        """Forget the transactions of a shard: their new coordinator ends them."""
        self._completions = {
            transaction: completion
            for transaction, completion in self._completions.items()
            if completion.shard is not shard
        }

    def stop(self) -> None:
        """Stop sending; the broker's next start sends the missing markers."""
        self._completions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def try_again(self) -> None:
        """Send all missing markers again: the metadata has changed, or ``RETRY_MS`` has passed."""
        self._is_due = True
        if not self._is_sending_all:
            self._is_sending_all = True
            self._run(self._send_all())

    def _send_all(self) -> Steps[None]:
        """Send the missing markers of all transactions, and repeat that if ``try_again`` was called during the call."""
        try:
            while self._is_due:
                self._is_due = False
                for completion in list(self._completions.values()):
                    yield from self._send(completion)
                    yield
        finally:
            self._is_sending_all = False

    def _send(self, completion: _Completion) -> Steps[None]:
        """Send the markers that are missing and have not been sent.

        The steps end early when the transaction is forgotten.
        """
        if completion.is_sending:
            return
        completion.is_sending = True
        by_leader: dict[int, list[TopicPartition]] = {}
        for piece in pieces([each for each in completion.missing if each not in completion.sent], PARTITIONS_IN_A_STEP):
            if not self._is_current(completion):
                return
            for topic_partition in piece:
                self._find_leader(completion, topic_partition, by_leader)
            yield
        for leader, partitions in by_leader.items():
            is_own = leader == self._broker_id
            for share in pieces(partitions, OWN_AT_ONCE if is_own else OTHERS_AT_ONCE):
                if not self._is_current(completion):
                    return
                completion.sent.update(share)
                if is_own:
                    self._write_own(completion, share)
                else:
                    sent = self._channel.send(leader, completion.ending, share)
                    sent.on_set(partial(self._written, completion))
                yield
        completion.is_sending = False
        self._continue(completion)

    def _find_leader(
        self, completion: _Completion, topic_partition: TopicPartition, by_leader: dict[int, list[TopicPartition]]
    ) -> None:
        leader = self.leader_of(topic_partition)
        if leader == DELETED:
            del completion.missing[topic_partition]
        elif leader != NO_LEADER:
            by_leader.setdefault(leader, []).append(topic_partition)

    def leader_of(self, topic_partition: TopicPartition) -> int:
        """The broker that leads the partition, ``NO_LEADER``, or ``DELETED`` when its topic was deleted.

        This broker's leadership is set before the metadata image has it.
        """
        if self._writer.leads(topic_partition):
            return self._broker_id
        partition = self._metadata.image.partition(*topic_partition)
        if partition is not None:
            return int(partition.leader)
        return DELETED if self._metadata.lacks(*topic_partition) else NO_LEADER

    def _is_current(self, completion: _Completion) -> bool:
        return self._completions.get(completion.transaction) is completion

    def _write_own(self, completion: _Completion, partitions: Sequence[TopicPartition]) -> None:
        for topic_partition in partitions:
            answer = self._writer.write_marker(topic_partition, completion.ending)
            answer.on_set(partial(self._own_written, completion, topic_partition))

    def _own_written(self, completion: _Completion, topic_partition: TopicPartition, error_code: int) -> None:
        self._written(completion, {topic_partition: error_code})

    def _written(self, completion: _Completion, errors: MarkerErrors) -> None:
        if not self._is_current(completion):
            return
        for topic_partition, error_code in errors.items():
            completion.sent.discard(topic_partition)
            if error_code in _NO_MARKER_NEEDED:
                completion.missing.pop(topic_partition, None)
            elif error_code not in _RETRIED:
                self._give_up(completion, topic_partition, error_code)
                return
        self._continue(completion)

    def _give_up(self, completion: _Completion, topic_partition: TopicPartition, error_code: int) -> None:
        """Stop the completion of a transaction: the partition has a later producer or coordinator, which completes it.

        As in Kafka, requests of the transactional id get CONCURRENT_TRANSACTIONS until its shard is loaded again.
        """
        logger.error("%s refused the marker of %r with error %d", topic_partition, completion.transaction, error_code)
        del self._completions[completion.transaction]

    def _continue(self, completion: _Completion) -> None:
        if completion.sent or completion.is_sending or completion.is_completing or not self._is_current(completion):
            return
        if completion.missing:
            self._log_missing(completion)
            self._schedule_retry()
            return
        completion.is_completing = True
        transition = decisions.complete(completion.transaction, self._clock.now_ms())
        answer = self._write_transition(completion.shard, completion.transaction, transition, 0, int)
        answer.on_set(partial(self._completed, completion))

    @staticmethod
    def _log_missing(completion: _Completion) -> None:
        """Log once for each transaction that its end waits for markers."""
        if completion.is_logged:
            return
        completion.is_logged = True
        named = ", ".join(map(str, islice(completion.missing, NAMED_PARTITIONS)))
        further = len(completion.missing) - NAMED_PARTITIONS
        more = f" and {further} more" if further > 0 else ""
        name = completion.transaction.transactional_id
        logger.info("The end of the transaction of %s waits for markers in %s%s", name, named, more)

    def _completed(self, completion: _Completion, error_code: int) -> None:
        if not self._is_current(completion):
            return
        # NOT_COORDINATOR of a shard that is still here: its disk is full, and will take the record later.
        if error_code not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
            del self._completions[completion.transaction]
            if error_code:
                logger.error("Could not complete %r: error %d", completion.transaction, error_code)
            return
        completion.is_completing = False
        completion.transaction.has_pending_transition = True
        self._schedule_retry()

    def _schedule_retry(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self.try_again()
