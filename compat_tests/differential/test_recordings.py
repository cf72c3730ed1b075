"""Real clients' recorded conversations with Apache Kafka 2.7.2, held again: the same answers, ids apart."""

import pytest

from compat_tests.differential.brokers import warm_up
from compat_tests.differential.recordings.playback import Playback
from compat_tests.differential.recordings.recording import Recording, names, path_of
from harness.process import Broker

PAST_THE_END = 25
"""Fewer answers are no conversation."""


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> str:
    if broker.name not in ("kafkapy", "kafka-2.7.2"):
        pytest.skip("other releases answer as their own version does")
    warm_up(broker.bootstrap)
    return broker.bootstrap


@pytest.mark.parametrize("name", names())
def test_the_answers_equal_the_recorded_ones(bootstrap: str, name: str) -> None:
    playback = Playback(Recording.read(path_of(name)), bootstrap, f"recorded-{name}")
    playback.run()
    assert not playback.differences, "\n".join(playback.differences[:20])
    assert playback.answers > PAST_THE_END
