from typing import Any

import pytest

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.metadata.topic_rules import GROUP_METADATA_TOPIC
from kafkapy.network.errors import RefusedError
from kafkapy.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkapy.server.handlers import offset_fetch
from kafkapy.types import TopicPartition
from tests.coordinator.world import TP, World
from tests.server.handlers.groups_context import Asker


def answers(response: Any) -> list[tuple[str, int, int, int, str | None, int]]:
    return [
        (topic.name, p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code)
        for topic in response.topics
        for p in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_every_version(version: int) -> None:
    asker = Asker()
    asker.world.commit(CommittedOffset(60, 3, "m", 1))
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1])])
    response = asker.ask(offset_fetch, request, version)
    epoch = 3 if version >= 5 else -1
    assert (response.error_code, answers(response)) == (0, [("t", 0, 60, epoch, "m", 0), ("t", 1, -1, -1, "", 0)])


@pytest.mark.parametrize("version", range(2, 8))
def test_all_offsets_of_a_group(version: int) -> None:
    asker = Asker()
    asker.world.commit(60)
    assert answers(asker.ask(offset_fetch, OffsetFetchRequest("g", None), version)) == [("t", 0, 60, -1, "", 0)]
    assert answers(asker.ask(offset_fetch, OffsetFetchRequest("unknown", None), version)) == []
    assert answers(asker.ask(offset_fetch, OffsetFetchRequest("g", []), version)) == []


@pytest.mark.parametrize(("version", "error_code", "count"), [(1, 0, 1), (2, 16, 0), (7, 16, 0)])
def test_an_error_of_the_request(version: int, error_code: int, count: int) -> None:
    asker = Asker(World(leads=False))
    response = asker.ask(offset_fetch, OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), version)
    assert (response.error_code, answers(response)) == (error_code, [("t", 0, -1, -1, "", 16)] * count)


@pytest.mark.parametrize(("require_stable", "expected"), [(True, 88), (False, 0)])
def test_offsets_of_open_transactions_are_refused_if_stable_ones_are_required(
    require_stable: bool, expected: int
) -> None:
    asker = Asker()
    asker.world.commit(1)
    asker.world.group().offsets.replay_in_transaction(5, TP, 9, CommittedOffset(2))
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])], require_stable=require_stable)
    assert answers(asker.ask(offset_fetch, request, 7))[0][-1] == expected


@pytest.mark.parametrize("version", [8, 9])
def test_offsets_of_several_groups(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Asker()
    asker.world.commit(60)
    named = [OffsetFetchRequestTopics("t", partition_indexes=[0, 1])]
    groups = [OffsetFetchRequestGroup("g", topics=named), OffsetFetchRequestGroup("g", topics=None)]
    answer = asker.ask(offset_fetch, OffsetFetchRequest(groups=groups), version)
    assert [(row.group_id, row.error_code, answers(row)) for row in answer.groups] == [
        ("g", 0, [("t", 0, 60, -1, "", 0), ("t", 1, -1, -1, "", 0)]),
        ("g", 0, [("t", 0, 60, -1, "", 0)]),
    ]
    monkeypatch.setattr(offset_fetch, "MOST_OFFSETS", 2)
    with pytest.raises(RefusedError, match="more than 2 offsets"):
        asker.ask(offset_fetch, OffsetFetchRequest(groups=groups), version)
    asker.world.resign(TopicPartition(GROUP_METADATA_TOPIC, 0), None)
    failed = asker.ask(offset_fetch, OffsetFetchRequest(groups=groups), version)
    assert [(row.error_code, row.topics) for row in failed.groups] == [(16, []), (16, [])]
