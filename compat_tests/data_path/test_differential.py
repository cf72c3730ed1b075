"""Records good and odd, the same bytes to Apache Kafka 2.7.2 and to us: the same answers, and the same bytes read back.

A long run: ``KAFKAPY_DIFFERENTIAL_REQUESTS=5000 KAFKAPY_DIFFERENTIAL_SEED=7``.
"""

import os

import pytest

from compat_tests.data_path.differential import Comparison
from compat_tests.kafkapy_process import KafkapyProcess
from compat_tests.real_kafka import RealKafka

pytestmark = pytest.mark.java

REQUESTS = int(os.environ.get("KAFKAPY_DIFFERENTIAL_REQUESTS", "1000"))
SEED = int(os.environ.get("KAFKAPY_DIFFERENTIAL_SEED", "1"))


def test_the_same_requests_have_the_same_effect() -> None:
    with RealKafka("2.7.2", heap="256M") as theirs, KafkapyProcess() as ours:
        comparison = Comparison(theirs.bootstrap, ours.bootstrap, SEED)
        for number in range(REQUESTS):
            comparison.produce()
            if number % 5 == 0:
                comparison.list_offsets()
        assert not comparison.differences, "\n".join(map(str, comparison.differences))
        assert comparison.appended > REQUESTS // 10
        assert comparison.refused > REQUESTS // 10
