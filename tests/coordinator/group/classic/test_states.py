from itertools import product

import pytest

from kafkapy.coordinator.group.classic import states
from kafkapy.coordinator.group.classic.states import GroupState, IllegalGroupTransitionError, check_transition

LEGAL = {
    ("Empty", "PreparingRebalance"),
    ("Empty", "Dead"),
    ("PreparingRebalance", "CompletingRebalance"),
    ("PreparingRebalance", "Empty"),
    ("PreparingRebalance", "Dead"),
    ("CompletingRebalance", "Stable"),
    ("CompletingRebalance", "PreparingRebalance"),
    ("CompletingRebalance", "Dead"),
    ("Stable", "PreparingRebalance"),
    ("Stable", "Dead"),
}


@pytest.mark.parametrize(("source", "target"), list(product(GroupState, GroupState)))
def test_a_group_changes_state_along_the_table_only(source: GroupState, target: GroupState) -> None:
    if (source.value, target.value) in LEGAL:
        check_transition(source, target)
    else:
        with pytest.raises(IllegalGroupTransitionError, match=f"from {source.value} to {target.value}"):
            check_transition(source, target)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (states.HEARTBEAT, [25, 27, 0, 0, 15]),
        (states.SYNC, [25, 27, 0, 0, 15]),
        (states.COMMIT_BY_MEMBER, [25, 0, 27, 0, 15]),
        (states.DELETE, [0, 68, 68, 68, 69]),
    ],
)
def test_every_request_has_an_answer_in_every_state(table: dict[GroupState, int], expected: list[int]) -> None:
    assert [table[state] for state in GroupState] == expected
