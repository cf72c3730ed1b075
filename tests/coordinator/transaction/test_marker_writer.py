import pytest

from kafkapy.coordinator.transaction.marker_writer import Ending, MarkerWriter
from kafkapy.coordinator.transaction.transaction import ProducerIdAndEpoch
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import NotEnoughReplicasError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import read_header
from kafkapy.records.control import Marker
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import GROUPS, TransactionWorld, markers
from tests.coordinator.world import TP

MARKER = Marker(7, 2, 5)
MARKER_PRODUCER = ProducerIdAndEpoch(7, 2)


def write(world: TransactionWorld, tp: TopicPartition = TP, *, commit: bool = True) -> list[int]:
    writer = MarkerWriter(world.broker, world.groups.coordinator, world.clock, 30_000)
    answers: list[int] = []
    writer.write_marker(tp, Ending(MARKER, commit)).on_set(answers.append)
    return answers


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_a_control_batch_of_the_producer(commit: bool) -> None:
    world = TransactionWorld()
    assert write(world, commit=commit) == [0]
    log = world.broker.log(TP)
    assert markers(log) == [(int(commit), 7, 2, 5)]
    header = read_header(log.batches[0])
    assert (header.size, header.attributes, header.base_sequence) == (78, 0x30, -1)
    assert header.max_timestamp == world.clock.now_ms()


@pytest.mark.parametrize(
    ("error", "code"),
    [(NotLeaderOrFollowerError(), 3), (UnknownTopicOrPartitionError(), 3), (KafkaStorageError(), 56)],
)
def test_markers_of_partitions_that_this_broker_does_not_lead_are_refused(error: BrokerError, code: int) -> None:
    world = TransactionWorld()
    world.broker.absent[TP] = error
    assert write(world) == [code]
    writer = MarkerWriter(world.broker, world.groups.coordinator, world.clock, 30_000)
    assert not writer.leads(TP)
    assert writer.leads(GROUPS)


def test_a_partition_with_an_old_message_format_refuses_markers() -> None:
    world = TransactionWorld()
    world.broker.log(TP).policy.magic = 1
    assert write(world) == [43]


def test_errors_of_the_partition_are_returned() -> None:
    world = TransactionWorld()
    world.broker.errors[TP] = NotEnoughReplicasError()
    assert write(world) == [19]


@pytest.mark.parametrize(("commit", "offset"), [(True, 5), (False, -1)])
def test_a_marker_settles_the_offsets_of_its_partition(commit: bool, offset: int) -> None:
    world = TransactionWorld()
    assert world.commit_offset(ProducerIdAndEpoch(8, 0), 9) == 0  # another producer's
    assert world.commit_offset(MARKER_PRODUCER, 5) == 0
    assert write(world, GROUPS, commit=commit) == [0]
    assert world.groups.fetch() == offset
    world.groups.restart()
    assert world.groups.fetch() == offset


def test_offsets_count_when_all_replicas_have_the_marker() -> None:
    world = TransactionWorld()
    world.commit_offset(MARKER_PRODUCER, 5)
    world.broker.slow.add(GROUPS)
    answers = write(world, GROUPS)
    assert (answers, world.groups.fetch()) == ([], -1)
    world.broker.acknowledge()
    assert (answers, world.groups.fetch()) == ([0], 5)
