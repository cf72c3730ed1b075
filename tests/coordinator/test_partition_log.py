from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from kafkapy.coordinator.partition_log import append_safely
from kafkapy.errors import BrokerError
from kafkapy.storage.errors import KafkaStorageError
from kafkapy.types import TopicPartition
from tests.coordinator.world import Broker

TP = TopicPartition("__any", 0)
TIMEOUT_MS = 5_000


def append(broker: Any) -> list[tuple[int, Any]]:
    ends: list[tuple[int, Any]] = []
    append_safely(broker, TP, b"\0" * 8 + b"\0\0\0\x31" + b"\0" * 49, TIMEOUT_MS, lambda *end: ends.append(end))
    return ends


@pytest.mark.parametrize("comes_late", [False, True])
def test_an_error_of_the_log_is_a_code(comes_late: bool) -> None:
    broker = Broker()
    broker.error, broker.error_comes_late = KafkaStorageError(), comes_late
    assert append(broker) == [(56, None)]


@pytest.mark.parametrize(("error", "code"), [(None, 0), (BrokerError(), -1)])
def test_what_others_must_acknowledge_ends_later(error: BrokerError | None, code: int) -> None:
    future: Future[Any] = Future()
    ends = append(SimpleNamespace(append_internal=lambda *_: future))
    assert ends == []
    result = SimpleNamespace(first_offset=3)
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    assert ends == [(code, None if error else result)]


def test_an_append_that_is_cancelled_is_a_partition_that_went() -> None:
    future: Future[Any] = Future()
    ends = append(SimpleNamespace(append_internal=lambda *_: future))
    future.cancel()
    future.set_running_or_notify_cancel()
    assert ends == [(16, None)]
