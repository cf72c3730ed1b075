from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkapy.coordinator.partition_log import LARGEST_STEP, Loading, append_safely, batch_of
from kafkapy.coordinator.steps import Background
from kafkapy.errors import BrokerError
from kafkapy.records.batch import read_header
from kafkapy.records.record import Record, encode_batch
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.testing.clock import ManualClock
from kafkapy.turns import Steps
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
def test_a_partition_is_read_in_steps_that_hold_nobody_up(buffer_size: int, expected: int) -> None:
    broker = Broker()
    append(broker)
    loaded: list[bool] = []

    def take(*_: Any) -> Steps[None]:
        yield

    def ended(is_whole: bool, _: float) -> Steps[None]:
        loaded.append(is_whole)
        yield

    loading = Loading(TP.topic, broker, ManualClock(), buffer_size, Background())
    loading.start(0, take, ended)
    assert (loaded, broker.log(TP).largest_read) == ([True], expected)


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
