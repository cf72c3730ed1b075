from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordinator.loading import LARGEST_STEP, Reading, read_partition
from kafkapy.coordinator.runtime import append_safely
from kafkapy.coordinator.transaction.records import batch_of
from kafkapy.errors import BrokerError
from kafkapy.metrics import Counters
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.turns import Steps, finish
from kafkapy.types import TopicPartition
from tests.coordinator.world import Broker, Later, append_result

TP = TopicPartition("__any", 0)
TIMEOUT_MS = 5_000


def append(broker: Any) -> list[tuple[int, Any]]:
    ends: list[tuple[int, Any]] = []
    append_safely(broker, TP, encode_batch([Record(b"k", b"v", 0)]), TIMEOUT_MS, lambda *end: ends.append(end))
    return ends


@pytest.mark.parametrize("comes_late", [False, True])
def test_an_error_of_the_log_is_a_code(comes_late: bool) -> None:
    broker = Broker()
    broker.error, broker.error_comes_late = KafkaStorageError(), comes_late
    assert append(broker) == [(56, None)]


@pytest.mark.parametrize(("error", "code"), [(None, 0), (BrokerError(), -1)])
def test_what_others_must_acknowledge_ends_later(error: BrokerError | None, code: int) -> None:
    future = Later()
    ends = append(SimpleNamespace(append_internal=lambda *_: future))
    assert ends == []
    result = append_result(3)
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    assert ends == [(code, None if error else result)]


def test_an_append_that_is_cancelled_is_a_partition_that_went() -> None:
    future = Later()
    ends = append(SimpleNamespace(append_internal=lambda *_: future))
    future.cancel()
    future.set_running_or_notify_cancel()
    assert ends == [(16, None)]


@pytest.mark.parametrize(("buffer_size", "expected"), [(5_242_880, LARGEST_STEP), (100, 100)])
def test_a_partition_is_read_in_short_steps(buffer_size: int, expected: int) -> None:
    broker = Broker()
    append(broker)

    def replay_batches(*_: Any) -> Steps[int | None]:
        yield
        return None

    assert finish(read_partition(broker, Reading(TP, Counters()), buffer_size, replay_batches))
    assert broker.log(TP).largest_read == expected


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1, max_size=9
    ),
    st.integers(0, 2**62),
)
def test_a_batch_of_records_is_what_the_ordinary_way_writes(
    records: list[tuple[bytes | None, bytes | None]], timestamp_ms: int
) -> None:
    batch = batch_of([Record(key, value, timestamp_ms) for key, value in records], timestamp_ms)
    assert bytes(batch.buffer) == encode_batch([Record(key, value, timestamp_ms) for key, value in records])
    assert batch.header == read_header(batch.buffer)
    assert batch[2:] == (timestamp_ms, 0)
