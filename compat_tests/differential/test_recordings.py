"""Real clients' recorded conversations with Apache Kafka 2.7.2, held again: the same answers, ids apart."""

from collections.abc import Iterator

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.brokers.targets import KAFKAPY
from compat_tests.differential.brokers import AS_2_7, warm_up
from compat_tests.differential.recordings.playback import Playback
from compat_tests.differential.recordings.recording import Recording, names, path_of
from harness.process import Broker

ROLL_MS = 1_000 * 86_400_000
"""The longest time of a segment: markers have today's time, records that of their recording in November 2026.

The first records are of 2023 (``record.START_MS``). A new segment follows them in the recording, and so it must here.
"""
PAST_THE_END = 25
"""Fewer answers are no conversation."""


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> Iterator[str]:
    if broker.name not in ("kafkapy", "kafka-2.7.2"):
        pytest.skip("other releases answer as their own version does")
    as_recorded = AS_2_7 if broker.name == KAFKAPY else {}
    with own_broker(broker, {**as_recorded, "log.roll.ms": str(ROLL_MS)}) as own:
        warm_up(own.bootstrap)
        yield own.bootstrap


@pytest.mark.parametrize("name", names())
def test_the_answers_equal_the_recorded_ones(bootstrap: str, name: str) -> None:
    playback = Playback(Recording.read(path_of(name)), bootstrap, f"recorded-{name}")
    playback.run()
    assert not playback.differences, "\n".join(playback.differences[:20])
    assert playback.answers > PAST_THE_END
