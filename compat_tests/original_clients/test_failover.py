"""The original producer and consumer while brokers of a cluster are killed and come back."""

import threading
from contextlib import suppress
from functools import partial

import pytest
from confluent_kafka.cimpl import NewTopic

from compat_tests.original_clients.test_mixed_groups import OwnMember
from harness.cluster import Cluster, eventually
from harness.process import wait_for
from harness.real_kafka import ZooKeeper
from kafkapy.clients.original.keyed_messages import KeyedMessage
from kafkapy.clients.original.producer import OriginalProducer

pytestmark = [pytest.mark.java, pytest.mark.together, pytest.mark.long, pytest.mark.timeout(400)]

PARTITIONS = 4


def test_the_death_of_leaders_loses_and_skips_nothing(zookeeper: ZooKeeper) -> None:
    """Both clients find the new leaders; at least once, as the producer sends again what was not acknowledged."""
    with Cluster(zookeeper, 3, {"min.insync.replicas": "2"}) as cluster:
        admin = cluster.admin(1)  # its answers end with it
        (created,) = admin.create_topics([NewTopic("failover", PARTITIONS, 3)]).values()
        created.result(30)
        eventually(lambda: len(cluster.led(1, "failover")) == PARTITIONS)
        given = {"zookeeper.connect": cluster.zookeeper_connect, "group.id": "g", "auto.offset.reset": "smallest"}
        member = OwnMember({**given, "auto.commit.interval.ms": "200", "socket.timeout.ms": "5000"}, "failover", 2)
        stopped = threading.Event()
        sent = 0

        def write() -> None:
            nonlocal sent
            settings = {"zookeeper.connect": cluster.zookeeper_connect, "request.required.acks": "-1"}
            retries = {"message.send.max.retries": "300", "retry.backoff.ms": "100", "request.timeout.ms": "5000"}
            with OriginalProducer({**settings, **retries}) as producer:
                while not stopped.wait(0.01):
                    producer.send(*(KeyedMessage("failover", b"%d" % number) for number in range(sent, sent + 5)))
                    sent += 5

        writing = threading.Thread(target=write)
        writing.start()
        received: list[str] = []

        def goes_on(until: int) -> bool:
            received.extend(value for *_, value in member.poll())
            return sent > until and len(set(received)) > until

        for number in (1, 2, 3):
            assert wait_for(partial(goes_on, sent + 50), 60)
            cluster.brokers[number].kill()
            assert wait_for(partial(goes_on, sent + 50), 60)
            cluster.brokers[number].start()
            eventually(lambda: cluster.agrees(cluster.brokers))
            eventually(lambda: all(len(each) == 3 for each in in_sync(cluster)), 60)
        stopped.set()
        writing.join(60)
        assert not writing.is_alive()
        assert wait_for(lambda: goes_on(sent - 1) or len(set(received)) == sent, 60)
        received += [value for *_, value in member.leave()]
        assert sorted(set(map(int, received))) == list(range(sent))


def in_sync(cluster: Cluster) -> list[list[int]]:
    """The replicas in sync of each partition; empty while they can't be asked for."""
    with suppress(KeyError):
        partitions = cluster.metadata(1).topics["failover"].partitions
        return [list(each.isrs) for each in partitions.values()]
    return [[]]
