"""Transaction version 2 and the verification of version 1 through a whole broker (KIP-890).

The answers are those of Apache Kafka 4.4.0, of which the same requests were asked.
"""

from pathlib import Path
from typing import Any

from harness.client import Client, batch, produce_request
from kafkapy.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkapy.protocol.messages.api_versions import ApiVersionsRequest
from kafkapy.protocol.messages.end_txn import EndTxnRequest
from kafkapy.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkapy.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkapy.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkapy.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kafkapy.server.lifecycle.broker import BrokerServer
from tests.server.harness import run, running_broker

Producer = tuple[int, int]
TV = "transaction.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2
VERSION_1 = {"transaction__partition__verification__enable": "false"}


class Transactor(Client):
    """A transactional producer of any version on one connection."""

    async def initialize(self) -> Producer:
        await self.create_topic("t")
        for key, kind in (("x", 1), ("g", 0)):
            assert (await self.ask(FindCoordinatorRequest(key, kind), 3)).error_code == 0
        answer = await self.ask(InitProducerIdRequest("x", 60_000), 5)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    async def write(self, producer: Producer, sequence: int, version: int = 12) -> int:
        producer_id, epoch = producer
        records = batch(
            b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
        )
        answer = await self.ask(produce_request("t", records, transactional_id="x"), version)
        return int(answer.responses[0].partition_responses[0].error_code)

    async def commit_offset(self, producer: Producer, version: int = 5) -> int:
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 7)])]
        answer = await self.ask(TxnOffsetCommitRequest("x", "g", *producer, topics=topics), version)
        return int(answer.topics[0].partitions[0].error_code)

    async def add(self, producer: Producer, *, verify_only: bool, topic: str = "t") -> tuple[str, int]:
        named = [AddPartitionsToTxnTopic(topic, [0])]
        request = AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("x", *producer, verify_only, named)])
        (result,) = (await self.ask(request, 5)).results_by_transaction
        (row,) = result.topic_results[0].results_by_partition
        return result.transactional_id, row.partition_error_code

    async def end(self, producer: Producer, *, commit: bool = True, version: int = 5) -> tuple[int, int, int]:
        answer = await self.ask(EndTxnRequest("x", *producer, commit), version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    async def ends(self) -> list[int]:
        """The end offset and the last stable offset."""
        found = []
        for isolation_level in (0, 1):
            topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, timestamp=-1)])]
            answer = await self.ask(ListOffsetsRequest(-1, isolation_level, topics), 5)
            found.append(answer.topics[0].partitions[0].offset)
        return found


async def transactor(broker: BrokerServer) -> Transactor:
    return await Transactor.connect(broker)  # type: ignore[return-value]  # connect makes one of its own class


def test_each_transaction_has_an_epoch_and_adds_its_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await transactor(broker)
            producer_id, _ = producer = await client.initialize()
            assert [await client.write(producer, sequence) for sequence in (0, 1)] == [0, 0]
            assert await client.commit_offset(producer) == 0
            assert await client.end(producer) == (0, producer_id, 1)
            assert await client.ends() == [3, 3]
            assert await client.end(producer) == (0, producer_id, 1)
            assert await client.end(producer, commit=False) == (48, -1, -1)
            assert (await client.write(producer, 2), await client.commit_offset(producer)) == (47, 47)
            later = producer_id, 1
            assert await client.end(later, commit=False) == (0, producer_id, 2)
            assert await client.end(producer) == (90, -1, -1)
            assert await client.write((producer_id, 2), 0) == 0
            assert await client.end((producer_id, 2), commit=False) == (0, producer_id, 3)

    run(scenario())


def test_a_late_batch_of_an_older_client_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await transactor(broker)
            producer = await client.initialize()
            assert await client.add(producer, verify_only=True) == ("x", 120)
            assert await client.add(producer, verify_only=True, topic="u") == ("x", 3)
            assert await client.add(producer, verify_only=False) == ("x", 0)
            assert await client.add(producer, verify_only=True) == ("x", 0)
            assert await client.write(producer, 0, version=8) == 0
            assert await client.end(producer, commit=False, version=3) == (0, -1, -1)
            assert [await client.write(producer, 1, version) for version in (8, 9, 11)] == [48, 48, 120]
            assert [await client.commit_offset(producer, version) for version in (3, 4)] == [48, 120]
            assert await client.write(producer, 0, version=8) == 0  # it is in the log
            assert await client.ends() == [2, 2]

    run(scenario())


def test_without_verification_a_late_batch_opens_a_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **VERSION_1) as broker:
            client = await transactor(broker)
            producer = await client.initialize()
            assert (await client.write(producer, 0, 8), await client.commit_offset(producer, 3)) == (0, 0)
            assert await client.ends() == [1, 0]

    run(scenario())


def test_a_transaction_of_version_2_goes_on_after_a_downgrade(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, **VERSION_1) as broker:
            client = await transactor(broker)
            producer = await client.initialize()
            off = FeatureUpdateKey(TV, 0, upgrade_type=SAFE_DOWNGRADE)
            assert (await client.ask(UpdateFeaturesRequest(10_000, [off], validate_only=False), 2)).error_code == 0
            assert (await client.write(producer, 0), await client.commit_offset(producer)) == (0, 0)
            assert await client.end(producer) == (0, producer[0], 1)
            assert await client.ends() == [2, 2]

    run(scenario())


def test_features_are_finalized_as_in_apache_kafka_4_4(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            client = await Client.connect(broker)

            async def update(*updates: FeatureUpdateKey, version: int = 2, validate_only: bool = False) -> Any:
                answer = await client.ask(UpdateFeaturesRequest(10_000, list(updates), validate_only), version)
                return answer.error_code, (answer.error_message or "").rpartition(f"{TV}. ")[2]

            async def level(version: int = 4) -> Any:
                answer = await client.ask(ApiVersionsRequest("test", "1"), version)
                supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
                levels = [each.max_version_level for each in answer.finalized_features if each.name == TV]
                return supported.get(TV), levels

            assert (await level(), await level(3)) == (((0, 2), [2]), (None, [2]))
            safe = FeatureUpdateKey(TV, 1, upgrade_type=SAFE_DOWNGRADE)
            assert await update(safe, validate_only=True) == (0, "")
            assert (await level())[1] == [2]
            for refused, reason in (
                (FeatureUpdateKey(TV, 3), "Local controller 0 only supports versions 0-2"),
                (FeatureUpdateKey(TV, -1), "A feature version cannot be less than 0."),
                (FeatureUpdateKey(TV, 1, upgrade_type=7), "The controller does not support the given upgrade type."),
            ):
                assert await update(refused) == (95, reason)
            assert (await update(FeatureUpdateKey(TV, 1)))[0] == 95
            assert (await update(FeatureUpdateKey("nope", 1)))[0] == 95
            assert await update(safe) == (0, "")
            assert (await level())[1] == [1]
            off = FeatureUpdateKey(TV, 0, upgrade_type=SAFE_DOWNGRADE)
            assert await update(off, version=1) == (0, "")
            assert (await level())[1] == []
            not_lower = FeatureUpdateKey(TV, 1, upgrade_type=SAFE_DOWNGRADE)
            assert await update(not_lower) == (95, "Can't downgrade to a newer version.")
            assert await update(FeatureUpdateKey(TV, 2)) == (0, "")
            assert (await level())[1] == [2]

    run(scenario())
