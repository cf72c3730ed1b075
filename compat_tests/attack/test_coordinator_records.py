"""Records of the coordinators' topics that can't be decoded: the next start serves all others.

An admin client (``__admin_client``) may write to internal topics. Apache Kafka 2.7.2 stops reading such a partition at
the record and serves it without what follows it: of groups it loads nothing then, so all of their offsets are lost.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.data_path.frames import produce
from compat_tests.groups.wire import Wire, create_topic, find_coordinator
from harness.process import Broker, ChildProcess
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafkapy.records.record import Record, encode_batch

ADMIN: Final = "__admin_client"
ONE_PARTITION: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
OFFSET_KEY: Final = b"\0\1\0\1q\0\1t\0\0\0\0"
UNDECODABLE: Final = {
    "unknown key": Record(b"\0\x63key", b"x", 1),
    "empty key": Record(b"", b"x", 1),
    "cut key": Record(b"\0\1\0\x09ab", b"x", 1),
    "empty value": Record(OFFSET_KEY, b"", 1),
    "unknown value": Record(OFFSET_KEY, b"\0\x63", 1),
    "cut value": Record(OFFSET_KEY, b"\0\3\0\0", 1),
    "cut group": Record(b"\0\2\0\1q", b"\0\3\0\1c\0\0\0\1", 1),
}
UNAVAILABLE: Final = (14, 15, 16)


@pytest.fixture
def mortal(broker: Broker) -> Iterator[ChildProcess]:
    """A broker of its own, which the test stops and starts."""
    with own_broker(broker, ONE_PARTITION) as process:
        yield process


def commit(wire: Wire, group_id: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(0, offset)
    request = OffsetCommitRequest(group_id, -1, "", topics=[OffsetCommitRequestTopic("t", partitions=[partition])])
    assert wire.ask(request, 7).topics[0].partitions[0].error_code == 0


def committed(wire: Wire, group_id: str) -> int:
    """The group's offset, asked for until the partition is loaded."""
    for _ in range(100):
        answer = wire.ask(OffsetFetchRequest(group_id, [OffsetFetchRequestTopic("t", [0])]), 5)
        if answer.error_code not in UNAVAILABLE:
            return int(answer.topics[0].partitions[0].committed_offset)
        wire.has_answer(0.1)
    raise AssertionError("the coordinator does not come back")


def initialize(wire: Wire, transactional_id: str) -> tuple[int, int]:
    """Producer id and epoch, asked for until the partition is loaded."""
    for _ in range(100):
        find_transactions(wire, transactional_id)
        answer = wire.ask(InitProducerIdRequest(transactional_id, 60_000), 1)
        if answer.error_code not in UNAVAILABLE:
            assert answer.error_code == 0
            return answer.producer_id, answer.producer_epoch
        wire.has_answer(0.1)
    raise AssertionError("the coordinator does not come back")


def find_transactions(wire: Wire, transactional_id: str) -> None:
    wire.ask(FindCoordinatorRequest(transactional_id, 1), 1)


def write(broker: ChildProcess, topic: str, *records: Record) -> None:
    with Wire(broker.bootstrap, ADMIN) as admin:
        assert produce(admin, topic, bytes(encode_batch(records)))[0] == 0


@pytest.mark.parametrize("name", UNDECODABLE)
def test_offsets_around_an_undecodable_record_survive_a_restart(mortal: ChildProcess, name: str) -> None:
    with Wire(mortal.bootstrap) as wire:
        find_coordinator(wire, "before")
        create_topic(wire, "t")
        commit(wire, "before", 5)
        write(mortal, "__consumer_offsets", UNDECODABLE[name])
        commit(wire, "after", 6)
    mortal.stop()
    mortal.start()
    with Wire(mortal.bootstrap) as wire:
        find_coordinator(wire, "before")
        found = committed(wire, "before"), committed(wire, "after")
        commit(wire, "later", 7)
        assert committed(wire, "later") == 7
    is_original = mortal.name.startswith("kafka-")
    assert found == ((-1, -1) if is_original else (5, 6))  # the original has lost them


def test_transactional_ids_around_an_undecodable_record_survive_a_restart(mortal: ChildProcess) -> None:
    with Wire(mortal.bootstrap) as wire:
        before = initialize(wire, "before")
        write(mortal, "__transaction_state", Record(b"\0\x63key", b"x", 1), Record(b"\0\0\0\x01z", b"\0\0\0", 1))
        after = initialize(wire, "after")
    mortal.stop()
    mortal.start()
    with Wire(mortal.bootstrap) as wire:
        assert initialize(wire, "before") == (before[0], before[1] + 1)
        found = initialize(wire, "after")
    is_original = mortal.name.startswith("kafka-")
    assert (found == (after[0], after[1] + 1)) is not is_original  # the original has forgotten it


def test_offsets_around_a_damaged_batch_survive_a_restart(mortal: ChildProcess) -> None:
    """A flipped bit in the middle of a log that was closed cleanly, which no start looks at."""
    with Wire(mortal.bootstrap) as wire:
        find_coordinator(wire, "before")
        create_topic(wire, "t")
        for number in range(30):
            commit(wire, f"group-{number:02}", number)
    mortal.stop()
    (path,) = mortal.directory.glob("data/__consumer_offsets-0/*.log")
    content = bytearray(path.read_bytes())
    content[content.index(b"group-12") - 70] ^= 0x40  # in the header of its batch: the length
    path.write_bytes(content)
    mortal.start()
    with Wire(mortal.bootstrap) as wire:
        find_coordinator(wire, "group-00")
        found = [committed(wire, f"group-{number:02}") for number in range(30)]
        commit(wire, "later", 7)
        assert committed(wire, "later") == 7
    if not mortal.name.startswith("kafka-"):
        assert found == [-1 if number == 12 else number for number in range(30)]
