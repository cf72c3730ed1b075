"""Real clients' recorded conversations with Apache Kafka 2.7.2, held again: the same answers, ids apart."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from compat_tests.differential.brokers import warm_up
from compat_tests.differential.recordings.playback import Playback
from compat_tests.differential.recordings.recording import Recording, names, path_of
from compat_tests.differential.settling import ask
from compat_tests.differential.sides import Side
from harness.process import Broker
from kafkapy.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER = 4
DAY_MS = 86_400_000
PAST_THE_END = 25
"""Fewer answers are no conversation."""


@pytest.fixture(scope="module")
def bootstrap(broker: Broker) -> Iterator[str]:
    if broker.name not in ("kafkapy", "kafka-2.7.2"):
        pytest.skip("other releases answer as their own version does")
    warm_up(broker.bootstrap)
    _keep_segments(broker.bootstrap, is_on=True)
    yield broker.bootstrap
    _keep_segments(broker.bootstrap, is_on=False)


def _keep_segments(bootstrap: str, *, is_on: bool) -> None:
    """Let segments be of up to 1,000 days: markers are of today, records of the day when they were recorded.

    The first records are of 2023 (``record.START_MS``), and a new segment follows them, in the recording as here.
    """
    config = AlterableConfig("log.roll.ms", int(not is_on), str(1_000 * DAY_MS) if is_on else None)
    resource = AlterConfigsResource(BROKER, "", [config])
    with closing(Side(bootstrap)) as side:
        assert ask(side, IncrementalAlterConfigsRequest([resource]), 0).responses[0].error_code == 0


@pytest.mark.parametrize("name", names())
def test_the_answers_equal_the_recorded_ones(bootstrap: str, name: str) -> None:
    playback = Playback(Recording.read(path_of(name)), bootstrap, f"recorded-{name}")
    playback.run()
    assert not playback.differences, "\n".join(playback.differences[:20])
    assert playback.answers > PAST_THE_END
