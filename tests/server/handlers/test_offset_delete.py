from typing import Any

from kafkapy.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkapy.server.handlers import offset_delete
from tests.server.handlers.groups_context import Asker


def request(group_id: str = "g", **topics: int) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id,
        [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(index)]) for name, index in topics.items()],
    )


def answers(response: Any) -> list[tuple[str, int, int]]:
    return [(topic.name, p.partition_index, p.error_code) for topic in response.topics for p in topic.partitions]


def test_offsets_of_existing_partitions_are_deleted() -> None:
    asker = Asker()
    asker.world.commit(5)
    response = asker.ask(offset_delete, request(t=0, unknown=0), 0)
    assert (response.error_code, answers(response)) == (0, [("t", 0, 0), ("unknown", 0, 3)])
    assert asker.world.fetch() == -1


def test_offsets_of_topics_that_members_read_stay() -> None:
    asker = Asker()
    asker.world.stable()
    assert answers(asker.ask(offset_delete, request(t=0), 0)) == [("t", 0, 86)]


def test_an_unknown_group() -> None:
    response = Asker().ask(offset_delete, request(t=0), 0)
    assert (response.error_code, answers(response)) == (69, [])


def test_very_many_topics_without_partitions_are_read_in_steps() -> None:
    asker = Asker()
    asker.world.commit(5)
    topics = [OffsetDeleteRequestTopic(f"t{number}", []) for number in range(1_000)]
    steps = offset_delete.handle(asker.context(0), OffsetDeleteRequest("g", topics))
    assert len(list(steps)) >= len(topics)
    assert asker.world.fetch() == 5
