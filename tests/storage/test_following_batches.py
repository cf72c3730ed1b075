"""A batch that follows its producer's last one is appended in fewer steps, with the same result."""

import random
from pathlib import Path
from typing import Any

import pytest

from harness.storage.batches import marker, produced
from kafkapy.config.log_config import LogConfig
from kafkapy.errors import BrokerError
from kafkapy.records.scanner import UsualBatch
from kafkapy.storage.log.log import Log
from kafkapy.storage.log.producer_state import ProducerState
from tests.storage.support import append, contents, open_log, reopen

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=300)


class Sender:
    """A producer that sends what it should, sends it again, or makes a mistake."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.sequence = 0
        self.sent: list[bytearray] = []

    def next(self, rng: random.Random) -> tuple[bytearray, bool]:
        """The records and whether they are a client's."""
        kind = rng.choice(["next"] * 10 + ["again", "gap", "epoch", "old epoch", "marker", "wrap"])
        if kind == "again" and self.sent:
            return bytearray(rng.choice(self.sent[-7:])), True
        if kind == "marker":
            return marker(commit=rng.random() < 0.5, producer_id=self.producer_id, epoch=self.epoch), False
        if kind == "epoch":
            self.epoch += 1
            self.sequence = rng.choice([0, 0, 0, 3])
        if kind == "wrap" and not self.sent:
            self.sequence = 2**31 - 3
        count = rng.randint(1, 4)
        sequence = self.sequence + (kind == "gap")
        records = produced(
            sequence,
            count,
            producer_id=self.producer_id,
            epoch=max(self.epoch - (kind == "old epoch"), 0),
            transactional=rng.random() < 0.7,
            value=b"v" * rng.randint(0, 60),
        )
        return records, True

    def was_appended(self, records: bytearray, last_sequence: int) -> None:
        self.sequence = (last_sequence + 1) % 2**31
        self.sent.append(records)


def _append(log: Log, records: bytearray, *, from_client: bool) -> Any:
    try:
        result = append(log, bytearray(records), 3, from_client=from_client)
    except BrokerError as error:
        return error.error_code, str(error)
    log.update_high_watermark(log.log_end_offset - 2)
    return result


def _state(log: Log) -> Any:
    state = log.producer_state
    producers = [
        (entry.producer_id, entry.producer_epoch, entry.last_timestamp, entry.current_txn_first_offset, entry.batches)
        for entry in state.producers.values()
    ]
    return producers, log.log_end_offset, log.high_watermark, log.last_stable_offset, state.first_unstable_offset


@pytest.mark.parametrize("seed", range(12))
def test_the_log_becomes_the_same_as_by_the_long_way(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    short, long = open_log(tmp_path / "short", SMALL), open_log(tmp_path / "long", SMALL)
    senders = [Sender(producer_id) for producer_id in (7, 8, 2**62)]
    errors = following = 0
    follows = ProducerState.follows

    def none_follows(state: ProducerState, usual: UsualBatch) -> bool:
        nonlocal following
        following += follows(state, usual)
        return False

    for _ in range(150):
        sender = rng.choice(senders)
        records, from_client = sender.next(rng)
        result = _append(short, records, from_client=from_client)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ProducerState, "follows", none_follows)
            assert _append(long, records, from_client=from_client) == result
        assert _state(short) == _state(long)
        errors += len(result) == 2
        if from_client and len(result) != 2 and not result.duplicate:
            sender.was_appended(records, short.producer_state.producers[sender.producer_id].last_sequence)
        if rng.random() < 0.02:
            clean = rng.random() < 0.5
            short, long = reopen(short, clean=clean, config=SMALL), reopen(long, clean=clean, config=SMALL)
    short.close()
    long.close()
    assert contents(tmp_path / "short") == contents(tmp_path / "long")
    assert errors > 0
    assert following > 20
