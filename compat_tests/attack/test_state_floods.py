"""Clients that make a broker remember more and more: groups, members, metadata, open transactions."""

import time
from collections.abc import Iterator
from typing import Final

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.data_path.frames import fetch, new_topic, produce
from compat_tests.groups.wire import Wire, find_coordinator, join_request
from harness.process import Broker, ChildProcess
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkapy.protocol.messages.join_group import JoinGroupRequestProtocol
from kafkapy.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkapy.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kafkapy.records.record import Record, encode_batch

MEGABYTE: Final = 1 << 20
TOO_LARGE: Final = 81
OPEN_TRANSACTIONS: Final = 3_000


@pytest.fixture
def small(broker: Broker) -> Iterator[ChildProcess]:
    """A broker whose groups may keep 10 MB of metadata; the original does not know the key."""
    with own_broker(broker, {"kafkapy.group.metadata.max.bytes": str(10 * MEGABYTE)}) as process:
        yield process


def test_members_with_much_metadata(small: ChildProcess) -> None:
    """The original keeps all that it is sent."""
    codes = []
    for number in range(15):
        group_id = f"large-{number}"
        with Wire(small.bootstrap) as wire:
            find_coordinator(wire, group_id)
            request = join_request(group_id)
            request.protocols = [JoinGroupRequestProtocol("range", bytes(MEGABYTE))]
            codes.append(wire.ask(request, 2).error_code)
    if small.name.startswith("kafka-"):
        assert codes == [0] * 15
    else:
        assert codes == [0] * 9 + [TOO_LARGE] * 6
        with Wire(small.bootstrap) as wire:
            assert wire.ask(join_request("small-group"), 2).error_code == 0


def test_a_group_that_is_described_many_times(broker: Broker) -> None:
    """Each is answered, as the original does; another client does not wait for it."""
    with Wire(broker.bootstrap) as wire, Wire(broker.bootstrap) as other:
        find_coordinator(wire, "described")
        wire.send(DescribeGroupsRequest(["described"] * 20_000), 4)
        started_s = time.monotonic()
        other.ask(ApiVersionsRequest(), 0)
        assert time.monotonic() - started_s < 5
        groups = wire.receive().groups
        assert [group.group_id for group in groups] == ["described"] * 20_000
        assert {group.group_state for group in groups} == {"Dead"}


def test_a_group_with_much_metadata_that_is_described_many_times(small: ChildProcess) -> None:
    """A frame of 300 bytes; the original answers up to 2 GiB, after which it refuses all groups in the same way."""
    count = 60
    with Wire(small.bootstrap) as wire:
        find_coordinator(wire, "repeated")
        request = join_request("repeated")
        request.protocols = [JoinGroupRequestProtocol("range", bytes(MEGABYTE // 2))]
        joined = wire.ask(request, 2)
        settled = SyncGroupRequest("repeated", joined.generation_id, joined.member_id)
        settled.assignments = [SyncGroupRequestAssignment(joined.member_id, b"part")]
        assert wire.ask(settled, 1).error_code == 0
        groups = wire.ask(DescribeGroupsRequest(["repeated"] * count), 4).groups
        if small.name.startswith("kafka-"):
            assert [(group.error_code, len(group.members)) for group in groups] == [(0, 1)] * count
        else:
            assert [(group.error_code, len(group.members)) for group in groups] == [(-1, 0)] * count
        assert wire.ask(DescribeGroupsRequest(["repeated"] * 3), 4).groups[2].error_code == 0


@pytest.fixture
def unverified(broker: Broker) -> Iterator[ChildProcess]:
    """A broker that takes transactional batches without asking their coordinator, as every one did before 3.6."""
    with own_broker(broker, {"transaction.partition.verification.enable": "false"}) as process:
        yield process


def test_many_open_transactions_in_a_partition(unverified: ChildProcess) -> None:
    """Markers end them all; before that read_committed stops at the first one."""
    with Wire(unverified.bootstrap) as wire:
        topic = new_topic(wire)
        now_ms = int(time.time() * 1000)  # old records could be removed by their age while this runs
        for producer_id in range(OPEN_TRANSACTIONS):
            batch = encode_batch(
                [Record(None, b"v", now_ms)],
                producer_id=1_000_000 + producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            assert produce(wire, topic, bytes(batch), transactional_id="x")[0] == 0
        assert fetch(wire, topic, isolation_level=1).last_stable_offset == 0
        markers = [
            WritableTxnMarker(1_000_000 + producer_id, 0, True, [WritableTxnMarkerTopic(topic, [0])], 0)
            for producer_id in range(OPEN_TRANSACTIONS)
        ]
        version = 1 if unverified.name == "kafka-4.4.0" else 0  # the first one is gone from there (KIP-896)
        answers = wire.ask(WriteTxnMarkersRequest(markers), version).markers
        assert {each.topics[0].partitions[0].error_code for each in answers} == {0}
        assert len(answers) == OPEN_TRANSACTIONS
        assert fetch(wire, topic, isolation_level=1).last_stable_offset == 2 * OPEN_TRANSACTIONS
