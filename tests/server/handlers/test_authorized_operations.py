"""The expected numbers are the answers of Apache Kafka 2.7.2 without an authorizer, of a consumer group of 4.4.0."""

from kafkapy.server.handlers.shared.authorized_operations import (
    OF_CONSUMER_GROUP,
    OF_GROUP,
    cluster_operations,
    group_operations,
    topic_operations,
)


def test_all_operations_without_an_authorizer() -> None:
    assert topic_operations(None, "t", asked=True) == 3576
    assert cluster_operations(None, asked=True) == 8096
    assert group_operations(OF_GROUP, asked=True) == 328
    assert group_operations(OF_CONSUMER_GROUP, asked=True) == 3400


def test_operations_are_left_out_unless_requested() -> None:
    assert {
        topic_operations(None, "t", asked=False),
        cluster_operations(None, asked=False),
        group_operations(OF_GROUP, asked=False),
    } == {-(2**31)}
