import asyncio
from typing import Any

import pytest

from kafkapy.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafkapy.server.handlers import txn_offset_commit
from kafkapy.server.handlers.shared.commits import COMMITS_IN_A_STEP
from kafkapy.types import TopicPartition
from tests.coordinator.transaction.world import GROUPS
from tests.coordinator.world import TP
from tests.server.handlers.groups_context import image
from tests.server.handlers.transactions_context import TransactionAsker
from tests.server.harness import result_of

Codes = dict[tuple[str, int], int]


def request(*partitions: tuple[str, int], group_id: str = "g", **fields: Any) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(
            name, partitions=[TxnOffsetCommitRequestPartition(index, 5, committed_metadata=None)]
        )
        for name, index in partitions
    ]
    return TxnOffsetCommitRequest("x", group_id, 1000, 0, topics=topics, **fields)


def codes(response: TxnOffsetCommitResponse) -> Codes:
    return {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    }


def ask(asker: TransactionAsker, version: int, *partitions: tuple[str, int], **fields: Any) -> Codes:
    return codes(asker.ask(txn_offset_commit, request(*partitions, **fields), version))


@pytest.mark.parametrize("version", range(4))
def test_offsets_become_valid_when_the_transaction_is_committed(version: int) -> None:
    asker = TransactionAsker()
    world = asker.transactions
    producer = world.producer()
    world.add(producer, GROUPS)
    assert ask(asker, version, ("t", 0), ("t", 9)) == {("t", 0): 0, ("t", 9): 3}
    assert world.groups.fetch() == -1
    world.end(producer)
    assert world.groups.fetch() == 5


def test_offsets_of_partitions_that_do_not_exist_are_refused() -> None:
    assert ask(TransactionAsker(), 3, ("u", 0), ("t", 9)) == {("u", 0): 3, ("t", 9): 3}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, 24),
        ({"member_id": "nobody"}, 25),
        ({"generation_id": 1}, 0),
        ({"generation_id": 2}, 22),
        ({"group_instance_id": "i"}, 82),
        ({"group_instance_id": "j"}, 0),
    ],
)
def test_member_and_generation_are_checked_if_they_are_named(fields: dict[str, Any], code: int) -> None:
    asker = TransactionAsker()
    asker.world.stable(instance_id="i")
    assert ask(asker, 3, ("t", 0), **fields) == {("t", 0): code}


@pytest.mark.parametrize(("version", "code"), [(1, 15), (2, 14)])
def test_while_the_group_is_loading(version: int, code: int) -> None:
    asker = TransactionAsker()
    asker.world.coordinator._runtime.shards[0].is_loading = True
    assert ask(asker, version, ("t", 0)) == {("t", 0): code}


def test_the_answer_waits_for_the_log() -> None:
    async def scenario() -> None:
        asker = TransactionAsker()
        asker.world.broker.slow.add(GROUPS)
        response: Any = result_of(txn_offset_commit.handle(asker.context(3), request(TP)))
        waiting = asyncio.ensure_future(response)
        await asyncio.sleep(0)
        assert not waiting.done()
        asker.world.broker.acknowledge()
        assert codes(await waiting) == {TP: 0}

    asyncio.run(scenario())


def test_a_large_commit_becomes_valid_with_its_transaction() -> None:
    asker = TransactionAsker()
    partitions = [TopicPartition("t", number) for number in range(2 * COMMITS_IN_A_STEP)]
    asker.world.broker.image = image("t", partitions=2 * COMMITS_IN_A_STEP)
    assert set(codes(asker.ask(txn_offset_commit, request(*partitions), 3)).values()) == {0}
    offsets = asker.world.group().offsets
    assert not offsets.committed
    assert offsets.is_unstable(partitions[-1])
