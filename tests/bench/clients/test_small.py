"""The client of small requests, on a broker and on the floor."""

import os
from threading import Thread

import pytest

from bench.clients.groups import prepare
from bench.clients.librdkafka import WARM_TRANSACTIONS, transact
from bench.clients.small import RECORD, RECORDS, run
from bench.floors.small import Floor
from kafkapy.testing import Broker


@pytest.fixture
def floor() -> Floor:
    floor = Floor("small")
    Thread(target=floor.serve, daemon=True).start()
    return floor


@pytest.mark.parametrize(("kind", "count", "value"), [("produce", 1, bytes(100)), ("large", RECORDS, RECORD)])
def test_the_floor_writes_the_records_and_answers_as_a_broker(
    floor: Floor, kind: str, count: int, value: bytes
) -> None:
    metrics = run(floor.listener.getsockname()[1], "small", kind, 3, 20)
    assert set(metrics) == {"wall_us", "p50_us", "p99_us"}
    written = os.pread(floor.file.fileno(), floor.written, 0)
    size = floor.written // 20
    assert written[:size].count(value) == count
    assert written.count(value) == 20 * count
    assert written[size : size + 12] == written[:12], "batches lie one behind the other"


@pytest.mark.parametrize(
    "kind", ["produce", "idempotent", "large", "fetch", "commit", "heartbeat", "metadata", "list-offsets", "receipt"]
)
def test_every_kind_of_request_is_answered_without_an_error(kind: str) -> None:
    """The client ends the program at an error, or where a waiting consumer gets no record."""
    with Broker() as broker:
        broker.create_topic("small")
        port = int(broker.bootstrap.rpartition(":")[2])
        if kind in ("commit", "heartbeat"):
            prepare(port, "small", 2)
        assert run(port, "small", kind, 2, 10)["p50_us"] > 0


def test_a_transaction_has_a_record_and_an_offset() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        options = {"bootstrap": broker.bootstrap, "topic": "t", "records": 1, "record_size": 10, "transactions": 3}
        assert transact({**options, "group": "g"})["p50"] > 0
        assert len(broker.records("t", read_committed=True)) == WARM_TRANSACTIONS + 3
        assert broker.committed("g") == {("t", 0): 2}


@pytest.mark.parametrize("kind", ["produce", "list-offsets"])
def test_an_error_ends_the_program(kind: str) -> None:
    with Broker() as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        with pytest.raises(SystemExit, match="error"):
            run(port, "missing-too" if kind == "list-offsets" else "no/topic", kind, 1, 10)
