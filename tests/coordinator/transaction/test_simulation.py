"""Random histories of transactional ids against a model: committed records are seen, aborted ones are not.

Old producers return, time passes, partitions are deleted and created, the coordinator restarts at any step.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from kafkapy.coordinator.transaction import states
from kafkapy.coordinator.transaction.records import decode_key, decode_value
from kafkapy.coordinator.transaction.transaction import ProducerIdAndEpoch
from kafkapy.metadata.errors import NotLeaderOrFollowerError
from kafkapy.network.peer import RETRY_MS
from kafkapy.records.batch import iterate_headers
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import GROUPS, OTHER, TransactionWorld
from tests.coordinator.world import TP

NAMES = st.sampled_from(["x", "y"])
DATA = st.sampled_from([TP, OTHER])
TIMEOUT_MS, CHECK_MS = 60_000, 10_000


class Model:
    """The expected state of one transactional id."""

    def __init__(self) -> None:
        self.present: ProducerIdAndEpoch | None = None
        self.partitions: set[TopicPartition] | None = None
        self.values: list[tuple[TopicPartition, bytes]] = []
        self.offset: int | None = None
        self.last_end: bool | None = None
        self.is_ending = False

    def close(self, *, commit: bool) -> None:
        """The open transaction ends."""
        self.partitions, self.values, self.offset = None, [], None
        self.last_end = commit


class TransactionLife(RuleBasedStateMachine):
    """Two transactional ids, two partitions, one group."""

    producers = Bundle("producers")

    @initialize()
    def start(self) -> None:
        self.world = TransactionWorld()
        self.models = {"x": Model(), "y": Model()}
        self.visible: dict[TopicPartition, list[bytes]] = {TP: [], OTHER: []}
        self.group_offset = -1
        self.number = 0

    def end_model(self, model: Model, *, commit: bool) -> None:
        if commit:
            for tp, value in model.values:
                self.visible[tp].append(value)
            if model.offset is not None:
                self.group_offset = model.offset
        model.is_ending = bool(model.partitions and model.partitions & self.world.broker.errors.keys())
        model.close(commit=commit)

    @rule(target=producers, name=NAMES)
    def new_producer(self, name: str) -> Any:
        model = self.models[name]
        answer = self.world.initialize(name)
        if model.is_ending:
            assert answer.error_code == 51
        elif model.partitions is not None:
            assert answer.error_code == 51
            assert model.present is not None
            self.end_model(model, commit=False)
            model.present = model.present._replace(epoch=model.present.epoch + 1)
        else:
            assert answer.error_code == 0
            expected = 0 if model.present is None else model.present.epoch + 1
            assert answer.epoch == expected
            model.present = ProducerIdAndEpoch(answer.producer_id, answer.epoch)
            model.last_end = None
            return (name, model.present)
        return multiple()

    @rule(target=producers, producer=producers)
    def the_same_goes_on(self, producer: tuple[str, ProducerIdAndEpoch]) -> Any:
        """KIP-360: the producer names itself."""
        name, of = producer
        model = self.models[name]
        if of != model.present or model.partitions is not None or model.is_ending:
            return multiple()
        answer = self.world.initialize(name, expected=of)
        assert answer == (0, of.producer_id, of.epoch + 1)
        assert self.world.initialize(name, expected=of) == answer  # the request is repeated
        model.present, model.last_end = ProducerIdAndEpoch(answer.producer_id, answer.epoch), None
        return (name, model.present)

    def refusal(self, name: str, of: ProducerIdAndEpoch) -> int:
        model = self.models[name]
        if of != model.present:
            return 90
        return 51 if model.is_ending else 0

    @rule(producer=producers, tp=st.sampled_from([TP, OTHER, GROUPS]))
    def add(self, producer: tuple[str, ProducerIdAndEpoch], tp: TopicPartition) -> None:
        name, of = producer
        expected = self.refusal(name, of)
        assert self.world.add(of, tp, name=name) == expected
        if expected == 0:
            model = self.models[name]
            model.partitions = (model.partitions or set()) | {tp}

    @rule(producer=producers)
    def write(self, producer: tuple[str, ProducerIdAndEpoch]) -> None:
        name, of = producer
        model = self.models[name]
        for tp in (TP, OTHER):
            if of == model.present and tp in (model.partitions or ()) and tp not in self.world.broker.errors:
                self.number += 1
                value = b"%d" % self.number
                self.world.write(of, value, tp)
                model.values.append((tp, value))

    @rule(producer=producers)
    def commit_an_offset(self, producer: tuple[str, ProducerIdAndEpoch]) -> None:
        name, of = producer
        model = self.models[name]
        if of == model.present and GROUPS in (model.partitions or ()):
            self.number += 1
            assert self.world.commit_offset(of, self.number) == 0
            model.offset = self.number

    @rule(producer=producers, commit=st.booleans())
    def end(self, producer: tuple[str, ProducerIdAndEpoch], commit: bool) -> None:
        name, of = producer
        model = self.models[name]
        expected = self.refusal(name, of)
        if expected == 0 and model.partitions is None and model.last_end is not commit:
            expected = 48
        assert self.world.end(of, commit=commit, name=name) == expected
        if expected == 0 and model.partitions is not None:
            self.end_model(model, commit=commit)

    @rule(producer=producers, commit=st.booleans())
    def a_whole_transaction(self, producer: tuple[str, ProducerIdAndEpoch], commit: bool) -> None:
        for tp in (TP, OTHER, GROUPS):
            self.add(producer, tp)
        self.write(producer)
        self.commit_an_offset(producer)
        self.end(producer, commit)

    @rule()
    def a_little_time_passes(self) -> None:
        self.world.clock.advance(100)

    @rule()
    def much_time_passes(self) -> None:
        self.world.clock.advance(TIMEOUT_MS + 2 * CHECK_MS)
        for model in self.models.values():
            if model.partitions is not None:
                assert model.present is not None
                self.end_model(model, commit=False)
                model.present = model.present._replace(epoch=model.present.epoch + 1)
        self.world.clock.advance(RETRY_MS)

    @rule(tp=DATA)
    def a_partition_goes(self, tp: TopicPartition) -> None:
        self.world.broker.errors[tp] = NotLeaderOrFollowerError()

    @rule()
    def partitions_come_back(self) -> None:
        self.world.broker.errors.clear()
        self.world.clock.advance(RETRY_MS)
        for model in self.models.values():
            model.is_ending = False

    @rule()
    def the_broker_starts_anew(self) -> None:
        self.world.restart()
        if not self.world.broker.errors:
            for model in self.models.values():
                model.is_ending = False

    @invariant()
    def what_is_committed_is_seen(self) -> None:
        if any(model.is_ending for model in self.models.values()):
            return
        for tp, expected in self.visible.items():
            assert sorted(map(bytes, filter(None, self.world.committed(tp)))) == sorted(expected)

    @invariant()
    def offsets_move_with_the_output(self) -> None:
        assert self.world.groups.fetch() == self.group_offset

    @invariant()
    def epochs_never_fall(self) -> None:
        for tp in (TP, OTHER, GROUPS):
            epochs: dict[int, int] = {}
            for data in self.world.broker.log(tp).batches:
                header = next(iterate_headers(data))[1]
                if header.producer_id >= 0:
                    assert header.producer_epoch >= epochs.get(header.producer_id, 0)
                    epochs[header.producer_id] = header.producer_epoch

    @invariant()
    def the_log_tells_legal_moves(self) -> None:
        for name in self.models:
            for before, after in pairwise(self.history(name)):
                states.check_transition(before, after)

    def history(self, name: str) -> Iterator[states.TransactionState]:
        for record in self.world.log.records():
            if decode_key(record.key or b"") == name:
                assert record.value is not None
                yield decode_value(record.value).state


TestTransactionLife = TransactionLife.TestCase
TestTransactionLife.settings = settings(
    max_examples=int(os.environ.get("KAFKAPY_TRANSACTION_LIVES", "60")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
