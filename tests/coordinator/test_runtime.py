import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.coordinator.answer import Answer, respond, respond_in_turns
from kafkapy.coordinator.decision import Decision, DecisionWriter
from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.coordinator.loading import LARGEST_STEP
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import NotLeaderOrFollowerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, Broker, World

PARTITION = TopicPartition(GROUP_METADATA_TOPIC, 0)


def test_a_set_answer_needs_no_future() -> None:
    assert respond(Answer.of(2), str) == "2"


def test_an_answer_that_is_set_later_is_a_future() -> None:
    async def scenario() -> None:
        answer: Answer[int] = Answer()
        waiting = respond(answer, str)
        assert isinstance(waiting, asyncio.Future)
        answer.set(3)
        assert await waiting == "3"

    asyncio.run(scenario())


def test_an_answer_for_a_closed_connection_is_dropped() -> None:
    async def scenario() -> None:
        answer: Answer[int] = Answer()
        waiting = respond(answer, str)
        assert isinstance(waiting, asyncio.Future)
        waiting.cancel()
        answer.set(3)
        assert waiting.cancelled()

    asyncio.run(scenario())


def test_a_large_partition_is_loaded_piece_by_piece_while_others_run() -> None:
    world = World()
    for offset in range(5):
        world.commit(offset)
    world.log.one_batch_per_read = True
    world.run_later()
    world.restart()
    (load,) = world.later
    next(load)
    assert finish(world.coordinator.list_groups()) == (14, [])
    assert world.commit().value == {TP: 14}
    finish(load)
    assert world.fetch() == 4
    assert not world.coordinator._runtime.loading


@pytest.mark.parametrize(("configured", "expected"), [(5_242_880, LARGEST_STEP), (100, 100)])
def test_a_step_of_loading_is_short_whatever_the_buffer(configured: int, expected: int) -> None:
    world = World(offsets_load_buffer_size=configured)
    world.commit(7)
    world.restart()
    assert (world.fetch(), world.log.largest_read) == (7, expected)
    assert not world.coordinator._runtime.shards[0].known_keys


def test_leadership_lost_while_loading_ends_the_load() -> None:
    world = World()
    for offset in range(5):
        world.commit(offset)
    world.log.one_batch_per_read = True
    world.run_later()
    world.restart()
    (load,) = world.later
    next(load)
    world.resign(PARTITION, 1)
    assert list(load) == []
    assert world.commit().value == {TP: 16}
    assert not world.coordinator._runtime.loading


def test_a_log_whose_end_was_compacted_is_loaded() -> None:
    world = World()
    world.commit(5)
    world.log.log_end_offset = 9
    world.restart()
    assert world.fetch() == 5


def test_file_slices_are_read_and_released() -> None:
    world = World()
    world.commit(5)
    data, released = world.log.batches[0], []

    def read(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(records=SimpleNamespace(read=lambda: data, release=lambda: released.append(1)))

    world.log.read = read  # type: ignore[method-assign]  # a log on disk gives slices of files
    world.restart()
    assert (world.fetch(), released) == (5, [1])


def test_a_partition_that_cannot_be_read_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.commit(5)

    def read(*_: Any, **__: Any) -> Any:
        raise KafkaStorageError("disk")

    world.log.read = world.log.salvage = read  # type: ignore[method-assign]  # a failing disk
    world.restart()
    assert world.commit().value == {TP: 16}
    assert "Could not load __consumer_offsets-0" in caplog.text


def test_a_load_that_failed_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """For a moment the process has no descriptor left; the pause before each further try is twice as long."""
    world = World()
    world.commit(5)
    good = world.log.read, world.log.salvage
    reads: list[float] = []

    def read(*_: Any, **__: Any) -> Any:
        reads.append(world.clock.monotonic_s())
        raise KafkaStorageError("too many open files")

    world.log.read = world.log.salvage = read  # type: ignore[method-assign]
    world.restart()
    world.clock.advance(4000)
    assert [at - reads[0] for at in reads[::2]] == [0, 1, 3]
    world.log.read, world.log.salvage = good  # type: ignore[method-assign]
    assert world.commit().value == {TP: 16}
    world.clock.advance(3000)
    assert world.fetch() == 5
    assert caplog.text.count("Could not load __consumer_offsets-0") == 3
    world.clock.advance(600_000)
    assert world.fetch() == 5


@pytest.mark.parametrize(("end", "is_tried"), [("later epoch", False), ("earlier epoch", True), ("stop", False)])
def test_a_load_that_failed_is_tried_again_until_the_partition_is_lost(end: str, is_tried: bool) -> None:
    world = World()
    world.commit(5)
    world.coordinator.shutdown()
    good = world.log.read, world.log.salvage

    def read(*_: Any, **__: Any) -> Any:
        raise KafkaStorageError("too many open files")

    world.log.read = world.log.salvage = read  # type: ignore[method-assign]
    world.start(leads=False)
    timers = world.clock.pending_timers()
    world.lead(PARTITION, 5)
    world.log.read, world.log.salvage = good  # type: ignore[method-assign]
    assert world.clock.pending_timers() == timers + 1
    if end == "stop":
        world.coordinator.shutdown()
        assert world.clock.pending_timers() == 0
    else:
        world.resign(PARTITION, 6 if end == "later epoch" else 4)
        assert world.clock.pending_timers() == timers + is_tried
    world.clock.advance(10_000)
    assert (0 in world.coordinator._runtime.shards) == is_tried


def test_loading_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.commit(5)
    with caplog.at_level(logging.INFO):
        world.restart()
    assert "Loaded 1 groups from __consumer_offsets-0" in caplog.text


@pytest.mark.parametrize("metadata", ["", "m"])
def test_an_append_acknowledged_after_leadership_was_lost_and_regained(metadata: str) -> None:
    world = World()
    world.broker.is_slow = True
    late = world.commit(CommittedOffset(5, metadata=metadata))
    world.resign(PARTITION, 1)
    world.lead(PARTITION, 2)
    assert world.fetch() == 5  # read from the log
    world.log.batches.clear()
    world.broker.acknowledge()
    assert late.value == {TP: 0}


def test_a_cancelled_append_makes_the_broker_not_the_coordinator() -> None:
    world = World()
    world.broker.is_slow = True
    answer = world.commit(5)
    for future, _ in world.broker.unacknowledged:
        future.cancel()
        future.set_running_or_notify_cancel()
    assert answer.value == {TP: 16}


def test_an_append_that_fails_without_an_error_code_raises() -> None:
    world = World()

    def append_internal(*_: Any) -> Any:
        future: Any = asyncio.Future(loop=asyncio.new_event_loop())
        future.set_exception(ZeroDivisionError())
        future.get_loop().close()
        return future

    world.broker.append_internal = append_internal  # type: ignore[method-assign]  # a bug somewhere below
    with pytest.raises(ZeroDivisionError):
        world.commit(5)


@pytest.mark.parametrize("codec", range(5))
def test_records_are_compressed_as_configured(codec: int) -> None:
    world = World(offsets_topic_compression_codec=codec)
    world.commit(5)
    assert read_header(world.log.batches[0]).compression == codec
    world.restart()
    assert world.fetch() == 5


def test_only_groups_of_loaded_partitions_are_listed() -> None:
    world = World()
    world.commit(5)
    assert [group.group_id for piece in world.coordinator._runtime.groups() for _, group in piece] == ["g"]
    world.coordinator._runtime.shards[0].is_loading = True
    assert list(world.coordinator._runtime.groups()) == []
    assert world.coordinator._runtime.is_loading()


def test_groups_of_an_unloaded_partition_are_ended_in_pieces() -> None:
    world = World()
    world.run_later()
    world.restart()
    finish(world.later.pop())
    for number in range(130):
        world.commit(1, group_id=f"g{number}")
    groups = [world.group(f"g{number}") for number in range(130)]
    waiting = world.join(group_id="g129")
    world.resign(PARTITION, 1)
    assert world.commit().value == {TP: 16}
    forgetting = world.later[-1]
    next(forgetting)
    assert sum(group.is_dead for group in groups) == 64
    world.coordinator.classic._rebalancer.kill(groups[100], 16)
    finish(forgetting)
    assert all(group.is_dead for group in groups)
    assert waiting.value.error_code in (0, 16)


def test_a_large_response_is_built_in_turns() -> None:
    def build(value: int) -> Steps[str]:
        yield
        return str(value)

    async def scenario() -> None:
        answer: Answer[int] = Answer()
        waiting = asyncio.ensure_future(respond_in_turns(answer, build))
        await asyncio.sleep(0)
        answer.set(3)
        assert await waiting == "3"
        answer = Answer()
        waiting = asyncio.ensure_future(respond_in_turns(answer, build))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        answer.set(4)
        assert waiting.cancelled()

    asyncio.run(scenario())


def test_groups_are_listed_until_their_partition_is_unloaded() -> None:
    world = World()
    for number in range(130):
        world.commit(1, group_id=f"g{number}")
    steps = world.coordinator.list_groups()
    next(steps)
    world.resign(PARTITION, 1)
    error_code, listed = finish(steps)
    assert (error_code, len(listed)) == (0, 64)


class Put(Decision[str]):
    """One record."""

    def __init__(self) -> None:
        self.topic_partition = TP
        self.batch = bytearray(encode_batch([Record(b"k", b"v", 0)]))
        self.response = "written"
        self.replayed: list[int] = []

    def replay(self, first_offset: int, /) -> None:
        self.replayed.append(first_offset)

    def refuse(self, error_code: int, /) -> str:
        return f"error {error_code}"


def written(broker: Any) -> tuple[list[str], Put]:
    ends: list[str] = []
    put = Put()
    DecisionWriter(broker, 5_000).write(put).on_set(ends.append)
    return ends, put


@pytest.mark.parametrize("comes_late", [False, True])
def test_an_error_of_the_log_is_answered_alone(comes_late: bool) -> None:
    broker = Broker()
    broker.error, broker.error_comes_late = KafkaStorageError(), comes_late
    ends, put = written(broker)
    assert (ends, put.replayed) == (["error 56"], [])


def test_records_are_replayed_before_the_answer() -> None:
    ends, put = written(Broker())
    assert (ends, put.replayed) == (["written"], [0])


@pytest.mark.parametrize(("error", "answer"), [(None, "written"), (BrokerError(), "error -1")])
def test_nothing_is_answered_before_other_replicas_have_it(error: BrokerError | None, answer: str) -> None:
    broker = Broker()
    broker.is_slow = True
    ends, put = written(broker)
    assert (ends, put.replayed) == ([], [])
    broker.acknowledge(error)
    assert (ends, put.replayed) == ([answer], [] if error else [0])


def test_a_cancelled_append_is_not_coordinator() -> None:
    broker = Broker()
    broker.is_slow = True
    ends, _ = written(broker)
    ((future, _),) = broker.unacknowledged
    future.cancel()
    future.set_running_or_notify_cancel()
    assert ends == ["error 16"]


def test_an_unacknowledged_append_to_a_log_that_is_gone() -> None:
    broker = Broker()
    broker.is_slow = True
    broker.absent[TP] = NotLeaderOrFollowerError()
    ends, _ = written(broker)
    broker.acknowledge()
    assert ends == ["written"]
