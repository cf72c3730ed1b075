"""Histories of transactions of versions 1 and 2 (KIP-890) on one broker with real logs.

Produce and TxnOffsetCommit are the handlers themselves. Replicas of ``__transaction_state`` are slow, the broker is
killed and loads its logs again, partitions are not available for a time, writes and EndTxn arrive late or twice,
clients change their version, and ``transaction.version`` is changed.

- *All or nothing*: a reader of committed records sees all values of a transaction that was told to be committed, once,
  and none of any other; if the answer is missing, all or none. So it is with the offset of its group.
- *No hanging transaction*: some time after the last fault the last stable offset of every partition is its end.
- *Epochs*: no batch and no marker of a producer id has a lower epoch than an earlier one, and a producer gets only
  higher ones.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from kafkapy.coordinator.answer import Answer
from kafkapy.coordinator.transaction import decisions, transaction
from kafkapy.coordinator.transaction.transaction import AddCall, EndCall, Ended, ProducerIdAndEpoch
from kafkapy.coordinator.transaction.verifier import TransactionVerifier
from kafkapy.metadata.errors import NotEnoughReplicasError, NotLeaderOrFollowerError
from kafkapy.network.peer import RETRY_MS
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.records.batch import iterate_headers
from kafkapy.records.control import read_control
from kafkapy.records.record import Record, encode_batch, read_records
from kafkapy.server.dispatch.encoding import Filled
from kafkapy.server.handlers import produce, txn_offset_commit
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import GROUPS, SHARD, TransactionWorld
from tests.coordinator.world import TP
from tests.simulation.coordinators.history import CoordinatorHistory, require
from tests.simulation.coordinators.log_broker import LogBroker
from tests.simulation.coordinators.producers import DATA, TransactionalProducer

NAMES: Final = ("x", "y")
FEW_EPOCHS: Final = 4
"""The largest epoch in some histories, so that producer ids are used up."""
TIMEOUT_MS: Final = 60_000
ROUNDS: Final = 200
GAPS_MS: Final = (1, 100, 100, 10_000, TIMEOUT_MS + 20_000)

Handled = Callable[[Any], int]


class _Turns:
    """Takes the place of the loop's queue: it keeps the answer for which a handler waits."""

    def __init__(self) -> None:
        self.awaited: Answer[int] | None = None

    def wait_for(self, answer: Answer[int]) -> None:
        self.awaited = answer


class _Handling:
    """A request whose handler waits for the coordinator."""

    def __init__(self, steps: Generator[None, None, Any], code_of: Handled) -> None:
        self.steps = steps
        self.code_of = code_of
        self.answer: Answer[int] = Answer()
        self.awaited: Answer[int] | None = None


class TransactionHistory(CoordinatorHistory):
    """Two transactional ids, two partitions, a group for each id."""

    name = "transaction"

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._patches = ExitStack()
        self._turns = _Turns()
        self._patches.enter_context(
            patch.multiple(
                "kafkapy.server.handlers.shared.confirmation",
                future_of=lambda answer: answer,
                turns=lambda: self._turns,
            )
        )
        if self.random.random() < 0.3:
            self._patches.enter_context(patch.object(transaction, "MAX_EPOCH", FEW_EPOCHS))
            self._patches.enter_context(patch.object(decisions, "MAX_EPOCH", FEW_EPOCHS))
        self.is_on_zookeeper = self.random.random() < 0.4
        """Leaders ask coordinators about batches of version 1 only while ``transaction.version`` is 2."""
        self.broker = LogBroker()
        self._patches.callback(self.broker.close)
        self.world = TransactionWorld(broker=self.broker)
        self.delayed: list[Callable[[], None]] = []
        self.world.soon = self._soon
        self.level = 2
        self.handlings: list[_Handling] = []
        self.late: list[Callable[[], Answer[Any]]] = []
        self.producers = [TransactionalProducer(self, name) for name in NAMES]
        self._number = 0
        self._is_calm = False
        self._epochs: dict[tuple[TopicPartition, int], int] = {}
        self._checked: dict[TopicPartition, int] = {}
        self._actions: Sequence[tuple[int, Callable[[], None]]] = (
            (60, self._work),
            (6, self._reconnect),
            (2, self._restart_producer),
            (8, self._deliver),
            (12, self._continue_some),
            (8, self._replicas),
            (6, self._kill),
            (5, self._unavailable),
            (8, self._pass_time),
            (3, self._change_level),
        )

    # what producers use

    def next_number(self) -> int:
        """A number that is used once."""
        self._number += 1
        return self._number

    def client_version(self) -> int:
        """The transaction version of a client's next transaction: that of the cluster, or below."""
        return 1 if self.level < 2 or self.random.random() < 0.2 else 2

    def deliver_later(self, request: Callable[[], Answer[Any]], version: int) -> None:
        """The request arrives at some later time, and its answer does not.

        Without a coordinator that is asked, a late batch of version 1 opens a transaction that nothing ends.
        """
        if version == 2 or not self.is_on_zookeeper:
            self.late.append(request)

    def batch(self, producer: ProducerIdAndEpoch, sequence: int, value: bytes) -> bytes:
        """A batch of one record."""
        return encode_batch(
            [Record(None, value, 1)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def add(self, call: AddCall) -> Answer[int]:
        """AddPartitionsToTxn of a client."""
        return self.world.coordinator.add_partitions(call)

    def end(self, call: EndCall) -> Answer[Ended]:
        """EndTxn."""
        answer = self.world.coordinator.end(call)
        if answer is None:
            answer = self.world.coordinator.end(call, next(self.world.ids))
        assert answer is not None
        return answer

    def produce(self, name: str, partition: TopicPartition, records: bytes, version: int) -> Answer[int]:
        """Produce; the answer is the error code."""
        data = TopicProduceData(
            partition.topic, partition_data=[PartitionProduceData(partition.partition, memoryview(bytearray(records)))]
        )
        request = ProduceRequest(name, -1, 1_000, [data])

        def code_of(response: Any) -> int:
            decoded = response.decoded() if isinstance(response, Filled) else response
            return int(decoded.responses[0].partition_responses[0].error_code)

        return self._handle(produce.handle(self._context(version), request), code_of)

    def commit_offset(self, name: str, producer: ProducerIdAndEpoch, offset: int, version: int) -> Answer[int]:
        """TxnOffsetCommit; the answer is the error code."""
        topics = [TxnOffsetCommitRequestTopic(TP.topic, partitions=[TxnOffsetCommitRequestPartition(0, offset)])]
        request = TxnOffsetCommitRequest(name, f"group of {name}", *producer, topics=topics)
        return self._handle(
            txn_offset_commit.handle(self._context(version), request),
            lambda response: int(response.topics[0].partitions[0].error_code),
        )

    def _context(self, version: int) -> Any:
        verifier = TransactionVerifier(self.world.coordinator, 0, self.world.peers, self.broker)
        services = SimpleNamespace(
            group_coordinator=self.world.groups.coordinator,
            clock=self.world.clock,
            metadata=self.broker,
            config=SimpleNamespace(flag=lambda _: True, embedded_store=not self.is_on_zookeeper, broker_id=0),
            features=SimpleNamespace(level=lambda _: self.level),
            log_manager=self.broker.manager,
            replica_manager=self.broker,
            transaction_verifier=verifier,
        )
        header = SimpleNamespace(api_version=version, client_id="client")
        return SimpleNamespace(services=services, header=header)

    def _handle(self, handled: Any, code_of: Handled) -> Answer[int]:
        if not isinstance(handled, Generator):
            return Answer.of(code_of(handled))
        handling = _Handling(handled, code_of)
        self._continue(handling)
        return handling.answer

    def _continue(self, handling: _Handling) -> None:
        """Run a handler to its end, or until it waits for an answer that is not set."""
        while True:
            try:
                next(handling.steps)
            except StopIteration as ended:
                handling.answer.set(handling.code_of(ended.value))
                return
            awaited, self._turns.awaited = self._turns.awaited, None
            if awaited is not None and not awaited.is_set:
                handling.awaited = awaited
                self.handlings.append(handling)
                return

    # steps

    def step(self) -> None:
        """See ``CoordinatorHistory``."""
        (chosen,) = self.random.choices(self._actions, [weight for weight, _ in self._actions])
        self.note(chosen[1].__name__)
        chosen[1]()

    def _soon(self, step: Callable[[], None]) -> None:
        if self._is_calm or self.random.random() < 0.7:
            step()
        else:
            self.delayed.append(step)

    def _some(self) -> TransactionalProducer:
        return self.random.choice(self.producers)

    def _work(self) -> None:
        producer = self._some()
        for _ in range(self.random.randint(1, 12)):
            producer.step()

    def _reconnect(self) -> None:
        self._some().reconnect()

    def _restart_producer(self) -> None:
        self._some().restart()

    def _deliver(self) -> None:
        if self.late:
            self.late.pop(self.random.randrange(len(self.late)))()

    def _continue_some(self) -> None:
        """Handlers whose answers have come go on, and markers that are due are sent."""
        ready = [each for each in self.handlings if each.awaited is not None and each.awaited.is_set]
        if ready and (not self.delayed or self.random.random() < 0.5):
            handling = self.random.choice(ready)
            self.handlings.remove(handling)
            self._continue(handling)
        elif self.delayed:
            self.delayed.pop(0)()

    def _replicas(self) -> None:
        what = self.random.choice(("slow", "slow", "acknowledge", "fast", "fail"))
        if what == "slow":
            self.broker.is_slow = True
        elif what == "fail":
            self.broker.acknowledge(NotEnoughReplicasError("too few"))
        else:
            self.broker.is_slow = self.broker.is_slow and what != "fast"
            self.broker.acknowledge()

    def _kill(self) -> None:
        self.world.stop()
        self.world.groups.coordinator.shutdown()
        self.handlings.clear()
        self.delayed.clear()
        self.broker.kill(self.random)
        self.broker.is_slow = False
        self._checked[SHARD] = 0
        for producer in self.producers:
            producer.reconnect()
        self.world.groups.start()
        self.world.start(self.broker.leader_epoch)

    def _unavailable(self) -> None:
        if self.broker.errors:
            self.broker.errors.clear()
        else:
            self.broker.errors[self.random.choice(DATA)] = NotLeaderOrFollowerError()

    def _pass_time(self) -> None:
        self.world.clock.advance(self.random.choice(GAPS_MS))

    def _change_level(self) -> None:
        """UpdateFeatures; clients see it with their next transaction."""
        self.level = self.random.choice((0, 1, 2, 2))

    # laws

    def check(self) -> None:
        """See ``CoordinatorHistory``."""
        for partition in (*DATA, GROUPS):
            seen = self._checked.get(partition, 0)
            for data, header in self._batches(partition):
                del data
                if header.base_offset < seen or header.producer_id < 0:
                    continue
                key = partition, header.producer_id
                require(
                    header.producer_epoch >= self._epochs.get(key, 0), f"{partition} has {header} after a later one"
                )
                self._epochs[key] = header.producer_epoch
            self._checked[partition] = self.broker.log(partition).log_end_offset

    def _batches(self, partition: TopicPartition) -> list[tuple[bytes, Any]]:
        log, found = self.broker.log(partition), []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            records = log.read(offset, 1_000_000, up_to_offset=None).records
            data = records if isinstance(records, bytes) else records.read()
            for position, header in iterate_headers(data):
                found.append((data[position : position + header.size], header))
                offset = header.next_offset
        return found

    def committed(self, partition: TopicPartition) -> list[bytes]:
        """The values that a reader of committed records gets, in order of their markers."""
        open_now: dict[int, list[bytes]] = {}
        seen: list[bytes] = []
        for data, header in self._batches(partition):
            if not header.is_control:
                values = [each.value or b"" for each in read_records(data)]
                open_now.setdefault(header.producer_id, []).extend(values)
                continue
            values = open_now.pop(header.producer_id, [])
            seen += values if read_control(data, header).type == 1 else []
        return seen

    # the end

    def settle(self) -> None:
        """See ``CoordinatorHistory``. Requests that are late arrive before the end."""
        self._is_calm, self.broker.is_slow = True, False
        self.broker.errors.clear()
        for producer in self.producers:
            producer.is_finishing = True
        for _ in range(ROUNDS):
            self.broker.acknowledge()
            while self.delayed or any(each.awaited and each.awaited.is_set for each in self.handlings):
                self._continue_some()
            for producer in self.producers:
                producer.step()
            self.world.clock.advance(RETRY_MS)
            if self.late:
                self.late.pop(self.random.randrange(len(self.late)))()
            elif all(producer.is_idle for producer in self.producers):
                break
        busy = [each.name for each in self.producers if not each.is_idle]
        require(not busy, f"{busy} can't end their transactions")
        self.world.clock.advance(TIMEOUT_MS + 20_000)
        self.world.clock.advance(RETRY_MS)
        self.check()
        for partition in (*DATA, GROUPS):
            log = self.broker.log(partition)
            require(
                log.last_stable_offset == log.log_end_offset,
                f"the last stable offset of {partition} is {log.last_stable_offset}, its end {log.log_end_offset}",
            )
        self._check_outcomes()

    def _check_outcomes(self) -> None:
        visible = {partition: self.committed(partition) for partition in DATA}
        for partition, values in visible.items():
            require(len(values) == len(set(values)), f"{partition} has a value twice: {values}")
        known: set[tuple[TopicPartition, bytes]] = set()
        for producer in self.producers:
            offset = -1
            for told in producer.told:
                seen = [each[1] in visible[each[0]] for each in told.values]
                is_seen = told.is_commit and (told.is_told or any(seen))
                require(all(each == is_seen for each in seen), f"{producer.name} {vars(told)} is seen as {seen}")
                known.update(told.values if is_seen else ())
                if is_seen and told.offset is not None:
                    offset = told.offset
            found = self.world.groups.fetch(f"group of {producer.name}")
            is_unsure = any(each.is_commit and not each.is_told and not each.values for each in producer.told)
            require(is_unsure or found == offset, f"the offset of {producer.name} is {found}, not {offset}")
        for partition, values in visible.items():
            extra = {(partition, each) for each in values} - known
            require(not extra, f"{extra} is seen and belongs to no committed transaction")

    def close(self) -> None:
        """See ``CoordinatorHistory``."""
        self.world.stop()
        self.world.groups.coordinator.shutdown()
        self._patches.close()
