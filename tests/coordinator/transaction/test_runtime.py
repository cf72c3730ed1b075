import logging
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from kafkapy.config.broker_config import BrokerConfig
from kafkapy.coordinator.transaction import runtime
from kafkapy.coordinator.transaction.runtime import TransactionSettings
from kafkapy.errors import BrokerError
from kafkapy.metadata.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from kafkapy.platform.errors import KafkaStorageError
from kafkapy.records.batch import read_header
from kafkapy.records.record import encode_batch
from kafkapy.storage.errors import OutOfOrderSequenceError
from kafkapy.turns import Steps, finish
from tests.coordinator.transaction.world import SHARD, TransactionWorld

HOUR_MS = 3_600_000
EXPIRY_MS = 6 * HOUR_MS
"""Instead of a week, in which the clock would run the task of every ten seconds 60,000 times."""


def test_a_record_is_a_plain_batch() -> None:
    world = TransactionWorld()
    world.initialize()
    header = read_header(world.log.batches[0])
    assert (header.compression, header.producer_id, header.base_sequence, header.record_count) == (0, -1, -1, 1)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownTopicOrPartitionError(), 15),
        (RequestTimedOutError(), 15),
        (NotEnoughReplicasError(), 15),
        (NotEnoughReplicasAfterAppendError(), 15),
        (NotLeaderOrFollowerError(), 16),
        (KafkaStorageError(), 16),
        (OutOfOrderSequenceError(), 45),
        (BrokerError(), -1),
    ],
)
def test_a_refused_append_changes_nothing(error: BrokerError, code: int) -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.broker.error = error
    assert world.add(producer) == code
    assert world.end(producer) == 48
    world.broker.error = None
    assert world.add(producer) == 0


@pytest.mark.parametrize("code", [10, 18])
def test_a_record_that_is_too_large_for_the_log(code: int) -> None:
    class TooLargeError(BrokerError):
        error_code = code

    world = TransactionWorld()
    producer = world.producer()
    world.broker.error = TooLargeError()
    assert world.add(producer) == -1


def test_other_requests_are_refused_while_a_record_is_appended() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.broker.slow.add(SHARD)
    waiting = world.ask_add(producer)
    assert not waiting.is_set
    assert (world.add(producer), world.end(producer), world.initialize().error_code) == (51, 51, 51)
    world.broker.acknowledge()
    assert waiting.value == 0
    assert world.transaction().data.state.name == "ONGOING"


def test_a_record_acknowledged_after_the_unload_is_not_replayed() -> None:
    world = TransactionWorld()
    producer = world.producer()
    world.broker.slow.add(SHARD)
    waiting = world.ask_add(producer)
    world.resign(SHARD, 1)
    world.broker.acknowledge()
    assert waiting.value == 16
    assert world.end(producer) == 16


def test_leadership_in_a_later_epoch_does_not_load_again() -> None:
    world = TransactionWorld()
    transaction = (world.producer(), world.transaction())[1]
    world.lead(SHARD, 5)
    world.lead(SHARD, 4)
    assert world.transaction() is transaction
    assert world.shard.leader_epoch == 5


def test_a_message_from_an_earlier_epoch_unloads_nothing() -> None:
    world = TransactionWorld()
    world.lead(SHARD, 5)
    world.resign(SHARD, 4)
    assert world.initialize().error_code == 0
    world.resign(SHARD, None)
    world.resign(SHARD, None)
    assert world.initialize().error_code == 16


def test_requests_get_error_14_until_a_large_partition_is_loaded() -> None:
    world = TransactionWorld()
    for number in range(4):
        world.initialize(f"x{number}")
    world.log.one_batch_per_read = True
    later: list[Steps[None]] = []
    world.run = later.append
    world.restart()
    (load,) = later
    next(load)
    assert world.initialize("x3").error_code == 14
    assert list(world.coordinator._runtime.loaded_shards()) == []
    finish(load)
    assert world.initialize("x3").epoch == 1


def test_a_partition_that_cannot_be_read_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld()
    world.initialize()
    world.stop()
    world.log.read = lambda *_, **__: SimpleNamespace(records=b"\0" * 8 + b"\0\0\0\x32" + b"\0" * 50)  # type: ignore[method-assign]  # no batch
    world.broker.absent[SHARD] = KafkaStorageError("disk")
    world.start()
    assert world.initialize().error_code == 16
    assert "Could not load __transaction_state-0" in caplog.text


def test_loading_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld()
    world.initialize()
    with caplog.at_level(logging.INFO):
        world.restart()
    assert "Loaded 1 transactional ids from __transaction_state-0" in caplog.text


def test_unused_transactional_ids_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld(transactional_id_expiration_ms=EXPIRY_MS)
    producer = world.producer("used")
    world.initialize("idle")
    with caplog.at_level(logging.INFO):
        world.clock.advance(EXPIRY_MS - HOUR_MS)
        assert world.add(producer, name="used") == 0
        world.end(producer, name="used")
        world.clock.advance(2 * HOUR_MS)
    assert set(world.shard.transactions) == {"used"}
    assert "Forgot 1 unused transactional ids of __transaction_state-0: error 0" in caplog.text
    world.restart()
    assert set(world.shard.transactions) == {"used"}
    assert world.initialize("idle") == (0, 1002, 0)


def test_tombstones_are_written_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "TOMBSTONE_BATCH_BYTES", 10)
    world = TransactionWorld(transactional_id_expiration_ms=EXPIRY_MS)
    for number in range(5):
        world.initialize(f"id-{number}")
    world.clock.advance(EXPIRY_MS + HOUR_MS)
    assert world.shard.transactions == {}
    assert [read_header(each).record_count for each in world.log.batches[5:]] == [2, 2, 1]


def test_tombstones_that_the_log_refuses_are_written_later() -> None:
    world = TransactionWorld(transactional_id_expiration_ms=EXPIRY_MS)
    world.initialize()
    world.broker.error = NotEnoughReplicasError()
    world.clock.advance(EXPIRY_MS + HOUR_MS)
    assert not world.transaction().has_pending_transition
    world.broker.error = None
    world.clock.advance(HOUR_MS)
    assert world.shard.transactions == {}


def test_a_transactional_id_whose_tombstone_is_pending_is_refused() -> None:
    world = TransactionWorld(transactional_id_expiration_ms=EXPIRY_MS)
    world.initialize()
    world.broker.slow.add(SHARD)
    world.clock.advance(EXPIRY_MS + HOUR_MS)
    assert world.initialize().error_code == 51
    world.broker.acknowledge()
    world.broker.slow.clear()
    assert world.initialize() == (0, 1001, 0)


def test_a_record_with_an_unknown_state_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    world = TransactionWorld()
    world.initialize()
    (record,) = world.log.records()
    value = bytearray(record.value or b"")
    value[2 + 8 + 2 + 4] = 6
    world.log.append(encode_batch([record._replace(value=bytes(value))]))
    world.initialize("y")
    world.restart()
    assert (world.initialize().epoch, world.initialize("y").epoch) == (1, 1)
    assert "Skipped 1 undecodable records at offset 1 of __transaction_state-0: transaction state 6" in caplog.text


def test_the_defaults_are_those_of_the_brokers_configuration() -> None:
    config = BrokerConfig.from_properties({"zookeeper.connect": "localhost"})
    assert asdict(TransactionSettings.from_config(config)) == asdict(TransactionSettings())
