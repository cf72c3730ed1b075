"""Conversations drawn by hypothesis, the same to Apache Kafka 2.7.2 and to us: the same answers, field by field.

What may differ is in ``allowed.py``. The long run is ``make compat-long``.
"""

import os
from pathlib import Path

import pytest

from compat_tests.differential.brokers import side_by_side
from compat_tests.differential.campaign import examine
from compat_tests.differential.requests import BETWEEN_BROKERS

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

REQUESTS = int(os.environ.get("KAFKAPY_DIFFERENTIAL_REQUESTS", "2000"))
SEED = int(os.environ.get("KAFKAPY_DIFFERENTIAL_SEED", "1"))


def test_the_same_requests_have_the_same_answers(tmp_path: Path) -> None:
    with side_by_side() as comparison:
        seed = SEED
        while comparison.requests < REQUESTS:
            examine(comparison, seed, tmp_path)
            seed += 1
        asked = {name.partition(" ")[0] for name in comparison.by_api}
        assert len(asked) == len(set(comparison.served) - set(BETWEEN_BROKERS)), asked
