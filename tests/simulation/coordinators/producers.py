"""A transactional producer of version 1 or 2 (KIP-890), step by step, and what it was told of its transactions.

A producer sends one request at a time. A request without an answer, or with an error that clients retry, is sent again
as it is; after any other error, and after a request that may still arrive later, the producer begins again.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.transaction.transaction import (
    EPOCH_PER_TRANSACTION,
    NO_ID_AND_EPOCH,
    AddCall,
    EndCall,
    Ended,
    Initialized,
    ProducerIdAndEpoch,
)
from kafkapy.protocol.errors import ErrorCode
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import GROUPS, OTHER
from tests.coordinator.world import TP
from tests.simulation.coordinators.history import require

if TYPE_CHECKING:
    from tests.simulation.coordinators.transactions import TransactionHistory

RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
DATA: Final = (TP, OTHER)


class ToldTransaction:
    """A transaction; ``is_commit`` is what its producer asked for, ``is_told`` whether that was answered."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.values: list[tuple[TopicPartition, bytes]] = []
        self.offset: int | None = None
        self.is_commit = False
        self.is_told = False


class TransactionalProducer:
    """One client process with a transactional id."""

    def __init__(self, history: "TransactionHistory", name: str) -> None:
        self.name = name
        self.told: list[ToldTransaction] = []
        self.present = NO_ID_AND_EPOCH
        self.version = 1
        self.is_finishing = False
        """It begins no transaction any more."""
        self._history = history
        self._transaction: ToldTransaction | None = None
        self._added: set[TopicPartition] = set()
        self._sequences: dict[TopicPartition, int] = {}
        self._request: Callable[[], Answer[Any]] | None = None
        self._then: Callable[[Any], None] = self._nothing
        self._waiting: Answer[Any] | None = None
        self._has_lost_write = False
        self._needs_epoch = False
        """A write of the present epoch may still arrive (KIP-360), or a transaction of version 1 had this epoch."""

    @property
    def is_idle(self) -> bool:
        """Whether it has a producer id, no open transaction, and no request."""
        return self._transaction is None and self._request is None and self.present != NO_ID_AND_EPOCH

    @property
    def _random(self) -> Random:
        return self._history.random

    def _nothing(self, _: Any) -> None:
        return None

    # steps

    def step(self) -> None:
        """Take the answer that has come, send a request again, or send the next one."""
        if self._waiting is not None:
            if not self._waiting.is_set:
                return
            value, self._waiting = self._waiting.value, None
            self._take(value)
        elif self._request is not None:
            self._send()
        else:
            self._next()

    def reconnect(self) -> None:
        """Give up the request that waits: it is sent again, and may be executed twice."""
        self._waiting = None

    def restart(self) -> None:
        """Begin as a new process."""
        self._request = self._waiting = self._transaction = None
        self.present = NO_ID_AND_EPOCH

    def _ask(self, request: Callable[[], Answer[Any]], then: Callable[[Any], None]) -> None:
        self._request, self._then = request, then
        self._send()

    def _send(self) -> None:
        assert self._request is not None
        self._waiting = self._request()

    def _take(self, value: Any) -> None:
        code = value if isinstance(value, int) else value.error_code
        self._history.note(f"{self.name} {self.present} gets {value}")
        if code in RETRIED:
            return
        self._request = None
        if code:
            self.restart()
        else:
            self._then(value)

    def _next(self) -> None:
        if self.present == NO_ID_AND_EPOCH:
            self._initialize(NO_ID_AND_EPOCH)
        elif self._needs_epoch and self._transaction is None:
            self._initialize(self.present)
        elif self._transaction is None:
            if not self.is_finishing:
                self._begin()
        elif self.is_finishing or self._random.random() < 0.35:
            self._end(is_commit=not self._has_lost_write and self._random.random() < 0.7)
        elif self._random.random() < 0.3:
            self._commit_offset()
        else:
            self._write(self._random.choice(DATA))

    # requests

    def _initialize(self, expected: ProducerIdAndEpoch) -> None:
        self._ask(lambda: self._history.world.ask_initialize(self.name, expected=expected), self._initialized)

    def _initialized(self, value: Initialized) -> None:
        self._become(ProducerIdAndEpoch(value.producer_id, value.epoch))
        self._has_lost_write = self._needs_epoch = False
        self.version = self._history.client_version()

    def _become(self, producer: ProducerIdAndEpoch) -> None:
        is_same_id = producer.producer_id == self.present.producer_id
        require(not is_same_id or producer.epoch > self.present.epoch, f"{self.name}: {producer} after {self.present}")
        self.present = producer
        self._sequences = {}

    def _begin(self) -> None:
        self._transaction = ToldTransaction(self._history.next_number())
        self.told.append(self._transaction)
        self._added = set()
        self._history.note(f"{self.name} begins {self._transaction.number} in version {self.version}")

    def _write(self, partition: TopicPartition) -> None:
        if self.version == 1 and partition not in self._added:
            self._add(partition)
            return
        transaction = self._transaction
        assert transaction is not None
        value = b"%d" % self._history.next_number()
        sequence = self._sequences.get(partition, 0)
        records = self._history.batch(self.present, sequence, value)
        version = 11 if self.version == 1 else 12

        def send() -> Answer[int]:
            return self._history.produce(self.name, partition, records, version)

        def written(_: int) -> None:
            self._sequences[partition] = sequence + 1
            transaction.values.append((partition, value))
            if self._random.random() < 0.2:
                self._history.deliver_later(
                    lambda: self._history.produce(self.name, partition, records, version), self.version
                )

        if self._random.random() < 0.1:
            self._history.note(f"the write of {value!r} is late")
            self._history.deliver_later(
                lambda: self._history.produce(self.name, partition, records, version), self.version
            )
            self._has_lost_write = True
            return
        self._history.note(f"{self.name} writes {value!r} to {partition}, sequence {sequence}")
        self._ask(send, written)

    def _add(self, partition: TopicPartition) -> None:
        call = AddCall(self.name, self.present, (partition,))
        self._ask(lambda: self._history.add(call), lambda _: self._added.add(partition))

    def _commit_offset(self) -> None:
        if self.version == 1 and GROUPS not in self._added:
            self._add(GROUPS)
            return
        transaction, producer = self._transaction, self.present
        assert transaction is not None
        offset, version = self._history.next_number(), 4 if self.version == 1 else 5

        def send() -> Answer[int]:
            return self._history.commit_offset(self.name, producer, offset, version)

        def committed(_: int) -> None:
            transaction.offset = offset

        if self._random.random() < 0.1:
            self._history.deliver_later(send, self.version)
            self._has_lost_write = True
            return
        self._ask(send, committed)

    def _end(self, *, is_commit: bool) -> None:
        transaction = self._transaction
        assert transaction is not None
        if self.version == 1 and not self._added:
            self._transaction, self._needs_epoch = None, self._needs_epoch or self._has_lost_write
            return
        transaction.is_commit = is_commit and (
            self.version == 1 or bool(transaction.values) or transaction.offset is not None
        )
        version = EPOCH_PER_TRANSACTION if self.version != 1 else 0
        call = EndCall(self.name, self.present, transaction.is_commit, version)

        def ended(value: Ended) -> None:
            transaction.is_told = True
            self._transaction = None
            self._needs_epoch, self._has_lost_write = self._has_lost_write and not version, False
            if version:
                self._become(value.producer)
                if self._random.random() < 0.2:
                    self._history.deliver_later(lambda: self._history.end(call), 2)
            former, self.version = self.version, self._history.client_version()
            self._needs_epoch |= former < self.version

        self._history.note(f"{self.name} ends {transaction.number}: {call}")
        self._ask(lambda: self._history.end(call), ended)
