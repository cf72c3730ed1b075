"""The end of transactions: a marker in each of their partitions, sent until all have it, then the completing record.

If a transaction has up to about a hundred partitions, all led by this broker, the markers and the record are written
in one step; the markers of more partitions in several. After an EndTxn this first step is in the loop's next iteration,
before it reads any socket: a producer that has waited for the response, as all clients do, does not get
CONCURRENT_TRANSACTIONS. Requests that were sent together with the EndTxn may get it, as in Kafka, and so may the
producer of a larger transaction.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, Protocol

from kafkapy.clock import Clock, TimerHandle
from kafkapy.coordinator.runtime import BrokerLog, Metadata, Run, Soon, append_safely, at_once
from kafkapy.coordinator.transaction import decisions, states
from kafkapy.coordinator.transaction.shard import TransactionShard
from kafkapy.coordinator.transaction.transaction import Transaction, Transition
from kafkapy.errors import BrokerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.network.peer import RETRY_MS, BrokerChannel, PeerUnreachableError
from kafkapy.protocol.errors import ErrorCode
from kafkapy.protocol.message import ProtocolError
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.records.batch import MAGIC
from kafkapy.records.control import ControlType, Marker, encode_marker
from kafkapy.storage.log.log import AppendResult
from kafkapy.turns import Steps, pieces
from kafkapy.types import NO_LEADER, TopicPartition

logger = logging.getLogger(__name__)

# Markers in partitions that this broker leads (WriteTxnMarkers, KIP-98)


class Ending(NamedTuple):
    """The content of the markers of a transaction."""

    marker: Marker
    is_commit: bool


class TransactionEndListener(Protocol):
    """The group coordinator, which applies markers in its topic."""

    def transaction_ended(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """A marker of a producer's transaction was written to this partition of ``__consumer_offsets``."""
        ...


class MarkerWriter:
    """Appends markers to partitions of this broker, which check the epochs of producer and coordinator.

    A marker in ``__consumer_offsets`` also commits or drops the offsets of the transaction there.
    """

    def __init__(self, log: BrokerLog, groups: TransactionEndListener, clock: Clock, timeout_ms: int) -> None:
        self._log = log
        self._groups = groups
        self._clock = clock
        self._timeout_ms = timeout_ms

    def leads(self, topic_partition: TopicPartition) -> bool:
        """Whether this broker leads the partition."""
        partition = self._partition(topic_partition)
        return not isinstance(partition, int) and bool(partition.is_leader)

    def refusal(self, topic_partition: TopicPartition) -> int:
        """The error code for every marker of the partition, 0 if it takes markers."""
        partition = self._partition(topic_partition)
        if isinstance(partition, int):
            return partition
        return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT if partition.log.config.message_format < MAGIC else 0

    def write(self, topic_partition: TopicPartition, ending: Ending, on_done: Callable[[int], None]) -> None:
        """Append the marker; ``on_done`` gets 0 once all in-sync replicas have it, or an error code.

        With one replica ``on_done`` is called before this method returns.
        """
        if refusal := self.refusal(topic_partition):
            on_done(refusal)
            return

        def finish(error_code: int, appended: AppendResult | None) -> None:
            if appended is not None and topic_partition.topic == GROUP_METADATA_TOPIC:
                self._groups.transaction_ended(
                    topic_partition.partition, ending.marker.producer_id, is_commit=ending.is_commit
                )
            on_done(error_code)

        control_type = ControlType.COMMIT if ending.is_commit else ControlType.ABORT
        batch = encode_marker(control_type, ending.marker, self._clock.now_ms())
        append_safely(self._log, topic_partition, batch, self._timeout_ms, finish)

    def _partition(self, topic_partition: TopicPartition) -> Any:
        """The partition, or an error code: a partition of other brokers is unknown too."""
        try:
            return self._log.partition(topic_partition)
        except BrokerError as error:
            is_elsewhere = error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_elsewhere else error.error_code


# Markers to the leaders of their partitions: by a call to this broker, by WriteTxnMarkers to other brokers


DELETED: Final = -2
"""Instead of a leader: the topic was deleted."""
VERSION: Final = 0
"""The version of WriteTxnMarkers between brokers of 2.7."""

OWN_AT_ONCE: Final = 32
"""Markers of this broker's partitions that are written in one step: about a millisecond."""
OTHERS_AT_ONCE: Final = 512
"""Markers in one request to another broker."""

OnWritten = Callable[[Mapping[TopicPartition, int]], None]


class MarkerChannel(Protocol):
    """Brings markers to the leaders of their partitions."""

    def leader_of(self, topic_partition: TopicPartition) -> int:
        """The broker that leads the partition, ``NO_LEADER``, or ``DELETED`` when its topic was deleted."""
        ...

    def most_at_once(self, broker_id: int) -> int:
        """The number of markers that one call of ``write`` may take for the broker: more would block the event loop."""
        ...

    def write(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        """Let the broker write the markers; ``on_written`` gets the error codes, in one call or several."""
        ...


class BrokerMarkers:
    """The channel of a running broker."""

    def __init__(self, broker_id: int, metadata: Metadata, writer: MarkerWriter, peers: BrokerChannel) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._writer = writer
        self._peers = peers
        self._requests: set[asyncio.Task[None]] = set()

    def leader_of(self, topic_partition: TopicPartition) -> int:
        """See ``MarkerChannel``. This broker knows its own leadership before the metadata has it."""
        if self._writer.leads(topic_partition):
            return self._broker_id
        partition = self._metadata.image.partition(*topic_partition)
        if partition is not None:
            return int(partition.leader)
        return DELETED if self._metadata.lacks(*topic_partition) else NO_LEADER

    def most_at_once(self, broker_id: int) -> int:
        """See ``MarkerChannel``."""
        return OWN_AT_ONCE if broker_id == self._broker_id else OTHERS_AT_ONCE

    def write(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        """See ``MarkerChannel``."""
        if broker_id != self._broker_id:
            request = asyncio.get_running_loop().create_task(
                self._send_request(broker_id, ending, partitions, on_written)
            )
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            return
        for topic_partition in partitions:
            self._writer.write(topic_partition, ending, partial(_report, on_written, topic_partition))

    async def _send_request(
        self, broker_id: int, ending: Ending, partitions: Sequence[TopicPartition], on_written: OnWritten
    ) -> None:
        errors = dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
        try:
            response: Any = await self._peers.send(broker_id, _request(ending, partitions), VERSION)
        except (PeerUnreachableError, ProtocolError) as error:
            logger.warning("Broker %d did not answer about the markers of transactions: %s", broker_id, error)
            on_written(errors)
            return
        for marker in response.markers:
            for topic in marker.topics:
                for answer in topic.partitions:
                    errors[TopicPartition(topic.name, answer.partition_index)] = answer.error_code
        on_written(errors)


def _report(on_written: OnWritten, topic_partition: TopicPartition, error_code: int) -> None:
    on_written({topic_partition: error_code})


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


AppendTransition = Callable[[TransactionShard, Transaction, Transition, Callable[[int], None]], None]
"""Appends a transition and replays it (``TransactionRuntime.append``); the callback gets 0 or an error code."""


class MarkerSender:
    """Sends the markers of transactions that are being ended, again every ``RETRY_MS`` until all are written."""

    def __init__(self, append: AppendTransition, channel: MarkerChannel, clock: Clock, run: Run) -> None:
        """``run`` runs the steps that send the markers of a transaction."""
        self._run = run
        self._is_sending_all = False
        self._is_due = False
        self._append = append
        self._channel = channel
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
        """Send the missing markers of all transactions, and once more if ``try_again`` was called meanwhile."""
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
            for share in pieces(partitions, self._channel.most_at_once(leader)):
                if not self._is_current(completion):
                    return
                completion.sent.update(share)
                self._channel.write(leader, completion.ending, share, partial(self._on_written, completion))
                yield
        completion.is_sending = False
        self._continue(completion)

    def _find_leader(
        self, completion: _Completion, topic_partition: TopicPartition, by_leader: dict[int, list[TopicPartition]]
    ) -> None:
        leader = self._channel.leader_of(topic_partition)
        if leader == DELETED:
            del completion.missing[topic_partition]
        elif leader != NO_LEADER:
            by_leader.setdefault(leader, []).append(topic_partition)

    def _is_current(self, completion: _Completion) -> bool:
        return self._completions.get(completion.transaction) is completion

    def _on_written(self, completion: _Completion, errors: Mapping[TopicPartition, int]) -> None:
        if self._completions.get(completion.transaction) is not completion:
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
        """Stop ending a transaction: the partition knows a later producer or coordinator, which ends it.

        As in Kafka, requests of the transactional id get CONCURRENT_TRANSACTIONS until its shard is loaded again.
        """
        logger.error("%s refused the marker of %r with error %d", topic_partition, completion.transaction, error_code)
        del self._completions[completion.transaction]

    def _continue(self, completion: _Completion) -> None:
        if completion.sent or completion.is_sending or completion.is_completing or not self._is_current(completion):
            return
        if completion.missing:
            if not completion.is_logged:
                completion.is_logged = True
                named = ", ".join(map(str, islice(completion.missing, NAMED_PARTITIONS)))
                further = len(completion.missing) - NAMED_PARTITIONS
                more = f" and {further} more" if further > 0 else ""
                name = completion.transaction.transactional_id
                logger.info("The end of the transaction of %s waits for markers in %s%s", name, named, more)
            self._schedule_retry()
            return
        completion.is_completing = True
        transition = decisions.complete(completion.transaction, self._clock.now_ms())
        self._append(completion.shard, completion.transaction, transition, partial(self._completed, completion))

    def _completed(self, completion: _Completion, error_code: int) -> None:
        if self._completions.get(completion.transaction) is not completion:
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
