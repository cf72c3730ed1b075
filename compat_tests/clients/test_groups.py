"""Consumer groups: membership, rebalances, committed offsets."""

import pytest

from compat_tests.brokers.topics import create_topic
from compat_tests.clients.client import Client, KafkaCodeError, Sent, wait_until
from compat_tests.clients.conftest import WITH_BOTH_PROTOCOLS
from harness.process import Broker

pytestmark = [pytest.mark.scenario("groups"), WITH_BOTH_PROTOCOLS]

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69


@pytest.fixture
def group(topic_name: str) -> str:
    return f"group-of-{topic_name}"


@pytest.fixture
def wide_topic(client: Client, broker: Broker, topic_name: str) -> str:
    """A topic with four partitions, ten records in each; without leaders, kafkajs sends to the others again."""
    create_topic(broker.bootstrap, topic_name, 4)
    client.produce(topic_name, [Sent(f"{i}".encode(), partition=i % 4) for i in range(40)])
    return topic_name


def test_offsets_are_committed_and_reset(client: Client, topic: str, group: str) -> None:
    client.produce(topic, [Sent(b"x")] * 5)
    assert client.committed(group, topic) is None
    client.commit(group, topic, {0: 4})
    assert client.committed(group, topic) == 4
    client.commit(group, topic, {0: 1})
    assert client.committed(group, topic) == 1
    assert client.committed(f"{group}-other", topic) is None


def test_a_later_member_continues_at_the_committed_offset(client: Client, wide_topic: str, group: str) -> None:
    member = client.join(group, wide_topic)
    try:
        wait_until(lambda: len(member.received) == 40, "40 records")
        assert sorted(int(record.value or b"") for record in member.received) == list(range(40))
        member.commit()
    finally:
        member.close()
    assert [client.committed(group, wide_topic, partition) for partition in range(4)] == [10] * 4
    client.produce(wide_topic, [Sent(b"40", partition=3)])
    successor = client.join(group, wide_topic)
    try:
        wait_until(lambda: len(successor.received) == 1, "the new record")
        assert successor.received[0].value == b"40"
    finally:
        successor.close()


def test_two_members_share_partitions_until_one_leaves(client: Client, wide_topic: str, group: str) -> None:
    first = client.join(group, wide_topic)
    try:
        wait_until(lambda: first.assignment == {0, 1, 2, 3}, "the first member's four partitions")
        second = client.join(group, wide_topic)
        try:
            wait_until(lambda: len(first.assignment) == 2 == len(second.assignment), "an even split")
            assert first.assignment | second.assignment == {0, 1, 2, 3}
            wait_until(lambda: client.describe_group(group).state == "Stable", "a stable group")
            assert client.describe_group(group).members == 2
        finally:
            second.close()
        wait_until(lambda: first.assignment == {0, 1, 2, 3}, "the partitions of the member that left")
        wait_until(lambda: client.describe_group(group).members == 1, "one member")
    finally:
        first.close()
    wait_until(lambda: client.describe_group(group).state == "Empty", "an empty group")


def test_groups_are_listed_and_described(client: Client, topic: str, group: str) -> None:
    member = client.join(group, topic)
    try:
        wait_until(lambda: member.assignment == {0}, "the assignment")
        assert group in client.groups()
        found = client.describe_group(group)
        assert (found.state, found.protocol_type, found.members) == ("Stable", "consumer", 1)
    finally:
        member.close()


def test_only_a_group_without_members_is_deleted(client: Client, topic: str, group: str) -> None:
    member = client.join(group, topic)
    try:
        wait_until(lambda: member.assignment == {0}, "the assignment")
        with pytest.raises(KafkaCodeError) as refusal:
            client.delete_group(group)
        assert refusal.value.code == NON_EMPTY_GROUP
    finally:
        member.close()
    wait_until(lambda: client.describe_group(group).state == "Empty", "an empty group")
    client.delete_group(group)
    assert group not in client.groups()
    with pytest.raises(KafkaCodeError) as refusal:
        client.delete_group(group)
    assert refusal.value.code == GROUP_ID_NOT_FOUND


def test_a_new_partition_reaches_a_running_group(client: Client, topic: str, group: str) -> None:
    client.add_partitions(topic, 2)
    wait_until(lambda: client.topics()[topic] == 2, "the second partition")
    member = client.join(group, topic)
    try:
        wait_until(lambda: member.assignment == {0, 1}, "both partitions")
    finally:
        member.close()
