from kafkapy.types import TopicPartition, as_long, maker, topic_partition_of


def test_a_topic_partition_prints_as_kafka_names_its_directory() -> None:
    assert str(TopicPartition("orders", 3)) == "orders-3"


def test_topic_partitions_sort_by_topic_then_number() -> None:
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]) == [
        ("a", 2),
        ("a", 10),
        ("b", 0),
    ]


def test_a_maker_makes_the_same_tuple_as_the_class() -> None:
    made = topic_partition_of(("orders", 3))
    assert (type(made), made) == (TopicPartition, TopicPartition("orders", 3))
    assert maker(TopicPartition)(("orders", 3)).partition == 3


def test_as_long_wraps_to_64_bits() -> None:
    assert [as_long(value) for value in (2**63 - 1, -(2**63), 0, -1)] == [2**63 - 1, -(2**63), 0, -1]
    assert (as_long(2**63), as_long(-(2**63) - 1), as_long(2**64)) == (-(2**63), 2**63 - 1, 0)
