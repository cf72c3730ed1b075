import pytest

from kafkapy.coordinator.group.subscription import subscribed_topics, topics_of
from kafkapy.protocol.primitives import ProtocolError
from tests.coordinator.group.test_members import member
from tests.coordinator.world import subscription


def test_the_topics_of_any_version() -> None:
    metadata = subscription("a", "b")
    assert topics_of(metadata) == ["a", "b"]
    later = b"\x00\x09" + metadata[2:] + b"fields of version 9"
    assert topics_of(later) == ["a", "b"]
    assert topics_of(b"\xff\xff" + metadata[2:]) == ["a", "b"]  # Kafka 2.7.2 reads it, too


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x05"])
def test_what_is_no_subscription(metadata: bytes) -> None:
    with pytest.raises(ProtocolError):
        topics_of(metadata)


def test_the_topics_of_all_members() -> None:
    members = [
        member("1", protocols=(("range", subscription("a")),)),
        member("2", protocols=(("range", subscription("b")),)),
    ]
    assert subscribed_topics("consumer", "range", members) == {"a", "b"}
    assert subscribed_topics("consumer", None, []) == frozenset()
    assert subscribed_topics("connect", "range", members) is None
    assert subscribed_topics(None, None, []) is None
    assert subscribed_topics("consumer", "range", [*members, member("3", protocols=(("range", b""),))]) is None
