"""Topics that every broker of a cluster has: the other brokers learn of the controller's answer a moment later."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from compat_tests.groups.wire import Wire, answer_to_creation
from kafkapy.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_S = 40
LATEST = ANY_CONSUMER = BROKERS_DEFAULT = -1
UNKNOWN_TOPIC = 3


def create_topic(bootstrap: str, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
    """Creates a topic with as many replicas as the brokers give by themselves; returns when it can be used anywhere."""
    settings = [CreatableTopicConfig(name, value) for name, value in (configs or {}).items()]
    wanted = CreatableTopic(topic, num_partitions=partitions, replication_factor=BROKERS_DEFAULT, configs=settings)
    with Wire(_controller(bootstrap)) as wire:
        assert (code := answer_to_creation(wire, wanted)) == 0, f"CreateTopics with {configs} is answered {code}"
    wait_for_leaders(bootstrap, topic, partitions)


def _controller(bootstrap: str) -> str:
    """The controller's address."""
    with Wire(bootstrap.split(",", maxsplit=1)[0]) as wire:
        found = wire.ask(MetadataRequest(topics=[]), 1)
    return next(f"{each.host}:{each.port}" for each in found.brokers if each.node_id == found.controller_id)


def wait_for_leaders(bootstrap: str, topic: str, partitions: int) -> None:
    """Returns when each running broker knows so many partitions, and each is led by the broker that they name."""
    _wait(lambda: _is_led(bootstrap, topic, partitions), f"the leaders of {topic}")


def wait_for_end(bootstrap: str, topic: str) -> None:
    """Returns when no running broker knows the topic any more."""
    _wait(lambda: all(each.error_code == UNKNOWN_TOPIC for each, _ in _described(bootstrap, topic)), f"{topic}'s end")


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {TIMEOUT_S} s, but not seen: {what}"
        time.sleep(0.01)


def _described(bootstrap: str, topic: str) -> list[tuple[Any, dict[int, str]]]:
    """The topic's description in each running broker, and the addresses of the brokers in it."""
    found = []
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    for address in bootstrap.split(","):
        with suppress(ConnectionRefusedError), Wire(address) as wire:
            answer = wire.ask(request, 4)
            found.append((answer.topics[0], {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}))
    return found


def _is_led(bootstrap: str, topic: str, partitions: int) -> bool:
    described = _described(bootstrap, topic)
    for told, addresses in described:
        led = [each.leader_id for each in told.partitions if each.error_code == 0 and each.leader_id in addresses]
        if told.error_code != 0 or len(led) != partitions:
            return False
    told, addresses = described[0]
    return all(_leads(addresses[each.leader_id], topic, each.partition_index) for each in told.partitions)


def _leads(address: str, topic: str, partition: int) -> bool:
    """A broker may learn of a partition that it leads after the others have."""
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition, timestamp=LATEST)])
    with Wire(address) as wire:
        answer = wire.ask(ListOffsetsRequest(ANY_CONSUMER, topics=[wanted]), 5).topics[0].partitions[0]
    return bool(answer.error_code == 0)
