"""A broker is killed or stopped, and a producer that had heard nothing of its last five batches sends them again."""

import time
from collections.abc import Callable

import pytest

from compat_tests.data_path.frames import batch, new_topic, produce
from compat_tests.groups.wire import Wire
from harness.kafkapy_process import KafkapyProcess
from harness.process import BrokerError
from harness.real_kafka import RealKafka

SETTINGS = {"zookeeper.session.timeout.ms": "1000"}
OUT_OF_ORDER = (45, -1)
NOT_YET = {3, 5, 6}
"""UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER: the broker has just started."""
PATIENCE_S = 60


def _produce_when_it_leads(wire: Wire, topic: str, records: bytes) -> tuple[int, int]:
    deadline = time.monotonic() + PATIENCE_S
    while (found := produce(wire, topic, records))[0] in NOT_YET:
        assert time.monotonic() < deadline
    return found


def _start_again(broker: KafkapyProcess | RealKafka) -> None:
    """ZooKeeper refuses the next Apache Kafka until it has noticed that the last one is dead."""
    deadline = time.monotonic() + PATIENCE_S
    while broker.pid is None:
        try:
            broker.start()
        except BrokerError:
            broker.stop()
            assert time.monotonic() < deadline


@pytest.mark.parametrize(
    ("start", "forgotten"),
    [
        (KafkapyProcess, 0),
        # It knows what its snapshot holds: the last batch of a producer.
        (lambda: RealKafka("2.7.2", heap="256M", config=SETTINGS), 4),
    ],
    ids=["kafkapy", "Kafka 2.7.2"],
)
def test_batches_sent_again_after_a_restart(start: Callable[[], KafkapyProcess | RealKafka], forgotten: int) -> None:
    with start() as broker:
        with Wire(broker.bootstrap) as wire:
            topic = new_topic(wire, segment__bytes="100")  # one batch each
        for first, end in ((0, broker.kill), (10, broker.stop)):
            steps = range(first, first + 10, 2)
            sent = [batch(b"v", b"w", producer_id=7, producer_epoch=0, base_sequence=sequence) for sequence in steps]
            with Wire(broker.bootstrap) as wire:
                assert [_produce_when_it_leads(wire, topic, each) for each in sent] == [(0, step) for step in steps]
            end()
            _start_again(broker)
            with Wire(broker.bootstrap) as wire:
                told = [_produce_when_it_leads(wire, topic, each) for each in sent]
            assert told == [OUT_OF_ORDER] * forgotten + [(0, step) for step in steps[forgotten:]], end
