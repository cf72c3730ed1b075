import pytest

from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.coordinator.group.offset_requests import too_large, utf16_length
from kafkapy.coordinator.group.offsets import CommittedOffset, FetchedOffset
from kafkapy.errors import BrokerError
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import read_header
from kafkapy.turns import finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, World, states_world

OTHER = TopicPartition("other", 3)


def test_a_commit_survives_a_restart() -> None:
    world = World()
    world.commit(CommittedOffset(60, 3, "meta", 1_000))
    world.commit(61, group_id="")
    world.restart()
    assert finish(world.coordinator.fetch_offsets("g", [TP, OTHER])) == (
        0,
        {TP: FetchedOffset(60, 3, "meta"), OTHER: FetchedOffset()},
    )
    assert finish(world.coordinator.fetch_offsets("", None)) == (0, {TP: FetchedOffset(61)})


def test_a_commit_is_one_batch_numbered_from_0() -> None:
    world = World()
    world.coordinator.commit_offsets(CommitCall("g", "", -1, {TP: CommittedOffset(1), OTHER: CommittedOffset(2)}))
    header = read_header(world.log.batches[0])
    assert (header.record_count, header.base_sequence, header.producer_id) == (2, 0, -1)


@pytest.mark.parametrize("codec", [0, 1])  # compressed records are decoded to be replayed
def test_a_commit_counts_when_all_replicas_have_it(codec: int) -> None:
    world = World(offsets_topic_compression_codec=codec)
    world.broker.is_slow = True
    answer = world.commit(5)
    assert not answer.is_set
    assert world.fetch() == -1
    assert world.group().offsets.is_appending(TP)
    world.broker.acknowledge()
    assert (answer.value, world.fetch()) == ({TP: 0}, 5)
    assert not world.group().offsets.is_appending(TP)


def test_a_commit_that_the_log_refuses_changes_nothing() -> None:
    world = World()
    world.commit(5)
    world.broker.error = KafkaStorageError("disk")
    assert world.commit(6).value == {TP: 16}
    assert world.fetch() == 5
    assert not world.group().offsets.is_appending(TP)


def test_partitions_with_too_much_metadata_are_refused_alone() -> None:
    world = World()
    long = CommittedOffset(1, metadata="x" * 4_097)
    answer = world.coordinator.commit_offsets(CommitCall("g", "", -1, {TP: long, OTHER: CommittedOffset(2)}))
    assert answer.value == {TP: 12, OTHER: 0}
    assert world.commit(long).value == {TP: 12}
    assert (world.fetch(), world.fetch(tp=OTHER)) == (-1, 2)


def test_a_commit_of_a_generation_of_an_unknown_group_is_refused() -> None:
    world = World()
    assert world.commit(1, "x", 0).value == {TP: 22}
    assert not world.has_group()


def test_offsets_of_an_unknown_group() -> None:
    world = World()
    assert finish(world.coordinator.fetch_offsets("g", [TP])) == (0, {TP: FetchedOffset()})
    assert finish(world.coordinator.fetch_offsets("g", None)) == (0, {})


def test_an_offset_that_an_open_transaction_commits_is_unstable() -> None:
    world = World()
    world.commit(1)
    world.group().offsets.replay_in_transaction(5, TP, 9, CommittedOffset(2))
    assert world.fetch() == 1
    assert finish(world.coordinator.fetch_offsets("g", [TP], require_stable=True))[1][TP].error_code == 88


@pytest.mark.parametrize(("leads", "error_code"), [(False, 16), (True, 15)])
def test_a_broker_that_is_not_the_coordinator_refuses_commits(leads: bool, error_code: int) -> None:
    world = World(leads=leads)
    if leads:
        world.coordinator.shutdown()
    assert world.commit().value == {TP: error_code}
    assert finish(world.coordinator.fetch_offsets("g", [TP])) == (error_code, {})


def in_transaction(world: World, offset: int = 5, metadata: str = "") -> dict[TopicPartition, int]:
    call = CommitCall("g", "", -1, {TP: CommittedOffset(offset, metadata=metadata), OTHER: CommittedOffset(1)})
    return world.coordinator.commit_offsets_in_transaction(call, Producer(7, 2, 0)).value


def test_a_commit_in_a_transaction_is_a_batch_of_the_producer() -> None:
    world = World()
    assert in_transaction(world) == {TP: 0, OTHER: 0}
    header = read_header(world.log.batches[0])
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 2, 0, 2)
    assert header.is_transactional
    world.coordinator.transaction_ended(0, 8, is_commit=True)
    world.coordinator.transaction_ended(9, 7, is_commit=True)
    assert world.fetch() == -1
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert world.fetch() == 5


def test_a_producer_without_an_epoch_commits_nothing() -> None:
    world = World()
    for metadata, code in (("", 47), ("m" * 5_000, 12)):
        call = CommitCall("g", "", -1, {TP: CommittedOffset(5, metadata=metadata), OTHER: CommittedOffset(5)})
        answer = world.coordinator.commit_offsets_in_transaction(call, Producer(7, -1, 0))
        assert answer.value == {TP: code, OTHER: 47}
    assert (world.fetch(), world.fetch(tp=OTHER)) == (-1, -1)


def test_commits_in_a_transaction_are_refused_as_other_commits() -> None:
    world = World()
    assert in_transaction(world, metadata="m" * 5_000) == {TP: 12, OTHER: 0}
    world.broker.error = KafkaStorageError()
    assert in_transaction(world) == {TP: 16, OTHER: 16}
    world.broker.error = None
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert (world.fetch(), world.fetch(tp=OTHER)) == (-1, 1)


def test_a_deleted_group_drops_the_commits_of_open_transactions() -> None:
    world = World()
    in_transaction(world)
    assert world.delete_groups(["g"]) == {"g": 0}
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert world.fetch() == -1


def test_a_transaction_of_two_groups_ends_while_the_next_one_of_its_producer_runs() -> None:
    world = World()
    world.run_later()
    world.restart()
    for load in world.later:
        finish(load)
    world.later.clear()
    for offset in (1, 2):
        for group_id in ("g", "h"):
            call = CommitCall(group_id, "", -1, {TP: CommittedOffset(offset)})
            assert world.coordinator.commit_offsets_in_transaction(call, Producer(7, 0, -1)).value == {TP: 0}
        if offset == 1:
            world.coordinator.transaction_ended(0, 7, is_commit=True)
    (ending,) = world.later
    finish(ending)
    assert (world.fetch("g"), world.fetch("h")) == (1, 1)
    assert all(world.group(group_id).offsets.is_unstable(TP) for group_id in ("g", "h"))


def test_a_marker_written_while_loading_is_read_with_the_log() -> None:
    world = World()
    in_transaction(world)
    shard = world.coordinator._runtime.shards[0]
    shard.is_loading, shard.is_read = True, False
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert world.group().offsets.is_unstable(TP)
    shard.is_read = True  # and its groups' sessions are being started
    world.coordinator.transaction_ended(0, 7, is_commit=True)
    assert not world.group().offsets.is_unstable(TP)


@pytest.mark.parametrize(("event", "expected"), [("", (0, [1, 1])), ("delete", (0, [1, -1])), ("move", (16, []))])
def test_a_group_that_changes_while_its_offsets_are_fetched(event: str, expected: tuple[int, list[int]]) -> None:
    world = World()
    partitions = [TopicPartition("t", number) for number in range(130)]
    for partition in partitions:
        world.commit(1, tp=partition)
    steps = world.coordinator.fetch_offsets("g", None)
    next(steps)
    if event == "delete":
        world.delete_groups(["g"])
    elif event == "move":
        world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), 1)
    error_code, fetched = finish(steps)
    assert (error_code, [fetched[each].offset for each in partitions[::129] if fetched]) == expected


@pytest.mark.parametrize("partitions", [None, [TP]])
def test_offsets_fetched_at_once_equal_those_fetched_in_steps(partitions: list[TopicPartition] | None) -> None:
    world = World()
    asked = partitions or []
    for _ in range(2):
        assert world.coordinator.fetch_few_offsets("g", asked) == (0, dict.fromkeys(asked, FetchedOffset()))
        assert finish(world.coordinator.fetch_offsets("g", partitions)) == (0, dict.fromkeys(asked, FetchedOffset()))
        world.commit(1, tp=OTHER)
        world.delete_groups(["g"])
    world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), 1)
    assert world.coordinator.fetch_few_offsets("g", asked) == (16, {})
    assert finish(world.coordinator.fetch_offsets("g", partitions)) == (16, {})


@pytest.mark.parametrize(
    ("state", "expected"),
    [("Empty", 25), ("PreparingRebalance", 0), ("CompletingRebalance", 27), ("Stable", 0)],
)
def test_commit_of_a_member_by_state(state: str, expected: int) -> None:
    world, member_id = states_world(state)
    assert world.commit(7, member_id, 1 if state != "Empty" else 0).value == {TP: expected}


@pytest.mark.parametrize(
    ("state", "expected"),
    [("Empty", 0), ("PreparingRebalance", 25), ("CompletingRebalance", 25), ("Stable", 25)],
)
def test_commit_without_group_by_state(state: str, expected: int) -> None:
    world, _ = states_world(state)
    assert world.commit(7).value == {TP: expected}


@pytest.mark.parametrize("generation", [-1, 1])
def test_commit_to_a_dead_group(generation: int) -> None:
    world = World()
    member_id = world.stable()[0]
    group = world.group()
    world.coordinator.shutdown()
    assert group.commit_error(CommitCall("g", member_id, generation, {})) == 15


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "expected"),
    [("x", 1, "i", 82), ("x", 1, None, 25), ("", 0, None, 22), ("", -1, None, 22), ("x", -1, "i", 82)],
)
def test_commits_pass_the_members_checks(
    member_id: str, generation: int, instance_id: str | None, expected: int
) -> None:
    world = World()
    known = world.stable(instance_id="i")[0]
    assert world.commit(1, member_id or known, generation, instance_id=instance_id).value == {TP: expected}


def test_a_commit_continues_the_session() -> None:
    world = World()
    member_id = world.stable()[0]
    for _ in range(3):
        world.clock.advance(9_000)
        world.commit(1, member_id, 1)
    assert member_id in world.group().members


@pytest.mark.parametrize(
    ("metadata", "is_refused"),
    [("", False), ("x" * 4, False), ("x" * 5, True), ("é" * 4, False), ("😀😀", False), ("😀😀x", True)],
)
def test_metadata_is_measured_in_javas_characters(metadata: str, is_refused: bool) -> None:
    assert too_large(CommitCall("g", "", -1, {TP: CommittedOffset(1, metadata=metadata)}), 4) == (
        {TP} if is_refused else set()
    )
    assert utf16_length("😀x") == 3


@pytest.mark.parametrize(
    ("error", "expected"), [(3, 15), (19, 15), (20, 15), (6, 16), (56, 16), (10, 28), (18, 28), (4, 28), (7, 7)]
)
def test_errors_of_the_log_are_mapped_for_clients(error: int, expected: int) -> None:
    class LogError(BrokerError):
        error_code = error

    world = World()
    world.broker.error = LogError()
    assert world.commit().value == {TP: expected}


def test_a_commit_in_a_transaction_to_a_dead_group() -> None:
    world = World()
    world.commit()
    group = world.group()
    world.coordinator.shutdown()
    assert group.transaction_commit_error(CommitCall("g", "", -1, {})) == 15


@pytest.mark.parametrize(
    ("group_id", "member_id", "generation", "instance_id", "expected"),
    [
        ("g", "", -1, None, 0),
        ("g", "known", 1, "i", 0),
        ("g", "stranger", 1, "i", 82),
        ("g", "stranger", 1, None, 25),
        ("g", "known", 2, "i", 22),
        ("", "", -1, None, 24),
    ],
)
def test_the_members_checks_in_a_transaction(
    group_id: str, member_id: str, generation: int, instance_id: str | None, expected: int
) -> None:
    """Member and generation are checked only if the request names them."""
    world = World()
    known = world.stable(instance_id="i")[0]
    call = CommitCall(
        group_id, known if member_id == "known" else member_id, generation, {TP: world.committed(1)}, instance_id
    )
    assert world.coordinator.commit_offsets_in_transaction(call, Producer(7, 0)).value == {TP: expected}
