"""A record that comes after the abort of its transaction: ``kafkapy transactions`` finds it and lets readers go on."""

import json
import subprocess
import sys
import time
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Assigned

from compat_tests.selection.scenarios import IN_KRAFT
from harness.process import Broker
from kafkapy.clients import topics, transactions
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.records import produce
from kafkapy.protocol.constants import LATEST
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kafkapy.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkapy.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkapy.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafkapy.records.record import Record, encode_batch
from kafkapy.types import TopicPartition

pytestmark = pytest.mark.scenario("admin", client="kafkapy transactions")

PATIENCE_S = 30
Producer = tuple[int, int]


class Talk:
    """Writes to partition 0 of a topic as a transactional producer, request by request."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        topics.create_topic(client, topic, configs={})
        self.leader = client.topic(topic, create=True).partitions[0].leader_id  # waits until the broker knows it
        self.producer = transactions.abort(client, topic, 60_000)

    def begin(self) -> None:
        """Add the partition to a transaction of the id that is named as the topic."""
        request = AddPartitionsToTxnRequest([], self.topic, *self.producer, [AddPartitionsToTxnTopic(self.topic, [0])])

        def is_added() -> bool:
            answer = self.client.transaction_coordinator(self.topic).call(
                request, AddPartitionsToTxnResponse, at_most=3
            )
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            assert code in (0, 51), code
            return code == 0

        until(is_added)

    def write(self, value: bytes, sequence: int) -> int:
        """Append a record of the transaction; its offset."""
        producer_id, epoch = self.producer
        batch = encode_batch(
            [Record(b"k", value, int(time.time() * 1000))],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        written = TopicProduceData(self.topic, partition_data=[PartitionProduceData(0, memoryview(batch))])
        request = ProduceRequest(self.topic, -1, 30_000, [written])
        answer = self.client.node(self.leader).call(request, ProduceResponse).responses[0].partition_responses[0]
        assert answer.error_code == 0
        return answer.base_offset

    def abort(self) -> None:
        """End the transaction, and wait until its marker is written."""
        request = EndTxnRequest(self.topic, *self.producer, False)
        answer = self.client.transaction_coordinator(self.topic).call(request, EndTxnResponse)
        assert answer.error_code == 0
        until(lambda: self.end(is_committed=True) == self.end(is_committed=False) == 2)

    def plain(self, value: bytes) -> None:
        """Append a record of no transaction."""
        batch = encode_batch([Record(b"k", value, int(time.time() * 1000))])
        produce(self.client, self.topic, 0, batch, acks=-1, leader=self.leader)

    def delete(self, before: int) -> None:
        """Delete the records before an offset."""
        request = DeleteRecordsRequest([DeleteRecordsTopic(self.topic, [DeleteRecordsPartition(0, before)])], 5_000)
        answer = self.client.node(self.leader).call(request, DeleteRecordsResponse)
        assert answer.topics[0].partitions[0].error_code == 0

    def end(self, *, is_committed: bool) -> int:
        """The high watermark, or the last stable offset."""
        topic = self.client.topic(self.topic)
        return topics.offsets(self.client, topic, [0], LATEST, is_committed=is_committed)[0]


def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def run(broker: Broker, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "kafkapy", "transactions", *words, "--bootstrap", broker.bootstrap]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == code, result.stderr
    return result.stderr if code else result.stdout


def read_committed(broker: Broker, topic: str) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": topic,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found = []
    try:
        consumer.assign([Assigned(topic, 0, 0)])
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            found.append(message.value() or b"")
    finally:
        consumer.close()
    return found


unverified = pytest.mark.differs(
    "kafkapy",
    *IN_KRAFT,
    reason="a transactional batch for a partition that was not added: INVALID_TXN_STATE (48) (KIP-890)",
)


@unverified
def test_a_record_after_the_abort_is_found_and_ended(broker: Broker, topic_name: str) -> None:
    with ClusterClient(broker.bootstrap) as client:
        talk = Talk(client, topic_name)
        talk.begin()
        talk.write(b"aborted", 0)
        listed = ["find-hanging", "--topic", topic_name, "--json"]
        assert json.loads(run(broker, *listed)) == [], "its coordinator knows it"
        talk.abort()
        start = talk.write(b"late", 1)
        talk.plain(b"behind it")
        assert read_committed(broker, topic_name) == []

        (found,) = json.loads(run(broker, *listed))
        del found["written"]
        assert found == {
            "topic": topic_name,
            "partition": 0,
            "start_offset": start,
            "producer_id": talk.producer[0],
            "epoch": talk.producer[1],
            "transactional_id": topic_name,
        }
        here = ["abort-hanging", "--topic", topic_name, "--partition", "0", "--yes", "--start-offset"]
        refused = run(broker, *here, str(start + 1), code=1)
        assert f"no hanging transaction begins at offset {start + 1} of {topic_name}-0" in refused
        run(broker, *here, str(start))
        assert json.loads(run(broker, *listed)) == []
        assert talk.end(is_committed=True) == talk.end(is_committed=False)
        assert read_committed(broker, topic_name) == [b"behind it"]

        talk.begin()  # the producer goes on
        talk.write(b"next", 2)
        assert json.loads(run(broker, *listed)) == []


@unverified
def test_when_its_start_is_deleted_no_other_transaction_is_blamed(broker: Broker, topic_name: str) -> None:
    with ClusterClient(broker.bootstrap) as client:
        talk = Talk(client, topic_name)
        talk.begin()
        talk.write(b"aborted", 0)
        talk.abort()
        hanging, late = talk.producer, talk.write(b"late", 1)
        talk.producer = transactions.abort(client, f"{topic_name}-other", 60_000)
        ended = transactions.OldestOpenTransaction(
            TopicPartition(topic_name, 0), talk.write(b"other", 0), *talk.producer, 0
        )
        transactions.end_hanging(client, ended, ended.producer_epoch, 0)
        talk.plain(b"plain")
        for start in (late + 1, late + 3):  # the other's record, the plain one
            talk.delete(start)
            assert talk.end(is_committed=True) == start
            assert json.loads(run(broker, "find-hanging", "--topic", topic_name, "--json")) == []
            here = ["--topic", topic_name, "--partition", "0", "--start-offset", str(start), "--yes"]
            refused = run(broker, "abort-hanging", *here, code=1)
            assert f"{topic_name}-0: a transaction is open whose first records are deleted" in refused
        coordinators = client.topic("__transaction_state").partitions
        newest = max(each.leader_epoch for each in coordinators)  # the marker of the abort has the epoch of one of them
        transactions.end_hanging(client, ended._replace(producer_id=hanging[0]), hanging[1], newest)
        assert read_committed(broker, topic_name) == [b"plain"]
