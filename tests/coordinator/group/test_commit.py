import pytest

from kafkapy.coordinator.group.calls import CommitCall, Producer
from kafkapy.coordinator.group.offset_requests import (
    commit_error,
    log_error,
    too_large,
    transaction_commit_error,
    utf16_length,
)
from kafkapy.coordinator.group.offsets import CommittedOffset
from tests.coordinator.world import TP, World, states_world


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
    assert commit_error(group, CommitCall("g", member_id, generation, {})) == 15


@pytest.mark.parametrize(
    ("member_id", "generation", "instance_id", "expected"),
    [("x", 1, "i", 82), ("x", 1, None, 25), ("", 0, None, 22), ("", -1, None, 22), ("x", -1, "i", 82)],
)
def test_the_members_checks(member_id: str, generation: int, instance_id: str | None, expected: int) -> None:
    world = World()
    known = world.stable(instance_id="i")[0]
    assert world.commit(1, member_id or known, generation, instance_id=instance_id).value == {TP: expected}


def test_who_commits_lives() -> None:
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
    ("error", "expected"), [(0, 0), (3, 15), (19, 15), (20, 15), (6, 16), (56, 16), (10, 28), (18, 28), (4, 28), (7, 7)]
)
def test_errors_of_the_log(error: int, expected: int) -> None:
    assert log_error(error) == expected


def test_a_transaction_s_commit_to_a_dead_group() -> None:
    world = World()
    world.commit()
    group = world.group()
    world.coordinator.shutdown()
    assert transaction_commit_error(group, CommitCall("g", "", -1, {})) == 15


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
    """Member and generation count only where they are named."""
    world = World()
    known = world.stable(instance_id="i")[0]
    call = CommitCall(
        group_id, known if member_id == "known" else member_id, generation, {TP: world.committed(1)}, instance_id
    )
    assert world.coordinator.commit_offsets_in_transaction(call, Producer(7, 0)).value == {TP: expected}
