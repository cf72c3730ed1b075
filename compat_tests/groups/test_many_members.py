"""A hundred members of three client libraries in one group: nothing is lost, nothing is doubled."""

from compat_tests.clients.client import Sent, wait_until
from compat_tests.clients.confluent_client import ConfluentClient
from compat_tests.groups.crowd import crowds, total
from compat_tests.groups.owners import Watch
from harness.process import Broker

MEMBERS, PARTITIONS = 100, 120
SETTLED_S = 60


def test_a_hundred_members(broker: Broker, topic_name: str) -> None:
    client = ConfluentClient(broker.bootstrap)
    client.create_topic(topic_name, PARTITIONS)
    wait_until(lambda: client.topics().get(topic_name) == PARTITIONS, "the topic")
    client.commit(topic_name, topic_name, dict.fromkeys(range(PARTITIONS), 0))
    partitions = {(topic_name, partition) for partition in range(PARTITIONS)}
    with Watch(broker.bootstrap, topic_name, partitions) as watch:
        members = crowds(broker.bootstrap, topic_name, topic_name, MEMBERS)
        try:
            watch.wait_for(MEMBERS, SETTLED_S)
            sent = [Sent(f"first-{partition}".encode(), partition=partition) for partition in range(PARTITIONS)]
            client.produce(topic_name, sent)
            wait_until(lambda: len(total(members)) == PARTITIONS, "a record of each partition", SETTLED_S)
            assert set(total(members).values()) == {1}
            leaving = members.pop(0)
            leaving.close()
            watch.wait_for(MEMBERS - MEMBERS // 3 - 1, SETTLED_S)
            client.produce(
                topic_name, [Sent(b"more" + (record.value or b"")[5:], partition=record.partition) for record in sent]
            )
            wanted = {b"more" + (record.value or b"")[5:] for record in sent}
            wait_until(lambda: wanted <= set(total(members)), "another record of each partition", SETTLED_S)
        finally:
            for crowd in members:
                crowd.close()
    assert not watch.failures, watch.failures[:3]
    assert watch.looks >= 2
