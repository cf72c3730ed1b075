from types import SimpleNamespace

from kafkapy.coordinator.group.offsets import CommittedOffset
from kafkapy.metadata.image import MetadataImage
from kafkapy.protocol.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafkapy.server.commits import split_by_existence
from kafkapy.types import TopicPartition


def test_partitions_that_do_not_exist_are_told_apart() -> None:
    image = MetadataImage(topics={"t": SimpleNamespace(partitions={0: None, 1: None})})  # type: ignore[dict-item]  # no more is asked of it
    topics = [
        OffsetCommitRequestTopic("gone", [OffsetCommitRequestPartition(0, 5)]),
        OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(index, 6 + index) for index in (2, 1, 0)]),
    ]
    commits, errors = split_by_existence(image, topics, 100, 200)
    assert commits == {
        TopicPartition("t", 1): CommittedOffset(7, -1, "", 100, 200),
        TopicPartition("t", 0): CommittedOffset(6, -1, "", 100, 200),
    }
    assert errors == {TopicPartition("gone", 0): 3, TopicPartition("t", 2): 3}
