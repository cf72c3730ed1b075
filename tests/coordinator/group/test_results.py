from kafkapy.coordinator.group.results import by_topic
from kafkapy.types import TopicPartition


def test_partitions_by_topic_in_the_order_in_which_they_came() -> None:
    values = {TopicPartition("b", 1): 10, TopicPartition("a", 0): 20, TopicPartition("b", 0): 30}
    assert by_topic(values) == {"b": [(1, 10), (0, 30)], "a": [(0, 20)]}
