"""Creating and deleting topics."""

import pytest

from kafkapy.testing import Broker, RequestRefusedError, UnknownNameError


def test_topics_are_created_with_settings_and_deleted() -> None:
    with Broker(topics=["first"]) as broker:
        broker.create_topic("second", 3, {"retention.ms": 1000, "preallocate": True})
        assert broker.topics() == {"first": 1, "second": 3}
        broker.delete_topic("first")
        assert broker.topics() == {"second": 3}


def test_refusals_have_kafkas_code_and_a_sentence() -> None:
    with Broker(topics=["t"]) as broker:
        with pytest.raises(
            RequestRefusedError, match=r"^topic 't' can't be created: TOPIC_ALREADY_EXISTS \(36\)"
        ) as it:
            broker.create_topic("t")
        assert it.value.code == 36
        with pytest.raises(RequestRefusedError, match="INVALID_CONFIG") as it:
            broker.create_topic("u", configs={"retention": 1})
        assert it.value.code == 40
        with pytest.raises(UnknownNameError, match="did you mean 't'"):
            broker.delete_topic("tt")


def test_a_disabled_deletion_is_reported() -> None:
    with Broker({"delete.topic.enable": False}, topics=["t"]) as broker, pytest.raises(RequestRefusedError) as it:
        broker.delete_topic("t")
    assert it.value.code == 73
