"""The range assignment, beside what Kafka 0.8.2's own class answered (compat_tests/original_clients)."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkapy.clients.original.assignment import assign_range, assign_to
from kafkapy.clients.original.subscription import Subscription

TABLE = json.loads((Path(__file__).parents[2] / "golden/range-assignments-0822.json").read_text())


@pytest.mark.parametrize("group", TABLE, ids=range(len(TABLE)))
def test_the_members_compute_what_the_original_computes(group: dict[str, Any]) -> None:
    members = {
        consumer: Subscription.from_json(json.dumps(content).encode()) for consumer, content in group["members"].items()
    }
    owners = {}
    for consumer, own in members.items():
        wanted = own.topics_of(group["topics"], exclude_internal=True)
        partitions = {topic: range(group["topics"].get(topic, 0)) for topic in wanted}
        for (topic, partition), number in assign_to(consumer, members, partitions, exclude_internal=True).items():
            assert f"{topic}/{partition}" not in owners
            owners[f"{topic}/{partition}"] = f"{consumer}-{number}"
    assert owners == group["owners"]


def test_the_table_has_groups_of_every_kind() -> None:
    patterns = {each["pattern"] for group in TABLE for each in group["members"].values()}
    assert patterns == {"static", "white_list", "black_list"}
    assert any(len(group["members"]) > 10 and len(group["owners"]) > 20 for group in TABLE)


def test_ranges_by_hand() -> None:
    assert assign_range(["a", "b"], [2, 0, 1]) == {0: "a", 1: "a", 2: "b"}
    assert assign_range(["a", "b", "c"], [5, 7]) == {5: "a", 7: "b"}
    assert assign_range([], [0]) == {}
    assert assign_range(["a"], []) == {}


def test_threads_are_in_the_order_of_their_texts() -> None:
    members = {"c": Subscription.of_topics({"t": 11})}
    owned = assign_to("c", members, {"t": range(11)}, exclude_internal=True)
    assert [owned["t", partition] for partition in range(4)] == [0, 1, 10, 2]
