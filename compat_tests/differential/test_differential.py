"""Conversations drawn by hypothesis, the same to Apache Kafka 2.7.2 and to us: the same answers, field by field.

The allowed differences are in ``allowed.py``. The long run is ``make compat-long``. ``kept/`` has conversations about
what differed once.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.differential.brokers import side_by_side
from compat_tests.differential.campaign import examine
from compat_tests.differential.comparison import Comparison
from compat_tests.differential.requests import BETWEEN_BROKERS
from compat_tests.differential.steps import Plan

pytestmark = [pytest.mark.java, pytest.mark.timeout(400), pytest.mark.together]

REQUESTS = int(os.environ.get("KAFKAPY_DIFFERENTIAL_REQUESTS", "2000"))
SEED = int(os.environ.get("KAFKAPY_DIFFERENTIAL_SEED", "1"))
KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


@pytest.fixture(scope="module")
def comparison() -> Iterator[Comparison]:
    with side_by_side() as both:
        yield both


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_kept_conversations_have_the_same_answers(comparison: Comparison, path: Path) -> None:
    found = comparison.hold(Plan.read(path))
    assert not found, "\n".join(map(str, found))


def test_the_same_requests_have_the_same_answers(comparison: Comparison, tmp_path: Path) -> None:
    """As many requests as wanted, and more until each API is drawn."""
    seed, before = SEED, comparison.requests
    served = len(set(comparison.served) - set(BETWEEN_BROKERS))
    asked: set[str] = set()
    while (count := comparison.requests - before) < REQUESTS or (len(asked) < served and count < 4 * REQUESTS):
        examine(comparison, seed, tmp_path)
        asked = {name.partition(" ")[0] for name in comparison.by_api}
        seed += 1
    assert len(asked) == served, asked
